//! Which address space a CPU has loaded, and whether it uses it.
//!
//! The order is everything. Who loads an address space first says so where flushers look, and
//! then looks at the generation; a flusher first advances the generation and then looks who has
//! it loaded. So one of the two sees the other. The same holds for a CPU that was lazy.

use std::rc::{Rc, Weak};

use super::AddressSpace;
use crate::engine::Cpu;

impl AddressSpace {
    /// Makes this the address space of the program that runs on `cpu`: also when it was lazy.
    pub fn load(&self, cpu: Cpu<'_>) {
        let masked = cpu.mask_interrupts();
        self.announce(cpu);
        self.follow(cpu, u64::MAX);
        cpu.restore_interrupts(masked);
    }

    /// Says that it is loaded, and used. Interrupts are masked.
    fn announce(&self, cpu: Cpu<'_>) {
        let unit = self.mmu().unit(cpu);
        if unit.has_loaded(self) {
            self.mmu().step(cpu);
            unit.lazy.set(false);
            return;
        }
        let old = unit.loaded.borrow().upgrade();
        if let Some(old) = old {
            Self(old).unload(cpu);
        }
        self.mmu().step(cpu);
        self.0.cpus.borrow_mut().insert(cpu.id());
        self.0.shared.set(self.0.cpus.borrow().iter().nth(1).is_some() || self.0.shared.get());
        *unit.loaded.borrow_mut() = Rc::downgrade(&self.0);
        unit.lazy.set(false);
        cpu.work(self.mmu().0.costs.switch);
    }

    /// Looks at what changed before it says that it is loaded: a mistake, for scenarios.
    pub(crate) fn load_early(&self, cpu: Cpu<'_>) {
        let masked = cpu.mask_interrupts();
        self.follow(cpu, u64::MAX);
        self.announce(cpu);
        cpu.restore_interrupts(masked);
    }

    /// The program that runs on `cpu` rests, and somebody without an address space runs: the
    /// kernel. This one stays loaded, in case the program is next again.
    pub fn rest(&self, cpu: Cpu<'_>) {
        self.mmu().step(cpu);
        self.mmu().unit(cpu).lazy.set(true);
    }

    /// Ends being lazy without a look at what changed meanwhile: a mistake, for scenarios.
    pub(crate) fn load_blindly(&self, cpu: Cpu<'_>) {
        let masked = cpu.mask_interrupts();
        if self.mmu().unit(cpu).has_loaded(self) {
            self.mmu().step(cpu);
            self.mmu().unit(cpu).lazy.set(false);
        } else {
            self.load(cpu);
        }
        cpu.restore_interrupts(masked);
    }

    /// Nothing is loaded on `cpu` any more.
    pub(super) fn unload(&self, cpu: Cpu<'_>) {
        self.mmu().step(cpu);
        self.0.cpus.borrow_mut().remove(cpu.id());
        let unit = self.mmu().unit(cpu);
        *unit.loaded.borrow_mut() = Weak::new();
        unit.lazy.set(false);
    }
}
