//! Flushing on simulated CPUs, as the library wants it done, and what it takes.

#![allow(unsafe_code)]

use std::{
    cell::Cell,
    ptr::NonNull,
    rc::Rc,
};

use framewright::{
    CpuId,
    tlb::{CpuMask, Scope, Shootdown},
};

use crate::{
    engine::{Cpu, CpuSet, Handler, Machine},
    lent::Lent,
    process::Mmu,
};

/// What an interrupted CPU does.
type Serve = dyn Fn(Cpu<'_>);

/// What flushes took.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FlushCosts {
    /// Cycles of all CPUs together: sending and waiting, being interrupted, flushing.
    pub cycles: u64,
    /// Interrupts sent to make pages clean before they are written, which is not reclaim.
    pub for_writes: u64,
}

/// The units and interrupts of a machine. Cheap to clone: clones are the same.
#[derive(Clone)]
pub struct SimShootdown(Rc<Inner>);

struct Inner {
    machine: Machine,
    mmu: Mmu,
    serve: Lent<Serve>,
    costs: Cell<FlushCosts>,
    /// Cycles that each CPU was interrupted for; not part of what it waited itself.
    interrupted: Vec<Cell<u64>>,
    /// CPUs that make pages clean at the moment.
    writers: Cell<CpuSet>,
}

impl SimShootdown {
    /// That of `machine`, whose units are `mmu`.
    #[must_use]
    pub fn new(machine: &Machine, mmu: &Mmu) -> Self {
        Self(Rc::new(Inner {
            machine: machine.clone(),
            mmu: mmu.clone(),
            serve: Lent::new(),
            costs: Cell::default(),
            interrupted: (0..machine.cpus()).map(|_| Cell::new(0)).collect(),
            writers: Cell::default(),
        }))
    }

    /// What flushes took so far.
    #[must_use]
    pub fn costs(&self) -> FlushCosts {
        self.0.costs.get()
    }

    /// While `body` runs, CPUs that are interrupted `serve`.
    pub(super) fn serving<R>(&self, serve: &dyn Fn(Cpu<'_>), body: impl FnOnce() -> R) -> R {
        let serve: NonNull<dyn Fn(Cpu<'_>) + '_> = NonNull::from(serve);
        // SAFETY: only the lifetime changes, of something that is not used but through `lend`.
        let serve: NonNull<Serve> = unsafe { std::mem::transmute(serve) };
        // SAFETY: `serve` is borrowed until `body` has returned.
        unsafe { self.0.serve.lend(serve, body) }
    }

    /// What `cpu` flushes while `body` runs is for pages that are to be written.
    pub(super) fn for_writes<R>(&self, cpu: CpuId, body: impl FnOnce() -> R) -> R {
        let writers = &self.0.writers;
        let mut with = writers.get();
        with.insert(cpu);
        writers.set(with);
        let result = body();
        let mut without = writers.get();
        without.remove(cpu);
        writers.set(without);
        result
    }
}

impl Inner {
    fn spend(&self, cycles: u64, for_writes: u64) {
        let FlushCosts { cycles: before, for_writes: so_far } = self.costs.get();
        let costs = FlushCosts { cycles: before + cycles, for_writes: so_far + for_writes };
        self.costs.set(costs);
    }

    /// In the handler of the interrupt.
    fn interrupted(&self, cpu: Cpu<'_>) {
        let began = cpu.now();
        self.serve.with(|serve| {
            if let Some(serve) = serve {
                serve(cpu);
            }
        });
        let model = cpu.model();
        let cycles = cpu.now() - began + model.entry + model.acknowledge;
        let own = &self.interrupted[cpu.id().index()];
        own.set(own.get() + cycles);
        self.spend(model.entry + model.acknowledge, 0);
    }
}

impl Shootdown for SimShootdown {
    fn clean_stores_fault(&self) -> bool {
        true
    }

    fn forget(&self, _cpu: CpuId, scope: Scope) {
        let Some(cpu) = self.0.machine.current() else { return };
        let began = cpu.now();
        let pages = match scope {
            Scope::Pages { pages, .. } => pages.into(),
            Scope::Everything => u64::MAX,
        };
        self.0.mmu.forget_loaded(cpu, pages);
        self.0.spend(cpu.now() - began, 0);
    }

    fn interrupt(&self, _from: CpuId, targets: &CpuMask) {
        let Some(cpu) = self.0.machine.current() else { return };
        let inner = Rc::clone(&self.0);
        let handler: Handler = Rc::new(move |cpu| inner.interrupted(cpu));
        let interrupted = &self.0.interrupted[cpu.id().index()];
        let (began, before) = (cpu.now(), interrupted.get());
        cpu.interrupt(targets.iter(), &handler);
        let others = interrupted.get() - before;
        let writes = self.0.writers.get().contains(cpu.id());
        let for_writes = if writes { targets.count().into() } else { 0 };
        self.0.spend((cpu.now() - began).saturating_sub(others), for_writes);
    }

    fn is_lazy(&self, cpu: CpuId) -> bool {
        self.0.mmu.is_lazy(cpu)
    }
}
