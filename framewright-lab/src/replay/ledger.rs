//! Which recorded block is which of ours.
//!
//! Recorded blocks are aligned powers of two, so any two of them nest or are disjoint. Blocks larger
//! than ours can be are kept as several.

use std::collections::BTreeMap;

use framewright::{Block, Order};

use super::machine::Machine;

/// The allocations that the recording saw and that are not freed yet.
#[derive(Default)]
pub(super) struct Ledger<'m> {
    /// By recorded frame number.
    pieces: BTreeMap<u64, Piece<'m>>,
}

/// One recorded block.
struct Piece<'m> {
    order: Order,
    /// Ours; none if our allocator refused.
    block: Option<Block<'m>>,
}

/// What a recorded free ended.
#[derive(Default)]
pub(super) struct Freed<'m> {
    /// Our blocks, to be freed.
    pub(super) blocks: Vec<Block<'m>>,
    /// Parts of the recorded block that the recording did not see allocated: frame and order.
    pub(super) unseen: Vec<(u64, Order)>,
    /// A larger block had to be split.
    pub(super) split: bool,
}

/// Recorded blocks in pieces of at most our largest order.
pub(super) fn parts(pfn: u64, order: u8) -> impl Iterator<Item = (u64, Order)> {
    let part = Order::new(order).unwrap_or(Order::PAGEBLOCK);
    let count = 1u64 << (order - part.get());
    (0..count).map(move |n| (pfn + n * part.frames(), part))
}

impl<'m> Ledger<'m> {
    /// Takes out whatever overlaps the recorded block at `pfn`: it must have been freed unseen.
    /// Returns how many frames that were.
    pub(super) fn evict(&mut self, pfn: u64, order: Order, blocks: &mut Vec<Block<'m>>) -> u64 {
        let mut frames = 0;
        while let Some(at) = self.overlapping(pfn, order) {
            if let Some(piece) = self.pieces.remove(&at) {
                frames += piece.order.frames();
                blocks.extend(piece.block);
            }
        }
        frames
    }

    /// The recorded block at `pfn` is now `block`, or nothing if our allocator refused.
    pub(super) fn insert(&mut self, pfn: u64, order: Order, block: Option<Block<'m>>) {
        self.pieces.insert(pfn, Piece { order, block });
    }

    /// Ends the recorded block at `pfn`.
    pub(super) fn free(
        &mut self,
        machine: &mut Machine<'_, 'm>,
        pfn: u64,
        order: Order,
        freed: &mut Freed<'m>,
    ) {
        // Nearly always it is a block as it was allocated, or one that was never seen.
        let Some(at) = self.overlapping(pfn, order) else {
            freed.unseen.push((pfn, order));
            return;
        };
        let Some(piece) = self.pieces.remove(&at) else {
            return;
        };
        if piece.order <= order && (at, piece.order) == (pfn, order) {
            freed.blocks.extend(piece.block);
        } else if piece.order > order {
            freed.split = true;
            let wanted = self.cut(machine, at, piece, pfn, order);
            freed.blocks.extend(wanted.block);
        } else {
            // A union: each half by itself, with this piece back in its place.
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

    /// Cuts the block of `order` at `pfn` out of the larger `piece` at `at`; the rest stays.
    fn cut(
        &mut self,
        machine: &mut Machine<'_, 'm>,
        mut at: u64,
        mut piece: Piece<'m>,
        pfn: u64,
        order: Order,
    ) -> Piece<'m> {
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
