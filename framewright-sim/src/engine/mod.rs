//! The engine: simulated CPUs and everything they share.
//!
//! # Theory of operation
//!
//! Each CPU is a coroutine that runs a *program*, an ordinary closure, on a stack of its own. It
//! runs until it reaches a *globally visible operation* (a lock, a word that others read, an
//! interrupt): there [`Engine::step`] asks the [`Schedule`] who is next and switches if it is
//! somebody else. Work that only concerns the CPU itself moves its clock and nothing more.
//!
//! Under [`Schedule::Clock`] the CPU furthest behind always goes first, so that visible operations
//! happen in the order of their times. The other schedules ignore clocks; they look for bugs.
//!
//! # Rules
//!
//! * **One thread.** The engine is `!Sync`; whoever needs a handle that is (the library's platform)
//!   wraps it in something that checks.
//! * **No `&mut` and no `RefCell` borrow lives across a switch**: another CPU would find it. All
//!   state is in cells, borrowed for single statements.
//! * **Logical names only**: locks and words are numbered by first use, ties are broken by CPU
//!   number, nothing iterates over a hash map. So a run does not depend on addresses.
//! * **Whoever waits, waits for something exact**: a parked CPU runs again only when somebody
//!   wakes it. Nothing polls; if everybody is parked, that is a deadlock and is reported.

mod coroutine;
mod cpu;
mod failure;
mod interrupt;
mod lock;
mod schedule;
mod word;

pub use cpu::Cpu;
pub use failure::Failure;
pub use interrupt::Handler;
pub use lock::LockStats;
pub use schedule::Schedule;

pub(crate) use lock::LockId;
pub(crate) use word::WordId;

use coroutine::{Coroutines, Stacks};
use cpu::CpuState;
use framewright::CpuId;
use lock::Locks;
use schedule::Scheduler;
use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};
use word::Words;

/// What one CPU does.
pub type Program<'a> = Box<dyn FnOnce(Cpu<'_>) + 'a>;

/// How a machine is run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Who goes next.
    pub schedule: Schedule,
    /// Whether stores to words of the owners' protocol wait in store buffers, as on x86.
    pub store_buffers: bool,
}

/// A simulated machine. Cheap to clone: clones are the same machine.
#[derive(Clone)]
pub struct Machine(Rc<Engine>);

impl Machine {
    /// A machine of `cpus` CPUs.
    #[must_use]
    pub fn new(cpus: u16, options: Options) -> Self {
        Self(Rc::new(Engine::new(cpus, options)))
    }

    /// Runs one program per CPU until all have ended.
    ///
    /// # Errors
    ///
    /// What a CPU found to be wrong, a panic of a program, or a deadlock.
    ///
    /// # Panics
    ///
    /// If there are more programs than CPUs, or a program of this machine calls it.
    pub fn run(&self, programs: Vec<Program<'_>>) -> Result<(), Failure> {
        self.0.run(programs)
    }

    /// What happened at the locks of a class so far.
    #[must_use]
    pub fn lock_stats(&self) -> LockStats {
        self.0.locks.borrow().stats()
    }

    /// The time of a CPU, in cycles.
    #[must_use]
    pub fn clock(&self, cpu: CpuId) -> u64 {
        self.0.cpus[cpu.index()].clock.get()
    }

    pub(crate) fn engine(&self) -> &Rc<Engine> {
        &self.0
    }
}

/// All state of a machine.
pub(crate) struct Engine {
    cpus: Vec<CpuState>,
    /// Who runs; none between runs.
    running: Cell<Option<u16>>,
    scheduler: RefCell<Scheduler>,
    locks: RefCell<Locks>,
    words: RefCell<Words>,
    failure: RefCell<Option<Failure>>,
    /// Programs that have not ended.
    busy: Cell<u16>,
    /// Suspended programs are being unwound: nothing that they do on the way counts.
    ending: Cell<bool>,
    stacks: Stacks,
}

impl Engine {
    fn new(cpus: u16, options: Options) -> Self {
        Self {
            cpus: (0..cpus).map(|_| CpuState::default()).collect(),
            running: Cell::new(None),
            scheduler: RefCell::new(Scheduler::new(options.schedule, cpus)),
            locks: RefCell::default(),
            words: RefCell::new(Words::new(cpus, options.store_buffers)),
            failure: RefCell::default(),
            busy: Cell::new(0),
            ending: Cell::new(false),
            stacks: Stacks::default(),
        }
    }

    /// The CPU that runs, if one does. Between runs, and while programs are unwound, nothing is
    /// charged and nobody waits.
    pub(crate) fn current(&self) -> Option<Cpu<'_>> {
        if self.ending.get() {
            return None;
        }
        self.running.get().map(|number| Cpu::new(self, number))
    }

    fn run(self: &Rc<Self>, programs: Vec<Program<'_>>) -> Result<(), Failure> {
        assert!(programs.len() <= self.cpus.len(), "more programs than CPUs");
        assert!(self.running.get().is_none(), "a machine does not run inside itself");
        let mut coroutines = Coroutines::start(self, programs);
        for number in 0..coroutines.len() {
            self.ready(number as u16);
        }
        self.busy.set(coroutines.len() as u16);
        while self.failure.borrow().is_none() && self.busy.get() > 0 {
            let next = self.scheduler.borrow_mut().next();
            match next {
                Some(number) => self.resume(&mut coroutines, number),
                None => self.stop(Failure::deadlock()),
            }
        }
        self.running.set(None);
        self.ending.set(true);
        coroutines.end(&self.stacks);
        self.ending.set(false);
        self.reset();
        self.failure.take().map_or(Ok(()), Err)
    }

    fn resume(&self, coroutines: &mut Coroutines, number: u16) {
        self.running.set(Some(number));
        if let Err(failure) = coroutines.resume(number) {
            self.stop(failure);
        }
        self.running.set(None);
    }

    /// Nobody is ready, nothing is pending, whatever was left over.
    fn reset(&self) {
        self.scheduler.borrow_mut().clear();
        self.locks.borrow_mut().open_all();
        for cpu in &self.cpus {
            cpu.reset();
        }
    }

    /// Ends the run, for the first reason that is given.
    fn stop(&self, failure: Failure) {
        self.failure.borrow_mut().get_or_insert(failure);
    }

    /// Makes a CPU eligible to run.
    fn ready(&self, number: u16) {
        let cpu = &self.cpus[usize::from(number)];
        cpu.parked.set(false);
        self.scheduler.borrow_mut().ready(number, cpu.clock.get());
    }

    /// Makes a parked CPU go on, not before `time`.
    fn wake(&self, number: u16, time: u64) {
        let cpu = &self.cpus[usize::from(number)];
        if cpu.parked.get() {
            cpu.clock.set(cpu.clock.get().max(time));
            self.ready(number);
        }
    }
}

#[cfg(test)]
mod tests;
