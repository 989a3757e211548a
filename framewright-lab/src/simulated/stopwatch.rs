//! When a window begins and ends, and what was counted then.
//!
//! CPUs look at the stopwatch as they go. One that sees a time has come may be far ahead of the
//! others: it lets them catch up first. Then the first of them counts for all, also for those who are
//! in line for a lock and cannot look: the error is what a CPU does between two looks.

use framewright::CpuId;
use framewright_sim::engine::{LockClass, LockStats, Machine};
use std::cell::Cell;

use super::Plan;
use crate::workloads::{
    Counts, Window,
    counts::{CpuCounters, Done},
    figures::LockCycles,
};

/// CPUs look before every fault, or call: often enough to see what goes wrong, and too often to check
/// each time.
const LOOKS_PER_CHECK: u32 = 256;

/// What was counted up to some moment.
#[derive(Clone, Copy)]
struct Moment {
    cycles: u64,
    /// Of all CPUs, but for what they waited for one another's work.
    busy: u64,
    done: Done,
    counts: Counts,
    locks: LockStats,
    /// Of waits for zone locks, those that were not over included.
    waiting: u64,
    /// Cycles that CPUs have waited for cache lines.
    missed: u64,
}

/// How far the run is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Before,
    Within,
    After,
}

/// Watches one run.
pub(super) struct Stopwatch<'s> {
    machine: &'s Machine,
    counters: &'s [CpuCounters],
    counts: &'s dyn Fn() -> Counts,
    /// Frames that all CPUs' lists hold.
    held: &'s dyn Fn() -> u64,
    /// What must hold at any moment and does not.
    wrong: &'s dyn Fn() -> Result<(), String>,
    looks: Cell<u32>,
    /// Cycles from the first look after the beginning to the end: CPUs that wait do not look.
    length: u64,
    /// When the window begins; once it has, when it ends.
    due: Cell<u64>,
    phase: Cell<Phase>,
    began: Cell<Option<Moment>>,
    ended: Cell<Option<(Moment, u64)>>,
}

impl<'s> Stopwatch<'s> {
    /// Watches `machine` from the end of the warm-up to the end of the window.
    pub(super) fn new(
        machine: &'s Machine,
        counters: &'s [CpuCounters],
        counts: &'s dyn Fn() -> Counts,
        held: &'s dyn Fn() -> u64,
        plan: Plan,
    ) -> Self {
        let due = Cell::new(cycles(machine, plan.warm_up));
        let length = cycles(machine, plan.window);
        let (began, ended) = (Cell::new(None), Cell::new(None));
        let (looks, phase) = (Cell::new(0), Cell::new(Phase::Before));
        let wrong = &|| Ok(());
        Self { machine, counters, counts, held, wrong, looks, length, due, phase, began, ended }
    }

    /// As it is, and checks every so often that nothing is `wrong`.
    pub(super) fn checking(self, wrong: &'s dyn Fn() -> Result<(), String>) -> Self {
        Self { wrong, ..self }
    }

    /// A CPU looks, at its `now`; says whether the window is over.
    #[inline]
    pub(super) fn look(&self, now: u64) -> bool {
        let looks = self.looks.get().wrapping_add(1);
        self.looks.set(looks);
        if looks.is_multiple_of(LOOKS_PER_CHECK) {
            self.check();
        }
        now >= self.due.get() && self.is_over(now)
    }

    /// Notes what is due, and says whether the window is over.
    #[cold]
    #[inline(never)]
    fn is_over(&self, now: u64) -> bool {
        if self.is_time(now) {
            self.note(now);
        }
        now >= self.due.get()
    }

    /// Whether something is to be noted at `now`.
    fn is_time(&self, now: u64) -> bool {
        self.phase.get() != Phase::After && now >= self.due.get()
    }

    /// Ends the run if something is wrong.
    #[cold]
    #[inline(never)]
    fn check(&self) {
        if let (Err(what), Some(cpu)) = ((self.wrong)(), self.machine.current()) {
            cpu.fail(what);
        }
    }

    /// Lets others come to this time, and counts, unless one of them has. Counting may take locks, so
    /// that others run meanwhile: the next phase begins before it.
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
                self.due.set(now + self.length);
                self.began.set(Some(self.moment(now)));
            }
            Phase::Within => {
                self.phase.set(Phase::After);
                self.ended.set(Some((self.moment(now), (self.held)())));
            }
            Phase::After => {}
        }
    }

    fn moment(&self, cycles: u64) -> Moment {
        let locks = self.machine.lock_stats_of(LockClass::Zone);
        let waiting = self.machine.waiting(Some(LockClass::Zone), cycles);
        // Before the counting, which may wait for locks until the other moment has passed.
        let missed = (0..self.machine.cpus()).map(|cpu| self.machine.missed(CpuId::new(cpu))).sum();
        Moment {
            cycles,
            busy: busy(self.machine, cycles),
            done: Done::sum(self.counters),
            counts: (self.counts)(),
            locks,
            waiting: locks.wait_cycles + waiting,
            missed,
        }
    }

    /// What happened in the window, on a memory of so many frames; `None` if it did not come to its
    /// end.
    pub(super) fn window(&self, frames: u64) -> Option<Window> {
        let (before, (after, held)) = (self.began.get()?, self.ended.get()?);
        let elapsed = after.cycles - before.cycles;
        let locks = after.locks - before.locks;
        Some(Window {
            seconds: nanos(self.machine, elapsed) / 1e9,
            done: after.done.since(before.done),
            counts: after.counts - before.counts,
            waits: None,
            cycles: Some(LockCycles {
                busy: after.busy - before.busy,
                waiting: after.waiting - before.waiting,
                holding: locks.hold_cycles,
                missing: after.missed - before.missed,
                contended: locks.contended,
                acquisitions: locks.acquisitions,
            }),
            held_percent: 100.0 * held as f64 / frames.max(1) as f64,
        })
    }
}

/// What CPUs have spent on anything but waiting for something to do: waiting for a lock is no rest. The
/// clock of a CPU that waits for one stands still.
fn busy(machine: &Machine, now: u64) -> u64 {
    let worked = |cpu| machine.clock(cpu) - machine.waited(cpu);
    let worked: u64 = (0..machine.cpus()).map(|cpu| worked(CpuId::new(cpu))).sum();
    worked + machine.lock_stats().wait_cycles + machine.waiting(None, now)
}

fn nanos(machine: &Machine, cycles: u64) -> f64 {
    cycles as f64 * machine.model().nanos_per_1000_cycles as f64 / 1000.0
}

fn cycles(machine: &Machine, nanos: u64) -> u64 {
    (u128::from(nanos) * 1000 / u128::from(machine.model().nanos_per_1000_cycles.max(1))) as u64
}
