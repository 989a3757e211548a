//! A CPU of a memory: whether it is online, and whether its token is in use.

use core::fmt;

use crate::{
    sync::{AtomicBool, Ordering},
    types::{CpuId, NodeId},
};

/// The state of a CPU that does not depend on a zone: its node, whether it is online, and whether
/// it is claimed.
pub(crate) struct CpuState {
    pub(super) node: NodeId,
    claimed: AtomicBool,
    online: AtomicBool,
}

impl CpuState {
    /// A CPU on a node, online and not claimed.
    pub(crate) fn new(node: NodeId) -> Self {
        Self { node, claimed: AtomicBool::new(false), online: AtomicBool::new(true) }
    }

    pub(super) fn is_online(&self) -> bool {
        self.online.load(Ordering::Acquire)
    }

    pub(super) fn set_online(&self, online: bool) {
        self.online.store(online, Ordering::Release);
    }

    /// Claims the CPU for one token; `false` if another token has it.
    pub(super) fn claim(&self) -> bool {
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
pub(super) struct Claimed<'a>(pub(super) &'a CpuState);

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
    /// `MemoryCore::cpu_offline` does. In every interleaving, no token exists once the CPU is
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
