//! CPUs of a memory: claiming, draining, on- and offline.

#![allow(unsafe_code)]

use core::fmt;

use super::Memory;
use crate::{
    alloc::CpuToken,
    buddy::Refusals,
    observe::{CpuStats, DrainReason, text::zoneinfo::Pageset},
    pcp::{Cpu, CpuPages, Lists, Sizing},
    platform::{BarrierTarget, CpuId, OwnerLock, Platform},
    sync::{AtomicBool, Ordering},
    tuning::Hardening,
    zone::{NodeId, ZoneId},
};

/// What a memory knows of a CPU as a whole.
pub(super) struct CpuState {
    node: NodeId,
    claimed: AtomicBool,
    online: AtomicBool,
}

impl CpuState {
    /// A CPU on a node, online and without owner.
    pub(super) fn new(node: NodeId) -> Self {
        Self { node, claimed: AtomicBool::new(false), online: AtomicBool::new(true) }
    }

    fn is_online(&self) -> bool {
        self.online.load(Ordering::Acquire)
    }

    fn set_online(&self, online: bool) {
        self.online.store(online, Ordering::Release);
    }

    /// Claims the CPU for one token; `false` if another has it.
    fn claim(&self) -> bool {
        self.claimed.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Claims CPU `id` for one token if it is online.
    ///
    /// That is asked before as well: who asks for an offline CPU again and again is then never
    /// taken, in passing, for its owner.
    fn claim_online(&self, id: CpuId) -> Result<(), CpuError> {
        if !self.is_online() {
            return Err(CpuError::Offline(id));
        }
        if !self.claim() {
            return Err(CpuError::InUse(id));
        }
        // It may have gone in between.
        if !self.is_online() {
            self.unclaim();
            return Err(CpuError::Offline(id));
        }
        Ok(())
    }

    fn unclaim(&self) {
        self.claimed.store(false, Ordering::Release);
    }
}

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
        self.state(id)?.claim_online(id)?;
        Ok(CpuToken::new(self, id))
    }

    /// Takes back what [`Memory::cpu`] handed out.
    pub(crate) fn unclaim(&self, id: CpuId) {
        self.cpus[id.index()].unclaim();
    }

    /// Number of CPUs the memory was made for.
    #[must_use]
    pub fn cpu_count(&self) -> u16 {
        self.cpus.len() as u16
    }

    /// The node of a CPU; node 0 if there is no such CPU.
    #[must_use]
    pub fn node_of(&self, id: CpuId) -> NodeId {
        self.cpus.get(id.index()).map_or(NodeId::default(), |cpu| cpu.node)
    }

    /// Gives everything on the lists of one CPU back to the zones, from any CPU.
    ///
    /// # Errors
    ///
    /// The CPU does not exist.
    pub fn drain_cpu(&self, id: CpuId) -> Result<(), CpuError> {
        self.state(id)?;
        for cpu in self.contexts(id).filter(|cpu| cpu.pages.held() > 0) {
            self.drain_lists(cpu, DrainReason::Remote);
        }
        Ok(())
    }

    /// Gives everything on the lists of all CPUs, and in the depots between them, back to the maps
    /// of the zones. One remote barrier serves 64 lists; those that hold nothing are not disturbed.
    pub fn drain_all(&self) {
        self.drain_where(&|_, pages| pages.held() > 0);
        (0..self.zones.len()).map(ZoneId::new).for_each(|zone| self.empty_depot(zone));
    }

    /// As [`Memory::drain_all`], but of one zone, and waits for every CPU's owner to be outside
    /// once, whether it holds anything or not: what was published before is seen by all who
    /// enter later.
    pub(crate) fn drain_every_cpu(&self, of: ZoneId) {
        self.drain_where(&|zone, _| zone == of);
        self.empty_depot(of);
    }

    /// Gives back what lies in the depot of a zone.
    fn empty_depot(&self, zone: ZoneId) {
        self.context(zone, CpuId::default()).empty_depot();
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
            let mut refused: Option<(Cpu<'_, 'm, P>, Refusals)> = None;
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
        let cpus = self.cpus.len();
        (ZoneId::new(lists / cpus), CpuId::new((lists % cpus) as u16))
    }

    /// Takes a CPU offline: its lists are drained and stay empty, and the others may hold more.
    ///
    /// # Errors
    ///
    /// The CPU does not exist, or somebody holds its token.
    pub fn cpu_offline(&self, id: CpuId) -> Result<(), CpuError> {
        let state = self.state(id)?;
        if !state.claim() {
            return Err(CpuError::InUse(id));
        }
        state.set_online(false);
        for cpu in self.contexts(id) {
            self.with_lists(cpu, |lists| lists.resize(cpu.pages, Sizing::disabled()));
            self.drain_lists(cpu, DrainReason::Offline);
        }
        state.unclaim();
        self.resize_lists();
        Ok(())
    }

    /// Brings a CPU back.
    ///
    /// # Errors
    ///
    /// The CPU does not exist.
    pub fn cpu_online(&self, id: CpuId) -> Result<(), CpuError> {
        self.state(id)?.set_online(true);
        self.resize_lists();
        Ok(())
    }

    /// Counters of one CPU, over all zones.
    ///
    /// # Errors
    ///
    /// The CPU does not exist.
    pub fn cpu_stats(&self, id: CpuId) -> Result<CpuStats, CpuError> {
        self.state(id)?;
        let mut sum = CpuStats::default();
        for cpu in self.contexts(id) {
            sum += self.stats_of(cpu);
        }
        Ok(sum)
    }

    /// Counters summed over all CPUs and zones.
    #[must_use]
    pub fn stats(&self) -> CpuStats {
        self.sum_stats((0..self.zones.len()).map(ZoneId::new))
    }

    /// Counters of one zone, summed over all CPUs; all 0 if there is no such zone.
    #[must_use]
    pub fn zone_stats(&self, zone: ZoneId) -> CpuStats {
        self.sum_stats([zone].into_iter().filter(|zone| zone.index() < self.zones.len()))
    }

    fn sum_stats(&self, zones: impl Iterator<Item = ZoneId>) -> CpuStats {
        let mut sum = CpuStats::default();
        for zone in zones {
            for id in 0..self.cpu_count() {
                sum += self.stats_of(self.context(zone, CpuId::new(id)));
            }
        }
        // What the zone refused was not freed after all. Only the sum can be put right: a
        // frame may be refused to another CPU than the one it was freed on.
        sum.pgfree = sum.pgfree.saturating_sub(sum.refused_frames);
        sum
    }

    /// Counters of a CPU's lists for a zone, with those that follow from where the two are.
    fn stats_of(&self, cpu: Cpu<'_, 'm, P>) -> CpuStats {
        let mut stats = cpu.pages.stats();
        let served = stats.list_hits + stats.list_misses + stats.zone_allocs;
        stats.numa_hit = served.saturating_sub(stats.numa_miss);
        let near = cpu.zone.node() == self.node_of(cpu.id);
        (stats.numa_local, stats.numa_other) = if near { (served, 0) } else { (0, served) };
        stats
    }

    /// Frames on the lists of all CPUs, in quarantine included; possibly stale.
    #[must_use]
    pub fn held_by_cpus(&self) -> u64 {
        self.lists.iter().map(CpuPages::held).sum()
    }

    /// Frames of a zone on the lists of all CPUs, possibly stale.
    pub(super) fn held_of(&self, zone: ZoneId) -> u64 {
        let cpus = self.cpus.len();
        self.lists[zone.index() * cpus..][..cpus].iter().map(CpuPages::held).sum()
    }

    /// The lists of all CPUs for a zone, for people to read; none if there is no such zone.
    pub fn pagesets(&self, zone: ZoneId) -> impl Iterator<Item = Pageset> {
        let exists = zone.index() < self.zones.len();
        let cpus = (0..).zip(self.cpus).filter(move |_| exists);
        cpus.map(move |(id, state)| {
            let online = state.is_online();
            let sizing = if online { self.sizing(zone) } else { Sizing::disabled() };
            let pages = self.lists_of(zone, CpuId::new(id));
            Pageset {
                cpu: id.into(),
                count: pages.held(),
                high: pages.high(),
                batch: sizing.batch().into(),
                bounds: Some(sizing.bounds()),
                // Nothing is counted where others do not see it.
                threshold: Some(0),
            }
        })
    }

    /// Gives back what a CPU keeps from being handed out again, if hardening has it do so. For
    /// the CPU's owner.
    pub(crate) fn end_quarantine(&self, id: CpuId) {
        if self.tuning.hardening == Hardening::Paranoid {
            for cpu in self.contexts(id).filter(|cpu| cpu.pages.held() > 0) {
                cpu.drain(DrainReason::Local);
            }
        }
    }

    fn state(&self, id: CpuId) -> Result<&'m CpuState, CpuError> {
        self.cpus.get(id.index()).ok_or(CpuError::NoSuchCpu(id))
    }

    /// Sizes the lists of a memory that nobody uses yet.
    pub(super) fn size_new_lists(&self) {
        for zone in (0..self.zones.len()).map(ZoneId::new) {
            let sizing = self.sizing(zone);
            for id in 0..self.cpu_count() {
                let pages = self.lists_of(zone, CpuId::new(id));
                pages.as_owner(&self.platform, |lists| lists.resize(pages, sizing));
            }
        }
    }

    /// Sizes the lists of every online CPU anew, after CPUs or memory came or went.
    pub(super) fn resize_lists(&self) {
        for zone in (0..self.zones.len()).map(ZoneId::new) {
            let sizing = self.sizing(zone);
            let online = |&id: &u16| self.cpus[usize::from(id)].is_online();
            for id in (0..self.cpu_count()).filter(online) {
                let cpu = self.context(zone, CpuId::new(id));
                self.with_lists(cpu, |lists| lists.resize(cpu.pages, sizing));
            }
        }
    }

    /// How long the lists of one CPU for a zone may grow: the CPUs of the zone's node share it,
    /// or all CPUs if that has none.
    fn sizing(&self, zone: ZoneId) -> Sizing {
        if self.tuning.hardening == Hardening::Paranoid {
            return Sizing::disabled();
        }
        let slots = self.lists_of(zone, CpuId::new(0)).slots();
        let zone = &self.zones[zone.index()];
        let online = || self.cpus.iter().filter(|cpu| cpu.is_online());
        let near = online().filter(|cpu| cpu.node == zone.node()).count();
        let sharing = if near == 0 { online().count() } else { near } as u32;
        let low = zone.marks().levels().low;
        Sizing::new(&self.tuning.pcp, zone.managed(), low, sharing, slots)
    }

    /// Gives everything on the lists of a CPU for a zone back to it.
    fn drain_lists(&self, cpu: Cpu<'_, 'm, P>, reason: DrainReason) {
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
    fn with_lists<R>(&self, cpu: Cpu<'_, 'm, P>, f: impl FnOnce(&mut Lists<'m>) -> R) -> R {
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

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    #[test]
    fn an_offline_cpu_is_never_in_use() {
        let (cpu, id) = (CpuState::new(NodeId::default()), CpuId::new(0));
        assert_eq!(cpu.claim_online(id), Ok(()));
        assert_eq!(cpu.claim_online(id), Err(CpuError::InUse(id)));
        cpu.set_online(false);
        assert_eq!(cpu.claim_online(id), Err(CpuError::Offline(id)));
        cpu.unclaim();
        assert_eq!(cpu.claim_online(id), Err(CpuError::Offline(id)));
        assert!(cpu.claim(), "who asked in vain has it");
    }
}
