//! Free page reporting: marks of the free pageblocks that were reported to the hypervisor.
//!
//! The gigablock has a mark for each wholly free pageblock. Reporting takes a block out of the
//! zone, so that it is not allocated while the hypervisor releases its memory. Then the block is
//! freed and marked. The mark is cleared when the pageblock is allocated.

use super::{Buddy, gigablock::spans};
use crate::types::{Order, PAGEBLOCK_ORDER};

impl Buddy<'_> {
    /// Takes the first free block of `order` (9 and up) of which some pageblock is not marked, and
    /// returns its first frame. The types of its pageblocks stay.
    pub(crate) fn take_unreported(&mut self, gigablock: u32, order: Order) -> Option<u32> {
        let place = self.lists.gigablocks.unreported(gigablock, order)?;
        self.take_unchanged(place, order);
        Some(self.lists.gigablocks.index(place) << PAGEBLOCK_ORDER)
    }

    /// Frees a block that was taken for a report, and marks it.
    pub(crate) fn give_reported(&mut self, frame: u32, order: Order) {
        let index = frame >> PAGEBLOCK_ORDER;
        self.give_large_at(index, order);
        let place = self.lists.gigablocks.place(index);
        for (leaf, mask) in spans(place..place + order.pageblocks()) {
            self.lists.gigablocks.mark_reported(leaf, mask);
        }
    }
}
