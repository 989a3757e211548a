//! A campaign: many hunts on all processors, and their goals.

use std::{
    collections::VecDeque,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use super::{
    Bug, SCENARIOS, Scenario,
    hunt::{Hunt, HuntResult, Kind},
};
use crate::engine::Misfit;

/// Distance of the seeds of different hunts, so that no two try the same schedule.
const SEED_STRIDE: u64 = 1 << 32;
/// Interval of progress reports.
const TICK: Duration = Duration::from_millis(100);
/// Limit of schedules of an exhaustive control (a scenario without a bug). Without it a campaign
/// might not end: the number of schedules of the larger scenarios is not known.
const EXHAUSTIVE_CONTROL_MAX: u64 = 6_000_000;
/// Percentage of the hunts for a bug that must find it.
const GOAL_PERCENT: usize = 90;

/// The parameters of a campaign.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// The scenarios.
    pub scenarios: Vec<&'static Scenario>,
    /// The bugs; each scenario runs with those that apply to it.
    pub bugs: Vec<Bug>,
    /// The kinds of schedules, each in separate hunts.
    pub kinds: Vec<Kind>,
    /// The number of hunts, for kinds that take seeds.
    pub seeds: u64,
    /// The first seed.
    pub first_seed: u64,
    /// Limit of schedules of a hunt.
    pub schedules: u64,
    /// Schedules that the random runs of a control (a scenario without a bug) try in all.
    pub control: u64,
    /// Limit of schedules of an exhaustive control.
    pub control_exhaustive: u64,
    /// Whether to run controls.
    pub controls: bool,
    /// The number of concurrent hunts; `None`: the number of processors of this host.
    pub jobs: Option<usize>,
}

impl Default for Campaign {
    /// All scenarios and bugs, in less than a minute.
    fn default() -> Self {
        Self {
            scenarios: SCENARIOS.iter().collect(),
            bugs: Bug::ALL.to_vec(),
            kinds: vec![Kind::Random, Kind::Pct { depth: 4 }],
            seeds: 4,
            first_seed: 0,
            schedules: 20_000,
            control: 20_000,
            control_exhaustive: 20_000,
            controls: true,
            jobs: None,
        }
    }
}

/// Hunts for the same bug with different seeds.
#[derive(Clone, Debug)]
pub struct Row {
    /// The scenario.
    pub scenario: &'static Scenario,
    /// The bug; `None` for a control.
    pub bug: Option<Bug>,
    /// The kind of schedules.
    pub kind: Kind,
    /// The result of each hunt.
    pub results: Vec<HuntResult>,
}

impl Row {
    /// The number of hunts that found the bug.
    #[must_use]
    pub fn found(&self) -> usize {
        self.finds().count()
    }

    /// For each hunt that found the bug, the number of schedules until then.
    pub fn finds(&self) -> impl Iterator<Item = u64> {
        self.results.iter().filter_map(|result| result.found.as_ref()).map(|find| find.at)
    }

    /// The median of the numbers of schedules: the mean of the two in the middle if the number of hunts is even. A
    /// hunt that found nothing counts as longer than all others; `None` if such a hunt is in the middle.
    #[must_use]
    pub fn median(&self) -> Option<f64> {
        let mut taken: Vec<_> = self.finds().collect();
        taken.sort_unstable();
        let hunts = self.results.len();
        let [low, high] = [hunts.saturating_sub(1) / 2, hunts / 2].map(|at| taken.get(at));
        Some((low? + high?) as f64 / 2.0)
    }

    /// The least number of schedules.
    #[must_use]
    pub fn fastest(&self) -> Option<u64> {
        self.finds().min()
    }

    /// The number of schedules tried.
    #[must_use]
    pub fn tried(&self) -> u64 {
        self.results.iter().map(|result| result.tried).sum()
    }

    /// The number of runs with an unexpected symptom.
    #[must_use]
    pub fn unexpected_count(&self) -> u64 {
        self.results.iter().map(|result| result.unexpected_count).sum()
    }

    /// The number of times that runs reached each point of the scenario.
    #[must_use]
    pub fn reached(&self) -> Vec<u64> {
        let sum = |at| self.results.iter().filter_map(|result| result.reached.get(at)).sum();
        (0..self.scenario.points().len()).map(sum).collect()
    }

    /// Whether all schedules were tried.
    #[must_use]
    pub fn is_exhausted(&self) -> bool {
        self.results.iter().all(|result| result.exhausted)
    }

    /// The first difference of a replay from its recording, if the replay found nothing.
    #[must_use]
    pub fn misfit(&self) -> Option<Misfit> {
        self.results.iter().filter(|result| result.found.is_none()).find_map(|result| result.misfit)
    }

    /// Whether the goal is reached: a clean control, or a bug that nine of ten seeds find.
    #[must_use]
    pub fn is_good(&self) -> bool {
        match self.bug {
            None => self.found() == 0 && self.misfit().is_none(),
            Some(_) => 100 * self.found() >= GOAL_PERCENT * self.results.len(),
        }
    }
}

impl Campaign {
    /// The full campaign: 20 seeds with 100,000 schedules each, random controls with 1,000,000, and
    /// all schedules within the bounds that can be tried in acceptable time.
    #[must_use]
    pub fn full() -> Self {
        let depths = [3, 4, 6].map(|depth| Kind::Pct { depth });
        let mut kinds = vec![Kind::Random];
        kinds.extend(depths);
        kinds.extend([1, 2, 3].map(|bound| Kind::Exhaustive { bound }));
        Self {
            kinds,
            seeds: 20,
            schedules: 100_000,
            control: 1_000_000,
            control_exhaustive: EXHAUSTIVE_CONTROL_MAX,
            ..Self::default()
        }
    }

    /// Runs all hunts. `progress` gets the number of finished schedules, and the maximum of that
    /// number.
    #[must_use]
    pub fn run(&self, progress: &mut dyn FnMut(u64, u64)) -> Vec<Row> {
        let mut rows = self.rows();
        let jobs: Vec<_> =
            rows.iter().enumerate().flat_map(|(row, of)| self.jobs(row, of)).collect();
        let total = jobs.iter().map(|(_, hunt)| weight(hunt)).sum();
        let done = AtomicU64::new(0);
        let results = Mutex::new((0..jobs.len()).map(|_| None).collect::<Vec<_>>());
        let places: Vec<_> = jobs.iter().map(|(row, _)| *row).collect();
        let mut queue: VecDeque<_> = jobs.into_iter().enumerate().collect();
        // The longest hunts run first. Otherwise the campaign would end with one of them on a
        // single processor.
        queue.make_contiguous().sort_by_key(|(_, (_, hunt))| hunt.kind.is_seeded());
        let queue = Mutex::new(queue);
        let processors = || thread::available_parallelism().map_or(1, usize::from);
        let workers = self.jobs.unwrap_or_else(processors).max(1);
        thread::scope(|scope| {
            let workers: Vec<_> = (0..workers)
                .map(|_| {
                    scope.spawn(|| {
                        loop {
                            let next = lock(&queue).pop_front();
                            let Some((place, (_, hunt))) = next else { return };
                            let counted = AtomicU64::new(0);
                            let result = hunt.run(&|tried| {
                                let left = weight(&hunt) - counted.load(Relaxed);
                                counted.fetch_add(tried.min(left), Relaxed);
                                done.fetch_add(tried.min(left), Relaxed);
                            });
                            lock(&results)[place] = Some(result);
                        }
                    })
                })
                .collect();
            while workers.iter().any(|worker| !worker.is_finished()) {
                thread::sleep(TICK);
                progress(done.load(Relaxed), total);
            }
        });
        let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
        for (row, result) in places.into_iter().zip(results) {
            rows[row].results.push(result.expect("every hunt was done"));
        }
        rows
    }

    fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for scenario in &self.scenarios {
            let bugs = self.bugs.iter().filter(|bug| scenario.bugs.contains(bug)).copied();
            let control = self.controls.then_some(None);
            for bug in bugs.map(Some).chain(control) {
                // Controls are random or exhaustive: schedules by priority are for finding bugs.
                let kinds = self.kinds.iter().filter(|kind| match kind {
                    Kind::Pct { .. } => bug.is_some() || self.kinds.len() == 1,
                    Kind::Exhaustive { bound } => {
                        *bound <= scenario.affordable_bound || self.kinds.len() == 1
                    }
                    _ => true,
                });
                let row =
                    |kind: &Kind| Row { scenario, bug, kind: kind.clone(), results: Vec::new() };
                rows.extend(kinds.map(row));
            }
        }
        rows
    }

    /// The hunts of a row.
    fn jobs(&self, row: usize, of: &Row) -> Vec<(usize, Hunt)> {
        let seeds = if of.kind.is_seeded() { self.seeds } else { 1 };
        let schedules = |nth: u64| match (of.bug, &of.kind) {
            (None, Kind::Exhaustive { .. }) => self.control_exhaustive,
            (None, _) => self.control / seeds + u64::from(nth < self.control % seeds),
            (Some(_), _) => self.schedules,
        };
        let hunt = |nth: u64| Hunt {
            scenario: of.scenario,
            bug: of.bug,
            kind: of.kind.clone(),
            seed: self.first_seed.wrapping_add(nth.wrapping_mul(SEED_STRIDE)),
            schedules: schedules(nth),
        };
        (0..seeds).map(|nth| (row, hunt(nth))).filter(|(_, hunt)| hunt.schedules > 0).collect()
    }
}

/// The number of schedules of a hunt, for the progress: an estimate for an exhaustive hunt.
fn weight(hunt: &Hunt) -> u64 {
    const EXHAUSTIVE: u64 = 200_000;
    if hunt.kind.is_seeded() { hunt.schedules } else { hunt.schedules.min(EXHAUSTIVE) }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
