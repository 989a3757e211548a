//! What reclaim keeps in the metadata of a memory: there if the embedder asked for it
//! ([`Planes::lru`](crate::Planes::lru)).

use crate::{
    frame::Pfn,
    memory::Memory,
    platform::Platform,
    sync::{AtomicBool, Ordering},
    zone::ZoneId,
};

use super::{
    batch::CpuBatch,
    flags::Flags,
    node::{LruZone, Node},
    page::Page,
};

/// See the module.
pub(crate) struct LruState<'m, P: Platform> {
    /// Reclaimer number, those without memory included.
    pub(crate) nodes: &'m [Node<'m, P>],
    pub(crate) zones: &'m [LruZone],
    /// One per slot of the planes.
    pub(crate) flags: &'m [Flags],
    /// One per CPU.
    pub(crate) batches: &'m [CpuBatch<P>],
    /// Whether anonymous pages could go somewhere when that was asked last.
    pub(crate) swap: AtomicBool,
}

impl<'m, P: Platform> LruState<'m, P> {
    /// Whether anonymous pages can be reclaimed, as was known last.
    pub(super) fn can_swap(&self) -> bool {
        self.swap.load(Ordering::Relaxed)
    }

    pub(super) fn set_can_swap(&self, can: bool) {
        self.swap.store(can, Ordering::Relaxed);
    }

    /// The page in a frame; `None` if the memory has no such frame.
    pub(super) fn page(&self, memory: &Memory<'m, P>, pfn: Pfn) -> Option<Page<'_, 'm, P>> {
        let (zone, slot) = memory.find_slot(pfn)?;
        Some(self.page_of(zone.id(), slot))
    }

    /// The page in a slot of the planes.
    pub(super) fn page_at(&self, slot: u32) -> Page<'_, 'm, P> {
        self.page_of(self.zone_at(slot).id, slot)
    }

    #[inline(always)]
    pub(super) fn zone(&self, zone: ZoneId) -> &'m LruZone {
        &self.zones[zone.index()]
    }

    /// The zone of a slot of the planes.
    #[inline]
    pub(super) fn zone_at(&self, slot: u32) -> &'m LruZone {
        // Zones lie in the planes one after the other. Few they are, and the first may have most.
        let at = self.zones.iter().position(|zone| slot < zone.slots.end);
        &self.zones[at.unwrap_or(self.zones.len())]
    }

    /// What is known of the page in a slot of the planes, for who need not know where it is.
    #[inline(always)]
    pub(super) fn flags_at(&self, slot: u32) -> &Flags {
        &self.flags[slot as usize]
    }

    /// The page in a slot of the planes, which is of this zone.
    #[inline(always)]
    pub(super) fn page_of(&self, zone: ZoneId, slot: u32) -> Page<'_, 'm, P> {
        let zone = self.zone(zone);
        let node = &self.nodes[zone.node.index()];
        Page { slot, flags: self.flags_at(slot), zone, node }
    }

    /// The frame of a slot of the planes.
    pub(super) fn pfn_of(&self, slot: u32) -> Pfn {
        self.page_at(slot).pfn()
    }
}
