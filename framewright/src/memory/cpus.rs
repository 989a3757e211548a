//! CPUs of a memory.

use super::Memory;
use crate::{
    alloc::CpuToken,
    core::CpuError,
    platform::Platform,
    types::{CpuId, NodeId},
};

impl<'m, P: Platform> Memory<'m, P> {
    /// Claims a CPU for the calling thread until the token is dropped.
    ///
    /// # Errors
    ///
    /// The CPU does not exist, is offline, or its token is in use.
    pub fn cpu(&self, id: CpuId) -> Result<CpuToken<'_, 'm, P>, CpuError> {
        Ok(CpuToken::new(self.core.claim(id)?, self))
    }

    /// The number of CPUs of the memory.
    #[must_use]
    pub fn cpu_count(&self) -> u16 {
        self.core.cpu_count()
    }

    /// The node of a CPU; node 0 if there is no such CPU.
    #[must_use]
    pub fn node_of(&self, id: CpuId) -> NodeId {
        self.core.node_of(id)
    }

    /// Takes a CPU offline. Its lists are drained and stay empty. The limits of the other CPUs'
    /// lists may rise.
    ///
    /// # Errors
    ///
    /// The CPU does not exist, or its token is in use.
    pub fn cpu_offline(&self, id: CpuId) -> Result<(), CpuError> {
        self.core.cpu_offline(id)
    }

    /// Brings a CPU online.
    ///
    /// # Errors
    ///
    /// The CPU does not exist.
    pub fn cpu_online(&self, id: CpuId) -> Result<(), CpuError> {
        self.core.cpu_online(id)
    }

    /// Frees all blocks on the lists of one CPU to the zones, from any CPU.
    ///
    /// # Errors
    ///
    /// The CPU does not exist.
    pub fn drain_cpu(&self, id: CpuId) -> Result<(), CpuError> {
        self.core.drain_cpu(id)
    }

    /// Frees all blocks on the lists of all CPUs, and in the depots of the zones, to the buddy maps
    /// of the zones. One remote barrier serves up to 64 lists. Empty lists are skipped.
    pub fn drain_all(&self) {
        self.core.drain_all();
    }

    /// Returns half of the frames to the zones that the lists of the CPUs have not needed since the last trim, from any
    /// CPU. As [`CpuToken::trim`], also for CPUs that sleep. One remote barrier serves up to 64 lists.
    pub fn trim_all(&self) {
        self.core.trim_all();
    }
}
