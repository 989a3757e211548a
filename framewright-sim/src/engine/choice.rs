//! Schedules that look for bugs. Every decision is made and recorded here, and can be repeated.
//!
//! A decision is a number below the number of options. Option 0 is always the ordinary one: the
//! running CPU continues, an interrupt is served at once, no rare outcome is forced. A point with a
//! single option is not a decision and is not recorded, which keeps recordings short. A replay that
//! reaches the end of its recording continues with the ordinary options.

use super::{
    schedule::{Misfit, Schedule},
    search::Search,
    set::CpuSet,
};
use framewright::CpuId;
use std::{cell::RefCell, rc::Rc};

/// The next event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Actor {
    /// A CPU runs.
    Cpu(u16),
    /// The oldest store in the buffer of a CPU reaches memory.
    Buffer(u16),
}

/// The method by which decisions are made.
enum Policy {
    Random(fastrand::Rng),
    Pct(Pct),
    Replay(Vec<u16>),
    Search(Rc<RefCell<Search>>),
}

/// The state of a schedule that ignores clocks.
pub(super) struct Explorer {
    /// CPUs that may run.
    ready: CpuSet,
    /// CPUs with stores in their buffers.
    buffers: CpuSet,
    /// Candidates for the next event, kept between decisions to reuse the allocation.
    actors: Vec<Actor>,
    policy: Policy,
    /// The decisions so far.
    log: Vec<u16>,
    steps: u64,
    /// The first recorded choice that was not among the options of the run.
    misfit: Option<Misfit>,
}

impl Explorer {
    /// The state for `schedule`; `None` for the schedule that follows the clocks.
    pub(super) fn new(schedule: &Schedule, cpus: u16) -> Option<Self> {
        let policy = match schedule {
            Schedule::Clock => return None,
            Schedule::Random(seed) => Policy::Random(fastrand::Rng::with_seed(*seed)),
            Schedule::Pct { seed, depth, steps } => {
                Policy::Pct(Pct::new(*seed, *depth, *steps, cpus))
            }
            Schedule::Replay(choices) => Policy::Replay(choices.clone()),
            Schedule::Exhaustive(search) => Policy::Search(Rc::clone(search)),
        };
        let (ready, buffers) = (CpuSet::default(), CpuSet::default());
        let (actors, log) = (Vec::new(), Vec::new());
        Some(Self { ready, buffers, actors, policy, log, steps: 0, misfit: None })
    }

    /// Replaces `self` with a new state, and reuses its allocations. Returns false if `schedule`
    /// follows clocks.
    pub(super) fn renew(&mut self, schedule: &Schedule, cpus: u16) -> bool {
        let Some(new) = Self::new(schedule, cpus) else { return false };
        let Self { mut log, actors, .. } = std::mem::replace(self, new);
        log.clear();
        (self.log, self.actors) = (log, actors);
        true
    }

    /// The decisions so far.
    pub(super) fn log(&self) -> &[u16] {
        &self.log
    }

    /// The first part of a recording that does not fit this run.
    pub(super) fn misfit(&self) -> Option<Misfit> {
        let Policy::Replay(choices) = &self.policy else { return None };
        let places = self.log.len();
        let last = choices.iter().rposition(|&choice| choice != 0);
        let beyond = last.filter(|&place| place >= places);
        self.misfit.or(beyond.map(|place| Misfit::NeverReached { place, places }))
    }

    /// The number of times that the next event was chosen.
    pub(super) fn steps(&self) -> u64 {
        self.steps
    }

    /// Notes that a CPU may run.
    pub(super) fn ready(&mut self, cpu: u16) {
        self.ready.insert(CpuId::new(cpu));
    }

    /// Notes that a CPU runs, or no longer waits to run.
    pub(super) fn not_ready(&mut self, cpu: u16) {
        self.ready.remove(CpuId::new(cpu));
    }

    /// Notes whether a CPU has stores in its buffer.
    pub(super) fn buffers(&mut self, cpu: u16, any: bool) {
        if any {
            self.buffers.insert(CpuId::new(cpu));
        } else {
            self.buffers.remove(CpuId::new(cpu));
        }
    }

    /// Notes that no CPU may run.
    pub(super) fn clear(&mut self) {
        (self.ready, self.buffers) = (CpuSet::default(), CpuSet::default());
    }

    /// The next event; `current` is a CPU that could continue. `None`: no CPU can run.
    pub(super) fn next(&mut self, current: Option<u16>) -> Option<Actor> {
        self.steps += 1;
        let mut actors = std::mem::take(&mut self.actors);
        actors.clear();
        actors.extend(current.map(Actor::Cpu));
        actors.extend(self.ready.iter().map(|cpu| Actor::Cpu(cpu.get())));
        actors.extend(self.buffers.iter().map(|cpu| Actor::Buffer(cpu.get())));
        let chosen = match (&mut self.policy, actors.len()) {
            (_, 0 | 1) => 0,
            (Policy::Pct(pct), _) => {
                let chosen = pct.next(&actors);
                self.log.push(chosen as u16);
                chosen
            }
            (_, options) => self.decide(options as u32, current.is_none()) as usize,
        };
        let actor = actors.get(chosen).copied();
        self.actors = actors;
        actor
    }

    /// Chooses one of `options`. `ordinary`: a choice other than 0 is no deviation (which a search
    /// counts and limits).
    pub(super) fn decide(&mut self, options: u32, ordinary: bool) -> u32 {
        let chosen = match &mut self.policy {
            Policy::Random(random) => random.u32(..options),
            Policy::Pct(pct) => pct.random.u32(..options),
            Policy::Replay(choices) => {
                let place = self.log.len();
                let choice = choices.get(place).copied().unwrap_or(0);
                if u32::from(choice) >= options {
                    self.misfit.get_or_insert(Misfit::NoSuchChoice { place, choice, options });
                }
                u32::from(choice).min(options - 1)
            }
            Policy::Search(search) => search.borrow_mut().decide(options, ordinary),
        };
        self.log.push(chosen as u16);
        chosen
    }

    /// Decides whether to force an outcome. Random schedules force it once in `one_in` times on
    /// average.
    pub(super) fn rarely(&mut self, one_in: u32) -> bool {
        let chosen = match &mut self.policy {
            Policy::Random(random) => u32::from(random.u32(..one_in) == 0),
            Policy::Pct(pct) => u32::from(pct.random.u32(..one_in) == 0),
            _ => return self.decide(2, false) == 1,
        };
        self.log.push(chosen as u16);
        chosen == 1
    }
}

/// Random priorities that change at a few random steps (probabilistic concurrency testing,
/// Burckhardt et al. 2010). The actor with the highest priority runs for as long as it can. This
/// produces orders that a uniformly random choice practically never produces. Store buffers have
/// priorities as CPUs do.
struct Pct {
    random: fastrand::Rng,
    /// Priorities of CPUs, then of their buffers. The highest runs first.
    priorities: Vec<u32>,
    cpus: u16,
    /// Steps at which the actor with the highest priority gets the lowest one, in descending order.
    changes: Vec<u64>,
    step: u64,
}

impl Pct {
    fn new(seed: u64, depth: u32, steps: u64, cpus: u16) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let changes = depth.saturating_sub(1);
        let mut priorities: Vec<u32> = (0..2 * u32::from(cpus)).map(|i| changes + 1 + i).collect();
        random.shuffle(&mut priorities);
        let mut changes: Vec<u64> = (0..changes).map(|_| random.u64(..steps.max(1))).collect();
        changes.sort_unstable_by(|a, b| b.cmp(a));
        Self { random, priorities, cpus, changes, step: 0 }
    }

    fn index(&self, actor: Actor) -> usize {
        match actor {
            Actor::Cpu(cpu) => usize::from(cpu),
            Actor::Buffer(cpu) => usize::from(self.cpus + cpu),
        }
    }

    /// The index of the actor that runs first.
    fn next(&mut self, actors: &[Actor]) -> usize {
        let step = self.step;
        self.step += 1;
        while self.changes.last().is_some_and(|&change| change <= step) {
            self.changes.pop();
            let first = self.index(actors[self.highest(actors)]);
            // Lower than all initial priorities, and lower than all priorities after earlier
            // changes.
            self.priorities[first] = self.changes.len() as u32;
        }
        self.highest(actors)
    }

    fn highest(&self, actors: &[Actor]) -> usize {
        let priority = |&place: &usize| self.priorities[self.index(actors[place])];
        (0..actors.len()).max_by_key(priority).unwrap_or_default()
    }
}
