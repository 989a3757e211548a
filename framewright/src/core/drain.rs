//! Returning what is on the lists of CPUs to the zones, from any CPU.
//!
//! The lists belong to their CPU's owner. A drainer announces itself, has a remote barrier reach
//! that CPU where the owner writes without fences of its own, and waits until the owner is
//! outside (see [`crate::pcp`]).

#![allow(unsafe_code)]

use super::{CpuError, MemoryCore};
use crate::{
    buddy::{Bundles, Refusals},
    observe::DrainReason,
    pcp::{CpuPages, Lists, ZoneOnCpu},
    platform::{BarrierTarget, OwnerLock, Platform},
    types::{CpuId, Order, Pfn, ZoneId},
};

impl<'m, P: Platform> MemoryCore<'m, P> {
    /// Gives everything on the lists of one CPU back to the zones, from any CPU.
    ///
    /// # Errors
    ///
    /// The CPU does not exist.
    pub(crate) fn drain_cpu(&self, id: CpuId) -> Result<(), CpuError> {
        self.state(id)?;
        for cpu in self.contexts(id).filter(|cpu| cpu.pages.held() > 0) {
            self.drain_lists(cpu, DrainReason::Remote);
        }
        Ok(())
    }

    /// Gives everything on the lists of all CPUs, and in the depots between them, back to the maps
    /// of the zones. One remote barrier serves 64 lists; those that hold nothing are not disturbed.
    pub(crate) fn drain_all(&self) {
        self.drain_where(&|_, pages| pages.held() > 0);
        (0..self.zones.len()).map(ZoneId::new).for_each(|zone| self.empty_depot(zone));
    }

    /// As [`MemoryCore::drain_all`], but of one zone, and waits for every CPU's owner to be outside
    /// once, whether it holds anything or not: every owner that enters later sees
    /// what was published before.
    pub(crate) fn drain_every_cpu(&self, of: ZoneId) {
        self.drain_where(&|zone, _| zone == of);
        self.empty_depot(of);
    }

    /// Gives back what lies in the depot of a zone.
    fn empty_depot(&self, zone: ZoneId) {
        self.context(zone, CpuId::default()).empty_depot();
    }

    /// Gives single frames to their zones, many per hold of a zone's lock, on behalf of `cpu`, bypassing its
    /// lists and without a trace. The caller owns the frames as blocks.
    pub(crate) fn give_frames_to_zones(&self, cpu: CpuId, frames: &[Pfn]) {
        for chunk in frames.chunks(Bundles::CAPACITY) {
            for at in self.contexts(cpu) {
                let in_zone = chunk.iter().filter_map(|&pfn| at.zone.locate(pfn, Order::ZERO));
                at.free_frames_to_zone(in_zone);
            }
        }
    }

    /// Frames on the lists of all CPUs, in quarantine included; possibly stale.
    pub(crate) fn held_by_cpus(&self) -> u64 {
        self.lists.iter().map(CpuPages::held).sum()
    }

    /// Frames of a zone on the lists of all CPUs, possibly stale.
    pub(crate) fn held_of(&self, zone: ZoneId) -> u64 {
        let cpus = self.cpus.len();
        self.lists[zone.index() * cpus..][..cpus].iter().map(CpuPages::held).sum()
    }

    fn drain_where(&self, disturb: &dyn Fn(ZoneId, &CpuPages<'m, P>) -> bool) {
        if P::TRACING {
            // Events are due while no CPU waits for us: one list after the other.
            for i in (0..self.lists.len()).filter(|&i| disturb(self.owner_of(i).0, &self.lists[i]))
            {
                let (zone, id) = self.owner_of(i);
                self.drain_lists(self.context(zone, id), DrainReason::Remote);
            }
            return;
        }
        // Which lists were announced is remembered in a bit each; they go in groups.
        for first in (0..self.lists.len()).step_by(64) {
            let group = first..self.lists.len().min(first + 64);
            let mut announced = 0u64;
            for i in group.clone().filter(|&i| disturb(self.owner_of(i).0, &self.lists[i])) {
                self.lists[i].announce(&self.platform);
                announced |= 1 << (i - first);
            }
            if announced == 0 {
                continue;
            }
            self.barrier(BarrierTarget::All);
            // The first refusal is reported, with how many there were, once nobody is waited for.
            let mut refused: Option<(ZoneOnCpu<'_, 'm, P>, Refusals)> = None;
            for i in group.filter(|i| announced >> (i - first) & 1 == 1) {
                let (zone, id) = self.owner_of(i);
                let cpu = self.context(zone, id);
                let drain = |lists: &mut Lists<'m>| cpu.drain_inside(lists, DrainReason::Remote);
                // SAFETY: announced above, and the barrier has reached every CPU since.
                let drained = unsafe { cpu.pages.as_drainer(&self.platform, drain) };
                match &mut refused {
                    Some((_, refusals)) => refusals.merge(drained.refusals),
                    None => refused = Some((cpu, drained.refusals)),
                }
            }
            if let Some((cpu, refusals)) = refused {
                cpu.report(refusals);
            }
        }
    }

    /// The zone and CPU that lists belong to.
    fn owner_of(&self, lists: usize) -> (ZoneId, CpuId) {
        let cpus = self.cpus.len().max(1);
        (ZoneId::new(lists / cpus), CpuId::new((lists % cpus) as u16))
    }

    /// Gives everything on the lists of a CPU for a zone back to it.
    pub(super) fn drain_lists(&self, cpu: ZoneOnCpu<'_, 'm, P>, reason: DrainReason) {
        // Where events are traced it takes a visit per batch. A busy owner may bring more
        // meanwhile: what was there at the start bounds the visits.
        for _ in 0..=cpu.pages.held() {
            let drained = self.with_lists(cpu, |lists| cpu.drain_inside(lists, reason));
            if !cpu.after_drain(&drained) {
                return;
            }
        }
    }

    /// Runs `f` on the lists of a CPU as a remote drainer.
    pub(super) fn with_lists<R>(
        &self,
        cpu: ZoneOnCpu<'_, 'm, P>,
        f: impl FnOnce(&mut Lists<'m>) -> R,
    ) -> R {
        cpu.pages.announce(&self.platform);
        self.barrier(BarrierTarget::Cpu(cpu.id));
        // SAFETY: announced, and the barrier has reached the CPU since.
        unsafe { cpu.pages.as_drainer(&self.platform, f) }
    }

    fn barrier(&self, target: BarrierTarget) {
        if self.owner_lock == OwnerLock::Biased {
            self.platform.remote_barrier(target);
        }
    }
}
