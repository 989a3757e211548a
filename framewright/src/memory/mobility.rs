//! What pageblocks are for: reading and setting their migratetypes.

use super::Memory;
use crate::{
    platform::Platform,
    types::{MigrateType, Order, PAGEBLOCK_ORDER, Pfn},
};

impl<P: Platform> Memory<'_, P> {
    /// The type of the pageblock that holds `pfn`, if that is a frame of this memory. May be stale
    /// by one critical section.
    #[must_use]
    pub fn pageblock_type(&self, pfn: Pfn) -> Option<MigrateType> {
        let (zone, frame) = self.core.find(pfn, Order::ZERO)?;
        MigrateType::from_number(self.core.zones()[zone.index()].type_number(frame))
    }

    /// Sets aside the pageblock that holds `pfn` for requests of one type, with all that is free
    /// of it: for embedders that know beforehand what will live where. Whoever runs short of its
    /// own type may still change that.
    ///
    /// `false`, and nothing was changed, if the frame is not of this memory, its pageblock is
    /// isolated, or requests cannot name the type.
    pub fn set_pageblock_type(&self, pfn: Pfn, to: MigrateType) -> bool {
        if !to.is_requestable() {
            return false;
        }
        let Some((zone, frame)) = self.core.find(pfn, Order::ZERO) else { return false };
        let block = frame >> PAGEBLOCK_ORDER;
        let zone = &self.core.zones()[zone.index()];
        zone.change(self.platform(), block, |buddy| buddy.set_aside(block, to))
    }
}
