//! Inspection: the positions of the scanners of a zone.

use crate::{
    memory::Memory,
    platform::Platform,
    types::{Pfn, ZoneId},
};

/// Positions of the scanners of a zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScannersView {
    /// The migrate scanner in asynchronous mode.
    pub migrate_async: Pfn,
    /// The migrate scanner in the other modes.
    pub migrate_sync: Pfn,
    /// The free scanner, which looks below this frame next.
    pub free: Pfn,
}

impl<P: Platform> Memory<'_, P> {
    /// The positions of the scanners of a zone; `None` if there is no such zone.
    #[must_use]
    pub fn scanners(&self, zone: ZoneId) -> Option<ScannersView> {
        let start = self.zone(zone)?.start;
        let positions = &self.compaction().get(zone.index())?.scan.positions;
        let at = |frame: u32| start.offset(frame.into());
        Some(ScannersView {
            migrate_async: at(positions.migrate(true)),
            migrate_sync: at(positions.migrate(false)),
            free: at(positions.free()),
        })
    }
}
