//! The owner protocol on processors with store buffers, explored completely.
//!
//! This is where the biased protocol is proved to rest on the remote barrier, and on nothing
//! else: with it no exploration finds two users of the lists, without it one is found at once.

use std::sync::Arc;

use super::owner::Owner;
use crate::{
    frame::{Order, Pfn},
    platform::{BarrierTarget, OwnerLock, Platform, Wait},
    sync::{
        AtomicU32, Ordering, SpinFlag,
        tso::{self, Barrier, Explored, Explorer, Failure, Section},
    },
};

/// A machine of model threads. CPU n is model thread n + 1; the explored closure, which is
/// thread 0, is the drainer.
#[derive(Clone, Copy)]
struct Machine {
    kind: OwnerLock,
    /// The mutant has none.
    barriers: bool,
}

// SAFETY: the lock is the library's own; the remote barrier is the model's, except in the
// mutant, which is there to fail.
#[allow(unsafe_code)]
unsafe impl Platform for Machine {
    type Lock = SpinFlag;
    type Irq = ();

    fn irq_save(&self) {}
    fn irq_restore(&self, (): ()) {}

    fn owner_lock(&self) -> OwnerLock {
        self.kind
    }

    fn remote_barrier(&self, target: BarrierTarget) {
        match target {
            _ if !self.barriers => {}
            BarrierTarget::Cpu(cpu) => tso::remote_barrier(Barrier::Thread(cpu.index() + 1)),
            BarrierTarget::All => tso::remote_barrier(Barrier::All),
        }
    }

    fn wait(&self, _why: Wait, _spins: u32) {
        tso::yield_now();
    }

    fn clear(&self, _pfn: Pfn, _order: Order) {}
    fn copy(&self, _to: Pfn, _from: Pfn) {}

    fn now(&self) -> u64 {
        0
    }
}

/// The lists of a CPU, reduced to a length, and who is at them.
struct Cpu {
    owner: Owner,
    section: Section,
    len: AtomicU32,
}

impl Cpu {
    fn new(kind: OwnerLock) -> Arc<Self> {
        Arc::new(Self { owner: Owner::new(kind), section: Section::new(), len: AtomicU32::new(0) })
    }

    /// Puts one block on the lists, if the owner gets in.
    fn free_one(&self) -> u32 {
        let put = || {
            let _inside = self.section.enter();
            self.len.store(self.len.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        };
        if self.owner.enter() {
            put();
            self.owner.leave();
        } else if self.owner.enter_slowly() {
            put();
            self.owner.leave_slowly();
        } else {
            return 0;
        }
        1
    }

    /// Empties the lists, after [`Owner::announce`] and the barrier.
    fn take_all(&self, machine: Machine) -> u32 {
        self.owner.take_over(&machine);
        let taken = {
            let _inside = self.section.enter();
            let taken = self.len.load(Ordering::Relaxed);
            self.len.store(0, Ordering::Relaxed);
            taken
        };
        self.owner.release();
        taken
    }
}

/// An owner that frees `frees` blocks, and drains of its CPU meanwhile. No block gets lost.
fn one_cpu(machine: Machine, frees: u32, drains: u32, target: BarrierTarget) -> impl Fn() + Sync {
    move || {
        let cpu = Cpu::new(machine.kind);
        let its_cpu = Arc::clone(&cpu);
        let owner = tso::spawn(move || (0..frees).map(|_| its_cpu.free_one()).sum::<u32>());
        let mut taken = 0;
        for _ in 0..drains {
            cpu.owner.announce(&machine);
            machine.remote_barrier(target);
            taken += cpu.take_all(machine);
        }
        let put = owner.join();
        assert_eq!(put, taken + cpu.len.load(Ordering::Relaxed), "a block was lost");
    }
}

const BIASED: Machine = Machine { kind: OwnerLock::Biased, barriers: true };
const TRYLOCK: Machine = Machine { kind: OwnerLock::Trylock, barriers: false };
const CPU_0: BarrierTarget = BarrierTarget::Cpu(crate::platform::CpuId::new(0));

fn all_of(body: impl Fn() + Sync) -> Explored {
    let t = std::time::Instant::now();
    let explored = Explorer::new().executions(50000).run(body).unwrap();
    std::eprintln!("{explored:?} {:?}", t.elapsed());
    assert!(explored.complete);
    explored
}

fn up_to(n: u32, body: impl Fn() + Sync) {
    let t = std::time::Instant::now();
    let explored = Explorer::new().preemptions(n).executions(400000).run(body).unwrap();
    std::eprintln!("{n} {explored:?} {:?}", t.elapsed());
}

fn fails(body: impl Fn() + Sync) -> Failure {
    Explorer::new().run(body).expect_err("the mutant must be found")
}

#[test]
fn biased_owner_and_drainer_exclude_each_other() {
    all_of(one_cpu(BIASED, 1, 1, CPU_0));
    all_of(one_cpu(BIASED, 1, 1, BarrierTarget::All));
    up_to(2, one_cpu(BIASED, 2, 1, CPU_0));
    up_to(2, one_cpu(BIASED, 1, 2, CPU_0));
}

#[test]
fn without_the_remote_barrier_they_do_not() {
    let mutant = Machine { barriers: false, ..BIASED };
    let failure = fails(one_cpu(mutant, 1, 1, CPU_0));
    let message = &failure.message;
    assert!(message.contains("inside") || message.contains("lost"), "{failure}");
}

#[test]
fn a_barrier_before_the_announcement_is_none() {
    let failure = fails(|| {
        let cpu = Cpu::new(OwnerLock::Biased);
        let its_cpu = Arc::clone(&cpu);
        let owner = tso::spawn(move || its_cpu.free_one());
        BIASED.remote_barrier(CPU_0);
        cpu.owner.announce(&BIASED);
        cpu.take_all(BIASED);
        owner.join();
    });
    assert!(failure.message.contains("inside"), "{failure}");
}

#[test]
fn trylock_needs_no_barrier() {
    all_of(one_cpu(TRYLOCK, 2, 1, CPU_0));
    all_of(one_cpu(TRYLOCK, 1, 2, CPU_0));
}

#[test]
fn drainers_take_turns() {
    for machine in [BIASED, TRYLOCK] {
        up_to(1, || {
            let cpu = Cpu::new(machine.kind);
            let its_cpu = Arc::clone(&cpu);
            let owner = tso::spawn(move || its_cpu.free_one());
            let drain = move |cpu: &Cpu| {
                cpu.owner.announce(&machine);
                machine.remote_barrier(CPU_0);
                cpu.take_all(machine)
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
    up_to(1, || {
        let cpus = [Cpu::new(OwnerLock::Biased), Cpu::new(OwnerLock::Biased)];
        let owners = cpus.clone().map(|cpu| tso::spawn(move || cpu.free_one()));
        for cpu in &cpus {
            cpu.owner.announce(&BIASED);
        }
        BIASED.remote_barrier(BarrierTarget::All);
        let taken: u32 = cpus.iter().map(|cpu| cpu.take_all(BIASED)).sum();
        let put: u32 = owners.map(tso::JoinHandle::join).iter().sum();
        let left: u32 = cpus.iter().map(|cpu| cpu.len.load(Ordering::Relaxed)).sum();
        assert_eq!(put, taken + left);
    });
}
