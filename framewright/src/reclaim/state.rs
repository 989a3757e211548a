//! The state of reclaim in the metadata of a memory. It exists if the embedder asked for it
//! ([`SideTables::lru`](crate::SideTables::lru)).

use crate::{
    core::{KeptFrames, MemoryCore},
    platform::Platform,
    sync::{AtomicBool, Ordering},
    types::{CpuId, Pfn, ZoneId},
};

use super::{
    batch::CpuBatch,
    flags::Flags,
    node::{LruZone, Node},
    page::Page,
};

/// The state of reclaim of a memory.
pub(crate) struct LruState<'m, P: Platform> {
    /// Indexed by node number. Nodes without memory are included.
    pub(crate) nodes: &'m [Node<'m, P>],
    pub(crate) zones: &'m [LruZone],
    /// Indexed by slot.
    pub(crate) flags: &'m [Flags],
    /// Indexed by CPU number.
    pub(crate) batches: &'m [CpuBatch<P>],
    /// Whether anonymous pages could be swapped out when the owner was last asked.
    pub(crate) swap: AtomicBool,
}

impl<'m, P: Platform> LruState<'m, P> {
    /// Whether anonymous pages could be swapped out when the owner was last asked.
    pub(super) fn can_swap(&self) -> bool {
        self.swap.load(Ordering::Relaxed)
    }

    pub(super) fn set_can_swap(&self, can: bool) {
        self.swap.store(can, Ordering::Relaxed);
    }

    /// Announces that a request on a CPU will take reclaimed frames.
    pub(crate) fn keep_reclaimed(&self, platform: &P, cpu: CpuId) {
        if let Some(batch) = self.batches.get(cpu.index()) {
            batch.with_kept(platform, KeptFrames::open);
        }
    }

    /// Returns the kept frames. The caller owns them as blocks of order 0.
    pub(crate) fn take_kept(&self, platform: &P, cpu: CpuId) -> KeptFrames {
        let batch = self.batches.get(cpu.index());
        batch.map_or_else(KeptFrames::new, |batch| batch.with_kept(platform, KeptFrames::close))
    }

    /// Keeps the first of `frames` for the CPU's request, as many as there is space for, if the
    /// request will take them. Returns the number of kept frames. The caller owned them as blocks
    /// of order 0.
    pub(super) fn keep(&self, platform: &P, cpu: CpuId, frames: &[Pfn]) -> usize {
        let batch = self.batches.get(cpu.index());
        batch.map_or(0, |batch| batch.with_kept(platform, |kept| kept.keep(frames)))
    }

    /// The page in a frame; `None` if the memory has no such frame.
    pub(super) fn page(&self, memory: &MemoryCore<'m, P>, pfn: Pfn) -> Option<Page<'_, 'm, P>> {
        let (zone, slot) = memory.find_slot(pfn)?;
        Some(self.page_of(zone.id(), slot))
    }

    /// The page in a slot of the per-frame tables.
    pub(super) fn page_at(&self, slot: u32) -> Page<'_, 'm, P> {
        self.page_of(self.zone_at(slot).id, slot)
    }

    #[inline(always)]
    pub(super) fn zone(&self, zone: ZoneId) -> &'m LruZone {
        &self.zones[zone.index()]
    }

    /// The zone of a slot of the per-frame tables.
    #[inline]
    pub(super) fn zone_at(&self, slot: u32) -> &'m LruZone {
        // The slots of zones are consecutive. There are few zones, and the first may have most
        // slots.
        let at = self.zones.iter().position(|zone| slot < zone.slots.end);
        &self.zones[at.unwrap_or(self.zones.len())]
    }

    /// The flags of the page in a slot, without its zone and node.
    #[inline(always)]
    pub(super) fn flags_at(&self, slot: u32) -> &Flags {
        &self.flags[slot as usize]
    }

    /// The page in a slot of the per-frame tables, which belongs to this zone.
    #[inline(always)]
    pub(super) fn page_of(&self, zone: ZoneId, slot: u32) -> Page<'_, 'm, P> {
        let zone = self.zone(zone);
        let node = &self.nodes[zone.node.index()];
        Page { slot, flags: self.flags_at(slot), zone, node }
    }

    /// The frame of a slot of the per-frame tables.
    pub(super) fn pfn_of(&self, slot: u32) -> Pfn {
        self.page_at(slot).pfn()
    }
}
