//! The compaction state of a memory: compactors, counters, fragmentation.

#![allow(unsafe_code)]

use super::Memory;
use crate::{
    compact::{CompactZones, Compactor, PageblockView, Workspace},
    migrate::Mover,
    observe::CompactStats,
    platform::Platform,
    tlb::Shootdown,
    types::{CpuId, NodeId, Order, ZoneId, ZoneKind},
};

impl<'m, P: Platform> Memory<'m, P> {
    /// A compactor for `cpu`: `mover` moves the embedder's pages, and `shootdown` flushes the TLBs
    /// of other CPUs.
    ///
    /// # Panics
    ///
    /// If the memory does not have the CPU.
    ///
    /// # Safety
    ///
    /// `mover` fulfils the contract of [`Mover`] for this memory: it claims only blocks of this
    /// memory. `shootdown` fulfils the contract of [`Memory::flusher`] for the translations that
    /// `mover` removes.
    #[must_use]
    pub unsafe fn compactor<'c>(
        &'c self,
        cpu: CpuId,
        mover: &'c dyn Mover<P>,
        shootdown: &'c dyn Shootdown,
        work: Workspace<'c>,
    ) -> Compactor<'c, 'm, P> {
        let (zones, lru) = (self.compact_zones(), self.lru.as_ref());
        // SAFETY: both states belong to this memory; the caller fulfils the rest of the contract.
        unsafe { Compactor::of(zones, &self.tlb, lru, cpu, mover, shootdown, work) }
    }

    /// Compaction counters of one zone; all 0 if there is no such zone.
    #[must_use]
    pub fn zone_compact_stats(&self, zone: ZoneId) -> CompactStats {
        self.compact_zones().zone_stats(zone)
    }

    /// Compaction counters, summed over all zones.
    #[must_use]
    pub fn compact_stats(&self) -> CompactStats {
        self.compact_zones().stats()
    }

    /// Whether a zone of the node has fewer free pageblocks than its huge-page reserve requires,
    /// and enough free frames to form more. [`Compactor::background`] forms them, also when called
    /// for order 0. To be called between the steps of background reclaim. After attempts without
    /// success, the result is `false` for a while.
    #[must_use]
    pub fn can_fill_huge_reserve(&self, node: NodeId) -> bool {
        self.compact_zones().can_fill_huge_reserve(node)
    }

    /// Whether background compaction of a node should be woken for blocks of `order` in zones up to
    /// `highest`: some zone has enough free frames to form one, or needs pageblocks for its
    /// huge-page reserve. To be called on `cpu` before it wakes the thread that calls
    /// [`Compactor::background`].
    #[must_use]
    pub fn wakes_compaction(
        &self,
        cpu: CpuId,
        node: NodeId,
        order: Order,
        highest: ZoneKind,
    ) -> bool {
        self.compact_zones().wakes_compaction(cpu, node, order, highest)
    }

    /// Fragmentation of a node in percent: the share of its free memory in blocks smaller than a
    /// pageblock, averaged over the zones, weighted by their size. Computed from counts, without a
    /// walk over free memory.
    #[must_use]
    pub fn fragmentation_score(&self, node: NodeId) -> u64 {
        self.compact_zones().fragmentation_score(node)
    }

    /// The present pageblocks of a zone in ascending order; none if there is no such zone. Takes
    /// the zone lock once per pageblock.
    pub fn pageblocks(&self, zone: ZoneId) -> impl Iterator<Item = PageblockView> {
        self.compact_zones().pageblocks(zone)
    }

    /// The positions of the scanners of a zone; `None` if there is no such zone.
    #[cfg(feature = "compare")]
    #[must_use]
    pub fn scanners(&self, zone: ZoneId) -> Option<crate::compact::ScannersView> {
        self.compact_zones().scanners(zone)
    }

    pub(super) fn compact_zones(&self) -> CompactZones<'_, 'm, P> {
        CompactZones::new(&self.core, self.compaction)
    }
}
