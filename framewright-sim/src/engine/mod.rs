//! The engine: simulated CPUs and the state they share.
//!
//! # Theory of operation
//!
//! Each CPU is a coroutine that runs a *program*, an ordinary closure, on its own stack. It runs
//! until it reaches a *globally visible operation* (a lock, a word that others read, an interrupt).
//! There [`Cpu::step`] asks the [`Schedule`] for the next CPU, and switches if that is another one.
//! Other work only advances the clock of the CPU.
//!
//! Under [`Schedule::Clock`] the CPU with the earliest clock runs next, so that visible operations
//! happen in the order of their times. Masking interrupts is one of these operations: interrupts
//! that arrived earlier are served first, at the time of their arrival, even if the CPU's clock is
//! later. The other schedules ignore clocks; they look for bugs.
//!
//! | module      | job                                                                  |
//! |-------------|----------------------------------------------------------------------|
//! | `run`       | runs programs to their end; what happens between two switches        |
//! | `coroutine` | how a switch is made                                                 |
//! | `cpu`       | [`Cpu`]: clock, steps, parking                                       |
//! | `cpus`      | all CPUs, and which of them runs                                     |
//! | `schedule`  | [`Schedule`]: by clocks (`clock`) or by decisions (`choice`, `search`) |
//! | `lock`, `word`, `queue`, `interrupt` | synchronization of CPUs             |
//! | `section`   | detects two CPUs in one exclusive section                            |
//! | `lines`     | cache lines and their costs                                          |
//! | `model`     | all other costs                                                      |
//! | `observe`   | events of a run for an observer                                      |
//! | `table`     | tables of small values                                               |
//!
//! # Rules
//!
//! * **One thread.** The engine is `!Sync`. A handle that must be `Sync` (the library's platform)
//!   wraps the engine in a type that checks the thread.
//! * **No `&mut` and no `RefCell` borrow lives across a switch**, because another CPU may access
//!   the same state. All state is in cells, borrowed for single statements.
//! * **Logical names only**: locks and words are numbered in the order of their creation, ties are
//!   broken by CPU number, and no code iterates over a hash map. A run therefore does not depend on
//!   addresses.
//! * **Every wait has an exact condition**: a parked CPU runs again only when another CPU wakes it,
//!   or at a time that it has set. Only `Cpu::relax` polls, for conditions that the engine cannot
//!   see. The engine reports a deadlock if all CPUs are parked.

mod choice;
mod clock;
mod coroutine;
mod cpu;
mod cpus;
mod failure;
mod interrupt;
mod lines;
mod lock;
mod model;
mod mutex;
mod observe;
mod queue;
mod run;
mod schedule;
mod search;
mod section;
mod set;
mod table;
mod word;

pub use cpu::Cpu;
pub use failure::Failure;
pub use interrupt::Handler;
pub use lines::{Access, Family, Line, Miss};
pub use lock::{LockClass, LockId, LockStats};
pub use model::{LineCosts, Model};
pub use mutex::{Mutex, Shared};
pub use observe::{Activity, Event, Observer, Waiting};
pub use queue::WaitQueue;
pub use schedule::{Misfit, NoSchedule, Schedule};
pub use search::{Exhaustive, Search};
pub use set::CpuSet;

pub(crate) use lock::ProgramLock;
pub(crate) use section::SectionId;
pub(crate) use word::WordId;

use crate::machine::Spec;
use coroutine::Stacks;
use cpus::Cpus;
use framewright::{CpuId, platform::Site};
use lines::Directory;
use lock::Locks;
use run::Watch;
use schedule::Scheduler;
use section::Sections;
use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};
use word::{Watchers, Words};

/// The program of one CPU.
pub type Program<'a> = Box<dyn FnOnce(Cpu<'_>) + 'a>;

/// Options of a machine.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The order in which CPUs run.
    pub schedule: Schedule,
    /// Whether stores to words (of the library's protocol for per-CPU lists) wait in store buffers,
    /// as on x86. A schedule by clocks uses no store buffers.
    pub store_buffers: bool,
    /// Whether interrupts may be served later than at the next step. A schedule by clocks serves
    /// them when they arrive.
    pub late_interrupts: bool,
    /// Rare outcomes to force: at this site, in one of this many passes.
    pub force: Vec<(Site, u32)>,
    /// Seed for the forced outcomes under a schedule by clocks. Other schedules decide themselves.
    pub seed: u64,
    /// Limit of steps for schedules that ignore clocks: a longer run fails as endless. 0: no limit.
    pub most_steps: u64,
}

/// A simulated machine. Cloning is cheap: clones are handles of the same machine.
///
/// # Example
///
/// ```
/// use framewright_sim::{engine::{Cpu, LockClass, Machine, Program}, machine::Spec};
///
/// let machine = Machine::from(&Spec::uniform(4)?);
/// let lock = machine.new_lock(LockClass::Program);
/// let program = || -> Program<'_> {
///     Box::new(|cpu: Cpu<'_>| {
///         cpu.lock(lock);
///         cpu.work(1000); // cycles
///         cpu.unlock(lock);
///     })
/// };
/// machine.run(vec![program(), program(), program(), program()])?;
/// let stats = machine.lock_stats_of(LockClass::Program);
/// assert!(stats.wait_cycles >= 1000 + 2000 + 3000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Machine(Rc<Engine>);

impl Machine {
    /// A machine of `cpus` CPUs on which all operations are free.
    ///
    /// # Panics
    ///
    /// If `cpus` is 0 or more than 512.
    #[must_use]
    pub fn new(cpus: u16, options: Options) -> Self {
        Self::modelled(Model::free(cpus), options)
    }

    /// A machine with the costs of `model`.
    ///
    /// # Panics
    ///
    /// If `model` has no CPU, or more than 512.
    #[must_use]
    pub fn modelled(model: Model, options: Options) -> Self {
        Self(Rc::new(Engine::new(model, options)))
    }

    /// Runs one program per CPU until all have ended. Clocks continue from their current values.
    ///
    /// # Errors
    ///
    /// The first [`Failure`] of the run, for example a violation that a CPU reported, or a deadlock.
    ///
    /// # Panics
    ///
    /// If there are more programs than CPUs, or if a program of this machine calls this method.
    pub fn run(&self, programs: Vec<Program<'_>>) -> Result<(), Failure> {
        self.0.run(programs, None)
    }

    /// As [`Machine::run`], but also calls `watch` after every `steps` switches, as soon as no CPU
    /// is inside an exclusive section, and at the end.
    ///
    /// # Errors
    /// As [`Machine::run`]; also an error of `watch`.
    ///
    /// # Panics
    ///
    /// As [`Machine::run`].
    pub fn run_watched(
        &self,
        programs: Vec<Program<'_>>,
        steps: u64,
        watch: &dyn Fn() -> Result<(), String>,
    ) -> Result<(), Failure> {
        self.0.run(programs, Some(Watch::new(steps, watch)))
    }

    /// Resets the machine, and sets another schedule. Clocks and counters are 0, caches cold. All
    /// locks and words are deleted; their users must create them again.
    #[allow(clippy::needless_pass_by_value, reason = "a schedule of a search is for one run")]
    pub fn restart(&self, schedule: Schedule) {
        self.0.restart(&schedule);
    }

    /// Sets the schedule of further runs.
    pub fn reschedule(&self, schedule: &Schedule) {
        self.0.reschedule(schedule);
    }

    /// The decisions of the schedule so far: [`Schedule::Replay`] repeats them. A schedule by
    /// clocks makes none.
    #[must_use]
    pub fn choices(&self) -> Vec<u16> {
        let mut scheduler = self.0.scheduler.borrow_mut();
        scheduler.explorer().map_or(Vec::new(), |explorer| explorer.log().to_vec())
    }

    /// The first choice of a [`Schedule::Replay`] that did not fit the run: then the run differs
    /// from the recorded one.
    #[must_use]
    pub fn misfit(&self) -> Option<Misfit> {
        self.0.scheduler.borrow_mut().explorer().and_then(|explorer| explorer.misfit())
    }

    /// The number of decisions about the next CPU; under a schedule by clocks, the number of
    /// switches.
    #[must_use]
    pub fn steps(&self) -> u64 {
        let explored = self.0.scheduler.borrow_mut().explorer().map(|explorer| explorer.steps());
        explored.unwrap_or(self.0.switches.get())
    }

    /// Counts that the run reached `point`, a step that a scenario has given this number.
    pub(crate) fn reach(&self, point: usize) {
        let mut reached = self.0.reached.borrow_mut();
        if reached.len() <= point {
            reached.resize(point + 1, 0);
        }
        reached[point] += 1;
    }

    /// The number of times that the run reached each point ([`Machine::reach`]).
    pub(crate) fn reached(&self) -> Vec<u64> {
        self.0.reached.borrow().clone()
    }

    /// A hash of all events: two runs with the same fingerprint were the same.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        self.0.fingerprint.get()
    }

    /// The CPU whose program calls this; `None` outside a run.
    #[must_use]
    pub fn current(&self) -> Option<Cpu<'_>> {
        self.0.current()
    }

    /// Runs `look`, which reads the state of programs, without an effect on the run: no CPU is charged, locks are not
    /// taken, and no other CPU runs meanwhile. Returns `None`, without a call of `look`, while a CPU is inside an
    /// exclusive section, because the data that it uses may be inconsistent.
    ///
    /// # Example
    ///
    /// ```
    /// use framewright_sim::engine::{LockClass, Machine, Mutex, Options};
    ///
    /// let machine = Machine::new(1, Options::default());
    /// let data = Mutex::new(&machine, LockClass::Program, 7);
    /// let look = || machine.observe(|| data.with(|data| *data));
    /// machine.run(vec![Box::new(|_| assert_eq!(look(), Some(7)))]).expect("no failure");
    /// ```
    ///
    /// # Panics
    ///
    /// If `look` panics, or calls [`Machine::run`] during a run.
    pub fn observe<R>(&self, look: impl FnOnce() -> R) -> Option<R> {
        if self.0.inside.get() > 0 {
            return None;
        }
        let _paused = self.0.cpus.pause();
        Some(look())
    }

    /// The number of CPUs.
    #[must_use]
    pub fn cpus(&self) -> u16 {
        self.0.model.cpus()
    }

    /// The costs of the machine.
    #[must_use]
    pub fn model(&self) -> &Model {
        &self.0.model
    }

    /// A new lock, not held.
    #[must_use]
    pub fn new_lock(&self, class: LockClass) -> LockId {
        self.0.locks.borrow_mut().create(class)
    }

    /// Sets the class of a lock, if it is known only when the lock is first taken.
    pub(crate) fn classify_lock(&self, lock: LockId, class: LockClass, zone: u32) {
        self.0.locks.borrow_mut().classify(lock, class, zone);
    }

    /// Sets the node whose memory holds the cache lines of one member of a [`Family`] of lines.
    pub fn set_home_node(&self, family: Family, member: u32, node: u8) {
        self.0.set_home_node(family, member, node);
    }

    /// Statistics of all locks.
    #[must_use]
    pub fn lock_stats(&self) -> LockStats {
        self.0.locks.borrow().stats(None)
    }

    /// Statistics of the locks of a class.
    #[must_use]
    pub fn lock_stats_of(&self, class: LockClass) -> LockStats {
        self.0.locks.borrow().stats(Some(class))
    }

    /// Cycles of unfinished waits at `now`, for locks of a class or of all. [`LockStats`] do not
    /// include them. The clocks of waiting CPUs stand still.
    #[must_use]
    pub fn waiting(&self, class: Option<LockClass>, now: u64) -> u64 {
        self.0.locks.borrow().waiting(class, now)
    }

    /// Cycles of waiting for the lock of each zone until `now`, unfinished waits included. Zones whose locks were never
    /// taken may be missing at the end.
    #[must_use]
    pub fn zone_waits(&self, now: u64) -> Vec<u64> {
        self.0.locks.borrow().zone_waits(now)
    }

    /// The clock of a CPU, in cycles.
    #[must_use]
    pub fn clock(&self, cpu: CpuId) -> u64 {
        self.0.cpus[cpu.index()].clock.get()
    }

    /// Cycles that a CPU has waited for others: for locks, words, acknowledgements and queues.
    #[must_use]
    pub fn waited(&self, cpu: CpuId) -> u64 {
        self.0.cpus[cpu.index()].waited.get()
    }

    /// Cycles that a CPU has waited for cache lines.
    #[must_use]
    pub fn missed(&self, cpu: CpuId) -> u64 {
        self.0.cpus[cpu.index()].missed.get()
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.0
    }
}

impl From<&Spec> for Machine {
    /// The machine of `spec`, with a schedule by clocks.
    fn from(spec: &Spec) -> Self {
        Self::modelled(spec.into(), Options::default())
    }
}

/// All state of a machine.
pub(crate) struct Engine {
    model: Model,
    has_caches: bool,
    options: Options,
    cpus: Cpus,
    /// The number of CPUs that run programs.
    programs: Cell<u16>,
    scheduler: RefCell<Scheduler>,
    /// Whether the schedule ignores clocks.
    ignores_clocks: Cell<bool>,
    /// Whether stores wait in store buffers.
    buffers: Cell<bool>,
    /// Cycles that a CPU may be ahead of others when it accesses words.
    slack: Cell<u64>,
    /// The least sort key (clock, then number) of the CPUs that wait to run. The running CPU is the
    /// earliest while its own key is below.
    horizon: Cell<u64>,
    /// The CPU that the running one chose as the next.
    decided: Cell<Option<u16>>,
    locks: RefCell<Locks>,
    words: Words,
    watchers: Watchers,
    sections: RefCell<Sections>,
    /// The number of sections that a CPU is in.
    inside: Cell<u32>,
    directory: RefCell<Directory>,
    failure: RefCell<Option<Failure>>,
    /// Whether there is a failure.
    failed: Cell<bool>,
    /// The number of programs that have not ended.
    busy: Cell<u16>,
    /// The number of CPUs that wait for a condition that the engine cannot see.
    relaxed: Cell<u32>,
    /// The number of such waits in a row without progress.
    stalls: Cell<u32>,
    switches: Cell<u64>,
    /// Decides forced outcomes under a schedule by clocks.
    random: RefCell<fastrand::Rng>,
    fingerprint: Cell<u64>,
    /// The number of times that the run reached each point.
    reached: RefCell<Vec<u64>>,
    observer: observe::Slot,
    stacks: Stacks,
}

impl Engine {
    fn new(model: Model, options: Options) -> Self {
        let cpus = model.cpus();
        assert!((1..=set::MOST_CPUS).contains(&cpus), "a machine has 1 to 512 CPUs, not {cpus}");
        let engine = Self {
            has_caches: model.lines.memory_remote > 0,
            cpus: Cpus::new(cpus),
            programs: Cell::new(0),
            scheduler: RefCell::new(Scheduler::new(&options.schedule, cpus)),
            ignores_clocks: Cell::default(),
            buffers: Cell::default(),
            slack: Cell::default(),
            horizon: Cell::default(),
            decided: Cell::default(),
            locks: RefCell::default(),
            words: Words::new(cpus),
            watchers: Watchers::default(),
            sections: RefCell::default(),
            inside: Cell::default(),
            directory: RefCell::default(),
            failure: RefCell::default(),
            failed: Cell::default(),
            busy: Cell::default(),
            relaxed: Cell::default(),
            stalls: Cell::default(),
            switches: Cell::default(),
            random: RefCell::new(fastrand::Rng::with_seed(options.seed)),
            fingerprint: Cell::new(run::BEGINNING),
            reached: RefCell::default(),
            observer: observe::Slot::default(),
            stacks: Stacks::default(),
            model,
            options,
        };
        engine.follow(&engine.options.schedule.clone());
        engine.reset();
        engine
    }

    pub(crate) fn new_word(&self, value: u32) -> WordId {
        self.words.create(value)
    }

    /// The running CPU. There is none between runs, and none after a failure, while programs are
    /// unwound. Without a CPU, nothing is charged and nothing waits.
    #[inline(always)]
    pub(crate) fn current(&self) -> Option<Cpu<'_>> {
        self.cpus.running().map(|state| Cpu::of(self, state))
    }
}

#[cfg(test)]
mod tests;
