//! TLB flushes, on this CPU and on others.

use std::rc::Rc;

use framewright::tlb::Scope;

use super::{AddressSpace, Mmu};
use crate::engine::{Cpu, CpuSet, Handler};

/// The number of pages above which the whole address space is flushed, as in Linux.
const PAGE_BY_PAGE: u64 = 33;

impl AddressSpace {
    /// Flushes this address space on every CPU that may have cached translations of it: `pages`
    /// pages, or all. When this returns, no CPU uses a translation that was not in the page tables
    /// at the call.
    pub fn flush(&self, cpu: Cpu<'_>, pages: u64) {
        self.advance_generation(cpu);
        let targets = self.cpus(cpu);
        self.flush_on(cpu, targets, pages);
    }

    /// Flushes outdated translations on `targets`. Lazy CPUs are skipped: they compare generations
    /// before they use the address space again.
    pub fn flush_on(&self, cpu: Cpu<'_>, targets: CpuSet, pages: u64) {
        if targets.contains(cpu.id()) {
            self.follow(cpu, pages);
        }
        let mut others = targets;
        others.remove(cpu.id());
        let asked = others;
        for other in asked.iter() {
            self.mmu().step(cpu);
            if self.mmu().unit_of(other).lazy.get() {
                self.mmu().count(|stats| stats.lazy_skipped += 1);
                others.remove(other);
            }
        }
        if others.is_empty() {
            return;
        }
        self.mmu().count(|stats| {
            stats.remote_flushes += 1;
            stats.interrupts += others.iter().count() as u64;
        });
        let space = self.clone();
        let handler: Handler = Rc::new(move |cpu| space.interrupted(cpu, pages));
        cpu.interrupt(others.iter(), &handler);
    }

    /// Handles the interrupt of a flush.
    fn interrupted(&self, cpu: Cpu<'_>, pages: u64) {
        let unit = self.mmu().unit(cpu);
        if !unit.has_loaded(self) {
            return;
        }
        if unit.lazy.get() {
            // The CPU may stay lazy for long. Unloading the address space avoids further
            // interrupts.
            self.unload(cpu);
            return;
        }
        self.follow(cpu, pages);
    }

    /// Flushes outdated translations on this CPU.
    pub(super) fn follow(&self, cpu: Cpu<'_>, pages: u64) {
        let masked = cpu.mask_interrupts();
        self.mmu().step(cpu);
        let (generation, unit) = (self.0.generation.get(), self.mmu().unit(cpu));
        if unit.followed(self.id()) != generation {
            self.mmu().step(cpu);
            cpu.note(|| format!("flushes space {} from its TLB", self.id().number()));
            unit.tlb.invalidate_space(self.id());
            unit.follow(self.id(), generation);
            let costs = self.mmu().0.costs;
            self.mmu().count(|stats| stats.flushes += 1);
            cpu.work(match pages {
                ..=PAGE_BY_PAGE => pages * costs.flush_page,
                _ => costs.flush_space,
            });
        }
        cpu.restore_interrupts(masked);
    }
}

impl Mmu {
    /// Invalidates translations of the loaded address space on this CPU. For other address spaces,
    /// the CPU compares generations when it loads them.
    pub(super) fn invalidate(&self, cpu: Cpu<'_>, scope: Scope) {
        let loaded = self.unit(cpu).loaded.borrow().upgrade().map(AddressSpace);
        let Some(space) = loaded else { return };
        match scope {
            Scope::Everything if self.unit(cpu).lazy.get() => space.unload(cpu),
            Scope::Everything => space.follow(cpu, u64::MAX),
            Scope::Pages { space: number, first, pages } if number == space.id().number() => {
                space.invalidate_pages(cpu, first, pages);
            }
            Scope::Pages { .. } => {}
        }
    }
}

impl AddressSpace {
    /// Invalidates the translations of some pages. This does not change the CPU's generation.
    fn invalidate_pages(&self, cpu: Cpu<'_>, first: u64, pages: u32) {
        self.mmu().step(cpu);
        let space = self.id().number();
        cpu.note(|| {
            format!("flushes {pages} pages from page {first} of space {space} from its TLB")
        });
        for page in first..first + u64::from(pages) {
            self.mmu().unit(cpu).tlb.invalidate(self.id(), page as u32);
        }
        self.mmu().count(|stats| stats.flushes += 1);
        cpu.work(u64::from(pages) * self.mmu().0.costs.flush_page);
    }
}
