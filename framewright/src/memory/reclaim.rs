//! The reclaim state of a memory, and the slow path's access to it.

#![allow(unsafe_code)]

use super::Memory;
use crate::{
    core::{KeptFrames, SlowPathState},
    platform::Platform,
    reclaim::{Lru, PageOwner, Reclaim},
    tlb::Shootdown,
    types::{CpuId, Order, Pfn, ZoneId},
};

impl<'m, P: Platform> Memory<'m, P> {
    /// The LRU lists; `None` if the memory was created without them
    /// ([`SideTables::lru`](crate::SideTables::lru)).
    #[must_use]
    pub fn lru(&self) -> Option<Lru<'_, 'm, P>> {
        self.lru.as_ref().map(|state| Lru::new(&self.core, state))
    }
}

impl<'a, 'm, P: Platform> Reclaim<'a, 'm, P> {
    /// A view of the reclaim state of a memory; `None` if the memory was created without LRU lists
    /// ([`SideTables::lru`](crate::SideTables::lru)).
    ///
    /// # Safety
    ///
    /// `owner` fulfils the contract of [`PageOwner`] for this memory: each frame that it releases
    /// is a block of this memory. `shootdown` fulfils the contract of [`Memory::flusher`] for the
    /// translations that `owner` removes.
    #[must_use]
    pub unsafe fn new(
        memory: &'a Memory<'m, P>,
        owner: &'a dyn PageOwner<P>,
        shootdown: &'a dyn Shootdown,
    ) -> Option<Self> {
        let state = memory.lru.as_ref()?;
        // SAFETY: both states belong to this memory; the caller fulfils the rest of the contract.
        Some(unsafe { Self::of(&memory.core, &memory.tlb, state, owner, shootdown) })
    }
}

impl<P: Platform> SlowPathState for Memory<'_, P> {
    fn keep_reclaimed(&self, cpu: CpuId) {
        if let Some(lru) = &self.lru {
            lru.keep_reclaimed(self.platform(), cpu);
        }
    }

    fn take_kept(&self, cpu: CpuId) -> KeptFrames {
        let lru = self.lru.as_ref();
        lru.map_or_else(KeptFrames::new, |lru| lru.take_kept(self.platform(), cpu))
    }

    fn compaction_helped(&self, pfn: Pfn, order: Order) {
        self.compact_zones().helped(pfn, order);
    }

    fn huge_reserve_is_deferred(&self, zone: ZoneId) -> bool {
        self.compact_zones().huge_reserve_is_deferred(zone)
    }
}
