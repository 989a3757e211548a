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
use std::collections::{BTreeMap, btree_map::Entry};

use super::{
    allocator::Allocator,
    layout::{Map, fill},
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

/// The state of a frame at the start of the recording.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AtStart {
    Free,
    /// In use, or on the lists of a CPU.
    Taken,
}

impl Census {
    /// Adds an event.
    pub(super) fn add(&mut self, record: &Record) {
        match record.event {
            Event::Alloc { pfn, order, migratetype, .. } => {
                if has_lists(order) {
                    self.leaves_list(record.cpu, pfn, order);
                }
                self.see(pfn, order, AtStart::Free);
                // An estimate: requests of one type may be served from pageblocks of another.
                self.pageblocks.entry(pageblock(pfn)).or_default().of.get_or_insert(migratetype);
            }
            Event::Free { pfn, order } => self.see(pfn, order, AtStart::Taken),
            Event::PcpuDrain { pfn, order, migratetype } => {
                self.leaves_list(record.cpu, pfn, order);
                self.see(pfn, order, AtStart::Free);
                // This event has the pageblock's own type.
                self.pageblocks.entry(pageblock(pfn)).or_default().of = Some(migratetype);
            }
            Event::ZoneLocked { pfn, order, .. } => self.see(pfn, order, AtStart::Free),
            Event::ExtFrag(event) => self.see(event.pfn, event.fallback_order, AtStart::Free),
            Event::AllocFailed { .. }
            | Event::FreeBatched { .. }
            | Event::ContentionBegin { .. }
            | Event::ContentionEnd { .. }
            | Event::ZoneWait { .. }
            | Event::Other => {}
        }
    }

    /// A block has left the lists of a CPU. If no earlier event named it, it was there at the
    /// start.
    fn leaves_list(&mut self, cpu: u16, pfn: u64, order: u8) {
        let block = self.pageblocks.entry(pageblock(pfn)).or_default();
        let at = (pfn % PAGEBLOCK) as usize;
        if block.seen[at / 64] >> (at % 64) & 1 == 0 {
            self.held.push(Held { cpu, pfn, order });
            self.see(pfn, order, AtStart::Taken);
        }
    }

    /// An event names frames. Sets the state of those that no earlier event named.
    fn see(&mut self, pfn: u64, order: u8, state: AtStart) {
        let size = 1u64 << order.min(PAGEBLOCK_ORDER);
        for pfn in (pfn..pfn + (1 << order)).step_by(size as usize) {
            let block = self.pageblocks.entry(pageblock(pfn)).or_default();
            let mut named = Map::default();
            // A fallback's block need not be aligned to its size.
            let at = (pfn % PAGEBLOCK) & !(size - 1);
            fill(&mut named, at as usize, size as usize);
            for ((taken, seen), named) in block.taken.iter_mut().zip(&mut block.seen).zip(named) {
                if state == AtStart::Taken {
                    *taken |= named & !*seen;
                }
                *seen |= named;
            }
        }
    }
}

/// The recorded allocations that are not freed yet.
pub(super) struct Ledger<B> {
    /// By recorded frame number.
    pieces: BTreeMap<u64, Piece<B>>,
}

/// One recorded block.
struct Piece<B> {
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
        Self { pieces: BTreeMap::new() }
    }
}

impl<B> Ledger<B> {
    /// Removes all pieces that overlap the recorded block at `pfn`: their frees were not recorded.
    /// Returns their number of frames.
    pub(super) fn evict(&mut self, pfn: u64, order: Order, blocks: &mut Vec<B>) -> u64 {
        let mut frames = 0;
        while let Some(at) = self.overlapping(pfn, order) {
            if let Some(piece) = self.pieces.remove(&at) {
                frames += piece.order.frames();
                blocks.extend(piece.block);
            }
        }
        frames
    }

    /// Maps the recorded block at `pfn` to `block`; `None` if the allocation was refused.
    pub(super) fn insert(&mut self, pfn: u64, order: Order, block: Option<B>) {
        self.pieces.insert(pfn, Piece { order, block });
    }

    /// Ends the recorded block at `pfn`.
    pub(super) fn free(
        &mut self,
        machine: &mut impl Allocator<Block = B>,
        pfn: u64,
        order: Order,
        freed: &mut Freed<B>,
    ) {
        // Nearly always, this is a block as it was allocated, or a block without a recorded
        // allocation.
        if let Entry::Occupied(entry) = self.pieces.entry(pfn)
            && entry.get().order == order
        {
            freed.blocks.extend(entry.remove().block);
            return;
        }
        let Some(at) = self.overlapping(pfn, order) else {
            freed.unseen.push((pfn, order));
            return;
        };
        let Some(piece) = self.pieces.remove(&at) else {
            return;
        };
        if piece.order > order {
            freed.split = true;
            let wanted = self.cut(machine, at, piece, pfn, order);
            freed.blocks.extend(wanted.block);
        } else {
            // The freed block is a union of several: this piece stays, and each half is freed by
            // itself.
            self.pieces.insert(at, piece);
            if let Some(half) = order.get().checked_sub(1).and_then(Order::new) {
                self.free(machine, pfn, half, freed);
                self.free(machine, pfn + half.frames(), half, freed);
            }
        }
    }

    /// The first frame of a piece that overlaps the block at `pfn`.
    fn overlapping(&self, pfn: u64, order: Order) -> Option<u64> {
        let (&at, piece) = self.pieces.range(..pfn + order.frames()).next_back()?;
        (at + piece.order.frames() > pfn).then_some(at)
    }

    /// Splits the block of `order` at `pfn` off the larger `piece` at `at`. The rest stays
    /// allocated.
    fn cut(
        &mut self,
        machine: &mut impl Allocator<Block = B>,
        mut at: u64,
        mut piece: Piece<B>,
        pfn: u64,
        order: Order,
    ) -> Piece<B> {
        while piece.order > order {
            let half = Order::new(piece.order.get() - 1).unwrap_or(Order::ZERO);
            let (low, high) = match piece.block.map(|block| machine.split(block)) {
                Some((low, high)) => (Some(low), Some(high)),
                None => (None, None),
            };
            let middle = at + half.frames();
            let (wanted, other) = if pfn < middle { (low, high) } else { (high, low) };
            let (wanted_at, other_at) = if pfn < middle { (at, middle) } else { (middle, at) };
            self.insert(other_at, half, other);
            (at, piece) = (wanted_at, Piece { order: half, block: wanted });
        }
        piece
    }
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
