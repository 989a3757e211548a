//! A naive model of every frame of a zone.

use std::{collections::BTreeSet, ops::Range};

use framewright::{FrameRange, MemoryRange, NodeId, Order, Pfn, Presence, ZoneKind};

const PAGEBLOCK: u64 = 512;

/// The state of a frame from the perspective of the library's caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Frame {
    /// Not in the zone, or not present.
    Hole,
    /// Free in the zone, or on the lists of a CPU.
    Free,
    /// Part of an allocated block or extent.
    Used,
}

/// The model of a zone, with all frames from its first pageblock to its last.
pub struct ZoneTruth {
    pub node: NodeId,
    pub kind: ZoneKind,
    base: u64,
    frames: Vec<Frame>,
    /// Whether each frame is in the zone, present or absent.
    named: Vec<bool>,
    /// Whether memory is added in pieces.
    pub in_pieces: bool,
    /// First frames of isolated pageblocks.
    isolated: BTreeSet<u64>,
}

impl ZoneTruth {
    /// The zone of a kind on a node. `map` must have a range of it.
    pub fn new(map: &[MemoryRange], node: NodeId, kind: ZoneKind) -> Self {
        let of_zone = || map.iter().filter(|range| (range.node, range.zone) == (node, kind));
        let first = of_zone().next().expect("the zone has a range").frames;
        let last = of_zone().next_back().expect("the zone has a range").frames;
        let base = first.start().get() / PAGEBLOCK * PAGEBLOCK;
        let end = last.end().get().next_multiple_of(PAGEBLOCK);
        let mut frames = vec![Frame::Hole; (end - base) as usize];
        let mut named = vec![false; frames.len()];
        for range in of_zone() {
            let (start, end) = (range.frames.start().get() - base, range.frames.end().get() - base);
            named[start as usize..end as usize].fill(true);
            // The world takes all ranges in use at its start.
            if matches!(range.presence, Presence::Present | Presence::InUse) {
                frames[start as usize..end as usize].fill(Frame::Free);
            }
        }
        let in_pieces = of_zone().any(|range| range.presence == Presence::InPieces);
        Self { node, kind, base, frames, named, in_pieces, isolated: BTreeSet::new() }
    }

    /// The state of a frame. A frame outside the zone is a hole.
    pub fn at(&self, pfn: u64) -> Frame {
        let index = pfn.checked_sub(self.base).and_then(|i| usize::try_from(i).ok());
        index.and_then(|i| self.frames.get(i)).copied().unwrap_or(Frame::Hole)
    }

    /// Whether all frames of a block have the state `what`.
    pub fn all(&self, pfn: Pfn, order: Order, what: Frame) -> bool {
        let range = FrameRange::new(pfn, pfn.offset(order.frames())).expect("a range");
        self.slice(range).is_some_and(|frames| frames.iter().all(|frame| *frame == what))
    }

    pub fn set(&mut self, pfn: Pfn, order: Order, to: Frame) {
        self.fill(FrameRange::new(pfn, pfn.offset(order.frames())).expect("a range"), to);
    }

    pub fn fill(&mut self, range: FrameRange, to: Frame) {
        let (start, end) = (range.start().get() - self.base, range.end().get() - self.base);
        self.frames[start as usize..end as usize].fill(to);
    }

    /// The states of frames. `None` if some lie outside the zone's first to last pageblock.
    pub fn slice(&self, range: FrameRange) -> Option<&[Frame]> {
        let start = range.start().get().checked_sub(self.base)? as usize;
        self.frames.get(start..)?.get(..range.frames() as usize)
    }

    /// Whether all frames are in the zone, present or absent.
    pub fn names(&self, range: FrameRange) -> bool {
        let start = range.start().get().checked_sub(self.base).map(|start| start as usize);
        let named = start.and_then(|start| self.named.get(start..)?.get(..range.frames() as usize));
        named.is_some_and(|named| named.iter().all(|named| *named))
    }

    pub fn count(&self, what: Frame) -> u64 {
        self.frames.iter().filter(|frame| **frame == what).count() as u64
    }

    pub fn managed(&self) -> u64 {
        self.count(Frame::Free) + self.count(Frame::Used)
    }

    // ---- pageblocks -------------------------------------------------------------------------

    /// The frames from the zone's first pageblock to the end of its last.
    pub fn span(&self) -> Range<u64> {
        self.base..self.base + self.frames.len() as u64
    }

    /// First frames of all pageblocks.
    pub fn pageblocks(&self) -> impl Iterator<Item = u64> + use<> {
        self.span().step_by(PAGEBLOCK as usize)
    }

    fn frames_of(&self, pageblock: u64) -> &[Frame] {
        &self.frames[(pageblock - self.base) as usize..][..PAGEBLOCK as usize]
    }

    pub fn count_in(&self, pageblock: u64, what: Frame) -> u64 {
        self.frames_of(pageblock).iter().filter(|frame| **frame == what).count() as u64
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

    /// Free frames of isolated pageblocks.
    pub fn isolated_free(&self) -> u64 {
        self.isolated.iter().map(|pageblock| self.count_in(*pageblock, Frame::Free)).sum()
    }

    // ---- free blocks, if nothing is on the lists of CPUs --------------------------------------

    /// Frames that may be allocated.
    pub fn free(&self) -> u64 {
        self.count(Frame::Free) - self.isolated_free()
    }

    /// The number of maximal free blocks of each order, in isolated pageblocks or in all others.
    /// Isolated pageblocks do not merge with one another.
    pub fn blocks(&self, isolated: bool) -> [u64; Order::COUNT] {
        let mut counts = [0; Order::COUNT];
        let mut whole = BTreeSet::new();
        for pageblock in self.pageblocks().filter(|p| self.is_isolated(*p) == isolated) {
            let frames = self.frames_of(pageblock);
            if frames.iter().all(|frame| *frame == Frame::Free) {
                whole.insert(pageblock / PAGEBLOCK);
            } else {
                count_blocks(frames, &mut counts);
            }
        }
        let mut order = PAGEBLOCK.ilog2() as usize;
        while order + 1 < Order::COUNT && !isolated {
            let has_buddy =
                |block: &&u64| (**block).is_multiple_of(2) && whole.contains(&(**block + 1));
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

/// Counts `frames` as one block if all are free, and otherwise counts each half.
fn count_blocks(frames: &[Frame], counts: &mut [u64; Order::COUNT]) {
    let free = frames.iter().filter(|frame| **frame == Frame::Free).count();
    if free == frames.len() {
        counts[frames.len().ilog2() as usize] += 1;
    } else if free > 0 {
        let (low, high) = frames.split_at(frames.len() / 2);
        count_blocks(low, counts);
        count_blocks(high, counts);
    }
}
