//! The engine: simulated CPUs and everything they share.
//!
//! # Theory of operation
//!
//! Each CPU is a coroutine that runs a *program*, an ordinary closure, on a stack of its own. It
//! runs until it reaches a *globally visible operation* (a lock, a word that others read, an
//! interrupt): there [`Cpu::step`] asks the [`Schedule`] who is next and switches if it is somebody
//! else. Work that only concerns the CPU itself moves its clock and nothing more.
//!
//! Under [`Schedule::Clock`] the CPU furthest behind always goes first, so that visible operations
//! happen in the order of their times. Masking interrupts is one of these steps: interrupts that arrived
//! earlier are served first, at the time of their arrival, even if the CPU's clock is later. The other
//! schedules ignore clocks; they look for bugs.
//!
//! | module      | job                                                                  |
//! |-------------|----------------------------------------------------------------------|
//! | `run`       | runs programs until all have ended; what happens between two switches |
//! | `coroutine` | how a switch is made                                                 |
//! | `cpu`       | [`Cpu`]: clock, steps, parking                                       |
//! | `cpus`      | all of them, and who runs                                            |
//! | `schedule`  | [`Schedule`]: by clocks (`clock`) or by decisions (`choice`, `search`) |
//! | `lock`, `word`, `queue`, `interrupt` | what CPUs agree through             |
//! | `section`   | who is where alone                                                   |
//! | `lines`     | cache lines and what they cost                                       |
//! | `model`     | what else costs what                                                 |
//! | `table`     | tables of small values                                               |
//!
//! # Rules
//!
//! * **One thread.** The engine is `!Sync`; whoever needs a handle that is (the library's platform)
//!   wraps it in something that checks.
//! * **No `&mut` and no `RefCell` borrow lives across a switch**: another CPU would find it. All
//!   state is in cells, borrowed for single statements.
//! * **Logical names only**: locks and words are numbered in the order of their making, ties are
//!   broken by CPU number, nothing iterates over a hash map. So a run does not depend on addresses.
//! * **Whoever waits, waits for something exact**: a parked CPU runs again only when somebody
//!   wakes it. Nothing polls; if everybody is parked, that is a deadlock and is reported.

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
pub use queue::WaitQueue;
pub use schedule::{Misfit, NoSchedule, Schedule};
pub use search::{Exhaustive, Search};
pub use set::CpuSet;

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

/// What one CPU does.
pub type Program<'a> = Box<dyn FnOnce(Cpu<'_>) + 'a>;

/// How a machine is run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Who goes next.
    pub schedule: Schedule,
    /// Whether stores to words of the owners' protocol wait in store buffers, as on x86. By the
    /// clock they never do.
    pub store_buffers: bool,
    /// Whether interrupts may be served later than at the next step. By the clock they are served
    /// when they arrive.
    pub late_interrupts: bool,
    /// Rare outcomes to force: where, and once in how many times.
    pub force: Vec<(Site, u32)>,
    /// Decides which of them are forced when the schedule goes by clocks; else it does.
    pub seed: u64,
    /// Steps after which a schedule that hunts gives a run up as endless; 0: never.
    pub most_steps: u64,
}

/// A simulated machine. Cheap to clone: clones are the same machine.
#[derive(Clone)]
pub struct Machine(Rc<Engine>);

impl Machine {
    /// A machine of `cpus` CPUs on which nothing costs anything.
    ///
    /// # Panics
    ///
    /// If there are none, or more than 512.
    #[must_use]
    pub fn new(cpus: u16, options: Options) -> Self {
        Self::modelled(Model::free(cpus), options)
    }

    /// A machine on which things cost what `model` says.
    ///
    /// # Panics
    ///
    /// If it has no CPU, or more than 512.
    #[must_use]
    pub fn modelled(model: Model, options: Options) -> Self {
        Self(Rc::new(Engine::new(model, options)))
    }

    /// Runs one program per CPU until all have ended. Clocks go on from where they are.
    ///
    /// # Errors
    ///
    /// What a CPU found to be wrong, a panic of a program, or a deadlock.
    ///
    /// # Panics
    ///
    /// If there are more programs than CPUs, or a program of this machine calls it.
    pub fn run(&self, programs: Vec<Program<'_>>) -> Result<(), Failure> {
        self.0.run(programs, None)
    }

    /// As [`Machine::run`], and calls `watch` after every `steps` switches, as soon as nobody is in
    /// the middle of anything, and at the end.
    ///
    /// # Errors
    ///
    /// Also what `watch` finds.
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

    /// As if it were new, with another schedule: clocks and counters are 0, caches cold, and all
    /// locks and words are forgotten, so that whatever had some has to be made again.
    #[allow(clippy::needless_pass_by_value, reason = "a schedule of a search is for one run")]
    pub fn restart(&self, schedule: Schedule) {
        self.0.restart(&schedule);
    }

    /// Another schedule from now on.
    pub fn reschedule(&self, schedule: &Schedule) {
        self.0.reschedule(schedule);
    }

    /// The decisions of the schedule so far: [`Schedule::Replay`] repeats them. None by the clock.
    #[must_use]
    pub fn choices(&self) -> Vec<u16> {
        let mut scheduler = self.0.scheduler.borrow_mut();
        scheduler.hunt().map_or(Vec::new(), |hunt| hunt.log().to_vec())
    }

    /// What of a [`Schedule::Replay`] has had no place in the run: then this is another run than the
    /// recorded one.
    #[must_use]
    pub fn misfit(&self) -> Option<Misfit> {
        self.0.scheduler.borrow_mut().hunt().and_then(|hunt| hunt.misfit())
    }

    /// Steps at which somebody else might have been next; by the clock, switches.
    #[must_use]
    pub fn steps(&self) -> u64 {
        let hunted = self.0.scheduler.borrow_mut().hunt().map(|hunt| hunt.steps());
        hunted.unwrap_or(self.0.switches.get())
    }

    /// Something of which it is counted how often a run came to it.
    pub(crate) fn reach(&self, point: usize) {
        let mut reached = self.0.reached.borrow_mut();
        if reached.len() <= point {
            reached.resize(point + 1, 0);
        }
        reached[point] += 1;
    }

    /// How often the run came to each of them.
    pub(crate) fn reached(&self) -> Vec<u64> {
        self.0.reached.borrow().clone()
    }

    /// A number that everything that happened went into: two runs that agree in it were the same.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        self.0.fingerprint.get()
    }

    /// The CPU whose program calls this; none outside a run.
    #[must_use]
    pub fn current(&self) -> Option<Cpu<'_>> {
        self.0.current()
    }

    /// How many CPUs.
    #[must_use]
    pub fn cpus(&self) -> u16 {
        self.0.model.cpus()
    }

    /// What things cost.
    #[must_use]
    pub fn model(&self) -> &Model {
        &self.0.model
    }

    /// A new lock, open.
    #[must_use]
    pub fn new_lock(&self, class: LockClass) -> LockId {
        self.0.locks.borrow_mut().create(class)
    }

    /// Says what a lock protects, if that turns out when it is first taken.
    pub(crate) fn classify_lock(&self, lock: LockId, class: LockClass) {
        self.0.locks.borrow_mut().classify(lock, class);
    }

    /// Says which node's memory the lines of a member of a family are in.
    pub fn set_home(&self, family: Family, member: u32, node: u8) {
        self.0.set_home(family, member, node);
    }

    /// What happened at all locks so far.
    #[must_use]
    pub fn lock_stats(&self) -> LockStats {
        self.0.locks.borrow().total()
    }

    /// What happened at the locks of a class so far.
    #[must_use]
    pub fn lock_stats_of(&self, class: LockClass) -> LockStats {
        self.0.locks.borrow().stats(class)
    }

    /// Cycles of waiting for locks of a class, or of any, that is not over at `now`: what [`LockStats`]
    /// do not count yet. Meanwhile the clocks of those who wait stand still.
    #[must_use]
    pub fn waiting(&self, class: Option<LockClass>, now: u64) -> u64 {
        self.0.locks.borrow().waiting(class, now)
    }

    /// The time of a CPU, in cycles.
    #[must_use]
    pub fn clock(&self, cpu: CpuId) -> u64 {
        self.0.cpus[cpu.index()].clock.get()
    }

    /// Cycles that a CPU has waited for others: for locks, words, answers, room.
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
    /// As described, by the clock.
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
    /// CPUs that run programs.
    programs: Cell<u16>,
    scheduler: RefCell<Scheduler>,
    /// The schedule ignores clocks.
    hunts: Cell<bool>,
    /// Stores wait in buffers.
    buffers: Cell<bool>,
    /// How far a CPU may be ahead of others at words.
    slack: Cell<u64>,
    /// The key before which whoever runs is furthest behind.
    horizon: Cell<u64>,
    /// Who was chosen by whom that was running.
    decided: Cell<Option<u16>>,
    locks: RefCell<Locks>,
    words: Words,
    watchers: Watchers,
    sections: RefCell<Sections>,
    /// Sections that somebody is in.
    inside: Cell<u32>,
    directory: RefCell<Directory>,
    failure: RefCell<Option<Failure>>,
    /// There is a failure.
    failed: Cell<bool>,
    /// Programs that have not ended.
    busy: Cell<u16>,
    /// CPUs that wait for something that the engine cannot see.
    relaxed: Cell<u32>,
    /// Times in a row that somebody waited so while nothing happened.
    stalls: Cell<u32>,
    switches: Cell<u64>,
    /// Decides what is forced by the clock.
    random: RefCell<fastrand::Rng>,
    fingerprint: Cell<u64>,
    /// Points that the run has come to.
    reached: RefCell<Vec<u64>>,
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
            hunts: Cell::default(),
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

    /// The CPU that runs, if one does. Between runs, and once there is a failure, when programs are
    /// being unwound, nothing is charged and nobody waits.
    #[inline(always)]
    pub(crate) fn current(&self) -> Option<Cpu<'_>> {
        self.cpus.running().map(|state| Cpu::of(self, state))
    }
}

#[cfg(test)]
mod tests;
