//! Which free pageblocks whoever lends the memory knows to be free.
//!
//! A mark per pageblock that is free as a whole, kept in its gigablock. Reporting takes a block
//! out, so that nobody uses it while the lender lets go of it, and gives it back marked; the mark
//! goes when the pageblock is used.

use super::{Buddy, gigablock::spans};
use crate::types::{Order, PAGEBLOCK_ORDER};

impl Buddy<'_> {
    /// Takes the first free block of `order` (9 and up) in a gigablock that is not marked as a
    /// whole, and says where it is. The types of its pageblocks stay.
    pub(crate) fn take_unreported(&mut self, gigablock: u32, order: Order) -> Option<u32> {
        let place = self.lists.gigablocks.unreported(gigablock, order)?;
        self.take_unchanged(place, order);
        Some(self.lists.gigablocks.index(place) << PAGEBLOCK_ORDER)
    }

    /// Gives such a block back, marked.
    pub(crate) fn give_reported(&mut self, frame: u32, order: Order) {
        let index = frame >> PAGEBLOCK_ORDER;
        self.give_large_at(index, order);
        let place = self.lists.gigablocks.place(index);
        for (leaf, mask) in spans(place..place + order.pageblocks()) {
            self.lists.gigablocks.mark_reported(leaf, mask);
        }
    }
}
