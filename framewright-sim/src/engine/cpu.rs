//! A simulated CPU: its clock, whether it listens to interrupts, and what it may ask for.

use super::{
    Engine, Failure, Program, choice::Actor, clock, coroutine::Switch, failure::Reported,
    interrupt::Mailbox, lines::Cache, model::Model,
};
use framewright::{CpuId, platform::Site};
use std::{cell::Cell, panic::resume_unwind};

/// What the engine knows of a CPU.
#[derive(Default)]
pub(super) struct CpuState {
    pub(super) clock: Cell<u64>,
    pub(super) switch: Switch,
    /// Waits for somebody to wake it.
    pub(super) parked: Cell<bool>,
    /// Waits for something that the engine cannot see, in a schedule that ignores clocks.
    pub(super) relaxed: Cell<bool>,
    /// Interrupts are masked.
    pub(super) masked: Cell<bool>,
    /// When it last let others go first.
    pub(super) stepped: Cell<u64>,
    /// When an interrupt, the periodic one included, is due: never while they are masked.
    pub(super) alarm: Cell<u64>,
    pub(super) next_tick: Cell<u64>,
    pub(super) mailbox: Mailbox,
    /// Cycles of being parked.
    pub(super) waited: Cell<u64>,
    /// Cycles of waiting for cache lines.
    pub(super) missed: Cell<u64>,
    pub(super) cache: Cache,
}

impl CpuState {
    /// Nothing is pending.
    pub(super) fn reset(&self, tick_period: u64) {
        self.parked.set(false);
        self.relaxed.set(false);
        self.masked.set(false);
        self.mailbox.clear();
        if tick_period == 0 {
            self.next_tick.set(u64::MAX);
        } else if self.next_tick.get() == 0 {
            self.next_tick.set(tick_period);
        }
        self.alarm.set(self.next_tick.get());
    }

    /// Back to time 0.
    pub(super) fn rewind(&self) {
        for cell in [&self.clock, &self.stepped, &self.next_tick, &self.waited, &self.missed] {
            cell.set(0);
        }
        self.cache.forget_all();
    }
}

/// The CPU that a program runs on.
#[derive(Clone, Copy)]
pub struct Cpu<'e> {
    pub(super) engine: &'e Engine,
    number: u16,
}

impl<'e> Cpu<'e> {
    pub(super) fn new(engine: &'e Engine, number: u16) -> Self {
        Self { engine, number }
    }

    #[inline(always)]
    pub(super) fn state(&self) -> &'e CpuState {
        &self.engine.cpus[usize::from(self.number)]
    }

    pub(super) fn number(&self) -> u16 {
        self.number
    }

    /// Which CPU it is.
    #[must_use]
    pub fn id(&self) -> CpuId {
        CpuId::new(self.number)
    }

    /// What things cost.
    #[inline(always)]
    #[must_use]
    pub fn model(&self) -> &'e Model {
        &self.engine.model
    }

    /// Its time, in cycles.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.state().clock.get()
    }

    /// Works for so many cycles, which concern nobody else.
    #[inline]
    pub fn work(&self, cycles: u64) {
        let clock = &self.state().clock;
        clock.set(clock.get() + cycles);
    }

    /// Something that others can see comes next: others may go first, and interrupts that have
    /// arrived are served.
    #[inline]
    pub fn step(&self) {
        let state = self.state();
        let now = state.clock.get();
        state.stepped.set(now);
        let first = clock::key(now, self.number) < self.engine.horizon.get();
        if !first || now >= state.alarm.get() {
            self.step_slowly();
        }
    }

    /// As [`Cpu::step`], for what others rarely see: by the clock, only every so many cycles.
    #[inline]
    pub(crate) fn glance(&self) {
        let state = self.state();
        let now = state.clock.get();
        if now >= state.stepped.get() + self.engine.slack.get() || now >= state.alarm.get() {
            self.step();
        }
    }

    #[cold]
    #[inline(never)]
    fn step_slowly(&self) {
        if self.engine.hunts.get() {
            return self.step_anyhow();
        }
        let state = self.state();
        loop {
            if self.now() >= state.alarm.get() {
                self.serve();
            }
            if clock::key(self.now(), self.number) < self.engine.horizon.get() {
                break;
            }
            self.engine.ready(self.number, self.now());
            state.switch.suspend();
            if self.now() < state.alarm.get() {
                break;
            }
        }
        state.stepped.set(self.now());
    }

    /// A step in a schedule that ignores clocks.
    fn step_anyhow(&self) {
        self.serve_or_delay();
        loop {
            match self.engine.decide_next(self.number) {
                Actor::Cpu(next) if next == self.number => return,
                Actor::Cpu(next) => {
                    self.engine.ready(self.number, 0);
                    self.engine.decided.set(Some(next));
                    self.state().switch.suspend();
                    return self.serve_or_delay();
                }
                Actor::Buffer(cpu) => self.engine.drain_one(cpu),
            }
        }
    }

    /// Waits until somebody wakes this CPU. Interrupts are served meanwhile unless they are
    /// masked; then, or when it is woken for no reason, it returns early: look again.
    pub(super) fn park(&self) {
        self.fence();
        let (state, since) = (self.state(), self.now());
        state.parked.set(true);
        if !state.masked.get() && !state.mailbox.is_empty() {
            self.engine.wake(self.number, state.mailbox.arrival());
        }
        state.switch.suspend();
        state.parked.set(false);
        state.waited.set(state.waited.get() + (self.now() - since));
        self.serve();
    }

    /// Lets others go on while it waits for something that the engine cannot see.
    pub(crate) fn relax(&self) {
        const PAUSE: u64 = 1000;
        self.fence();
        self.engine.stall(*self);
        if !self.engine.hunts.get() {
            self.work(PAUSE);
            return self.step();
        }
        self.state().relaxed.set(true);
        self.engine.relaxed.set(self.engine.relaxed.get() + 1);
        self.park();
        if self.state().relaxed.replace(false) {
            self.engine.relaxed.set(self.engine.relaxed.get() - 1);
        }
    }

    /// Does nothing until `time`; interrupts are served meanwhile. In a schedule that ignores
    /// clocks it does not wait.
    pub fn sleep_until(&self, time: u64) {
        while !self.engine.hunts.get() && self.now() < time {
            self.engine.ready(self.number, time);
            self.park();
        }
        self.step();
    }

    /// Ends the run: something is wrong.
    pub fn fail(&self, what: impl Into<String>) -> ! {
        self.fail_with(Failure::Violation { cpu: self.id(), what: what.into() })
    }

    /// Ends the run: this is wrong.
    pub(crate) fn fail_with(&self, failure: Failure) -> ! {
        self.engine.stop(failure);
        resume_unwind(Box::new(Reported))
    }

    /// Masks interrupts; says whether they were masked.
    pub fn mask_interrupts(&self) -> bool {
        self.state().alarm.set(u64::MAX);
        self.state().masked.replace(true)
    }

    /// Puts interrupts back as [`Cpu::mask_interrupts`] found them.
    pub fn restore_interrupts(&self, were_masked: bool) {
        if were_masked {
            return;
        }
        let state = self.state();
        state.masked.set(false);
        state.alarm.set(state.mailbox.arrival().min(state.next_tick.get()));
        if self.engine.hunts.get() {
            self.serve_or_delay();
        } else if self.now() >= state.alarm.get() {
            self.serve();
        }
    }

    /// Decides whether the rare outcome at `site` is forced.
    #[inline]
    pub fn forces(&self, site: Site) -> bool {
        let force = &self.engine.options.force;
        let rate = force.iter().find(|(forced, _)| *forced == site);
        rate.is_some_and(|&(_, one_in)| self.engine.rarely(one_in))
    }

    /// Runs a program to its end, then serves interrupts until everybody's has ended.
    pub(super) fn run(&self, program: Program<'_>) {
        self.step();
        program(*self);
        // What it stored last may be late, too.
        self.step();
        self.restore_interrupts(false);
        self.fence();
        self.engine.progress();
        let busy = &self.engine.busy;
        busy.set(busy.get() - 1);
        while busy.get() > 0 {
            self.park();
        }
    }
}
