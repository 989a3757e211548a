//! The memory-management units of a machine: the TLB and the loaded address space of each CPU.

use std::{
    cell::{Cell, RefCell},
    rc::{Rc, Weak},
};

use super::{
    Costs, Oracle,
    space::{AddressSpace, Space},
    tlb::Tlb,
};
use crate::engine::Cpu;

/// Address spaces with cached translations on a CPU: the number of PCIDs that Linux uses on x86.
const SLOTS: usize = 6;

/// The number of an address space. Numbers are not reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SpaceId(pub(super) u32);

impl SpaceId {
    /// The number.
    #[must_use]
    pub fn number(self) -> u64 {
        self.0.into()
    }
}

/// Counters of the units.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MmuStats {
    /// Page faults.
    pub faults: u64,
    /// Flushes that interrupted other CPUs.
    pub remote_flushes: u64,
    /// Interrupts for these flushes.
    pub interrupts: u64,
    /// CPUs that were not interrupted, because they were lazy.
    pub lazy_skipped: u64,
    /// Flushes of an address space on a CPU.
    pub flushes: u64,
}

/// The memory-management units of all CPUs. Clones are handles of the same units.
#[derive(Clone)]
pub struct Mmu(pub(super) Rc<State>);

pub(super) struct State {
    cpus: Vec<Unit>,
    /// If there is an oracle, every access is simulated and checked. Otherwise nothing is cached.
    pub(super) oracle: Option<Oracle>,
    pub(super) costs: Costs,
    spaces: Cell<u32>,
    stats: Cell<MmuStats>,
}

/// The unit of one CPU.
#[derive(Default)]
pub(super) struct Unit {
    pub(super) tlb: Tlb,
    pub(super) loaded: RefCell<Weak<Space>>,
    /// Whether the CPU is in lazy TLB mode: it does not use its loaded address space and is not
    /// interrupted, and it flushes before it uses the address space again. Only this CPU writes the
    /// flag; all CPUs read it.
    pub(super) lazy: Cell<bool>,
    /// For each address space, the generation that this CPU has flushed up to; the most recently
    /// used is the last.
    slots: RefCell<Vec<(SpaceId, u64)>>,
}

impl Mmu {
    /// Units for measurements: they cache nothing, do not simulate single accesses, and yield to no
    /// other CPU. Costs are charged.
    #[must_use]
    pub fn measuring(cpus: u16, costs: Costs) -> Self {
        Self::new(cpus, costs, None)
    }

    /// Units for checking: every memory access is a separate step, which the oracle checks. All
    /// operations are free.
    #[must_use]
    pub fn checking(cpus: u16, oracle: Oracle) -> Self {
        let free = Costs {
            fault: 0,
            unmap_page: 0,
            protect_page: 0,
            flush_page: 0,
            flush_space: 0,
            switch: 0,
        };
        Self::new(cpus, free, Some(oracle))
    }

    fn new(cpus: u16, costs: Costs, oracle: Option<Oracle>) -> Self {
        Self(Rc::new(State {
            cpus: (0..cpus).map(|_| Unit::default()).collect(),
            oracle,
            costs,
            spaces: Cell::new(0),
            stats: Cell::default(),
        }))
    }

    /// The counters so far.
    #[must_use]
    pub fn stats(&self) -> MmuStats {
        self.0.stats.get()
    }

    /// The oracle, if there is one.
    #[must_use]
    pub fn oracle(&self) -> Option<&Oracle> {
        self.0.oracle.as_ref()
    }

    pub(super) fn count(&self, add: impl FnOnce(&mut MmuStats)) {
        let mut stats = self.0.stats.get();
        add(&mut stats);
        self.0.stats.set(stats);
    }

    pub(super) fn new_space(&self) -> SpaceId {
        self.0.spaces.set(self.0.spaces.get() + 1);
        SpaceId(self.0.spaces.get())
    }

    pub(super) fn unit(&self, cpu: Cpu<'_>) -> &Unit {
        &self.0.cpus[cpu.id().index()]
    }

    pub(super) fn unit_of(&self, cpu: framewright::CpuId) -> &Unit {
        &self.0.cpus[cpu.index()]
    }

    /// Enters lazy TLB mode: the kernel runs on `cpu` and does not use the loaded address space.
    pub(crate) fn enter_lazy_mode(&self, cpu: Cpu<'_>) {
        self.step(cpu);
        self.unit(cpu).lazy.set(true);
    }

    /// Precedes an operation that other CPUs can observe.
    pub(super) fn step(&self, cpu: Cpu<'_>) {
        if self.0.oracle.is_some() {
            cpu.step();
        }
    }
}

impl Unit {
    pub(super) fn has_loaded(&self, space: &AddressSpace) -> bool {
        std::ptr::eq(self.loaded.borrow().as_ptr(), Rc::as_ptr(&space.0))
    }

    /// The generation of `space` that this CPU has flushed up to; 0 if it has nothing cached.
    pub(super) fn followed(&self, space: SpaceId) -> u64 {
        let slots = self.slots.borrow();
        slots.iter().find(|(known, _)| *known == space).map_or(0, |(_, generation)| *generation)
    }

    /// Sets the generation that this CPU has flushed up to. If there are too many address spaces,
    /// the least recently used one is flushed.
    pub(super) fn follow(&self, space: SpaceId, generation: u64) {
        let mut slots = self.slots.borrow_mut();
        slots.retain(|(known, _)| *known != space);
        if slots.len() == SLOTS {
            let (evicted, _) = slots.remove(0);
            self.tlb.invalidate_space(evicted);
        }
        slots.push((space, generation));
    }
}
