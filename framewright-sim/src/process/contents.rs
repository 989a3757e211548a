//! What frames hold where somebody looks: copied from one to another when the library copies a frame.

use framewright::Pfn;

use super::Mmu;
use crate::{engine::Machine, platform::Frames};

/// The frames of a machine whose units check, for a memory's platform.
pub struct Contents {
    machine: Machine,
    mmu: Mmu,
}

impl Contents {
    /// Those that the oracle of `mmu` knows.
    #[must_use]
    pub fn new(machine: &Machine, mmu: &Mmu) -> Self {
        Self { machine: machine.clone(), mmu: mmu.clone() }
    }
}

impl Frames for Contents {
    fn copy(&self, to: Pfn, from: Pfn) {
        if let (Some(oracle), Some(cpu)) = (self.mmu.oracle(), self.machine.current()) {
            cpu.step();
            oracle.fill(to.get() as u32, oracle.contents(from.get() as u32));
        }
    }
}
