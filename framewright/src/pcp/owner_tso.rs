//! The owner protocol on processors with store buffers, explored completely.
//!
//! In this model, stores are delayed and nothing else is reordered, as on x86. With the remote barrier the exploration
//! finds no two users of the lists at once; without it, the exploration finds them immediately. `owner_weak` reorders
//! loads as well.

use std::sync::Arc;

use super::owner::Owner;
use crate::{
    platform::{BarrierTarget, Platform, model::Machine},
    sync::{
        AtomicU32, Ordering,
        tso::{self, Explored, Explorer, Failure, Section},
    },
    types::CpuId,
};

/// The lists of a CPU, reduced to a length, and the side that uses them.
struct Cpu {
    owner: Owner<Machine>,
    machine: Machine,
    section: Section,
    len: AtomicU32,
}

impl Cpu {
    fn new(machine: Machine) -> Arc<Self> {
        let owner = Owner::new(machine.kind);
        Arc::new(Self { owner, machine, section: Section::new(), len: AtomicU32::new(0) })
    }

    /// Puts one block on the lists, if the owner may enter.
    fn free_one(&self) -> u32 {
        let put = || {
            let _inside = self.section.enter();
            self.len.store(self.len.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        };
        if self.owner.enter(&self.machine) {
            put();
            self.owner.leave(&self.machine);
        } else if self.owner.enter_slowly(&self.machine) {
            put();
            self.owner.leave_slowly(&self.machine);
        } else {
            return 0;
        }
        1
    }

    fn announce(&self) {
        self.owner.announce(&self.machine);
    }

    /// Empties the lists, after [`Cpu::announce`] and the barrier.
    fn take_all(&self) -> u32 {
        self.owner.take_over(&self.machine);
        let taken = {
            let _inside = self.section.enter();
            let taken = self.len.load(Ordering::Relaxed);
            self.len.store(0, Ordering::Relaxed);
            taken
        };
        self.owner.release(&self.machine);
        taken
    }
}

/// An owner that frees `frees` blocks, and concurrent drains of its CPU. No block is lost.
fn one_cpu(machine: Machine, frees: u32, drains: u32, target: BarrierTarget) -> impl Fn() + Sync {
    move || {
        let cpu = Cpu::new(machine);
        let its_cpu = Arc::clone(&cpu);
        let owner = tso::spawn(move || (0..frees).map(|_| its_cpu.free_one()).sum::<u32>());
        let mut taken = 0;
        for _ in 0..drains {
            cpu.announce();
            machine.remote_barrier(target);
            taken += cpu.take_all();
        }
        let put = owner.join();
        assert_eq!(put, taken + cpu.len.load(Ordering::Relaxed), "a block was lost");
    }
}

const CPU_0: BarrierTarget = BarrierTarget::Cpu(CpuId::new(0));

/// Asserts that no execution fails, with up to this many preemptions, or with any number.
fn holds(preemptions: Option<u32>, body: impl Fn() + Sync) -> Explored {
    let explorer = Explorer::new();
    let explorer = preemptions.map_or(explorer, |bound| explorer.preemptions(bound));
    let explored = explorer.run(body).unwrap_or_else(|failure| panic!("{failure}"));
    std::println!("{explored:?}");
    assert!(explored.complete);
    explored
}

fn fails(body: impl Fn() + Sync) -> Failure {
    Explorer::new().run(body).expect_err("the exploration found no failure")
}

#[test]
fn biased_owner_and_drainer_exclude_each_other() {
    holds(None, one_cpu(Machine::BIASED, 1, 1, CPU_0));
    holds(None, one_cpu(Machine::BIASED, 1, 1, BarrierTarget::All));
    holds(Some(2), one_cpu(Machine::BIASED, 2, 1, CPU_0));
    holds(Some(2), one_cpu(Machine::BIASED, 1, 2, CPU_0));
}

#[test]
fn without_the_remote_barrier_they_do_not() {
    let mutant = Machine { barriers: false, ..Machine::BIASED };
    let failure = fails(one_cpu(mutant, 1, 1, CPU_0));
    let message = &failure.message;
    assert!(message.contains("inside") || message.contains("lost"), "{failure}");
}

#[test]
fn a_barrier_before_the_announcement_is_none() {
    let failure = fails(|| {
        let cpu = Cpu::new(Machine::BIASED);
        let its_cpu = Arc::clone(&cpu);
        let owner = tso::spawn(move || its_cpu.free_one());
        Machine::BIASED.remote_barrier(CPU_0);
        cpu.announce();
        cpu.take_all();
        owner.join();
    });
    assert!(failure.message.contains("inside"), "{failure}");
}

#[test]
fn trylock_needs_no_barrier() {
    holds(None, one_cpu(Machine::TRYLOCK, 2, 1, CPU_0));
    holds(None, one_cpu(Machine::TRYLOCK, 1, 2, CPU_0));
}

#[test]
fn drainers_take_turns() {
    for machine in [Machine::BIASED, Machine::TRYLOCK] {
        holds(Some(1), || {
            let cpu = Cpu::new(machine);
            let its_cpu = Arc::clone(&cpu);
            let owner = tso::spawn(move || its_cpu.free_one());
            let drain = move |cpu: &Cpu| {
                cpu.announce();
                machine.remote_barrier(CPU_0);
                cpu.take_all()
            };
            let theirs = Arc::clone(&cpu);
            let other = tso::spawn(move || drain(&theirs));
            let taken = drain(&cpu) + other.join();
            assert_eq!(owner.join(), taken + cpu.len.load(Ordering::Relaxed));
        });
    }
}

#[test]
fn one_barrier_serves_a_drain_of_all_cpus() {
    holds(Some(1), || {
        let cpus = [Cpu::new(Machine::BIASED), Cpu::new(Machine::BIASED)];
        let last = Arc::clone(&cpus[1]);
        let owner = tso::spawn(move || last.free_one());
        for cpu in &cpus {
            cpu.announce();
        }
        Machine::BIASED.remote_barrier(BarrierTarget::All);
        let taken: u32 = cpus.iter().map(|cpu| cpu.take_all()).sum();
        assert_eq!(owner.join(), taken + cpus[1].len.load(Ordering::Relaxed));
    });
}
