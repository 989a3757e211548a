//! The library's TLB shootdown on simulated CPUs, with its costs.

use std::cell::Cell;

use framewright::{
    CpuId, Memory,
    tlb::{CpuMask, Scope, Shootdown},
};

use crate::{
    engine::{Cpu, CpuSet},
    platform::Simulated,
    process::{Mmu, Shooter},
};

/// The costs of flushes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FlushCosts {
    /// Cycles of all CPUs together: sending and waiting, handling interrupts, flushing.
    pub cycles: u64,
    /// Interrupts for flushes before writes, which are not part of reclaim.
    pub for_writes: u64,
}

/// A [`Shooter`] that counts its costs.
pub(super) struct Counted<'l, 'm> {
    memory: &'l Memory<'m, Simulated>,
    shooter: Shooter<'l, 'm>,
    costs: Cell<FlushCosts>,
    /// CPUs that clean pages now.
    writers: Cell<CpuSet>,
}

impl<'l, 'm> Counted<'l, 'm> {
    pub(super) fn new(memory: &'l Memory<'m, Simulated>, mmu: &'l Mmu) -> Self {
        let shooter = Shooter::new(mmu, memory);
        Self { memory, shooter, costs: Cell::default(), writers: Cell::default() }
    }

    /// The costs so far.
    pub(super) fn costs(&self) -> FlushCosts {
        self.costs.get()
    }

    /// Counts the interrupts of `cpu` as write-back while `body` runs.
    pub(super) fn for_writes<R>(&self, cpu: CpuId, body: impl FnOnce() -> R) -> R {
        let mut with = self.writers.get();
        with.insert(cpu);
        self.writers.set(with);
        let result = body();
        let mut without = self.writers.get();
        without.remove(cpu);
        self.writers.set(without);
        result
    }

    fn spend(&self, cycles: u64, for_writes: u64) {
        let FlushCosts { cycles: before, for_writes: so_far } = self.costs.get();
        let costs = FlushCosts { cycles: before + cycles, for_writes: so_far + for_writes };
        self.costs.set(costs);
    }

    fn current(&self) -> Option<Cpu<'l>> {
        self.memory.platform().machine().current()
    }
}

impl Shootdown for Counted<'_, '_> {
    fn clean_stores_fault(&self) -> bool {
        self.shooter.clean_stores_fault()
    }

    fn invalidate(&self, cpu: CpuId, scope: Scope) {
        let now = || self.current().map_or(0, |cpu| cpu.now());
        let began = now();
        self.shooter.invalidate(cpu, scope);
        self.spend(now() - began, 0);
    }

    fn interrupt(&self, from: CpuId, targets: &CpuMask) {
        let Some(cpu) = self.current() else { return };
        let began = cpu.now();
        self.shooter.interrupt(from, targets);
        let interrupts = u64::from(targets.count());
        let writes = self.writers.get().contains(from);
        let served = interrupts * (cpu.model().entry + cpu.model().acknowledge);
        self.spend(cpu.now() - began + served, if writes { interrupts } else { 0 });
    }

    fn is_lazy(&self, cpu: CpuId) -> bool {
        self.shooter.is_lazy(cpu)
    }
}
