//! The memory-management units of a machine: what each CPU has cached, and what it has loaded.

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

/// Address spaces that a CPU keeps translations of while others are loaded, as Linux on x86 does.
const SLOTS: usize = 6;

/// Names an address space; never used again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SpaceId(pub(super) u32);

impl SpaceId {
    /// Its number.
    #[must_use]
    pub fn number(self) -> u64 {
        self.0.into()
    }
}

/// What happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MmuStats {
    /// Page faults.
    pub faults: u64,
    /// Flushes that concerned other CPUs, too.
    pub remote_flushes: u64,
    /// Interrupts that were sent for them.
    pub interrupts: u64,
    /// CPUs that were spared one because they were lazy.
    pub lazy_skipped: u64,
    /// Times that a CPU flushed what it had of an address space.
    pub flushes: u64,
}

/// The memory-management units of all CPUs. Cheap to clone: clones are the same.
#[derive(Clone)]
pub struct Mmu(pub(super) Rc<State>);

pub(super) struct State {
    cpus: Vec<Unit>,
    /// There, every access is simulated and looked at. Without it nothing is cached.
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
    /// Runs without using what it has loaded: spared interrupts, and flushes when it uses it
    /// again. Written by that CPU, read by all.
    pub(super) lazy: Cell<bool>,
    /// How far this CPU has followed the generations of address spaces; the last used last.
    slots: RefCell<Vec<(SpaceId, u64)>>,
}

impl Mmu {
    /// Units that are there to be measured: they cache nothing, simulate no single access, and
    /// let no other CPU go first. Costs are charged.
    #[must_use]
    pub fn measuring(cpus: u16, costs: Costs) -> Self {
        Self::new(cpus, costs, None)
    }

    /// Units that are there to be checked: every access to memory is a step of its own, and the
    /// oracle looks at all of them. Nothing costs anything.
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

    /// What happened so far.
    #[must_use]
    pub fn stats(&self) -> MmuStats {
        self.0.stats.get()
    }

    /// The oracle, where there is one.
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

    /// The kernel runs on `cpu`, and uses nothing of the address space that stays loaded.
    pub(crate) fn rest(&self, cpu: Cpu<'_>) {
        self.step(cpu);
        self.unit(cpu).lazy.set(true);
    }

    /// Something that other CPUs can see comes next.
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

    /// How far this CPU has followed the generations of `space`; 0 if it knows nothing of it.
    pub(super) fn followed(&self, space: SpaceId) -> u64 {
        let slots = self.slots.borrow();
        slots.iter().find(|(known, _)| *known == space).map_or(0, |(_, generation)| *generation)
    }

    /// It has followed them this far. The address space that was used longest ago is forgotten
    /// for it where there are too many.
    pub(super) fn follow(&self, space: SpaceId, generation: u64) {
        let mut slots = self.slots.borrow_mut();
        slots.retain(|(known, _)| *known != space);
        if slots.len() == SLOTS {
            let (forgotten, _) = slots.remove(0);
            self.tlb.forget_space(forgotten);
        }
        slots.push((space, generation));
    }
}
