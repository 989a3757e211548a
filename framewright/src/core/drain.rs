//! Draining the lists of CPUs into the zones, from any CPU.
//!
//! The lists belong to their CPU's owner. A drainer announces itself, issues a remote barrier to
//! that CPU if the owner writes without fences of its own, and waits until the owner is outside the
//! lists (see [`crate::pcp`]).

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
    /// Frees all blocks on the lists of one CPU to the zones, from any CPU.
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

    /// Frees all blocks on the lists of all CPUs, and in the depots between them, to the buddy maps
    /// of the zones. One remote barrier serves 64 lists. Empty lists are skipped.
    pub(crate) fn drain_all(&self) {
        self.drain_where(&|_, pages| pages.held() > 0);
        (0..self.zones.len()).map(ZoneId::new).for_each(|zone| self.empty_depot(zone));
    }

    /// As [`MemoryCore::drain_all`], but for one zone, and without skipping empty lists: the call
    /// waits until each CPU's owner has been outside its lists once. So an owner that enters its
    /// lists later sees everything that was published before this call.
    pub(crate) fn drain_every_cpu(&self, of: ZoneId) {
        self.drain_where(&|zone, _| zone == of);
        self.empty_depot(of);
    }

    /// Frees all blocks in the depot of a zone to its buddy maps.
    fn empty_depot(&self, zone: ZoneId) {
        self.context(zone, CpuId::default()).empty_depot();
    }

    /// Frees single frames to their zones on behalf of `cpu`, bypassing its lists and without trace
    /// events. One hold of a zone's lock serves many frames. The caller owns the frames as blocks
    /// of order 0.
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
            // Events are traced while no CPU waits for this one, so the lists are drained one after
            // the other.
            for i in (0..self.lists.len()).filter(|&i| disturb(self.owner_of(i).0, &self.lists[i]))
            {
                let (zone, id) = self.owner_of(i);
                self.drain_lists(self.context(zone, id), DrainReason::Remote);
            }
            return;
        }
        // A group has 64 lists: one bit of a word for each list that this drainer has announced
        // itself to.
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
            // The first refusal is reported, with the number of refusals, when no CPU waits for
            // this one any more.
            let mut refused: Option<(ZoneOnCpu<'_, 'm, P>, Refusals)> = None;
            for i in group.filter(|i| announced >> (i - first) & 1 == 1) {
                let (zone, id) = self.owner_of(i);
                let cpu = self.context(zone, id);
                let drain = |lists: &mut Lists<'m>| cpu.drain_inside(lists, DrainReason::Remote);
                // SAFETY: the drainer announced itself above, and the barrier has reached every CPU
                // since.
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

    /// The zone and CPU of the lists with this index.
    fn owner_of(&self, lists: usize) -> (ZoneId, CpuId) {
        let cpus = self.cpus.len().max(1);
        (ZoneId::new(lists / cpus), CpuId::new((lists % cpus) as u16))
    }

    /// Frees all blocks on the lists of a CPU for a zone to that zone.
    pub(super) fn drain_lists(&self, cpu: ZoneOnCpu<'_, 'm, P>, reason: DrainReason) {
        // With traced events, one visit drains one batch. A busy owner may add blocks meanwhile, so
        // the number of frames at the start bounds the number of visits.
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
        // SAFETY: the drainer has announced itself, and the barrier has reached the CPU since.
        unsafe { cpu.pages.as_drainer(&self.platform, f) }
    }

    fn barrier(&self, target: BarrierTarget) {
        if self.owner_lock == OwnerLock::Biased {
            self.platform.remote_barrier(target);
        }
    }
}
