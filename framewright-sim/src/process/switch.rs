//! The loaded address space of a CPU, and lazy TLB mode.
//!
//! The order matters. A CPU that loads an address space first sets its bit in the CPU mask, and
//! then reads the generation. A flusher first advances the generation, and then reads the mask. At
//! least one of the two sees the other. The same holds for a CPU that leaves lazy mode.

use std::rc::{Rc, Weak};

use super::AddressSpace;
use crate::engine::Cpu;

impl AddressSpace {
    /// Loads the address space on `cpu`, and leaves lazy mode.
    pub fn load(&self, cpu: Cpu<'_>) {
        let masked = cpu.mask_interrupts();
        self.announce(cpu);
        self.follow(cpu, u64::MAX);
        cpu.restore_interrupts(masked);
    }

    /// Marks the address space as loaded and used. Interrupts are masked.
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

    /// Reads the generation before the mask is set: a seeded bug for scenarios.
    pub(crate) fn load_early(&self, cpu: Cpu<'_>) {
        let masked = cpu.mask_interrupts();
        self.follow(cpu, u64::MAX);
        self.announce(cpu);
        cpu.restore_interrupts(masked);
    }

    /// Enters lazy TLB mode: a kernel thread runs on `cpu`. The address space stays loaded, in case
    /// its program runs next.
    pub fn enter_lazy_mode(&self, cpu: Cpu<'_>) {
        self.mmu().step(cpu);
        self.mmu().unit(cpu).lazy.set(true);
    }

    /// Leaves lazy mode without comparing generations: a seeded bug for scenarios.
    pub(crate) fn load_without_flush(&self, cpu: Cpu<'_>) {
        let masked = cpu.mask_interrupts();
        if self.mmu().unit(cpu).has_loaded(self) {
            self.mmu().step(cpu);
            self.mmu().unit(cpu).lazy.set(false);
        } else {
            self.load(cpu);
        }
        cpu.restore_interrupts(masked);
    }

    /// Unloads the address space of `cpu`.
    pub(super) fn unload(&self, cpu: Cpu<'_>) {
        self.mmu().step(cpu);
        self.0.cpus.borrow_mut().remove(cpu.id());
        let unit = self.mmu().unit(cpu);
        *unit.loaded.borrow_mut() = Weak::new();
        unit.lazy.set(false);
    }
}
