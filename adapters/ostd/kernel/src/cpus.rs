//! Runs the same work on every CPU at once.
//!
//! Each CPU has two tasks. One works, the other yields to it: OSTD frees unmapped pages only after every CPU has
//! switched tasks.

use alloc::boxed::Box;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use ostd::{
    arch::read_tsc,
    cpu::num_cpus,
    sync::SpinLock,
    task::{Task, TaskOptions, scheduler::inject_scheduler},
};

use crate::scheduler::PerCpu;

/// The work of one CPU. The argument is its number.
pub(crate) type Work = fn(usize) -> Result<(), &'static str>;

static WORK: SpinLock<Option<Work>> = SpinLock::new(None);
/// The number of calls of `run` so far.
static ROUND: AtomicUsize = AtomicUsize::new(0);
static READY: AtomicUsize = AtomicUsize::new(0);
static GO: AtomicUsize = AtomicUsize::new(0);
static DONE: AtomicUsize = AtomicUsize::new(0);
static FAILED: AtomicBool = AtomicBool::new(false);
static END: AtomicU64 = AtomicU64::new(0);

/// The maximum number of CPUs.
const CPUS: usize = 16;
/// The number of times that the second task of each CPU ran.
static SWITCHES: [AtomicUsize; CPUS] = [const { AtomicUsize::new(0) }; CPUS];

/// Runs `first` on CPU 0, and lets the other CPUs wait for work. Does not return: the caller is not a task.
pub(crate) fn start(first: fn()) -> ! {
    inject_scheduler(Box::leak(Box::new(PerCpu::new())));
    for cpu in 0..num_cpus() {
        let task = move || if cpu == 0 { first() } else { serve(cpu) };
        spawn(cpu, task);
        spawn(cpu, move || {
            loop {
                SWITCHES[cpu].fetch_add(1, Ordering::AcqRel);
                Task::yield_now();
            }
        });
    }
    // The other CPUs yield to their tasks.
    ostd::boot::smp::register_ap_entry(|| ());
    Task::yield_now();
    unreachable!("a task of this CPU runs");
}

fn spawn(cpu: usize, task: impl FnOnce() + Send + 'static) {
    if TaskOptions::new(task).data(cpu).spawn().is_err() {
        panic!("no memory for a task");
    }
}

/// Spins without switching tasks: the instruction count must not include task switches.
fn wait_until(condition: impl Fn() -> bool) {
    while !condition() {
        core::hint::spin_loop();
    }
}

/// Waits where instructions are not counted.
fn yield_until(condition: impl Fn() -> bool) {
    while !condition() {
        Task::yield_now();
        core::hint::spin_loop();
    }
}

/// The loop of the other CPUs: waits for work and does it.
fn serve(cpu: usize) {
    for round in 1.. {
        yield_until(|| ROUND.load(Ordering::Acquire) == round);
        let work = *WORK.lock();
        READY.fetch_add(1, Ordering::AcqRel);
        wait_until(|| GO.load(Ordering::Acquire) == round);
        perform(work, cpu);
        wait_until(|| DONE.load(Ordering::Acquire) == num_cpus());
    }
}

fn perform(work: Option<Work>, cpu: usize) {
    if let Some(Err(why)) = work.map(|work| work(cpu)) {
        ostd::prelude::println!("CPU {}: {}", cpu, why);
        FAILED.store(true, Ordering::Release);
    }
    END.fetch_max(read_tsc(), Ordering::AcqRel);
    DONE.fetch_add(1, Ordering::AcqRel);
}

/// Runs `work` on every CPU. Returns the TSC difference from the start until the last CPU has finished: with
/// `-icount`, the instructions of the whole machine.
pub(crate) fn run(work: Work) -> Result<u64, &'static str> {
    let others = num_cpus() - 1;
    *WORK.lock() = Some(work);
    READY.store(0, Ordering::Relaxed);
    END.store(0, Ordering::Relaxed);
    let round = ROUND.fetch_add(1, Ordering::AcqRel) + 1;
    wait_until(|| READY.load(Ordering::Acquire) == others);
    DONE.store(0, Ordering::Relaxed);
    let start = read_tsc();
    GO.store(round, Ordering::Release);
    perform(Some(work), 0);
    wait_until(|| DONE.load(Ordering::Acquire) == others + 1);
    settle();
    match FAILED.load(Ordering::Acquire) {
        true => Err("a CPU has failed"),
        false => Ok(END.load(Ordering::Acquire) - start),
    }
}

/// Waits until each CPU has switched tasks ten times. Then unmapped pages are usually free.
pub(crate) fn settle() {
    for switches in &SWITCHES[..num_cpus()] {
        let enough = switches.load(Ordering::Acquire) + 10;
        yield_until(|| switches.load(Ordering::Acquire) >= enough);
    }
}
