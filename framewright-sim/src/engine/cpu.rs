//! A simulated CPU: its clock, its interrupt mask, and its operations.

use super::{
    Engine, Event, Failure, Program, Waiting, choice::Actor, clock, coroutine::Switch,
    failure::Reported, interrupt::Mailbox, lines::Cache, model::Model, word::Loaded,
};
use crate::host_memory::prefetch;
use framewright::{CpuId, platform::Site};
use std::{cell::Cell, panic::resume_unwind};

/// The engine's state of a CPU. The fields that every charge uses come first, so that they share
/// few cache lines of the host.
#[derive(Default)]
#[repr(C, align(64))]
pub(super) struct CpuState {
    pub(super) clock: Cell<u64>,
    /// The time by which this CPU must let CPUs with earlier clocks run: an interrupt is due, or
    /// [`Model::slack`] cycles have passed since its last step.
    step_due: Cell<u64>,
    /// The time at which an interrupt or the periodic tick is due; `u64::MAX` while interrupts are
    /// masked.
    pub(super) alarm: Cell<u64>,
    number: u16,
    /// The CPU waits until another one wakes it.
    pub(super) parked: Cell<bool>,
    /// The CPU waits for a condition that the engine cannot see, in a schedule that ignores clocks.
    pub(super) relaxed: Cell<bool>,
    /// Set when the CPU waits for such a condition. Cleared for all CPUs when no other CPU can run
    /// and the engine wakes those that wait.
    pub(super) futile: Cell<bool>,
    /// Interrupts are masked.
    pub(super) masked: Cell<bool>,
    pub(super) switch: Switch,
    /// The time at which interrupts were last unmasked.
    pub(super) unmasked_at: Cell<u64>,
    pub(super) next_tick: Cell<u64>,
    pub(super) cache: Cache,
    pub(super) loaded: Loaded,
    pub(super) mailbox: Mailbox,
    /// Cycles spent parked.
    pub(super) waited: Cell<u64>,
    /// Cycles spent waiting for cache lines.
    pub(super) missed: Cell<u64>,
}

impl CpuState {
    pub(super) fn new(number: u16) -> Self {
        Self { number, ..Self::default() }
    }

    /// Sets the alarm to `time` if it is earlier.
    pub(super) fn alarm_at(&self, time: u64) {
        self.alarm.set(self.alarm.get().min(time));
        self.step_due.set(self.step_due.get().min(time));
    }

    /// Sets the alarm to the first pending interrupt; none is due while interrupts are masked.
    pub(super) fn set_alarm(&self) {
        let due = if self.masked.get() {
            u64::MAX
        } else {
            self.mailbox.arrival().min(self.next_tick.get())
        };
        self.alarm.set(due);
        self.step_due.set(self.step_due.get().min(due));
    }

    /// Masks interrupts: the alarm is off until they are unmasked.
    pub(super) fn mask(&self) {
        self.masked.set(true);
        self.alarm.set(u64::MAX);
    }

    /// Removes all pending events, after a run.
    pub(super) fn reset(&self, tick_period: u64) {
        self.parked.set(false);
        self.relaxed.set(false);
        self.futile.set(false);
        self.masked.set(false);
        self.mailbox.clear();
        self.loaded.reset();
        if tick_period == 0 {
            self.next_tick.set(u64::MAX);
        } else if self.next_tick.get() == 0 {
            self.next_tick.set(tick_period);
        }
        self.step_due.set(0);
        self.set_alarm();
    }

    /// Prefetches the state of a CPU that is likely to run soon.
    #[inline]
    pub(super) fn prefetch(&self) {
        prefetch(self);
        self.switch.prefetch();
    }

    /// Resets the clock to 0.
    pub(super) fn rewind(&self) {
        for cell in [&self.clock, &self.unmasked_at, &self.next_tick, &self.waited, &self.missed] {
            cell.set(0);
        }
        self.cache.clear_all();
    }
}

/// The CPU that a program runs on.
#[derive(Clone, Copy)]
pub struct Cpu<'e> {
    pub(super) engine: &'e Engine,
    state: &'e CpuState,
}

impl<'e> Cpu<'e> {
    #[inline(always)]
    pub(super) fn new(engine: &'e Engine, number: u16) -> Self {
        Self::of(engine, &engine.cpus[usize::from(number)])
    }

    /// The CPU of `engine` with this `state`.
    #[inline(always)]
    pub(super) fn of(engine: &'e Engine, state: &'e CpuState) -> Self {
        Self { engine, state }
    }

    #[inline(always)]
    pub(super) fn state(&self) -> &'e CpuState {
        self.state
    }

    #[inline(always)]
    pub(super) fn number(&self) -> u16 {
        self.state.number
    }

    /// The number of the CPU.
    #[must_use]
    pub fn id(&self) -> CpuId {
        CpuId::new(self.number())
    }

    /// The costs of the machine.
    #[inline(always)]
    #[must_use]
    pub fn model(&self) -> &'e Model {
        &self.engine.model
    }

    /// The clock of this CPU, in cycles.
    #[inline(always)]
    #[must_use]
    pub fn now(&self) -> u64 {
        self.state.clock.get()
    }

    /// Charges `cycles` of work that no other CPU can observe.
    #[inline]
    pub fn work(&self, cycles: u64) {
        let clock = &self.state().clock;
        clock.set(clock.get() + cycles);
    }

    /// Precedes an operation that other CPUs can observe. CPUs with earlier clocks run first, and
    /// interrupts that have arrived are served.
    #[inline]
    pub fn step(&self) {
        let (state, now) = (self.state, self.now());
        let first = clock::key(now, state.number) < self.engine.horizon.get();
        if first && now < state.alarm.get() {
            self.has_stepped();
        } else {
            self.step_slowly();
        }
    }

    /// As [`Cpu::step`], for operations that others rarely observe. A schedule by clocks yields
    /// here only every [`Model::slack`] cycles.
    #[inline(always)]
    pub(crate) fn step_if_due(&self) {
        if self.now() >= self.state.step_due.get() {
            self.step_slowly();
        }
    }

    #[inline]
    fn has_stepped(self) {
        let at = self.now() + self.engine.slack.get();
        self.state.step_due.set(at.min(self.state.alarm.get()));
    }

    #[cold]
    #[inline(never)]
    fn step_slowly(self) {
        if self.engine.ignores_clocks.get() {
            return self.step_ignoring_clocks();
        }
        let (state, number) = (self.state, self.number());
        loop {
            // The next event is this CPU's step, or an interrupt that arrived earlier.
            let next = self.now().min(state.alarm.get());
            if clock::key(next, number) >= self.engine.horizon.get() {
                self.engine.ready(number, next);
                self.suspend();
            } else if next == state.alarm.get() {
                self.serve(next);
            } else {
                break;
            }
        }
        self.has_stepped();
    }

    /// Suspends this program until the scheduler chooses this CPU.
    ///
    /// A `Cpu` can be stored and passed on, but only the running program can be suspended, and only
    /// by itself.
    fn suspend(self) {
        let running = self.engine.cpus.running();
        let runs = running.is_some_and(|running| std::ptr::eq(running, self.state));
        assert!(runs, "CPU {} is used by a program that does not run on it", self.number());
        self.state.switch.suspend();
    }

    /// A step in a schedule that ignores clocks.
    fn step_ignoring_clocks(self) {
        self.serve_or_delay();
        loop {
            match self.engine.decide_next(self) {
                Actor::Cpu(next) if next == self.number() => return,
                Actor::Cpu(next) => {
                    self.engine.ready(self.number(), 0);
                    self.engine.decided.set(Some(next));
                    self.suspend();
                    return self.serve_or_delay();
                }
                Actor::Buffer(cpu) => self.engine.drain_one(cpu),
            }
        }
    }

    /// Waits until another CPU wakes this one. Unless interrupts are masked, the CPU serves them
    /// meanwhile. The wait may end early, after an interrupt or a spurious wake-up. The caller
    /// therefore checks its condition again.
    pub(super) fn park(&self) {
        self.fence();
        let (state, since) = (self.state(), self.now());
        state.parked.set(true);
        if !state.masked.get() && !state.mailbox.is_empty() {
            self.engine.wake(self.number(), state.mailbox.arrival());
        }
        self.suspend();
        state.parked.set(false);
        state.waited.set(state.waited.get() + (self.now() - since));
        self.serve(self.now());
    }

    /// Lets other CPUs run while this one waits for a condition that the engine cannot see.
    pub(crate) fn relax(&self) {
        /// Cycles between two checks of the condition.
        const PAUSE: u64 = 1000;
        self.fence();
        self.engine.stall(*self);
        if !self.engine.ignores_clocks.get() {
            self.work(PAUSE);
            return self.step();
        }
        self.state().relaxed.set(true);
        self.state().futile.set(true);
        self.engine.relaxed.set(self.engine.relaxed.get() + 1);
        self.waits(Waiting::Condition, || self.park());
        if self.state().relaxed.replace(false) {
            self.engine.relaxed.set(self.engine.relaxed.get() - 1);
        }
    }

    /// Sleeps until `time`, in cycles; interrupts are served meanwhile. In a schedule that ignores
    /// clocks, this method returns without waiting.
    pub fn sleep_until(&self, time: u64) {
        while !self.engine.ignores_clocks.get() && self.now() < time {
            self.engine.ready(self.number(), time);
            self.waits(Waiting::Time, || self.park());
        }
        self.step();
    }

    /// Whether the schedule ignores clocks. Time then advances only by the steps of CPUs.
    pub(crate) fn ignores_clocks(&self) -> bool {
        self.engine.ignores_clocks.get()
    }

    /// Ends the run with [`Failure::Violation`].
    pub fn fail(&self, what: impl Into<String>) -> ! {
        self.fail_with(Failure::Violation { cpu: self.id(), what: what.into() })
    }

    /// Ends the run with `failure`.
    pub(crate) fn fail_with(&self, failure: Failure) -> ! {
        self.engine.stop(failure);
        resume_unwind(Box::new(Reported))
    }

    /// Decides whether the rare outcome at `site` is forced.
    #[inline]
    pub fn forces(&self, site: Site) -> bool {
        let force = &self.engine.options.force;
        if force.is_empty() {
            return false;
        }
        let rate = force.iter().find(|(forced, _)| *forced == site);
        rate.is_some_and(|&(_, one_in)| self.engine.rarely(one_in))
    }

    /// Runs a program to its end, then serves interrupts until all programs have ended.
    pub(super) fn run(&self, program: Program<'_>) {
        self.step();
        self.report(Event::Begin);
        program(*self);
        // The last stores of the program may be delayed, too.
        self.step();
        self.restore_interrupts(false);
        self.fence();
        self.report(Event::End);
        self.engine.progress();
        let busy = &self.engine.busy;
        busy.set(busy.get() - 1);
        while busy.get() > 0 {
            self.park();
        }
    }
}
