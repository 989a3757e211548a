//! A simulated CPU: its clock, whether it listens to interrupts, and what it may ask for.

use super::{Engine, Failure, Program, coroutine::Switch, failure::Reported, interrupt::Mailbox};
use framewright::CpuId;
use std::{cell::Cell, panic::resume_unwind};

/// What the engine knows of a CPU.
#[derive(Default)]
pub(super) struct CpuState {
    pub(super) clock: Cell<u64>,
    pub(super) switch: Switch,
    /// Waits for somebody to wake it.
    pub(super) parked: Cell<bool>,
    /// Interrupts are masked.
    pub(super) masked: Cell<bool>,
    pub(super) mailbox: Mailbox,
}

impl CpuState {
    pub(super) fn reset(&self) {
        self.parked.set(false);
        self.masked.set(false);
        self.mailbox.clear();
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

    /// Its time, in cycles.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.state().clock.get()
    }

    /// Works for so many cycles, which concern nobody else.
    pub fn work(&self, cycles: u64) {
        let clock = &self.state().clock;
        clock.set(clock.get() + cycles);
    }

    /// Something that others can see comes next: others may go first, and interrupts that have
    /// arrived are served.
    pub fn step(&self) {
        self.serve();
        let state = self.state();
        let stays = (self.engine.scheduler.borrow_mut()).stays(self.number, state.clock.get());
        if !stays {
            self.engine.ready(self.number);
            state.switch.suspend();
            self.serve();
        }
    }

    /// Waits until somebody wakes this CPU. Interrupts are served meanwhile unless they are
    /// masked; then, or when it is woken for no reason, it returns early: look again.
    pub(super) fn park(&self) {
        let state = self.state();
        state.parked.set(true);
        state.switch.suspend();
        self.serve();
    }

    /// Ends the run: something is wrong.
    pub fn fail(&self, what: impl Into<String>) -> ! {
        self.engine.stop(Failure::Violation { cpu: self.id(), what: what.into() });
        resume_unwind(Box::new(Reported))
    }

    /// Masks interrupts; says whether they were masked.
    pub fn mask_interrupts(&self) -> bool {
        self.state().masked.replace(true)
    }

    /// Puts interrupts back as [`Cpu::mask_interrupts`] found them.
    pub fn restore_interrupts(&self, were_masked: bool) {
        self.state().masked.set(were_masked);
        self.serve();
    }

    /// Runs a program to its end, then serves interrupts until everybody's has ended.
    pub(super) fn run(&self, program: Program<'_>) {
        self.step();
        program(*self);
        self.restore_interrupts(false);
        let busy = &self.engine.busy;
        busy.set(busy.get() - 1);
        while busy.get() > 0 {
            self.park();
        }
    }
}
