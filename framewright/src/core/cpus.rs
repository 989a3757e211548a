//! CPUs of a memory: claims, online and offline, and the sizes of their lists.

use core::fmt;

use super::MemoryCore;
use crate::{
    observe::DrainReason,
    pcp::Sizing,
    platform::Platform,
    sync::{AtomicBool, Ordering},
    tuning::Hardening,
    types::{CpuId, NodeId, ZoneId},
};

/// The state of a CPU that does not depend on a zone: its node, whether it is online, and whether
/// it is claimed.
pub(crate) struct CpuState {
    node: NodeId,
    claimed: AtomicBool,
    online: AtomicBool,
}

impl CpuState {
    /// A CPU on a node, online and not claimed.
    pub(crate) fn new(node: NodeId) -> Self {
        Self { node, claimed: AtomicBool::new(false), online: AtomicBool::new(true) }
    }

    fn is_online(&self) -> bool {
        self.online.load(Ordering::Acquire)
    }

    fn set_online(&self, online: bool) {
        self.online.store(online, Ordering::Release);
    }

    /// Claims the CPU for one token; `false` if another token has it.
    fn claim(&self) -> bool {
        self.claimed.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Claims CPU `id` for one token if it is online.
    ///
    /// The state is read before the claim as well, so that an attempt to claim a CPU that is
    /// offline already does not claim it, not even for a moment.
    pub(super) fn claim_online(&self, id: CpuId) -> Result<(), CpuError> {
        if !self.is_online() {
            return Err(CpuError::Offline(id));
        }
        if !self.claim() {
            return Err(CpuError::InUse(id));
        }
        // The CPU may have been taken offline between the two reads.
        if !self.is_online() {
            self.unclaim();
            return Err(CpuError::Offline(id));
        }
        Ok(())
    }

    pub(super) fn unclaim(&self) {
        self.claimed.store(false, Ordering::Release);
    }
}

/// A CPU that is claimed until this value is dropped, even if the embedder panics.
struct Claimed<'a>(&'a CpuState);

impl Drop for Claimed<'_> {
    fn drop(&mut self) {
        self.0.unclaim();
    }
}

/// The reason why a CPU cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CpuError {
    /// The memory was made for fewer CPUs.
    NoSuchCpu(CpuId),
    /// The token of the CPU is in use.
    InUse(CpuId),
    /// The CPU is offline.
    Offline(CpuId),
}

impl fmt::Display for CpuError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CpuError::NoSuchCpu(cpu) => write!(f, "this memory has no CPU {}", cpu.get()),
            CpuError::InUse(cpu) => write!(f, "CPU {} is in use already", cpu.get()),
            CpuError::Offline(cpu) => write!(f, "CPU {} is offline", cpu.get()),
        }
    }
}

impl core::error::Error for CpuError {}

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

#[cfg(all(test, not(framewright_loom)))]
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
        assert!(cpu.claim(), "a refused attempt has left the CPU claimed");
    }
}

#[cfg(all(test, framewright_loom))]
mod loom_tests {
    use loom::{model, sync::Arc, thread};

    use super::*;

    /// One thread claims the CPU for a token; the other takes the CPU offline as
    /// [`MemoryCore::cpu_offline`] does. In every interleaving, no token exists once the CPU is
    /// offline.
    #[test]
    fn loom_a_cpu_that_has_gone_is_not_claimed() {
        model(|| {
            let id = CpuId::new(0);
            let both = Arc::new((CpuState::new(NodeId::default()), AtomicBool::new(false)));
            let theirs = Arc::clone(&both);
            let other = thread::spawn(move || {
                let (cpu, has_gone) = &*theirs;
                if cpu.claim() {
                    cpu.set_online(false);
                    cpu.unclaim();
                    has_gone.store(true, Ordering::Relaxed);
                }
            });
            let (cpu, has_gone) = &*both;
            if cpu.claim_online(id).is_ok() {
                assert!(!has_gone.load(Ordering::Relaxed), "an offline CPU was claimed");
            }
            other.join().unwrap();
        });
    }
}
