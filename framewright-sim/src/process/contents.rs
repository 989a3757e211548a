//! The contents of frames, under an oracle: copied when the library copies a frame.

use framewright::Pfn;

use super::Mmu;
use crate::{engine::Machine, platform::Frames};

/// The contents of the frames of a machine with checking units, for a memory's platform.
pub struct Contents {
    machine: Machine,
    mmu: Mmu,
}

impl Contents {
    /// The contents that the oracle of `mmu` records.
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
