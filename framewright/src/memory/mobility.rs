//! Reads and sets the migratetypes of pageblocks.

use super::Memory;
use crate::{
    platform::Platform,
    types::{MigrateType, Order, PAGEBLOCK_ORDER, Pfn},
};

impl<P: Platform> Memory<'_, P> {
    /// The type of the pageblock of `pfn`; `None` if the frame is not of this memory. May be stale
    /// by one critical section.
    #[must_use]
    pub fn pageblock_type(&self, pfn: Pfn) -> Option<MigrateType> {
        let (zone, frame) = self.core.find(pfn, Order::ZERO)?;
        MigrateType::from_number(self.core.zones()[zone.index()].type_number(frame))
    }

    /// Sets the type of the pageblock of `pfn`, with all its free blocks. For embedders that know
    /// in advance where allocations of a type will be. The allocator may change the type again when
    /// another type has no free block (fallback).
    ///
    /// Returns `false` and changes nothing if the frame is not of this memory, if its pageblock is
    /// isolated, or if requests cannot name the type.
    pub fn set_pageblock_type(&self, pfn: Pfn, to: MigrateType) -> bool {
        if !to.is_requestable() {
            return false;
        }
        let Some((zone, frame)) = self.core.find(pfn, Order::ZERO) else { return false };
        let block = frame >> PAGEBLOCK_ORDER;
        let zone = &self.core.zones()[zone.index()];
        zone.change(self.platform(), block, |buddy| buddy.set_requestable_type(block, to))
    }
}
