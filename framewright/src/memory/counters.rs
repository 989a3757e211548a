//! Counters of CPUs and zones, and the contents of CPU lists.

use super::Memory;
use crate::{
    core::CpuError,
    observe::{CpuStats, text::zoneinfo::Pageset},
    pcp::{Sizing, ZoneOnCpu},
    platform::Platform,
    types::{CpuId, ZoneId},
};

impl<'m, P: Platform> Memory<'m, P> {
    /// Counters of one CPU, over all zones.
    ///
    /// # Errors
    ///
    /// The CPU does not exist.
    pub fn cpu_stats(&self, id: CpuId) -> Result<CpuStats, CpuError> {
        self.core.state(id)?;
        let mut sum = CpuStats::default();
        for cpu in self.core.contexts(id) {
            sum += self.stats_of(cpu);
        }
        Ok(sum)
    }

    /// Counters summed over all CPUs and zones.
    #[must_use]
    pub fn stats(&self) -> CpuStats {
        self.sum_stats((0..self.core.zones().len()).map(ZoneId::new))
    }

    /// Counters of one zone, summed over all CPUs; all 0 if there is no such zone.
    #[must_use]
    pub fn zone_stats(&self, zone: ZoneId) -> CpuStats {
        self.sum_stats([zone].into_iter().filter(|zone| zone.index() < self.core.zones().len()))
    }

    fn sum_stats(&self, zones: impl Iterator<Item = ZoneId>) -> CpuStats {
        let mut sum = CpuStats::default();
        for zone in zones {
            for id in 0..self.cpu_count() {
                sum += self.stats_of(self.core.context(zone, CpuId::new(id)));
            }
        }
        // Frames that the zone refused were not freed. Only the sum can be corrected, because a
        // frame may be freed on one CPU and refused on another.
        sum.pgfree = sum.pgfree.saturating_sub(sum.refused_frames);
        sum
    }

    /// Counters of a CPU's lists for a zone, with the counters that depend on whether both are on
    /// the same node.
    fn stats_of(&self, cpu: ZoneOnCpu<'_, 'm, P>) -> CpuStats {
        let mut stats = cpu.pages.stats();
        let served = stats.list_hits + stats.list_misses + stats.zone_allocs;
        stats.numa_hit = served.saturating_sub(stats.numa_miss);
        let near = cpu.zone.node() == self.node_of(cpu.id);
        (stats.numa_local, stats.numa_other) = if near { (served, 0) } else { (0, served) };
        stats
    }

    /// Free frames on the lists and in the quarantines of all CPUs, without those in the depots of
    /// zones ([`Memory::in_depots`]); possibly stale.
    #[must_use]
    pub fn held_by_cpus(&self) -> u64 {
        self.core.held_by_cpus()
    }

    /// The lists of all CPUs for a zone, as `/proc/zoneinfo` shows them; none if there is no such
    /// zone.
    pub fn pagesets(&self, zone: ZoneId) -> impl Iterator<Item = Pageset> {
        let exists = zone.index() < self.core.zones().len();
        let cpus = (0..self.cpu_count()).filter(move |_| exists);
        cpus.map(move |id| {
            let online = self.core.is_online(CpuId::new(id));
            let sizing = if online { self.core.sizing(zone) } else { Sizing::disabled() };
            let pages = self.core.lists_of(zone, CpuId::new(id));
            Pageset {
                cpu: id.into(),
                count: pages.held(),
                high: pages.high(),
                batch: sizing.batch().into(),
                bounds: Some(sizing.bounds()),
                // The statistics of a zone are exact: no CPU accumulates differences before it adds
                // them.
                threshold: Some(0),
            }
        })
    }
}
