//! Inspection: the positions of the scanners of a zone.

use super::ScanState;
use crate::types::Pfn;

/// Positions of the scanners of a zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScannersView {
    /// The migrate scanner in asynchronous mode.
    pub migrate_async: Pfn,
    /// The migrate scanner in the other modes.
    pub migrate_sync: Pfn,
    /// The free scanner, which examines the frames below next.
    pub free: Pfn,
}

impl ScanState {
    /// The positions, in a zone whose first frame is `start`.
    pub(in crate::compact) fn view(&self, start: Pfn) -> ScannersView {
        let at = |frame: u32| start.offset(frame.into());
        ScannersView {
            migrate_async: at(self.positions.migrate(true)),
            migrate_sync: at(self.positions.migrate(false)),
            free: at(self.positions.free()),
        }
    }
}
