//! Inspection: the pageblocks of a zone.

use super::CompactZones;
use crate::{
    platform::Platform,
    types::{MigrateType, PAGEBLOCK_ORDER, Pfn, ZoneId},
};

/// The state of a pageblock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageblockView {
    /// The first frame of the pageblock.
    pub first: Pfn,
    /// The type of the pageblock.
    pub migratetype: MigrateType,
    /// Free frames.
    pub free: u16,
    /// Allocated frames that were requested as movable; an estimate after movable and other frames
    /// were mixed.
    pub movable: u16,
    /// Other allocated frames; an estimate in the same case.
    pub unmovable: u16,
    /// Whether compaction skips the pageblock for now.
    pub skip: bool,
}

impl<'c, 'm, P: Platform> CompactZones<'c, 'm, P> {
    /// The present pageblocks of a zone in ascending order; none if there is no such zone.
    pub(crate) fn pageblocks(
        self,
        zone: ZoneId,
    ) -> impl Iterator<Item = PageblockView> + use<'c, 'm, P> {
        let hints = self.find(zone);
        let zone = self.memory.zones().get(zone.index());
        let blocks = zone.map_or(0, |zone| (zone.spanned() >> PAGEBLOCK_ORDER) as u32);
        (0..blocks).filter_map(move |block| {
            let zone = zone.filter(|zone| !zone.is_absent(block))?;
            let held = zone.contents(self.memory.platform(), block);
            Some(PageblockView {
                first: zone.pfn(block << PAGEBLOCK_ORDER),
                migratetype: held.of,
                free: held.free,
                movable: held.movable,
                unmovable: held.unmovable,
                skip: hints.is_some_and(|hints| hints.skip.is_set(block)),
            })
        })
    }

    /// The positions of the scanners of a zone; `None` if there is no such zone.
    #[cfg(feature = "compare")]
    pub(crate) fn scanners(&self, zone: ZoneId) -> Option<super::ScannersView> {
        let start = self.memory.zones().get(zone.index())?.base();
        Some(self.find(zone)?.scan.view(start))
    }
}
