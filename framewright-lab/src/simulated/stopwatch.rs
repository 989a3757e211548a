//! The start and end of the window, and the counters at these times.
//!
//! CPUs check the stopwatch as they run. A CPU that has reached the start or the end may be far
//! ahead of the others, so it first lets them catch up. Then the first CPU reads the counters of
//! all, including CPUs that wait for a lock and cannot check. The window is inaccurate by at most
//! the work of a CPU between two checks.
//!
//! If the plan asks for a steady window ([`Plan::steady`]), windows follow each other until two in a row agree, and the
//! last one counts. Each of them is at least as long as the plan says, and as long as a whole cycle of the workload:
//! a shorter window would measure which part of their cycles CPUs happen to be in.

use framewright::CpuId;
use framewright_sim::engine::{LockClass, Machine};
use std::cell::{Cell, RefCell};

use super::{Plan, column::Nodes};
use crate::workloads::{
    Counts, LockCycles, Window,
    counts::{CpuCounters, Done},
};

/// CPUs call the stopwatch before every fault or call. One call in this number checks the
/// invariants: violations are detected soon, at little cost.
const CALLS_PER_CHECK: u32 = 256;

/// Successive windows agree if their rates differ by at most this share.
const AGREE: f64 = 0.02;
/// The maximum number of windows.
const MOST_WINDOWS: u32 = 8;
/// A window that is too short for a cycle is extended by this part of its length, again and again.
const EXTENSION: u64 = 8;

/// The counters at one moment.
struct Moment {
    cycles: u64,
    locks: LockCycles,
    /// Cycles of waiting for each zone lock.
    waits: Vec<u64>,
    done: Done,
    counts: Counts,
}

/// The phase of the run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Before,
    Within,
    After,
}

/// The stopwatch of one run.
pub(super) struct Stopwatch<'s> {
    machine: &'s Machine,
    counters: &'s [CpuCounters],
    counts: &'s dyn Fn() -> Counts,
    /// Frames on all CPUs' lists.
    held: &'s dyn Fn() -> u64,
    /// Checks the invariants that hold at any time.
    wrong: &'s dyn Fn() -> Result<(), String>,
    /// Gets the time at the same intervals.
    sample: &'s dyn Fn(u64),
    calls: Cell<u32>,
    /// Cycles from the start to the end of the window. Both may be late, because waiting CPUs do
    /// not check the time.
    length: u64,
    /// Pages of a window at least; `None` if any window is taken.
    steady: Option<u64>,
    /// The number of windows before this one.
    windows: Cell<u32>,
    /// The rate of the window before, in pages per cycle of the clock.
    rate: Cell<Option<f64>>,
    /// Whether the last two windows agreed, or none was compared.
    settled: Cell<bool>,
    /// The start of the window; once it has started, its end.
    due: Cell<u64>,
    phase: Cell<Phase>,
    began: RefCell<Option<Moment>>,
    ended: RefCell<Option<(Moment, u64)>>,
}

impl<'s> Stopwatch<'s> {
    /// A stopwatch for `machine` from the end of the warm-up to the end of the window. A cycle of the workload on all
    /// CPUs has `cycle` pages.
    pub(super) fn new(
        machine: &'s Machine,
        counters: &'s [CpuCounters],
        counts: &'s dyn Fn() -> Counts,
        held: &'s dyn Fn() -> u64,
        plan: Plan,
        cycle: u64,
    ) -> Self {
        let due = Cell::new(machine.model().cycles_of_nanos(plan.warm_up));
        let length = machine.model().cycles_of_nanos(plan.window);
        let (began, ended) = (RefCell::new(None), RefCell::new(None));
        let (calls, phase) = (Cell::new(0), Cell::new(Phase::Before));
        Self {
            machine,
            counters,
            counts,
            held,
            wrong: &|| Ok(()),
            sample: &|_| (),
            calls,
            length,
            steady: plan.steady.then_some(cycle),
            windows: Cell::new(0),
            rate: Cell::new(None),
            settled: Cell::new(true),
            due,
            phase,
            began,
            ended,
        }
    }

    /// This stopwatch with a regular check of `wrong`.
    pub(super) fn checking(self, wrong: &'s dyn Fn() -> Result<(), String>) -> Self {
        Self { wrong, ..self }
    }

    /// This stopwatch with regular calls of `sample`, which gets the time of a CPU in cycles.
    pub(super) fn sampling(self, sample: &'s dyn Fn(u64)) -> Self {
        Self { sample, ..self }
    }

    /// Checks the time `now` of a CPU. Returns whether the window is over.
    #[inline]
    pub(super) fn tick(&self, now: u64) -> bool {
        let calls = self.calls.get().wrapping_add(1);
        self.calls.set(calls);
        if calls.is_multiple_of(CALLS_PER_CHECK) {
            self.check(now);
        }
        now >= self.due.get() && self.is_over(now)
    }

    /// Reads the counters if that is due. Returns whether the window is over.
    #[cold]
    #[inline(never)]
    fn is_over(&self, now: u64) -> bool {
        if self.is_time(now) {
            self.note(now);
        }
        now >= self.due.get()
    }

    /// Whether counting is due at `now`.
    fn is_time(&self, now: u64) -> bool {
        self.phase.get() != Phase::After && now >= self.due.get()
    }

    /// Ends the run if an invariant is violated.
    #[cold]
    #[inline(never)]
    fn check(&self, now: u64) {
        (self.sample)(now);
        if let (Err(what), Some(cpu)) = ((self.wrong)(), self.machine.current()) {
            cpu.fail(what);
        }
    }

    /// Lets other CPUs reach this time, and reads the counters, unless one of them already has.
    /// Reading the counters may take locks, and other CPUs may run meanwhile. The next phase
    /// therefore begins before that.
    fn note(&self, now: u64) {
        if let Some(cpu) = self.machine.current() {
            cpu.step();
        }
        if !self.is_time(now) {
            return;
        }
        match self.phase.get() {
            Phase::Before => {
                self.phase.set(Phase::Within);
                self.begin(now);
            }
            Phase::Within if self.is_too_short() => {
                self.due.set(now + (self.length / EXTENSION).max(1));
            }
            Phase::Within if self.is_settling(now) => {
                self.windows.set(self.windows.get() + 1);
                self.begin(now);
            }
            Phase::Within => {
                self.phase.set(Phase::After);
                self.ended.replace(Some((self.moment(now), (self.held)())));
            }
            Phase::After => {}
        }
    }

    fn begin(&self, now: u64) {
        self.due.set(now + self.length);
        self.began.replace(Some(self.moment(now)));
    }

    /// Pages and cycles of the clock since the start of this window.
    fn progress(&self, now: u64) -> (u64, u64) {
        let began = self.began.borrow();
        let began = began.as_ref().map_or((0, 0), |began| (began.done.pages, began.cycles));
        (Done::sum(self.counters).pages - began.0, now - began.1)
    }

    fn is_too_short(&self) -> bool {
        self.steady.is_some_and(|cycle| self.progress(u64::MAX).0 < cycle)
    }

    /// Whether another window is needed, because this one does not agree with the one before.
    fn is_settling(&self, now: u64) -> bool {
        if self.steady.is_none() {
            return false;
        }
        let (pages, cycles) = self.progress(now);
        let rate = pages as f64 / cycles.max(1) as f64;
        let before = self.rate.replace(Some(rate));
        let agree = |before: f64| (rate - before).abs() <= AGREE * rate.max(before);
        self.settled.set(before.is_some_and(agree));
        !self.settled.get() && self.windows.get() + 1 < MOST_WINDOWS
    }

    fn moment(&self, cycles: u64) -> Moment {
        // Read first: the other counters may wait for locks until the end of the window.
        let locks = lock_cycles(self.machine, cycles);
        let waits = self.machine.zone_waits(cycles);
        Moment { cycles, locks, waits, done: Done::sum(self.counters), counts: (self.counts)() }
    }

    /// The window as figures, on a memory with a zone on each node; `None` if it did not end.
    pub(super) fn window(self, nodes: &Nodes) -> Option<Window> {
        let (before, (after, held)) = (self.began.take()?, self.ended.take()?);
        let elapsed = after.cycles - before.cycles;
        // The lock of a zone is created when it is first taken.
        let wait_in = |waits: &[u64], zone| waits.get(zone).copied().unwrap_or(0);
        let zone_wait = |zone| wait_in(&after.waits, zone) - wait_in(&before.waits, zone);
        Some(Window {
            seconds: nanos(self.machine, elapsed) / 1e9,
            done: after.done.since(before.done),
            counts: after.counts - before.counts,
            waits: None,
            cycles: Some(after.locks - before.locks),
            zone_waits: (0..nodes.ranges().count()).map(zone_wait).collect(),
            held_percent: 100.0 * held as f64 / nodes.frames().max(1) as f64,
            windows_before: self.windows.get(),
            unsettled: !self.settled.get(),
            samples: Vec::new(),
        })
    }
}

/// The costs of zone locks until `now`, including waits that have not ended.
pub(crate) fn lock_cycles(machine: &Machine, now: u64) -> LockCycles {
    let locks = machine.lock_stats_of(LockClass::Zone);
    LockCycles {
        busy: busy(machine, now),
        waiting: locks.wait_cycles + machine.waiting(Some(LockClass::Zone), now),
        holding: locks.hold_cycles,
        missing: (0..machine.cpus()).map(|cpu| machine.missed(CpuId::new(cpu))).sum(),
        contended: locks.contended,
        acquisitions: locks.acquisitions,
    }
}

/// Cycles that CPUs have spent, including waits for locks, but without idle waits. The clock of a
/// CPU that waits for a lock stands still.
fn busy(machine: &Machine, now: u64) -> u64 {
    let worked = |cpu| machine.clock(cpu) - machine.waited(cpu);
    let worked: u64 = (0..machine.cpus()).map(|cpu| worked(CpuId::new(cpu))).sum();
    worked + machine.lock_stats().wait_cycles + machine.waiting(None, now)
}

fn nanos(machine: &Machine, cycles: u64) -> f64 {
    cycles as f64 * machine.model().nanos_per_1000_cycles as f64 / 1000.0
}
