//! The units of a machine as the library's [`Shootdown`]: forgetting here, interrupting others.

#![allow(unsafe_code)]

use std::rc::Rc;

use framewright::{
    CpuId, Memory, Pfn,
    tlb::{CpuMask, DeferredFlush, FlushBatch, Flusher, Scope, Shootdown, Translation},
};

use super::{AddressSpace, Mapping, Mmu, Process, Pte};
use crate::{
    engine::{Cpu, Handler},
    platform::Simulated,
};

/// What flushes for a memory on a simulated machine.
pub struct Shooter<'l, 'm> {
    mmu: &'l Mmu,
    memory: &'l Memory<'m, Simulated>,
}

impl<'l, 'm> Shooter<'l, 'm> {
    /// The units `mmu` of the machine that `memory` is on.
    #[must_use]
    pub fn new(mmu: &'l Mmu, memory: &'l Memory<'m, Simulated>) -> Self {
        Self { mmu, memory }
    }

    /// What `cpu` does about translations.
    #[must_use]
    pub fn flusher<'s>(&'s self, cpu: Cpu<'_>) -> Flusher<'s, 'm, Simulated> {
        // SAFETY: the units of this machine cache translations, and nothing else does.
        unsafe { self.memory.flusher(cpu.id(), self) }
    }

    /// Lets `cpu` run a process, and says that it has caught up with what was unmapped before.
    pub fn run_on(&self, cpu: Cpu<'_>, process: &Process) {
        let masked = cpu.mask_interrupts();
        // SAFETY: the unit compares generations, and flushes if it is behind.
        unsafe { self.flusher(cpu).record_full_flush(|| process.run_on(cpu)) };
        cpu.restore_interrupts(masked);
    }

    /// The CPU that runs; none once a run is over, or has failed.
    fn current(&self) -> Option<Cpu<'l>> {
        self.memory.platform().machine().current()
    }

    fn handler(&self) -> Handler {
        // SAFETY: what runs the handler is `Cpu::interrupt`, which returns once everybody has;
        // until then `self` is borrowed. If the run fails meanwhile, nobody runs it any more, and
        // dropping a reference does nothing.
        let shooter: &'static Shooter<'static, 'static> = unsafe {
            std::mem::transmute::<&Shooter<'_, '_>, &'static Shooter<'static, 'static>>(self)
        };
        Rc::new(move |cpu| shooter.flusher(cpu).serve())
    }
}

impl Shootdown for Shooter<'_, '_> {
    fn clean_stores_fault(&self) -> bool {
        true
    }

    fn invalidate(&self, of: CpuId, scope: Scope) {
        if let Some(cpu) = self.current() {
            assert_eq!(cpu.id(), of, "a CPU forgets by itself");
            self.mmu.forget(cpu, scope);
        }
    }

    fn interrupt(&self, _from: CpuId, targets: &CpuMask) {
        let Some(cpu) = self.current() else { return };
        self.mmu.count(|stats| {
            stats.remote_flushes += 1;
            stats.interrupts += u64::from(targets.count());
        });
        cpu.interrupt(targets.iter(), &self.handler());
    }

    fn is_lazy(&self, other: CpuId) -> bool {
        // When nobody runs, nobody uses anything.
        let Some(cpu) = self.current() else { return true };
        self.mmu.step(cpu);
        let unit = self.mmu.unit_of(other);
        unit.lazy.get() || unit.loaded.borrow().strong_count() == 0
    }
}

impl AddressSpace {
    /// Takes a page out of the page table and leaves `instead` there; what is owed for that goes to
    /// `batch`. Under the lock.
    pub fn take_into(
        &self,
        cpu: Cpu<'_>,
        page: u32,
        instead: Pte,
        file_flush: Option<&DeferredFlush>,
        batch: &mut FlushBatch<'_, '_, Simulated>,
    ) -> Option<Mapping> {
        self.pte(cpu, page).present()?;
        let mapping = self.replace_pte(cpu, page, instead).present()?;
        self.advance_generation(cpu);
        let cpus: CpuMask = self.cpus(cpu).iter().collect();
        let translation = Translation {
            cpus: &cpus,
            writable: mapping.writable,
            dirty: mapping.dirty,
            space: self.id().number(),
            page: u64::from(page),
            space_flush: self.owed(),
            file_flush,
        };
        batch.add(Pfn::new(u64::from(mapping.frame)), &translation);
        Some(mapping)
    }
}
