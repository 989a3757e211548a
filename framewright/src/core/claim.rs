//! The claim of a CPU: the ownership of its lists, in every zone.
//!
//! There is at most one claim per CPU ([`CpuState`](super::CpuState)). Only a claim can
//! create the values that enter lists as their owner: [`Owned`] on the hot path, [`OwnedZoneOnCpu`]
//! elsewhere. Such a value borrows the claim exclusively. So safe code can neither enter the lists
//! of a CPU that it has not claimed, nor enter lists twice. A remote drainer needs no claim: it
//! uses the owner protocol (`super::drain`).

#![allow(unsafe_code)]

use core::marker::PhantomData;

use super::{CpuError, LocalZone, MemoryCore};
use crate::{
    observe::DrainReason,
    pcp::{Owned, OwnedZoneOnCpu},
    platform::{Platform, or_on_panic},
    tuning::Hardening,
    types::{CpuId, Event, FirstZone, Order, Pfn, Request, ZoneId},
};

/// A CPU that the caller has claimed. Dropping the value releases the CPU.
pub(crate) struct Claim<'a, 'm, P: Platform> {
    memory: &'a MemoryCore<'m, P>,
    /// The zone that requests try first if they may use zones of any kind.
    local: LocalZone<'m, P>,
    /// The zone that requests for at most [`ZoneKind::Normal`](crate::ZoneKind::Normal) try first;
    /// `None` if there is no such zone.
    normal: Option<LocalZone<'m, P>>,
    /// The memory's generation when these zones were looked up.
    generation: u32,
    id: CpuId,
    /// Not `Send`: an operation that has begun on a CPU ends on the same thread.
    not_send: PhantomData<*const ()>,
}

impl<'m, P: Platform> MemoryCore<'m, P> {
    /// Claims a CPU until the claim is dropped.
    ///
    /// # Errors
    ///
    /// The CPU does not exist, is offline, or has an owner.
    pub(crate) fn claim(&self, id: CpuId) -> Result<Claim<'_, 'm, P>, CpuError> {
        self.state(id)?.claim_online(id)?;
        let generation = self.generation();
        let (local, normal) = self.local_zones(id);
        Ok(Claim { memory: self, local, normal, generation, id, not_send: PhantomData })
    }
}

impl<'a, 'm, P: Platform> Claim<'a, 'm, P> {
    pub(crate) fn cpu(&self) -> CpuId {
        self.id
    }

    #[inline(always)]
    pub(crate) fn memory(&self) -> &'a MemoryCore<'m, P> {
        self.memory
    }

    /// The zone that requests try first if they may use zones of any kind.
    #[inline(always)]
    pub(crate) fn local_zone(&self) -> &LocalZone<'m, P> {
        &self.local
    }

    /// The zone of [`Claim::local_zone`], and access to the CPU's lists for it.
    #[inline(always)]
    pub(crate) fn local_lists(&mut self) -> (&LocalZone<'m, P>, Owned<'_, 'm, P>) {
        // SAFETY: the lists belong to the claimed CPU, and the claim is borrowed exclusively for as
        // long as the value lives. Acquiring the claim orders this use after that of the previous
        // owner.
        (&self.local, unsafe { self.local.pages.owned() })
    }

    /// The zone that requests for at most [`ZoneKind::Normal`](crate::ZoneKind::Normal) try first,
    /// and access to the CPU's lists for it; `None` if it is the local zone.
    pub(crate) fn normal_lists(&mut self) -> Option<(&LocalZone<'m, P>, Owned<'_, 'm, P>)> {
        let normal = self.normal.as_ref().filter(|normal| normal.id != self.local.id)?;
        // SAFETY: as in `local_lists`.
        Some((normal, unsafe { normal.pages.owned() }))
    }

    /// The zone of [`Claim::first`], and access to the CPU's lists for it.
    #[inline(always)]
    pub(crate) fn first_lists(
        &mut self,
        request: Request,
    ) -> Option<(&LocalZone<'m, P>, Owned<'_, 'm, P>)> {
        let local = self.first(request)?;
        // SAFETY: as in `local_lists`.
        Some((local, unsafe { local.pages.owned() }))
    }

    /// The zone that the request tries first, if the claim has looked it up.
    #[inline(always)]
    pub(crate) fn first(&self, request: Request) -> Option<&LocalZone<'m, P>> {
        let local = match request.first_zone() {
            FirstZone::OfAny => Some(&self.local),
            FirstZone::OfNormal => self.normal.as_ref(),
            FirstZone::Elsewhere => None,
        };
        // The nearest zone is on another node if the CPU's own node has no suitable zone.
        local.filter(|local| local.near || !request.stays_on_node())
    }

    /// Repeats the lookup of the first zones if memory was added or removed since the last one.
    pub(crate) fn refresh(&mut self) {
        let generation = self.memory.generation();
        if generation != self.generation {
            (self.local, self.normal) = self.memory.local_zones(self.id);
            self.generation = generation;
        }
    }

    /// A zone, and access to the CPU's lists for it.
    pub(crate) fn zone(&mut self, id: ZoneId) -> OwnedZoneOnCpu<'_, 'm, P> {
        // SAFETY: as in `local_lists`.
        unsafe { OwnedZoneOnCpu::new(self.memory.context(id, self.id)) }
    }

    /// Frees all blocks on the CPU's lists to the zones.
    pub(crate) fn drain(&mut self) {
        for zone in (0..self.memory.zones.len()).map(ZoneId::new) {
            self.zone(zone).drain(DrainReason::Local);
        }
    }

    /// Trims the CPU's lists.
    pub(crate) fn trim(&mut self) {
        for zone in (0..self.memory.zones.len()).map(ZoneId::new) {
            self.zone(zone).trim();
        }
    }

    /// Frees the frames in the CPU's quarantine, if hardening has one.
    pub(crate) fn end_quarantine(&mut self) {
        if self.memory.tuning.hardening == Hardening::Paranoid {
            for zone in (0..self.memory.zones.len()).map(ZoneId::new) {
                let mut at = self.zone(zone);
                if at.pages.held() > 0 {
                    at.drain(DrainReason::Local);
                }
            }
        }
    }

    /// Frees single frames to the CPU's lists. The caller owns them as blocks of order 0.
    pub(crate) fn free_frames(&mut self, frames: &[Pfn]) {
        for (at, &pfn) in frames.iter().enumerate() {
            if P::TRACING {
                let event = Event::PageFree { pfn, order: Order::ZERO };
                let trace = || self.memory.platform.trace(self.id, &event);
                or_on_panic(trace, || self.memory.give_frames_to_zones(self.id, &frames[at..]));
            }
            if let Some((zone, frame)) = self.memory.find(pfn, Order::ZERO) {
                // The callee reports a refusal.
                self.zone(zone).free(frame, Order::ZERO);
            }
        }
    }
}

impl<P: Platform> Drop for Claim<'_, '_, P> {
    fn drop(&mut self) {
        self.memory.cpus[self.id.index()].unclaim();
    }
}
