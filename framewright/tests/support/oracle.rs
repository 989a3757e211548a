//! The truth about every frame, kept in the most naive way.

use std::collections::BTreeSet;

use framewright::{MemoryRange, Order, Pfn};

const PAGEBLOCK: u64 = 512;

/// What a frame is, as far as its user knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Frame {
    /// Not in the map.
    Hole,
    /// Free in the zone, or on the lists of a CPU.
    Spare,
    /// Part of a block that somebody owns.
    Used,
}

/// All frames from a pageblock boundary to a pageblock boundary.
pub struct Oracle {
    base: u64,
    frames: Vec<Frame>,
    /// First frames of isolated pageblocks.
    isolated: BTreeSet<u64>,
}

impl Oracle {
    pub fn new(map: &[MemoryRange]) -> Self {
        let base = map[0].frames.start().get() / PAGEBLOCK * PAGEBLOCK;
        let end = map[map.len() - 1].frames.end().get().next_multiple_of(PAGEBLOCK);
        let in_map = |pfn| map.iter().any(|range| range.frames.contains(Pfn::new(pfn)));
        let frames = (base..end).map(|pfn| if in_map(pfn) { Frame::Spare } else { Frame::Hole });
        Self { base, frames: frames.collect(), isolated: BTreeSet::new() }
    }

    /// What the frame is; outside of everything is a hole.
    pub fn at(&self, pfn: u64) -> Frame {
        let index = pfn.checked_sub(self.base).and_then(|i| usize::try_from(i).ok());
        index.and_then(|i| self.frames.get(i)).copied().unwrap_or(Frame::Hole)
    }

    /// Whether all frames of a block are `what`.
    pub fn all(&self, pfn: Pfn, order: Order, what: Frame) -> bool {
        (0..order.frames()).all(|i| self.at(pfn.get() + i) == what)
    }

    /// A block was handed out.
    pub fn take(&mut self, pfn: Pfn, order: Order) {
        assert!(pfn.is_aligned(order), "{order:?} at {pfn} is not aligned");
        for i in 0..order.frames() {
            let frame = self.at(pfn.get() + i);
            assert_eq!(frame, Frame::Spare, "{order:?} at {pfn}: frame {i} was handed out");
        }
        self.set(pfn, order, Frame::Used);
    }

    /// A block was given back.
    pub fn release(&mut self, pfn: Pfn, order: Order) {
        assert!(self.all(pfn, order, Frame::Used), "the test freed what it does not own");
        self.set(pfn, order, Frame::Spare);
    }

    fn set(&mut self, pfn: Pfn, order: Order, to: Frame) {
        let start = (pfn.get() - self.base) as usize;
        self.frames[start..start + order.frames() as usize].fill(to);
    }

    pub fn count(&self, what: Frame) -> u64 {
        self.frames.iter().filter(|frame| **frame == what).count() as u64
    }

    pub fn managed(&self) -> u64 {
        self.count(Frame::Spare) + self.count(Frame::Used)
    }

    // ---- pageblocks -------------------------------------------------------------------------

    /// First frames of all pageblocks.
    pub fn pageblocks(&self) -> impl Iterator<Item = u64> + use<> {
        (self.base..self.base + self.frames.len() as u64).step_by(PAGEBLOCK as usize)
    }

    pub fn count_in(&self, pageblock: u64, what: Frame) -> u64 {
        (0..PAGEBLOCK).filter(|i| self.at(pageblock + i) == what).count() as u64
    }

    pub fn isolate(&mut self, pageblock: u64) {
        assert!(self.isolated.insert(pageblock), "isolated twice");
    }

    pub fn undo_isolate(&mut self, pageblock: u64) {
        assert!(self.isolated.remove(&pageblock), "was not isolated");
    }

    pub fn is_isolated(&self, pfn: u64) -> bool {
        self.isolated.contains(&(pfn / PAGEBLOCK * PAGEBLOCK))
    }

    /// Spare frames of isolated pageblocks.
    pub fn withheld(&self) -> u64 {
        self.isolated.iter().map(|pageblock| self.count_in(*pageblock, Frame::Spare)).sum()
    }

    // ---- free blocks, if nothing is on the lists of CPUs --------------------------------------

    /// How many maximal free blocks of each order there are, merged as far as possible, in
    /// pageblocks that are isolated (which never merge with one another) or not.
    pub fn blocks(&self, isolated: bool) -> [u64; Order::COUNT] {
        let mut counts = [0; Order::COUNT];
        let mut whole = BTreeSet::new();
        for pageblock in self.pageblocks().filter(|p| self.is_isolated(*p) == isolated) {
            if self.count_in(pageblock, Frame::Spare) == PAGEBLOCK {
                whole.insert(pageblock / PAGEBLOCK);
            } else {
                let start = (pageblock - self.base) as usize;
                count_blocks(&self.frames[start..start + PAGEBLOCK as usize], &mut counts);
            }
        }
        let mut order = PAGEBLOCK.ilog2() as usize;
        while order + 1 < Order::COUNT && !isolated {
            let has_buddy = |block: &&u64| **block % 2 == 0 && whole.contains(&(**block + 1));
            let pairs: BTreeSet<_> =
                whole.iter().filter(has_buddy).map(|block| block / 2).collect();
            counts[order] += (whole.len() - 2 * pairs.len()) as u64;
            (whole, order) = (pairs, order + 1);
        }
        counts[order] += whole.len() as u64;
        counts
    }

    /// Whether a block of the order is free and not isolated.
    pub fn has_block(&self, order: Order) -> bool {
        self.blocks(false)[usize::from(order.get())..].iter().any(|count| *count > 0)
    }
}

/// Counts a whole of spare frames as one block, anything else by halves.
fn count_blocks(frames: &[Frame], counts: &mut [u64; Order::COUNT]) {
    let spare = frames.iter().filter(|frame| **frame == Frame::Spare).count();
    if spare == frames.len() {
        counts[frames.len().ilog2() as usize] += 1;
    } else if spare > 0 {
        let (low, high) = frames.split_at(frames.len() / 2);
        count_blocks(low, counts);
        count_blocks(high, counts);
    }
}
