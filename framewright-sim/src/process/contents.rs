//! The contents of frames, for the library's copies of pages. The oracle is the record of what each
//! frame contains, kept by [`Mmu::checking`].

use framewright::Pfn;

use super::Mmu;
use crate::{engine::Machine, platform::Frames};

/// Part of a memory's platform: when the library copies a frame, the recorded contents are copied,
/// too. Without an oracle nothing is copied.
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
