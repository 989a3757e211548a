//! The library's [`Shootdown`], implemented by the memory-management units of a machine: local
//! invalidation, and interrupts.

#![allow(unsafe_code)]

use std::rc::Rc;

use framewright::{
    CpuId, Memory, Pfn,
    tlb::{CpuMask, DeferredFlush, Flusher, Scope, Shootdown, Translation, Unmapping},
};

use super::{AddressSpace, Mapping, Mmu, Process, Pte};
use crate::{
    engine::{Cpu, Handler},
    platform::Simulated,
};

/// The TLB shootdown for a memory on a simulated machine.
pub struct Shooter<'l, 'm> {
    mmu: &'l Mmu,
    memory: &'l Memory<'m, Simulated>,
}

impl<'l, 'm> Shooter<'l, 'm> {
    /// The shootdown with the units `mmu` of the machine of `memory`.
    #[must_use]
    pub fn new(mmu: &'l Mmu, memory: &'l Memory<'m, Simulated>) -> Self {
        Self { mmu, memory }
    }

    /// The flusher of `cpu`.
    #[must_use]
    pub fn flusher<'s>(&'s self, cpu: Cpu<'_>) -> Flusher<'s, 'm, Simulated> {
        // SAFETY: the units of this machine cache translations, and nothing else does.
        unsafe { self.memory.flusher(cpu.id(), self) }
    }

    /// Loads a process on `cpu`, and records that its earlier flushes are done.
    pub fn run_on(&self, cpu: Cpu<'_>, process: &Process) {
        let masked = cpu.mask_interrupts();
        // SAFETY: the unit compares generations, and flushes if it is behind.
        unsafe { self.flusher(cpu).record_full_flush(|| process.run_on(cpu)) };
        cpu.restore_interrupts(masked);
    }

    /// The running CPU; `None` after a run, or after a failure.
    fn current(&self) -> Option<Cpu<'l>> {
        self.memory.platform().machine().current()
    }

    /// Interrupts `targets`, whose handlers call `serve`, and waits for them.
    pub(crate) fn interrupt_with(&self, targets: &CpuMask, serve: &dyn Fn(Cpu<'_>)) {
        let Some(cpu) = self.current() else { return };
        self.mmu.count(|stats| {
            stats.remote_flushes += 1;
            stats.interrupts += u64::from(targets.count());
        });
        // SAFETY: `Cpu::interrupt` runs the handler, and returns once all targets have. `serve` is
        // borrowed until then. If the run fails meanwhile, no CPU runs the handler any more, and
        // dropping a reference does nothing.
        let serve: &'static dyn Fn(Cpu<'_>) =
            unsafe { std::mem::transmute::<&dyn Fn(Cpu<'_>), &'static dyn Fn(Cpu<'_>)>(serve) };
        let handler: Handler = Rc::new(serve);
        cpu.interrupt(targets.iter(), &handler);
    }
}

impl Shootdown for Shooter<'_, '_> {
    fn clean_stores_fault(&self) -> bool {
        true
    }

    fn invalidate(&self, of: CpuId, scope: Scope) {
        if let Some(cpu) = self.current() {
            assert_eq!(cpu.id(), of, "a CPU invalidates only its own translations");
            self.mmu.invalidate(cpu, scope);
        }
    }

    fn interrupt(&self, _from: CpuId, targets: &CpuMask) {
        self.interrupt_with(targets, &|cpu| self.flusher(cpu).serve());
    }

    fn is_lazy(&self, other: CpuId) -> bool {
        // Outside a run no CPU uses its translations.
        let Some(cpu) = self.current() else { return true };
        self.mmu.step(cpu);
        let unit = self.mmu.unit_of(other);
        unit.lazy.get() || unit.loaded.borrow().strong_count() == 0
    }
}

impl AddressSpace {
    /// Replaces the entry of a mapped page with `instead`, and adds its flush to `batch`. The
    /// caller holds the lock.
    pub fn take_into(
        &self,
        cpu: Cpu<'_>,
        page: u32,
        instead: Pte,
        file_flush: Option<&DeferredFlush>,
        batch: &mut Unmapping<'_, '_, '_, Simulated>,
    ) -> Option<Mapping> {
        self.pte(cpu, page).present()?;
        let mapping = self.replace_pte(cpu, page, instead).present()?;
        self.add_flush(cpu, page, mapping, file_flush, batch);
        Some(mapping)
    }

    /// Adds the flush of a removed mapping to `batch`. Advances the generation first, and then
    /// reads which CPUs may have cached the translation.
    pub fn add_flush(
        &self,
        cpu: Cpu<'_>,
        page: u32,
        mapping: Mapping,
        file_flush: Option<&DeferredFlush>,
        batch: &mut Unmapping<'_, '_, '_, Simulated>,
    ) {
        self.advance_generation(cpu);
        let cpus = CpuMask::from_words(self.cpus(cpu).words());
        let translation = Translation {
            cpus: &cpus,
            writable: mapping.writable,
            dirty: mapping.dirty,
            space: self.id().number(),
            page: u64::from(page),
            space_flush: self.deferred_flush(),
            file_flush,
        };
        batch.add(Pfn::new(u64::from(mapping.frame)), &translation);
    }
}
