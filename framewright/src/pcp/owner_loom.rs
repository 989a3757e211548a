//! The owner protocol under the C11 memory model.
//!
//! Loom cannot express a remote barrier. The biased protocol therefore runs with a full fence on both sides, the
//! owner's in place of its compiler fence. With these fences, loom shows that the two sides exclude each other, and that
//! their acquire and release operations order the accesses to the lists. It cannot show that a remote barrier replaces
//! the owner's fence; `owner_tso` and `owner_weak` show that. Loom does not reorder a load with a
//! later store; `owner_weak` does.

#![allow(unsafe_code)]

use loom::{cell::UnsafeCell, model::Builder, sync::Arc, thread};

use super::owner::Owner;
use crate::{
    platform::{BarrierTarget, Platform, model::Machine},
    types::CpuId,
};

/// The lists of a CPU, reduced to a length that loom watches.
struct Cpu {
    owner: Owner<Machine>,
    machine: Machine,
    len: UnsafeCell<u32>,
}

// SAFETY: the owner protocol admits one side at a time to the length; loom reports a violation.
unsafe impl Sync for Cpu {}

impl Cpu {
    fn new(machine: Machine) -> Arc<Self> {
        Arc::new(Self { owner: Owner::new(machine.kind), machine, len: UnsafeCell::new(0) })
    }

    fn with_len<R>(&self, f: impl FnOnce(&mut u32) -> R) -> R {
        // SAFETY: as for `Cpu`.
        self.len.with_mut(|len| f(unsafe { &mut *len }))
    }

    /// Puts one block on the lists, if the owner may enter.
    fn free_one(&self) -> u32 {
        if self.owner.enter(&self.machine) {
            self.with_len(|len| *len += 1);
            self.owner.leave(&self.machine);
        } else if self.owner.enter_slowly(&self.machine) {
            self.with_len(|len| *len += 1);
            self.owner.leave_slowly(&self.machine);
        } else {
            return 0;
        }
        1
    }

    fn drain(&self) -> u32 {
        self.owner.announce(&self.machine);
        self.machine.remote_barrier(BarrierTarget::Cpu(CpuId::new(0)));
        self.owner.take_over(&self.machine);
        let taken = self.with_len(std::mem::take);
        self.owner.release(&self.machine);
        taken
    }
}

fn explore(preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(body);
}

/// An owner that frees twice, and one drainer.
fn one_drainer(machine: Machine) {
    explore(3, move || {
        let cpu = Cpu::new(machine);
        let its_cpu = Arc::clone(&cpu);
        let owner = thread::spawn(move || its_cpu.free_one() + its_cpu.free_one());
        let taken = cpu.drain();
        assert_eq!(owner.join().unwrap(), taken + cpu.with_len(|len| *len));
    });
}

/// An owner that frees once, and two drainers.
fn two_drainers(machine: Machine) {
    explore(2, move || {
        let cpu = Cpu::new(machine);
        let (its_cpu, theirs) = (Arc::clone(&cpu), Arc::clone(&cpu));
        let owner = thread::spawn(move || its_cpu.free_one());
        let other = thread::spawn(move || theirs.drain());
        let taken = cpu.drain() + other.join().unwrap();
        assert_eq!(owner.join().unwrap(), taken + cpu.with_len(|len| *len));
    });
}

#[test]
fn loom_biased_owner_and_drainer_exclude_each_other() {
    one_drainer(Machine::BIASED);
}

#[test]
fn loom_trylock_owner_and_drainer_exclude_each_other() {
    one_drainer(Machine::TRYLOCK);
}

#[test]
fn loom_biased_drainers_take_turns() {
    two_drainers(Machine::BIASED);
}

#[test]
fn loom_trylock_drainers_take_turns() {
    two_drainers(Machine::TRYLOCK);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn loom_finds_the_missing_fence_of_the_drainer() {
    one_drainer(Machine { barriers: false, ..Machine::BIASED });
}
