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
    /// CPUs whose time is being counted.
    timed: Cell<CpuSet>,
    /// CPUs that clean pages now.
    writers: Cell<CpuSet>,
}

impl<'l, 'm> Counted<'l, 'm> {
    pub(super) fn new(memory: &'l Memory<'m, Simulated>, mmu: &'l Mmu) -> Self {
        let shooter = Shooter::new(mmu, memory);
        let (timed, writers) = (Cell::default(), Cell::default());
        Self { memory, shooter, costs: Cell::default(), timed, writers }
    }

    /// The costs so far.
    pub(super) fn costs(&self) -> FlushCosts {
        self.costs.get()
    }

    /// Counts the interrupts of `cpu` as write-back while `body` runs.
    pub(super) fn for_writes<R>(&self, cpu: CpuId, body: impl FnOnce() -> R) -> R {
        within(&self.writers, cpu, body)
    }

    /// Counts the time of `body` on `cpu`, and `more` cycles. A handler that interrupts such a body counts nothing:
    /// its time is a part of the time of that body.
    fn time(&self, cpu: Cpu<'_>, more: u64, body: impl FnOnce()) {
        if self.timed.get().contains(cpu.id()) {
            return body();
        }
        let began = cpu.now();
        within(&self.timed, cpu.id(), body);
        let costs = self.costs.get();
        self.costs.set(FlushCosts { cycles: costs.cycles + cpu.now() - began + more, ..costs });
    }

    /// Serves the requests to `cpu`, in the handler of their interrupt.
    fn serve(&self, cpu: Cpu<'_>) {
        let model = cpu.model();
        // SAFETY: the shooter reaches the units of this machine. They cache translations, and nothing else does.
        #[allow(unsafe_code)]
        let flusher = unsafe { self.memory.flusher(cpu.id(), self) };
        self.time(cpu, model.entry + model.acknowledge, || flusher.serve());
    }

    fn current(&self) -> Option<Cpu<'l>> {
        self.memory.platform().machine().current()
    }
}

/// Runs `body` with `cpu` in `set`.
fn within<R>(set: &Cell<CpuSet>, cpu: CpuId, body: impl FnOnce() -> R) -> R {
    let mut with = set.get();
    with.insert(cpu);
    set.set(with);
    let result = body();
    let mut without = set.get();
    without.remove(cpu);
    set.set(without);
    result
}

impl Shootdown for Counted<'_, '_> {
    fn clean_stores_fault(&self) -> bool {
        self.shooter.clean_stores_fault()
    }

    fn invalidate(&self, cpu: CpuId, scope: Scope) {
        let Some(current) = self.current() else { return };
        self.time(current, 0, || self.shooter.invalidate(cpu, scope));
    }

    fn interrupt(&self, from: CpuId, targets: &CpuMask) {
        let Some(cpu) = self.current() else { return };
        if self.writers.get().contains(from) {
            let costs = self.costs.get();
            let for_writes = costs.for_writes + u64::from(targets.count());
            self.costs.set(FlushCosts { for_writes, ..costs });
        }
        self.time(cpu, 0, || self.shooter.interrupt_with(targets, &|cpu| self.serve(cpu)));
    }

    fn is_lazy(&self, cpu: CpuId) -> bool {
        self.shooter.is_lazy(cpu)
    }
}
