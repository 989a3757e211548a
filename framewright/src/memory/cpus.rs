//! CPUs of a memory: claiming, draining, on- and offline.

#![allow(unsafe_code)]

use core::fmt;

use super::Memory;
use crate::{
    alloc::CpuToken,
    buddy::Refusals,
    observe::{CpuStats, DrainReason},
    pcp::{Cpu, CpuPages, Lists, Sizing},
    platform::{BarrierTarget, CpuId, OwnerLock, Platform},
    zone::Watermark,
};

/// Why a CPU cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CpuError {
    /// The memory was made for fewer CPUs.
    NoSuchCpu(CpuId),
    /// Somebody holds its token.
    InUse(CpuId),
    /// It is offline.
    Offline(CpuId),
}

impl fmt::Display for CpuError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CpuError::NoSuchCpu(cpu) => write!(f, "this memory has no CPU {}", cpu.get()),
            CpuError::InUse(cpu) => write!(f, "CPU {} has an owner already", cpu.get()),
            CpuError::Offline(cpu) => write!(f, "CPU {} is offline", cpu.get()),
        }
    }
}

impl core::error::Error for CpuError {}

impl<'m, P: Platform> Memory<'m, P> {
    /// Claims a CPU for the calling thread until the token is dropped.
    ///
    /// # Errors
    ///
    /// The CPU does not exist, is offline, or has an owner.
    pub fn cpu(&self, id: CpuId) -> Result<CpuToken<'_, 'm, P>, CpuError> {
        let pages = self.pages(id)?;
        if !pages.claim() {
            return Err(CpuError::InUse(id));
        }
        if !pages.is_online() {
            pages.unclaim();
            return Err(CpuError::Offline(id));
        }
        Ok(CpuToken::new(self, pages, id))
    }

    /// Number of CPUs the memory was made for.
    #[must_use]
    pub fn cpu_count(&self) -> u16 {
        self.cpus.len() as u16
    }

    /// Gives everything on the lists of one CPU back to the zone, from any CPU.
    ///
    /// # Errors
    ///
    /// The CPU does not exist.
    pub fn drain_cpu(&self, id: CpuId) -> Result<(), CpuError> {
        let pages = self.pages(id)?;
        if pages.held() > 0 {
            self.drain_lists(pages, id, DrainReason::Remote);
        }
        Ok(())
    }

    /// Gives everything on the lists of all CPUs back to the zone. One remote barrier serves
    /// all of them; CPUs that hold nothing are not disturbed.
    pub fn drain_all(&self) {
        self.drain_where(|pages| pages.held() > 0);
    }

    /// As [`Memory::drain_all`], but waits for every CPU's owner to be outside once, whether it
    /// holds anything or not: what was published before is seen by all who enter later.
    pub(super) fn drain_every_cpu(&self) {
        self.drain_where(|_| true);
    }

    fn drain_where(&self, disturb: impl Fn(&CpuPages<'m>) -> bool) {
        if P::TRACING {
            // Events are due while no CPU waits for us: one CPU after the other.
            for (i, pages) in self.cpus.iter().enumerate().filter(|(_, pages)| disturb(pages)) {
                self.drain_lists(pages, CpuId::new(i as u16), DrainReason::Remote);
            }
            return;
        }
        // Which CPUs were announced is remembered in a bit each; larger machines go in groups.
        for (group, cpus) in self.cpus.chunks(64).enumerate() {
            let mut announced = 0u64;
            for (i, pages) in cpus.iter().enumerate().filter(|(_, pages)| disturb(pages)) {
                pages.announce(&self.platform);
                announced |= 1 << i;
            }
            if announced == 0 {
                continue;
            }
            self.barrier(BarrierTarget::All);
            let mut refusals = Refusals::default();
            for (i, pages) in cpus.iter().enumerate().filter(|(i, _)| announced >> i & 1 == 1) {
                let id = CpuId::new((group * 64 + i) as u16);
                let cpu = self.context(pages, id);
                let drain = |lists: &mut Lists<'m>| cpu.drain_inside(lists, DrainReason::Remote);
                // SAFETY: announced above, and the barrier has reached every CPU since.
                let drained = unsafe { pages.as_drainer(&self.platform, drain) };
                refusals.merge(drained.refusals);
            }
            self.account(CpuId::new(0)).report(refusals);
        }
    }

    /// Takes a CPU offline: its lists are drained and stay empty, and the others may hold more.
    ///
    /// # Errors
    ///
    /// The CPU does not exist, or somebody holds its token.
    pub fn cpu_offline(&self, id: CpuId) -> Result<(), CpuError> {
        let pages = self.pages(id)?;
        if !pages.claim() {
            return Err(CpuError::InUse(id));
        }
        pages.set_online(false);
        self.with_lists(pages, BarrierTarget::Cpu(id), |lists| {
            lists.resize(pages, Sizing::disabled());
        });
        self.drain_lists(pages, id, DrainReason::Offline);
        pages.unclaim();
        self.resize_lists();
        Ok(())
    }

    /// Brings a CPU back.
    ///
    /// # Errors
    ///
    /// The CPU does not exist.
    pub fn cpu_online(&self, id: CpuId) -> Result<(), CpuError> {
        self.pages(id)?.set_online(true);
        self.resize_lists();
        Ok(())
    }

    /// Counters of one CPU.
    ///
    /// # Errors
    ///
    /// The CPU does not exist.
    pub fn cpu_stats(&self, id: CpuId) -> Result<CpuStats, CpuError> {
        Ok(self.pages(id)?.stats())
    }

    /// Counters summed over all CPUs.
    #[must_use]
    pub fn stats(&self) -> CpuStats {
        let mut sum = CpuStats::default();
        for pages in self.cpus {
            sum += pages.stats();
        }
        // What the zone refused was not freed after all. Only the sum can be put right: a
        // frame may be refused to another CPU than the one it was freed on.
        sum.pgfree = sum.pgfree.saturating_sub(sum.refused_frames);
        sum
    }

    /// Frames on the lists of all CPUs, possibly stale.
    #[must_use]
    pub fn held_by_cpus(&self) -> u64 {
        self.cpus.iter().map(CpuPages::held).sum()
    }

    /// A CPU to count under, for operations that belong to none.
    pub(crate) fn account(&self, id: CpuId) -> Cpu<'_, 'm, P> {
        // There is a CPU 0: a memory for no CPUs cannot be made.
        self.context(&self.cpus[id.index()], id)
    }

    fn pages(&self, id: CpuId) -> Result<&'m CpuPages<'m>, CpuError> {
        self.cpus.get(id.index()).ok_or(CpuError::NoSuchCpu(id))
    }

    /// Sizes the lists of a memory that nobody uses yet.
    pub(super) fn size_new_lists(&self) {
        let sizing = self.sizing();
        for pages in self.cpus {
            pages.as_owner(|lists| lists.resize(pages, sizing));
        }
    }

    /// Sizes the lists of every online CPU anew, after their number has changed.
    fn resize_lists(&self) {
        let sizing = self.sizing();
        for (i, pages) in self.cpus.iter().enumerate().filter(|(_, pages)| pages.is_online()) {
            let target = BarrierTarget::Cpu(CpuId::new(i as u16));
            self.with_lists(pages, target, |lists| lists.resize(pages, sizing));
        }
    }

    fn sizing(&self) -> Sizing {
        let online = self.cpus.iter().filter(|pages| pages.is_online()).count() as u32;
        let low = self.zone.marks().get(Watermark::Low);
        Sizing::new(&self.tuning.pcp, self.zone.managed(), low, online, self.layout.slots())
    }

    /// Gives everything on the lists of a CPU back to the zone.
    fn drain_lists(&self, pages: &CpuPages<'m>, id: CpuId, reason: DrainReason) {
        let cpu = self.context(pages, id);
        // Where events are traced it takes a visit per batch. A busy owner may bring more
        // meanwhile: what was there at the start bounds the visits.
        for _ in 0..=pages.held() {
            let target = BarrierTarget::Cpu(id);
            let drained = self.with_lists(pages, target, |lists| cpu.drain_inside(lists, reason));
            if !cpu.after_drain(&drained) {
                return;
            }
        }
    }

    /// Runs `f` on the lists of a CPU as a remote drainer.
    fn with_lists<R>(
        &self,
        pages: &CpuPages<'m>,
        target: BarrierTarget,
        f: impl FnOnce(&mut Lists<'m>) -> R,
    ) -> R {
        pages.announce(&self.platform);
        self.barrier(target);
        // SAFETY: announced, and the barrier has reached the CPU since.
        unsafe { pages.as_drainer(&self.platform, f) }
    }

    fn barrier(&self, target: BarrierTarget) {
        if self.owner_lock == OwnerLock::Biased {
            self.platform.remote_barrier(target);
        }
    }
}
