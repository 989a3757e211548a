//! Draining the lists of CPUs into the zones, from any CPU.
//!
//! The lists of a CPU belong to its owner, the holder of its token. A drainer announces itself,
//! issues a remote barrier to that CPU if the owner writes without fences of its own, and waits
//! until the owner is outside the lists (see [`crate::pcp`]).

#![allow(unsafe_code)]

use super::{CpuError, MemoryCore};
use crate::{
    buddy::{Bundle, Bundles, Refusals},
    observe::DrainReason,
    pcp::{CpuPages, DrainLog, Lists, ZoneOnCpu},
    platform::{BarrierTarget, OwnerLock, Platform},
    types::{CpuId, Order, Pfn, ZoneId},
};

/// The number of lists that one remote barrier serves.
const GROUP: usize = 64;

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

    /// Frees all blocks on the lists of all CPUs, and in the depots of the zones, to the buddy maps of
    /// the zones. One remote barrier serves 64 lists. Empty lists are skipped.
    pub(crate) fn drain_all(&self) {
        self.drain_where(&|_, pages| pages.held() > 0, DrainReason::Remote);
        (0..self.zones.len()).map(ZoneId::new).for_each(|zone| self.empty_depot(zone));
    }

    /// Trims the lists of all CPUs, and returns the surplus of the depots.
    pub(crate) fn trim_all(&self) {
        self.drain_where(&|_, pages| pages.stored() > 0, DrainReason::Trim);
        for zone in (0..self.zones.len()).map(ZoneId::new) {
            self.context(zone, CpuId::default()).trim_whole_depot();
        }
    }

    /// As [`MemoryCore::drain_all`], but for one zone, and without skipping empty lists: the call waits until each
    /// CPU's owner has been outside its lists once. So an owner that enters its lists later sees everything that was
    /// published before this call.
    pub(crate) fn drain_every_cpu(&self, of: ZoneId) {
        self.drain_where(&|zone, _| zone == of, DrainReason::Remote);
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

    /// Drains the lists for which `selects` returns `true`.
    fn drain_where(&self, selects: &dyn Fn(ZoneId, &CpuPages<'m, P>) -> bool, reason: DrainReason) {
        // A bit per list records that a drain was announced, so lists are drained in groups of 64.
        for first in (0..self.lists.len()).step_by(GROUP) {
            let group = first..self.lists.len().min(first + GROUP);
            let mut announced = 0u64;
            for i in group.filter(|&i| selects(self.owner_of(i).0, &self.lists[i])) {
                self.lists[i].announce(&self.platform);
                announced |= 1 << (i - first);
            }
            if announced != 0 {
                self.drain_announced(first, announced, BarrierTarget::All, reason);
            }
        }
    }

    /// Returns all blocks on the announced lists to their zones. Bit i of `announced` stands for
    /// list `first` + i. `target` covers the CPUs of these lists.
    fn drain_announced(
        &self,
        first: usize,
        mut announced: u64,
        target: BarrierTarget,
        reason: DrainReason,
    ) {
        loop {
            let skipped = self.drain_once(first, announced, target, reason);
            if P::TRACING {
                members(first, announced).for_each(|i| self.trace_log(i));
            }
            if skipped == 0 {
                return;
            }
            announced = skipped;
            members(first, announced).for_each(|i| self.lists[i].announce(&self.platform));
        }
    }

    /// As [`MemoryCore::drain_announced`], but emits no trace events. Skips lists with an earlier
    /// drain that is not traced yet, and returns their bits.
    fn drain_once(
        &self,
        first: usize,
        announced: u64,
        target: BarrierTarget,
        reason: DrainReason,
    ) -> u64 {
        self.barrier(target);
        let mut skipped = 0;
        // The first refusal and the number of refusals are reported after the last wait.
        let mut refused: Option<(ZoneOnCpu<'_, 'm, P>, Refusals)> = None;
        for i in members(first, announced) {
            let (zone, id) = self.owner_of(i);
            let cpu = self.context(zone, id);
            let drain = |lists: &mut Lists<'m>| {
                self.may_log(i).then(|| cpu.drain_inside(lists, reason, |batch| self.log(i, batch)))
            };
            // SAFETY: announced by the caller, and the barrier has reached the CPU since.
            match (unsafe { cpu.pages.as_drainer(&self.platform, drain) }, &mut refused) {
                (None, _) => skipped |= 1 << (i - first),
                (Some(some), Some((_, refusals))) => refusals.merge(some),
                // The report names the first refused frame, which is in this zone.
                (Some(some), None) => refused = (some.count > 0).then_some((cpu, some)),
            }
        }
        if let Some((cpu, refusals)) = refused {
            cpu.report(refusals);
        }
        skipped
    }

    /// Whether blocks that leave these lists may be logged: all blocks that left earlier have been traced. The caller
    /// is inside the lists.
    fn may_log(&self, lists: usize) -> bool {
        let is_empty = |log: &mut DrainLog<'_>| log.is_empty();
        !P::TRACING || self.drain_logs[lists].with(&self.platform, is_empty)
    }

    /// Logs blocks that leave these lists. The caller is inside the lists.
    fn log(&self, lists: usize, batch: &[Bundle]) {
        if P::TRACING {
            self.drain_logs[lists].with(&self.platform, |log| log.push(batch));
        }
    }

    /// Traces and removes the blocks in the log of these lists. Several drainers may do this at the
    /// same time.
    fn trace_log(&self, lists: usize) {
        let (zone, id) = self.owner_of(lists);
        let cpu = self.context(zone, id);
        loop {
            let mut batch = Bundles::new();
            self.drain_logs[lists].with(&self.platform, |log| log.take(&mut batch));
            if batch.is_empty() {
                return;
            }
            cpu.trace_drained(cpu.blocks_of(batch.as_slice()));
        }
    }

    /// The zone and CPU of the lists with this index.
    fn owner_of(&self, lists: usize) -> (ZoneId, CpuId) {
        let cpus = self.cpus.len().max(1);
        (ZoneId::new(lists / cpus), CpuId::new((lists % cpus) as u16))
    }

    /// Frees all blocks on the lists of a CPU for a zone to that zone.
    pub(super) fn drain_lists(&self, cpu: ZoneOnCpu<'_, 'm, P>, reason: DrainReason) {
        let lists = self.lists_index(cpu.zone.id(), cpu.id);
        cpu.pages.announce(&self.platform);
        self.drain_announced(lists, 1, BarrierTarget::Cpu(cpu.id), reason);
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

/// The lists `first` + i for every bit i of `mask`.
fn members(first: usize, mut mask: u64) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let bit = (mask != 0).then(|| mask.trailing_zeros())?;
        mask &= mask - 1;
        Some(first + bit as usize)
    })
}
