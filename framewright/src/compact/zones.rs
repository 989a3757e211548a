//! The zones of a memory, with the compaction state of each.

use super::ZoneCompaction;
use crate::{
    core::MemoryCore,
    observe::CompactStats,
    platform::Platform,
    types::{Order, Pfn, ZoneId},
};

/// The zones of a memory, and the compaction state of each.
pub(crate) struct CompactZones<'c, 'm, P: Platform> {
    pub(super) memory: &'c MemoryCore<'m, P>,
    /// The compaction states, by zone.
    states: &'m [ZoneCompaction<'m>],
}

impl<P: Platform> Clone for CompactZones<'_, '_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Platform> Copy for CompactZones<'_, '_, P> {}

impl<'c, 'm, P: Platform> CompactZones<'c, 'm, P> {
    pub(crate) fn new(memory: &'c MemoryCore<'m, P>, states: &'m [ZoneCompaction<'m>]) -> Self {
        Self { memory, states }
    }

    /// The compaction state of a zone that the memory has.
    pub(super) fn state(&self, zone: ZoneId) -> &'m ZoneCompaction<'m> {
        &self.states[zone.index()]
    }

    /// The compaction state of a zone; `None` if there is no such zone.
    pub(super) fn find(&self, zone: ZoneId) -> Option<&'m ZoneCompaction<'m>> {
        self.states.get(zone.index())
    }

    /// Records that a request has got the block of `order` at `pfn` after compaction. Ends the
    /// deferral of this order in the zone of the block.
    pub(crate) fn helped(&self, pfn: Pfn, order: Order) {
        let Some((zone, _)) = self.memory.find(pfn, order) else { return };
        let hints = self.state(zone);
        hints.deferral.reset(order);
        #[cfg(feature = "compare")]
        hints.scan.keep_hints();
    }

    /// Compaction counters of one zone; all 0 if there is no such zone.
    pub(crate) fn zone_stats(&self, zone: ZoneId) -> CompactStats {
        self.find(zone).map_or(CompactStats::default(), |zone| zone.counters.read())
    }

    /// Compaction counters, summed over all zones.
    pub(crate) fn stats(&self) -> CompactStats {
        let mut sum = CompactStats::default();
        self.states.iter().for_each(|zone| sum += zone.counters.read());
        sum
    }
}
