//! CPUs of a memory: claims, online and offline, and the sizes of their lists.

use super::{CpuError, CpuState, MemoryCore, cpu_state::Claimed};
use crate::{
    observe::DrainReason,
    pcp::Sizing,
    platform::Platform,
    tuning::Hardening,
    types::{CpuId, NodeId, ZoneId},
};

impl<'m, P: Platform> MemoryCore<'m, P> {
    /// Number of CPUs the memory was made for.
    pub(crate) fn cpu_count(&self) -> u16 {
        self.cpus.len() as u16
    }

    /// The node of a CPU; node 0 if there is no such CPU.
    pub(crate) fn node_of(&self, id: CpuId) -> NodeId {
        self.cpus.get(id.index()).map_or(NodeId::default(), |cpu| cpu.node)
    }

    /// Whether a CPU is online; `false` if there is no such CPU.
    pub(crate) fn is_online(&self, id: CpuId) -> bool {
        self.cpus.get(id.index()).is_some_and(CpuState::is_online)
    }

    /// Takes a CPU offline. Its lists are drained and stay empty. The limits of the other CPUs'
    /// lists may rise.
    ///
    /// # Errors
    ///
    /// The CPU does not exist, or its token is in use.
    pub(crate) fn cpu_offline(&self, id: CpuId) -> Result<(), CpuError> {
        let state = self.state(id)?;
        if !state.claim() {
            return Err(CpuError::InUse(id));
        }
        let _claimed = Claimed(state);
        state.set_online(false);
        let guard = self.lock_hotplug();
        for cpu in self.contexts(id) {
            self.with_lists(cpu, |lists| lists.resize(cpu.pages, Sizing::disabled()));
        }
        self.resize_lists();
        // Draining calls a hook of the embedder, which may change CPUs or memory in turn.
        drop(guard);
        for cpu in self.contexts(id) {
            self.drain_lists(cpu, DrainReason::Offline);
        }
        Ok(())
    }

    /// Brings a CPU online.
    ///
    /// # Errors
    ///
    /// The CPU does not exist.
    pub(crate) fn cpu_online(&self, id: CpuId) -> Result<(), CpuError> {
        self.state(id)?.set_online(true);
        let _guard = self.lock_hotplug();
        self.resize_lists();
        Ok(())
    }

    /// Panics unless the memory has this CPU.
    ///
    /// # Panics
    ///
    /// If the memory was made for fewer CPUs.
    pub(crate) fn assert_cpu(&self, id: CpuId) {
        assert!(id.index() < self.cpus.len(), "the memory has no such CPU");
    }

    pub(crate) fn state(&self, id: CpuId) -> Result<&'m CpuState, CpuError> {
        self.cpus.get(id.index()).ok_or(CpuError::NoSuchCpu(id))
    }

    /// Sets the sizes of the lists of a new memory, before any CPU uses it.
    pub(crate) fn size_new_lists(&self) {
        for zone in (0..self.zones.len()).map(ZoneId::new) {
            let sizing = self.sizing(zone);
            for id in 0..self.cpu_count() {
                // The memory is not shared yet, so every claim succeeds.
                if let Ok(mut claim) = self.claim(CpuId::new(id)) {
                    claim.zone(zone).enter(|at, lists| lists.resize(at.pages, sizing));
                }
            }
        }
    }

    /// Sets the sizes of the lists of every online CPU again, after CPUs or memory were added or
    /// removed. The caller holds the [hotplug lock](MemoryCore::lock_hotplug): two concurrent calls
    /// could leave sizes for CPUs or memory that have been removed.
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

    /// The limits of the lists of one CPU for a zone. The CPUs of the zone's node share the zone;
    /// if the node has no CPU, all CPUs share it.
    pub(crate) fn sizing(&self, zone: ZoneId) -> Sizing {
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
}
