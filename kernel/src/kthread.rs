//! Kernel threads: one kswapd and one kcompactd for each node. They run on the first CPU of their
//! node, or on CPU 0 if the node has no CPUs.
//!
//! A thread has its own stack, and runs until it waits. It runs while its CPU is idle, and at the
//! end of a page fault: the CPU's token is free at these times. kswapd also runs while a request
//! waits for it; the token is then in use.

#![allow(unsafe_code)]

use core::{
    cell::UnsafeCell,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
};

use framewright::{
    NodeId,
    reclaim::{Kswapd, NextStep},
};

use crate::{
    apic,
    boot::early::EarlyMemory,
    clock::Clock,
    compaction,
    cpu::{self, Stack, this_cpu},
    interrupts::Vector,
    memory::with_token,
    platform::Machine,
    reclaim,
    wait::{self, Event},
};

/// The greatest number of nodes with threads.
pub(crate) const NODES: usize = 16;
/// The functions of the threads of a node.
const BODIES: [extern "C" fn(u64) -> !; 2] = [kswapd, kcompactd];
const KSWAPD: usize = 0;
const KCOMPACTD: usize = 1;
const MOST: usize = NODES * BODIES.len();

unsafe extern "C" {
    fn switch_stacks(save: *mut u64, load: u64);
    static thread_begins: u8;
}

/// The runnable threads, one bit each.
static RUNNABLE: AtomicU64 = AtomicU64::new(0);

/// A thread, and the context that it has interrupted.
struct Thread {
    /// The time at which it continues without a wake-up, in nanoseconds; 0: never.
    resumes: AtomicU64,
    /// The stack pointer of the thread while it is not running.
    own: UnsafeCell<u64>,
    /// The stack pointer of the context that runs the thread.
    caller: UnsafeCell<u64>,
}

// SAFETY: only the CPU of the thread (`cpu_of`) uses the cells, outside of interrupts.
unsafe impl Sync for Thread {}

static THREADS: [Thread; MOST] = [const {
    Thread { resumes: AtomicU64::new(0), own: UnsafeCell::new(0), caller: UnsafeCell::new(0) }
}; MOST];

/// The number of threads. The threads of node 0 come first, then those of node 1, and so on.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Creates the threads. kcompactd starts without a wake-up, at the time of its first check. Called by the
/// first CPU, before there is any work.
pub(crate) fn prepare(early: &mut EarlyMemory, nodes: usize) {
    COUNT.store(nodes.min(NODES) * BODIES.len(), Ordering::Relaxed);
    for (number, thread) in threads().iter().enumerate() {
        let top = Stack::for_thread(early).top();
        // The words that `switch_stacks` pops: r15, r14, r13, r12, rbp, rbx, and the return address.
        // `thread_begins` calls the function in r12 with the argument in r13.
        let body = BODIES[number % BODIES.len()] as *const () as u64;
        let begin = &raw const thread_begins as u64;
        let frame: [u64; 7] = [0, 0, node_of(number), body, 0, 0, begin];
        let at = top - size_of_val(&frame) as u64;
        // SAFETY: the stack belongs to the thread, which does not run yet.
        unsafe {
            (at as *mut [u64; 7]).write(frame);
            *thread.own.get() = at;
        }
        if number % BODIES.len() == KCOMPACTD {
            thread.resumes.store(compaction::first_check(), Ordering::Relaxed);
        }
    }
}

fn threads() -> &'static [Thread] {
    &THREADS[..COUNT.load(Ordering::Relaxed)]
}

/// The node of a thread.
const fn node_of(number: usize) -> u64 {
    (number / BODIES.len()) as u64
}

/// The CPU on which the threads of a node run.
fn cpu_of(node: NodeId) -> Option<&'static cpu::Cpu> {
    cpu::all().find(|cpu| cpu.node == node).or_else(|| cpu::all().next())
}

/// Wakes kswapd of a node.
pub(crate) fn wake_kswapd(node: NodeId) {
    wake(node, KSWAPD);
}

/// Wakes kcompactd of a node.
pub(crate) fn wake_kcompactd(node: NodeId) {
    wake(node, KCOMPACTD);
}

fn wake(node: NodeId, body: usize) {
    if let Some(cpu) = cpu_of(node) {
        RUNNABLE.fetch_or(1 << (usize::from(node.get()) * BODIES.len() + body), Ordering::SeqCst);
        if cpu.id != this_cpu().id {
            apic::send(cpu.apic, Vector::Wake);
        }
    }
}

/// Whether a thread is runnable.
#[inline(always)]
pub(crate) fn any_runnable() -> bool {
    RUNNABLE.load(Ordering::Relaxed) != 0
}

/// Runs the runnable threads of this CPU. Returns whether there were any.
pub(crate) fn run() -> bool {
    run_first(BODIES.len())
}

/// Runs only kswapd, from a request that pauses: the CPU's token is in use. Not called by a kernel thread.
pub(crate) fn run_kswapd() -> bool {
    run_first(KSWAPD + 1)
}

/// Runs the threads of this CPU whose body is among the first `bodies`.
fn run_first(bodies: usize) -> bool {
    let me = this_cpu();
    let mut ran = false;
    let all = threads().iter().enumerate();
    for (number, thread) in all.filter(|(number, _)| number % BODIES.len() < bodies) {
        let due = |at: u64| at != 0 && Clock::now() >= at;
        let wanted = RUNNABLE.load(Ordering::SeqCst) >> number & 1 == 1;
        if !wanted && !due(thread.resumes.load(Ordering::Relaxed)) {
            continue;
        }
        let cpu = NodeId::new(node_of(number) as u8).and_then(cpu_of);
        if cpu.is_some_and(|cpu| cpu.id == me.id) {
            RUNNABLE.fetch_and(!(1 << number), Ordering::SeqCst);
            thread.resumes.store(0, Ordering::Relaxed);
            // SAFETY: this is the CPU of the thread, outside of interrupts, and the thread does not run: a
            // thread switches only to the context that runs it.
            unsafe { switch_stacks(thread.caller.get(), *thread.own.get()) };
            ran = true;
        }
    }
    ran
}

/// Waits, as an idle CPU, until a condition holds; `event` announces it. The threads of the CPU run
/// meanwhile. The caller must not be using the CPU's token.
pub(crate) fn run_until(event: Event, condition: impl Fn() -> bool) {
    wait::until(event, || {
        if run() {
            // A thread may have changed the condition, or have more work: check before halting.
            wait::stay_awake();
        }
        condition()
    });
}

impl Thread {
    /// The thread of a node with this body.
    fn of(node: u64, body: usize) -> &'static Self {
        &THREADS[node as usize * BODIES.len() + body]
    }

    /// Switches back to the context that runs this thread. Called by the thread.
    fn wait(&self) {
        // SAFETY: the context that runs this thread has stored its stack pointer there.
        unsafe { switch_stacks(self.own.get(), *self.caller.get()) };
    }
}

/// kswapd of a node. Its CPU may be on another node, if this one has no CPU.
extern "C" fn kswapd(node: u64) -> ! {
    let thread = Thread::of(node, KSWAPD);
    let node = NodeId::new(node as u8).unwrap_or_default();
    let mut work: Option<Kswapd<'static, 'static, Machine>> =
        reclaim::reclaim().and_then(|reclaim| reclaim.kswapd(node));
    loop {
        let wait = work.as_mut().map_or(NextStep::WhenWoken, step);
        if let Some((order, _)) = work.as_mut().and_then(Kswapd::take_compaction) {
            compaction::want(node, order);
            wake_kcompactd(node);
        }
        match wait {
            NextStep::Now => wake_kswapd(node),
            NextStep::AfterDelay => {
                let delay = Kswapd::<'static, 'static, Machine>::DELAY;
                thread.resumes.store(Clock::now() + delay, Ordering::Relaxed);
            }
            // Frames are free now, so kcompactd can form the block that a request needs.
            NextStep::WhenWoken if compaction::is_wanted(node) => wake_kcompactd(node),
            NextStep::WhenWoken => {}
        }
        thread.wait();
    }
}

/// A step of kswapd: with the token of its CPU, or without it while a request that pauses uses it.
fn step(kswapd: &mut Kswapd<'static, 'static, Machine>) -> NextStep {
    let me = this_cpu();
    if me.token_in_use.get() {
        kswapd.step_on(me.id)
    } else {
        with_token(|token| kswapd.step(token))
    }
}

/// kcompactd of a node, on the same CPU as its kswapd. It does not need the token.
extern "C" fn kcompactd(node: u64) -> ! {
    let thread = Thread::of(node, KCOMPACTD);
    let node = NodeId::new(node as u8).unwrap_or_default();
    loop {
        thread.resumes.store(compaction::work(node), Ordering::Relaxed);
        thread.wait();
    }
}
