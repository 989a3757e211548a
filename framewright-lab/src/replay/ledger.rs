//! The recorded blocks that are allocated, by number.
//!
//! Which block a free ends follows from the recording alone. It is found once, at the first reading, while another
//! thread decompresses. A replay has its own block for each number.
//!
//! Recorded blocks are aligned powers of two, so any two of them nest or are disjoint.

use framewright::Order;

use super::{by_frame::ByFrame, survey::PAGEBLOCK};
use crate::trace::{Event, MAX_ORDER, Record};

/// A part of what an event does to blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A block is freed.
    Free {
        /// Its number, which may be used again.
        number: u32,
        /// Its order.
        order: Order,
    },
    /// A block is halved.
    Split {
        /// Its number, which one of the halves keeps.
        number: u32,
        /// The number of the other half.
        other: u32,
        /// Whether the lower half keeps the number.
        keeps_low: bool,
    },
    /// Some of the frames are freed whose allocation was not recorded.
    Unseen {
        /// The first frame.
        pfn: u64,
        /// Their number, as an order.
        order: Order,
    },
}

/// The recorded allocations that are not freed yet.
#[derive(Default)]
pub(super) struct Ledger {
    /// For each recorded frame the number of its piece; 0 if it is not allocated.
    frames: ByFrame,
    /// The orders of the pieces by number, counted from 1.
    orders: Vec<Order>,
    /// Numbers of pieces that were removed.
    unused: Vec<u32>,
}

/// A recorded block, or a part of one whose other parts were freed.
#[derive(Clone, Copy)]
struct Piece {
    number: u32,
    /// Its first recorded frame.
    pfn: u64,
    order: Order,
}

/// A recorded order; the library has larger ones.
pub(super) fn order_of(recorded: u8) -> Order {
    const { assert!(MAX_ORDER <= Order::MAX.get()) };
    Order::new(recorded).unwrap_or(Order::MAX)
}

impl Ledger {
    /// Prefetches what [`Ledger::add`] reads for these events: most of it is in no near cache.
    pub(super) fn prefetch(&self, records: &[Record]) {
        let frame = |record: &Record| match record.event {
            Event::Alloc { pfn, .. } | Event::Free { pfn, .. } => Some(pfn),
            _ => None,
        };
        self.frames.prefetch(records.iter().filter_map(frame));
    }

    /// Adds an event. Returns the number of the block that it allocates or frees as a whole; 0 if there is none. Appends
    /// its other steps: those before an allocation, and all of a free that does not end exactly one block. A free
    /// without number and steps is one of frames whose allocation was not recorded.
    pub(super) fn add(&mut self, event: &Event, steps: &mut Vec<Step>) -> u32 {
        match *event {
            Event::Alloc { pfn, order, .. } => self.alloc(pfn, order_of(order), steps),
            Event::Free { pfn, order } => self.free(pfn, order_of(order), steps),
            _ => 0,
        }
    }

    /// The frees of all pieces that overlap the new block were not recorded.
    fn alloc(&mut self, pfn: u64, order: Order, steps: &mut Vec<Step>) -> u32 {
        while let Some(piece) = self.overlapping(pfn, order) {
            steps.push(self.remove(piece));
        }
        self.insert(pfn, order)
    }

    fn free(&mut self, pfn: u64, order: Order, steps: &mut Vec<Step>) -> u32 {
        let Some(piece) = self.overlapping(pfn, order) else { return 0 };
        if piece.order == order {
            self.remove(piece);
            return piece.number;
        }
        let before = steps.len();
        self.free_parts(pfn, order, steps);
        steps[before..].sort_by_key(|step| matches!(step, Step::Unseen { .. }));
        0
    }

    /// Ends the pieces, or the part of a piece, that the recorded block at `pfn` consists of.
    fn free_parts(&mut self, pfn: u64, order: Order, steps: &mut Vec<Step>) {
        let Some(piece) = self.overlapping(pfn, order) else {
            return steps.push(Step::Unseen { pfn, order });
        };
        if piece.order < order
            && let Some(half) = smaller(order)
        {
            // The freed block is a union of several: each half is freed by itself.
            self.free_parts(pfn, half, steps);
            self.free_parts(pfn + half.frames(), half, steps);
            return;
        }
        let piece = self.cut(piece, pfn, order, steps);
        steps.push(self.remove(piece));
    }

    /// Halves a piece until it is the block of `order` at `pfn`. The other halves stay allocated.
    fn cut(&mut self, mut piece: Piece, pfn: u64, order: Order, steps: &mut Vec<Step>) -> Piece {
        while piece.order > order
            && let Some(half) = smaller(piece.order)
        {
            let (low, high) = (piece.pfn, piece.pfn + half.frames());
            let keeps_low = pfn < high;
            let (kept, rest) = if keeps_low { (low, high) } else { (high, low) };
            let other = self.insert(rest, half);
            steps.push(Step::Split { number: piece.number, other, keeps_low });
            piece = Piece { pfn: kept, order: half, ..piece };
        }
        piece
    }

    /// The last piece that overlaps the block at `pfn`.
    fn overlapping(&mut self, pfn: u64, order: Order) -> Option<Piece> {
        by_pageblock(pfn, order).rev().find_map(|(pfn, frames)| {
            let numbers = self.frames.of(pfn, frames);
            let at = numbers.iter().rposition(|&number| number > 0)?;
            let number = numbers[at];
            let order = self.orders[number as usize - 1];
            // Blocks are aligned to their size.
            Some(Piece { number, pfn: (pfn + at as u64) & !(order.frames() - 1), order })
        })
    }

    /// Adds a piece. Returns its number.
    fn insert(&mut self, pfn: u64, order: Order) -> u32 {
        let number = if let Some(number) = self.unused.pop() {
            self.orders[number as usize - 1] = order;
            number
        } else {
            self.orders.push(order);
            self.orders.len() as u32
        };
        self.fill(Piece { number, pfn, order }, number);
        number
    }

    fn remove(&mut self, piece: Piece) -> Step {
        self.unused.push(piece.number);
        self.fill(piece, 0);
        Step::Free { number: piece.number, order: piece.order }
    }

    fn fill(&mut self, piece: Piece, number: u32) {
        for (pfn, frames) in by_pageblock(piece.pfn, piece.order) {
            self.frames.of_mut(pfn, frames).fill(number);
        }
    }
}

/// The order of the halves of a block.
fn smaller(order: Order) -> Option<Order> {
    order.get().checked_sub(1).and_then(Order::new)
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

    /// The result of each event: the number, and the other steps.
    fn results(events: &[Event]) -> Vec<(u32, Vec<Step>)> {
        let mut ledger = Ledger::default();
        let result = |event| {
            let mut steps = Vec::new();
            (ledger.add(event, &mut steps), steps)
        };
        events.iter().map(result).collect()
    }

    fn alloc(pfn: u64, order: u8) -> Event {
        Event::Alloc { pfn, order, migratetype: 1, gfp: GfpFlags::NONE }
    }

    fn free(pfn: u64, order: u8) -> Event {
        Event::Free { pfn, order }
    }

    fn freed(number: u32, order: u8) -> Step {
        Step::Free { number, order: order_of(order) }
    }

    fn unseen(pfn: u64, order: u8) -> Step {
        Step::Unseen { pfn, order: order_of(order) }
    }

    #[test]
    fn a_free_ends_the_block_with_its_frames() {
        let events = [alloc(0, 0), alloc(8, 3), free(0, 0), alloc(1024, 10), free(8, 3)];
        let numbers: Vec<u32> = results(&events).iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, [1, 2, 1, 1, 2]);
        assert!(results(&events).iter().all(|(_, steps)| steps.is_empty()));
    }

    #[test]
    fn unrecorded_allocations_and_frees_are_steps() {
        let results = results(&[free(4, 2), alloc(8, 1), alloc(9, 0), free(512, 10), alloc(8, 3)]);
        assert_eq!(results[0], (0, vec![]));
        assert_eq!(results[2], (1, vec![freed(1, 1)]), "frame 9 was allocated twice");
        assert_eq!(results[3], (0, vec![]));
        assert_eq!(results[4], (1, vec![freed(1, 0)]));
    }

    #[test]
    fn a_block_may_be_freed_in_parts() {
        let results = results(&[alloc(8, 3), free(14, 0), free(8, 2), free(15, 0), free(12, 1)]);
        let split = |other, keeps_low| Step::Split { number: 1, other, keeps_low };
        let steps = vec![split(2, false), split(3, false), split(4, true), freed(1, 0)];
        assert_eq!(results[1], (0, steps));
        assert_eq!([results[2].0, results[3].0, results[4].0], [2, 4, 3]);
    }

    #[test]
    fn parts_may_be_freed_as_one_block_with_unseen_parts_last() {
        let results = results(&[alloc(9, 0), alloc(12, 2), free(8, 3), free(8, 3)]);
        assert_eq!(results[2], (0, vec![freed(1, 0), freed(2, 2), unseen(8, 0), unseen(10, 1)]));
        assert_eq!(results[3], (0, vec![]));
    }
}
