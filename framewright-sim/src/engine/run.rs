//! Runs the programs: starts and switches coroutines, and does the engine's work between two
//! switches.

use super::{
    Cpu, Engine, Event, Failure, LockId, Program, choice::Actor, clock, coroutine::Coroutines, run,
    schedule::Schedule,
};
use std::rc::Rc;

/// The initial fingerprint: the offset of FNV-1a.
pub(super) const BEGINNING: u64 = 0xcbf2_9ce4_8422_2325;
/// The factor of FNV-1a.
const FACTOR: u64 = 0x0100_0000_01b3;

/// Limit of consecutive waits without progress, for conditions that the engine cannot see. More
/// waits are a deadlock.
const STALLS_MAX: u32 = 100_000;

/// A check that is called every `steps` switches.
pub(super) struct Watch<'w> {
    steps: u64,
    due: u64,
    check: &'w dyn Fn() -> Result<(), String>,
}

impl<'w> Watch<'w> {
    pub(super) fn new(steps: u64, check: &'w dyn Fn() -> Result<(), String>) -> Self {
        Self { steps: steps.max(1), due: steps.max(1), check }
    }
}

impl Engine {
    pub(super) fn run(
        self: &Rc<Self>,
        programs: Vec<Program<'_>>,
        mut watch: Option<Watch<'_>>,
    ) -> Result<(), Failure> {
        assert!(programs.len() <= self.cpus.len(), "more programs than CPUs");
        // No CPU is running during `Machine::observe`, though a run is under way.
        let runs = self.cpus.running().is_some() || self.programs.get() > 0;
        assert!(!runs, "a program cannot run its own machine");
        let mut coroutines = Coroutines::start(self, programs);
        let count = coroutines.len() as u16;
        self.programs.set(count);
        self.busy.set(count);
        for number in 0..count {
            self.ready(number, self.cpus[usize::from(number)].clock.get());
        }
        while !self.failed.get() && self.busy.get() > 0 {
            match self.next() {
                Some(number) => self.resume(&mut coroutines, number),
                None => self.stop(Failure::Deadlock),
            }
            if let Some(watch) = &mut watch {
                self.watch(watch);
            }
        }
        self.finish(coroutines);
        if let Some(watch) = &mut watch {
            watch.due = 0;
            self.watch(watch);
        }
        self.failed.set(false);
        self.failure.take().map_or(Ok(()), Err)
    }

    fn resume(&self, coroutines: &mut Coroutines, number: u16) {
        self.switches.set(self.switches.get() + 1);
        self.note(clock::key(self.cpus[usize::from(number)].clock.get(), number));
        self.cpus.run(number);
        if self.ignores_clocks.get() {
            self.report(Cpu::new(self, number), Event::Switch);
        }
        let resumed = coroutines.resume(number);
        self.cpus.stop_running();
        if let Err(failure) = resumed {
            self.stop(failure);
        }
    }

    /// Lets ended programs return, unwinds the others, and resets the state of the run.
    fn finish(&self, mut coroutines: Coroutines) {
        if !self.failed.get() {
            for number in 0..coroutines.len() as u16 {
                self.resume_ended(&mut coroutines, number);
            }
            self.check_nothing_is_left();
        }
        coroutines.end(&self.stacks);
        self.programs.set(0);
        self.reset();
    }

    fn resume_ended(&self, coroutines: &mut Coroutines, number: u16) {
        if coroutines.is_done(number) {
            return;
        }
        self.cpus.run(number);
        if let Err(failure) = coroutines.resume(number) {
            self.stop(failure);
        }
        self.cpus.stop_running();
    }

    /// Fails the run if a program has ended while it held a lock or was inside a section.
    fn check_nothing_is_left(&self) {
        let left = match self.locks.borrow().held() {
            Some((LockId(number), cpu)) => format!("CPU {cpu} ended while it held lock {number}"),
            None if self.inside.get() > 0 => {
                "a program ended inside an exclusive section".to_owned()
            }
            None => return,
        };
        self.stop(Failure::Invariant { what: left });
    }

    fn watch(&self, watch: &mut Watch<'_>) {
        if self.failed.get() || self.switches.get() < watch.due || self.inside.get() > 0 {
            return;
        }
        watch.due = self.switches.get() + watch.steps;
        if let Err(what) = (watch.check)() {
            self.stop(Failure::Invariant { what });
        }
    }

    /// The next CPU to run; `None` if all wait.
    fn next(&self) -> Option<u16> {
        if let Some(decided) = self.decided.take() {
            self.scheduler.borrow_mut().explorer().expect("a decision").not_ready(decided);
            return Some(decided);
        }
        loop {
            let next = self.scheduler.borrow_mut().next(None);
            match next {
                Some((Actor::Cpu(cpu), time)) => {
                    let clock = &self.cpus[usize::from(cpu)].clock;
                    clock.set(clock.get().max(time));
                    let horizon = self.scheduler.borrow().horizon();
                    self.horizon.set(horizon);
                    if let Some(after) = self.cpus.get(usize::from(clock::cpu(horizon))) {
                        after.prefetch();
                    }
                    return Some(cpu);
                }
                Some((Actor::Buffer(cpu), _)) => self.drain_one(cpu),
                None if self.wake_all_relaxed() => {}
                None => return None,
            }
        }
    }

    /// Chooses the next event while `cpu` could continue, in a schedule that ignores clocks.
    pub(super) fn decide_next(&self, cpu: Cpu<'_>) -> Actor {
        let (next, steps) = {
            let mut scheduler = self.scheduler.borrow_mut();
            let explorer = scheduler.explorer().expect("only schedules that ignore clocks decide");
            (
                explorer.next(Some(cpu.number())).expect("the running CPU can continue"),
                explorer.steps(),
            )
        };
        let most = self.options.most_steps;
        if most > 0 && steps > most {
            cpu.fail_with(Failure::Endless { steps });
        }
        next
    }

    pub(super) fn delays_interrupt(&self) -> bool {
        let mut scheduler = self.scheduler.borrow_mut();
        let late = self.options.late_interrupts;
        scheduler.explorer().is_some_and(|explorer| late && explorer.decide(2, false) == 1)
    }

    /// Decides whether to force an outcome. Random schedules force it once in `one_in` times on
    /// average.
    pub(super) fn rarely(&self, one_in: u32) -> bool {
        let one_in = one_in.max(1);
        match self.scheduler.borrow_mut().explorer() {
            Some(explorer) => explorer.rarely(one_in),
            None => self.random.borrow_mut().u32(..one_in) == 0,
        }
    }

    /// Removes all pending events, locks' holders and sections, after a run.
    pub(super) fn reset(&self) {
        self.scheduler.borrow_mut().clear();
        self.decided.set(None);
        self.locks.borrow_mut().unlock_all();
        self.words.drain_all();
        self.watchers.clear_all();
        if self.inside.replace(0) > 0 {
            self.sections.borrow_mut().clear();
        }
        self.relaxed.set(0);
        self.stalls.set(0);
        for cpu in self.cpus.iter() {
            cpu.reset(self.model.tick_period);
        }
    }

    pub(super) fn restart(&self, schedule: &Schedule) {
        self.reschedule(schedule);
        self.locks.borrow_mut().clear_all();
        self.words.clear_all();
        self.directory.borrow_mut().clear_all();
        self.switches.set(0);
        self.observer.sent.set(0);
        *self.random.borrow_mut() = fastrand::Rng::with_seed(self.options.seed);
        self.fingerprint.set(run::BEGINNING);
        self.reached.borrow_mut().clear();
        self.cpus.iter().for_each(|cpu| cpu.rewind());
        self.reset();
    }

    pub(super) fn reschedule(&self, schedule: &Schedule) {
        assert!(self.cpus.running().is_none(), "the schedule cannot change during a run");
        self.scheduler.borrow_mut().renew(schedule, self.model.cpus());
        self.follow(schedule);
    }

    /// Sets the values that depend on the kind of schedule.
    pub(super) fn follow(&self, schedule: &Schedule) {
        let ignores_clocks = !matches!(schedule, Schedule::Clock);
        self.ignores_clocks.set(ignores_clocks);
        self.buffers.set(ignores_clocks && self.options.store_buffers);
        self.slack.set(if ignores_clocks { 0 } else { self.model.slack });
        self.horizon.set(0);
    }

    /// Ends the run. The first failure counts; those that programs cause while they are unwound do
    /// not.
    pub(super) fn stop(&self, failure: Failure) {
        if let Some(cpu) = self.current() {
            self.report(cpu, Event::Failed(&failure));
        }
        self.failure.borrow_mut().get_or_insert(failure);
        self.failed.set(true);
        self.cpus.stop_running();
    }

    /// Makes a CPU eligible to run from `time` on.
    pub(super) fn ready(&self, number: u16, time: u64) {
        let mut scheduler = self.scheduler.borrow_mut();
        scheduler.ready(number, time);
        self.horizon.set(scheduler.horizon());
    }

    /// Wakes a parked CPU, not before `time`.
    pub(super) fn wake(&self, number: u16, time: u64) {
        let cpu = &self.cpus[usize::from(number)];
        if cpu.parked.get() {
            self.ready(number, cpu.clock.get().max(time));
        }
    }

    /// Reports an event that may end a wait for a condition that the engine cannot see.
    #[inline(always)]
    pub(super) fn progress(&self) {
        if self.stalls.get() > 0 {
            self.end_stall();
        }
    }

    /// Wakes the CPUs that wait for conditions that the engine cannot see. A CPU whose own last
    /// check failed does not wake the others: two CPUs that check the same unmet condition would
    /// wake each other forever.
    #[cold]
    #[inline(never)]
    fn end_stall(&self) {
        if self.cpus.running().is_none_or(|cpu| !cpu.futile.get()) {
            self.stalls.set(0);
            self.wake_relaxed();
        }
    }

    /// Wakes all CPUs that wait for conditions that the engine cannot see, when no other CPU can
    /// run. Returns whether there are any.
    fn wake_all_relaxed(&self) -> bool {
        self.cpus.iter().for_each(|cpu| cpu.futile.set(false));
        self.wake_relaxed()
    }

    fn wake_relaxed(&self) -> bool {
        if self.relaxed.get() == 0 {
            return false;
        }
        for (number, cpu) in (0..).zip(self.cpus.iter()) {
            if cpu.relaxed.replace(false) {
                self.relaxed.set(self.relaxed.get() - 1);
                self.wake(number, 0);
            }
        }
        true
    }

    /// Counts a wait for a condition that the engine cannot see.
    pub(super) fn stall(&self, cpu: Cpu<'_>) {
        self.stalls.set(self.stalls.get() + 1);
        if self.stalls.get() > STALLS_MAX {
            cpu.fail_with(Failure::Deadlock);
        }
    }

    /// Adds an event to the fingerprint.
    #[inline]
    pub(super) fn note(&self, what: u64) {
        self.fingerprint.set((self.fingerprint.get() ^ what).wrapping_mul(FACTOR).rotate_left(23));
    }
}
