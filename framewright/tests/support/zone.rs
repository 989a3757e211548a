//! The truth about every frame of a zone, kept in the most naive way.

use std::{collections::BTreeSet, ops::Range};

use framewright::{MemoryRange, NodeId, Order, Pfn, ZoneKind};

const PAGEBLOCK: u64 = 512;

/// What a frame is, as far as its user knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Frame {
    /// Not of the zone.
    Hole,
    /// Free in the zone, or on the lists of a CPU.
    Spare,
    /// Part of a block that somebody owns.
    Used,
}

/// All frames from a pageblock boundary to a pageblock boundary.
pub struct ZoneTruth {
    pub node: NodeId,
    pub kind: ZoneKind,
    base: u64,
    frames: Vec<Frame>,
    /// First frames of isolated pageblocks.
    isolated: BTreeSet<u64>,
}

impl ZoneTruth {
    /// The zone of a kind on a node; `map` has a range of it.
    pub fn new(map: &[MemoryRange], node: NodeId, kind: ZoneKind) -> Self {
        let of_zone = || map.iter().filter(|range| (range.node, range.zone) == (node, kind));
        let first = of_zone().next().expect("the zone has a range").frames;
        let last = of_zone().next_back().expect("the zone has a range").frames;
        let base = first.start().get() / PAGEBLOCK * PAGEBLOCK;
        let end = last.end().get().next_multiple_of(PAGEBLOCK);
        let mut frames = vec![Frame::Hole; (end - base) as usize];
        for range in of_zone().map(|range| range.frames) {
            let indices = range.start().get() - base..range.end().get() - base;
            frames[indices.start as usize..indices.end as usize].fill(Frame::Spare);
        }
        Self { node, kind, base, frames, isolated: BTreeSet::new() }
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

    pub fn set(&mut self, pfn: Pfn, order: Order, to: Frame) {
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

    /// From its first pageblock to the end of its last.
    pub fn span(&self) -> Range<u64> {
        self.base..self.base + self.frames.len() as u64
    }

    /// First frames of all pageblocks.
    pub fn pageblocks(&self) -> impl Iterator<Item = u64> + use<> {
        self.span().step_by(PAGEBLOCK as usize)
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

    /// Frames that may be allocated.
    pub fn free(&self) -> u64 {
        self.count(Frame::Spare) - self.withheld()
    }

    /// How many maximal free blocks of each order there are, merged as far as possible, in
    /// pageblocks that are isolated or not.
    pub fn blocks(&self, isolated: bool) -> [u64; Order::COUNT] {
        let mut counts = [0; Order::COUNT];
        for pageblock in self.pageblocks().filter(|p| self.is_isolated(*p) == isolated) {
            let start = (pageblock - self.base) as usize;
            count_blocks(&self.frames[start..start + PAGEBLOCK as usize], &mut counts);
        }
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
