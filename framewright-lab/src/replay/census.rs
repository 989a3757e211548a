//! The state of recorded frames at the start of the recording, and for each recorded block the
//! block that replaces it in the replay.
//!
//! The first event that names a frame determines its state at the start. If the frame is freed, it
//! was in use. If it is allocated or drained, and no earlier event reports that it left the zone,
//! it was on the lists of the CPU of this event. If it leaves the zone, it was free.
//!
//! Recorded blocks are aligned powers of two, so any two of them nest or are disjoint. A block
//! beyond the library's largest order is stored as several blocks.

use framewright::{Order, frame::PAGEBLOCK_ORDER};
use rustc_hash::FxHashMap;

use super::{
    allocator::Allocator,
    by_frame::ByFrame,
    layout::{Map, words},
    survey::{PAGEBLOCK, has_lists, pageblock},
};
use crate::trace::{Event, Record};

/// The state at the start, as far as the recording shows it.
#[derive(Clone, Debug, Default)]
pub(super) struct Census {
    /// The recorded pageblocks, by number.
    pub(super) pageblocks: FxHashMap<u64, Recorded>,
    /// Blocks on CPU lists, in the order in which they left the lists.
    pub(super) held: Vec<Held>,
}

/// A recorded pageblock.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Recorded {
    /// Its migratetype, in the kernel's numbering, if an event shows it.
    pub(super) of: Option<u8>,
    /// Frames that were in use, or on the lists of a CPU.
    pub(super) taken: Map,
    /// Frames that events have named.
    seen: Map,
}

/// A block on the lists of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) cpu: u16,
    pub(super) pfn: u64,
    pub(super) order: u8,
}

/// The state of a block at the start of the recording, if no earlier event named it.
#[derive(Clone, Copy)]
enum AtStart {
    Free,
    InUse,
    /// On the lists of a CPU.
    Held(u16),
}

impl Census {
    /// Adds an event.
    pub(super) fn add(&mut self, record: &Record) {
        match record.event {
            Event::Alloc { pfn, order, migratetype, .. } => {
                let lists = has_lists(order);
                let state = if lists { AtStart::Held(record.cpu) } else { AtStart::Free };
                // An estimate: requests of one type may be served from pageblocks of another.
                self.see(pfn, order, state).of.get_or_insert(migratetype);
            }
            Event::Free { pfn, order } => _ = self.see(pfn, order, AtStart::InUse),
            Event::PcpuDrain { pfn, order, migratetype } => {
                // This event has the pageblock's own type.
                self.see(pfn, order, AtStart::Held(record.cpu)).of = Some(migratetype);
            }
            Event::ZoneLocked { pfn, order, .. } => _ = self.see(pfn, order, AtStart::Free),
            Event::ExtFrag { pfn, fallback_order, .. } => {
                self.see(pfn, fallback_order, AtStart::Free);
            }
            Event::AllocFailed { .. }
            | Event::FreeBatched { .. }
            | Event::ContentionBegin { .. }
            | Event::ContentionEnd { .. }
            | Event::ZoneWait { .. }
            | Event::Other => {}
        }
    }

    /// An event names a block. Sets the state of its frames that no earlier event named. Returns its first pageblock.
    #[inline]
    fn see(&mut self, pfn: u64, order: u8, state: AtStart) -> &mut Recorded {
        let first = pageblock(pfn);
        let more = (1u64 << order).div_ceil(PAGEBLOCK);
        let is_taken = match state {
            AtStart::Free => false,
            AtStart::InUse => true,
            AtStart::Held(cpu) => {
                let block = self.pageblocks.entry(first).or_default();
                let at = (pfn % PAGEBLOCK) as usize;
                let is_new = block.seen[at / 64] >> (at % 64) & 1 == 0;
                self.held.extend(is_new.then_some(Held { cpu, pfn, order }));
                is_new
            }
        };
        for number in first + 1..first + more {
            self.pageblocks.entry(number).or_default().see(0, PAGEBLOCK as usize, is_taken);
        }
        let block = self.pageblocks.entry(first).or_default();
        let size = 1 << order.min(PAGEBLOCK_ORDER);
        // A fallback's block need not be aligned to its size.
        block.see((pfn % PAGEBLOCK) as usize & !(size - 1), size, is_taken);
        block
    }
}

impl Recorded {
    /// An event names an aligned block, which was taken or free at the start if no earlier event named it.
    fn see(&mut self, at: usize, size: usize, is_taken: bool) {
        let (words, mask) = words(at, size);
        for (taken, seen) in self.taken[words.clone()].iter_mut().zip(&mut self.seen[words]) {
            *taken |= if is_taken { mask & !*seen } else { 0 };
            *seen |= mask;
        }
    }
}

/// The recorded allocations that are not freed yet.
pub(super) struct Ledger<B> {
    /// For each recorded frame the number of its piece, counted from 1; 0 if it is not allocated.
    frames: ByFrame<u32>,
    /// By number, counted from 1.
    pieces: Vec<Piece<B>>,
    /// Numbers of pieces that were removed.
    unused: Vec<u32>,
}

/// One recorded block.
struct Piece<B> {
    /// Its first recorded frame.
    pfn: u64,
    order: Order,
    /// The replayed block; `None` if the allocation was refused.
    block: Option<B>,
}

/// The result of a recorded free.
pub(super) struct Freed<B> {
    /// Replayed blocks to be freed.
    pub(super) blocks: Vec<B>,
    /// Parts of the recorded block whose allocation was not recorded: frame and order.
    pub(super) unseen: Vec<(u64, Order)>,
    /// Whether a larger block had to be split.
    pub(super) split: bool,
}

/// Recorded blocks in pieces of at most the library's largest order.
pub(super) fn parts(pfn: u64, order: u8) -> impl Iterator<Item = (u64, Order)> {
    let part = Order::new(order).unwrap_or(Order::PAGEBLOCK);
    let count = 1u64 << (order - part.get());
    (0..count).map(move |n| (pfn + n * part.frames(), part))
}

impl<B> Default for Freed<B> {
    fn default() -> Self {
        Self { blocks: Vec::new(), unseen: Vec::new(), split: false }
    }
}

impl<B> Default for Ledger<B> {
    fn default() -> Self {
        Self { frames: ByFrame::default(), pieces: Vec::new(), unused: Vec::new() }
    }
}

impl<B> Ledger<B> {
    /// Removes all pieces that overlap the recorded block at `pfn`: their frees were not recorded.
    /// Returns their number of frames.
    pub(super) fn evict(&mut self, pfn: u64, order: Order, blocks: &mut Vec<B>) -> u64 {
        let mut frames = 0;
        while let Some(number) = self.overlapping(pfn, order) {
            let piece = self.remove(number);
            frames += piece.order.frames();
            blocks.extend(piece.block);
        }
        frames
    }

    /// Maps the recorded block at `pfn` to `block`; `None` if the allocation was refused.
    pub(super) fn insert(&mut self, pfn: u64, order: Order, block: Option<B>) {
        let piece = Piece { pfn, order, block };
        let number = if let Some(number) = self.unused.pop() {
            self.pieces[number as usize - 1] = piece;
            number
        } else {
            self.pieces.push(piece);
            self.pieces.len() as u32
        };
        self.fill(pfn, order, number);
    }

    /// Ends the recorded block at `pfn`.
    pub(super) fn free(
        &mut self,
        machine: &mut impl Allocator<Block = B>,
        pfn: u64,
        order: Order,
        freed: &mut Freed<B>,
    ) {
        let Some(number) = self.overlapping(pfn, order) else {
            freed.unseen.push((pfn, order));
            return;
        };
        let found = self.pieces[number as usize - 1].order;
        if found == order {
            freed.blocks.extend(self.remove(number).block);
        } else if found > order {
            freed.split = true;
            let piece = self.remove(number);
            freed.blocks.extend(self.cut(machine, piece, pfn, order));
        } else if let Some(half) = order.get().checked_sub(1).and_then(Order::new) {
            // The freed block is a union of several: each half is freed by itself.
            self.free(machine, pfn, half, freed);
            self.free(machine, pfn + half.frames(), half, freed);
        }
    }

    /// The last piece that overlaps the block at `pfn`.
    fn overlapping(&self, pfn: u64, order: Order) -> Option<u32> {
        by_pageblock(pfn, order).rev().find_map(|(pfn, frames)| {
            let numbers = self.frames.of(pfn, frames);
            numbers.iter().rfind(|&&number| number > 0).copied()
        })
    }

    fn remove(&mut self, number: u32) -> Piece<B> {
        let none = Piece { pfn: 0, order: Order::ZERO, block: None };
        let piece = std::mem::replace(&mut self.pieces[number as usize - 1], none);
        self.unused.push(number);
        self.fill(piece.pfn, piece.order, 0);
        piece
    }

    fn fill(&mut self, pfn: u64, order: Order, number: u32) {
        for (pfn, frames) in by_pageblock(pfn, order) {
            self.frames.of_mut(pfn, frames).fill(number);
        }
    }

    /// Splits the block of `order` at `pfn` off the larger `piece`. The rest stays allocated.
    fn cut(
        &mut self,
        machine: &mut impl Allocator<Block = B>,
        piece: Piece<B>,
        pfn: u64,
        order: Order,
    ) -> Option<B> {
        let Piece { pfn: mut at, order: mut size, mut block } = piece;
        while size > order {
            size = Order::new(size.get() - 1).unwrap_or(Order::ZERO);
            let (low, high) = match block.map(|block| machine.split(block)) {
                Some((low, high)) => (Some(low), Some(high)),
                None => (None, None),
            };
            let middle = at + size.frames();
            let (wanted, other) = if pfn < middle { (low, high) } else { (high, low) };
            let (wanted_at, other_at) = if pfn < middle { (at, middle) } else { (middle, at) };
            self.insert(other_at, size, other);
            (at, block) = (wanted_at, wanted);
        }
        block
    }
}

/// The parts of a block in each of its pageblocks: first frame and number of frames.
fn by_pageblock(pfn: u64, order: Order) -> impl DoubleEndedIterator<Item = (u64, u64)> {
    let frames = order.frames().min(PAGEBLOCK);
    (0..order.frames() / frames).map(move |n| (pfn + n * frames, frames))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::GfpFlags;

    fn census(events: &[(u16, Event)]) -> Census {
        let mut census = Census::default();
        for &(cpu, event) in events {
            census.add(&Record { line: 1, cpu, nanos: 0, event });
        }
        census
    }

    fn alloc(pfn: u64, order: u8) -> Event {
        Event::Alloc { pfn, order, migratetype: 1, gfp: GfpFlags::NONE }
    }

    #[test]
    fn the_first_event_of_a_frame_determines_its_state() {
        let locked = Event::ZoneLocked { pfn: 520, order: 1, migratetype: 1, percpu_refill: true };
        let drain = Event::PcpuDrain { pfn: 530, order: 1, migratetype: 2 };
        let census = census(&[
            (1, alloc(512, 1)),
            (0, locked),
            (0, alloc(520, 1)),
            (0, Event::Free { pfn: 512, order: 1 }),
            (0, Event::Free { pfn: 516, order: 0 }),
            (1, alloc(516, 0)),
            (0, drain),
            (0, alloc(576, 6)),
        ]);
        let held = |cpu, pfn, order| Held { cpu, pfn, order };
        assert_eq!(census.held, [held(1, 512, 1), held(0, 530, 1)]);
        let block = census.pageblocks[&1];
        assert_eq!(block.taken[0], 0b11 | 1 << 4 | 0b11 << 18);
        assert_eq!(
            (block.taken[1], block.seen[1]),
            (0, u64::MAX),
            "the block is counted on a list although it came from the zone"
        );
        assert_eq!(block.of, Some(2), "the drain did not give the pageblock its type");
    }

    #[test]
    fn a_block_of_several_pageblocks_is_noted_in_each() {
        let census = census(&[(0, Event::Free { pfn: 1024, order: 10 })]);
        assert_eq!(census.pageblocks.len(), 2);
        assert!(census.pageblocks.values().all(|block| block.taken == [u64::MAX; 8]));
    }
}
