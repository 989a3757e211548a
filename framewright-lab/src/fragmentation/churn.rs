//! Random allocations and frees that keep memory at an occupancy.

use framewright_peers::list_buddy::MigrateType;

use super::{
    Experiment, Refusal, SHARES, Setup,
    cpu::{Cpu, Cpus, HUGE},
    outcome::{self, Outcome},
    subject::Subject,
};
use crate::report::{Point, Unit, figure::Figure};
use crate::{Error, choice::choice};

/// A figure: a quantile of the latency of allocations or frees.
macro_rules! latency {
    ($name:literal, $kind:ident, $share:literal) => {
        Figure::lower($name, Unit::Nanos, |outcome: &Outcome| outcome.calls.$kind.quantile($share))
    };
}

/// Points of the series over time, after the first one at the start. Two points are a tenth of the
/// work.
const POINTS: u64 = 20;
const TENTH: usize = POINTS as usize / 10;
/// Maximum number of operations between two reports of progress. They take at most a few seconds,
/// also on simulated machines.
const PIECE: u64 = 2_000_000;
/// The occupancy stays at most this many 1,024ths of memory below its limit.
const BAND: u64 = 5;
/// In a mixed run, one block in this number is a huge page.
const HUGE_ONE_IN: u16 = 512;
/// Minimum number of blocks of the largest order per thread.
const LEAST_BLOCKS: u64 = 4;

choice! {
    /// The orders that are allocated.
    pub enum Mix {
        // Each order has half the weight of the order below, except that 4 has the weight of 3.
        /// 0 to 4, small ones more often
        Small = "small",
        /// The same, and one block in 512 is of order 9
        #[default]
        Mixed = "mixed",
    }
}

/// The workload `churn`.
#[derive(Clone, Debug)]
pub struct Churn {
    /// The orders of blocks.
    pub mix: Mix,
    /// Allocations and frees in total, after the occupancy is reached.
    pub operations: u64,
}

impl Mix {
    fn draw(self, random: &mut fastrand::Rng) -> u8 {
        if self == Mix::Mixed && random.u16(..HUGE_ONE_IN) == 0 {
            return HUGE;
        }
        (random.u8(..) | 1 << 4).trailing_zeros() as u8
    }

    /// The largest order.
    #[must_use]
    pub fn largest(self) -> u8 {
        match self {
            Mix::Small => 4,
            Mix::Mixed => HUGE,
        }
    }
}

/// The next block to allocate. It stays the next one until it fits below the limit. Otherwise large
/// blocks would be rarer near the limit.
#[derive(Clone, Copy)]
struct Next {
    order: u8,
    migratetype: MigrateType,
}

impl Churn {
    fn next<P: Subject>(&self, setup: &Setup, cpu: &mut Cpu<'_, P>) -> Next {
        let order = self.mix.draw(cpu.random());
        let migratetype = setup.types.draw(order, cpu.random());
        Next { order, migratetype }
    }

    /// Allocates up to the occupancy, or until even a small block is refused.
    fn fill<P: Subject>(&self, setup: &Setup, most: u64, cpu: &mut Cpu<'_, P>) {
        let mut next = self.next(setup, cpu);
        while cpu.used() + (1 << next.order) <= most {
            if !cpu.alloc(next.order, next.migratetype) && next.order < HUGE {
                return;
            }
            next = self.next(setup, cpu);
        }
    }

    /// Reports of progress from one point to the next.
    fn pieces(&self) -> u64 {
        (self.operations / POINTS).div_ceil(PIECE).max(1)
    }

    /// Allocates and frees with equal probability, within the limits.
    fn hold<P: Subject>(&self, setup: &Setup, most: u64, operations: u64, cpu: &mut Cpu<'_, P>) {
        let least = most.saturating_sub(setup.frames_per_thread() * BAND / 1024);
        let mut next = self.next(setup, cpu);
        for _ in 0..operations {
            let fits = cpu.used() + (1 << next.order) <= most;
            if fits && (cpu.used() < least || cpu.random().bool()) {
                cpu.alloc(next.order, next.migratetype);
                next = self.next(setup, cpu);
            } else {
                cpu.free_random();
            }
        }
    }
}

/// The mean of the last tenth of the series, in percent of the mean of its second tenth: the share
/// of the free huge frames after the first tenth of the work that is still free at the end. `None`
/// if there were none.
pub(super) fn kept(series: &[Point]) -> Option<f64> {
    let mean =
        |points: &[Point]| points.iter().map(|point| point.1).sum::<f64>() / points.len() as f64;
    let (second, last) = (&series[1 + TENTH..=2 * TENTH], &series[series.len() - TENTH..]);
    let before = mean(second);
    (before > 0.0).then(|| 100.0 * mean(last) / before)
}

impl Experiment for Churn {
    const SHARE: &'static str = SHARES[0];
    const FIGURES: &'static [Figure<Outcome>] = &[
        Figure::higher("order9_allocatable", Unit::Count, outcome::allocatable),
        Figure::higher("order9_after_drain", Unit::Count, |o| Some(o.allocatable.1? as f64)),
        Figure::known("order9_ideal", Unit::Count, outcome::ideal),
        Figure::higher("order9_share_pct", Unit::Percent, |o| {
            Some(outcome::percent(o.allocatable.0, o.ideal))
        }),
        Figure::higher("huge_frames_kept_pct", Unit::Percent, |o| kept(&o.series)),
        Figure::lower("order9_refused", Unit::Count, |o| Some(o.refused_huge? as f64)),
        Figure::lower("smaller_refused", Unit::Count, |o| Some(o.calls.refused_small as f64)),
        Figure::lower("zone_lock_wait_pct", Unit::Percent, outcome::lock_wait),
        Figure::lower("lock_cycles_per_frame", Unit::CyclesPerFrame, outcome::lock_cycles),
        Figure::lower("acquisitions_per_operation", Unit::Ratio, |o| {
            outcome::acquisitions_per(o, o.calls.operations())
        }),
        Figure::lower("modelled_ns_per_operation", Unit::Nanos, outcome::modelled_mean),
        Figure::lower("ns_per_operation", Unit::Nanos, outcome::measured_mean),
        Figure::lower("cpu_ns_per_operation", Unit::Nanos, outcome::cpu_mean),
        latency!("alloc_p50_ns", allocs, 0.5),
        latency!("alloc_p99_ns", allocs, 0.99),
        latency!("alloc_p999_ns", allocs, 0.999),
        latency!("alloc_p9999_ns", allocs, 0.9999),
        latency!("free_p50_ns", frees, 0.5),
        latency!("free_p99_ns", frees, 0.99),
        latency!("free_p999_ns", frees, 0.999),
        latency!("free_p9999_ns", frees, 0.9999),
    ];

    fn steps(&self) -> u64 {
        POINTS * self.pieces()
    }

    fn check(&self, setup: &Setup, share: u8) -> Result<(), Refusal> {
        let frames = setup.frames_per_thread() * u64::from(share) / 100;
        let least = LEAST_BLOCKS << self.mix.largest();
        if frames < least {
            let why = format_args!(
                "{share} % in use are {frames} frames for each thread: the minimum is {least}"
            );
            return Err((Self::SHARE, Error::input(why)));
        }
        Ok(())
    }

    fn play<P: Subject>(
        &self,
        setup: &Setup,
        share: u8,
        cpus: &mut Cpus<P>,
        tell: &mut dyn FnMut(u64),
    ) -> Result<Outcome, Error> {
        let most = setup.frames_per_thread() * u64::from(share) / 100;
        cpus.each(|cpu| self.fill(setup, most, cpu))?;
        cpus.clear_calls();
        let mut series = vec![Point(0.0, cpus.free_pageblocks() as f64)];
        let steps = self.steps();
        for step in 1..=steps {
            let until = |step: u64| self.operations * step / steps;
            let operations = until(step) - until(step - 1);
            let each = operations / u64::from(setup.threads);
            cpus.each(|cpu| self.hold(setup, most, each, cpu))?;
            if step.is_multiple_of(self.pieces()) {
                series.push(Point(until(step) as f64 / 1e6, cpus.free_pageblocks() as f64));
            }
            tell(step);
        }
        let calls = cpus.calls();
        let refused_huge = (self.mix == Mix::Mixed).then_some(calls.refused_huge);
        Ok(Outcome {
            ideal: setup.ideal(cpus.used()),
            // Read before `allocatable`, whose allocations are not a part of the costs of locks.
            locks: cpus.locks(),
            allocatable: cpus.allocatable(),
            refused_huge,
            calls,
            series,
            samples: Vec::new(),
        })
    }
}

/// The workload `replace`.
///
/// # Example
///
/// ```
/// use framewright::Tuning;
/// use framewright_lab::{
///     fragmentation::{Allocator, Column, FreeBy, Replace, Setup, Types},
///     workloads::Side,
/// };
///
/// let side = Side { label: "ours".into(), tuning: Tuning::default(), settings: Default::default() };
/// let setup = Setup {
///     frames: 64 << 8, // 64 MiB
///     threads: 1,
///     simulated: None,
///     types: Types::Movable,
///     free_by: FreeBy::Same,
///     columns: vec![Column::framewright("ours", &side), Column::other(Allocator::ListBuddy)],
///     shares: vec![50],
///     seeds: vec![1],
/// };
/// let result = Replace { rounds: 4, batch: 1 }.run(&setup, &mut |_, _| ()).expect("valid arguments");
/// let [ours, theirs] = [0, 1].map(|column| &result.sections[0].runs[column].metrics);
/// assert!(ours["huge_frames_free"].median > theirs["huge_frames_free"].median);
/// ```
#[derive(Clone, Debug)]
pub struct Replace {
    /// Number of rounds, in each of which every page is replaced.
    pub rounds: u32,
    /// Pages that are freed before the same number is allocated.
    pub batch: usize,
}

impl Replace {
    /// Allocates its share of all frames as single pages.
    fn fill<P: Subject>(setup: &Setup, cpu: &mut Cpu<'_, P>) {
        while cpu.used() < setup.frames_per_thread() && Self::alloc(setup, cpu) {}
    }

    /// Frees `share` percent of its pages, at random.
    fn thin<P: Subject>(share: u8, cpu: &mut Cpu<'_, P>) {
        let stay = cpu.blocks() * usize::from(100 - share) / 100;
        while cpu.blocks() > stay {
            cpu.free_random();
        }
    }

    /// Replaces each page once, in random order. The first `left` pages are not replaced yet. They
    /// are freed from the last to the first; new pages follow them in the list.
    fn round<P: Subject>(&self, setup: &Setup, cpu: &mut Cpu<'_, P>) {
        cpu.shuffle();
        let mut left = cpu.blocks();
        while left > 0 {
            let batch = self.batch.min(left);
            for index in (left - batch..left).rev() {
                cpu.free(index);
            }
            for _ in 0..batch {
                Self::alloc(setup, cpu);
            }
            left -= batch;
        }
    }

    fn alloc<P: Subject>(setup: &Setup, cpu: &mut Cpu<'_, P>) -> bool {
        let migratetype = setup.types.draw(0, cpu.random());
        cpu.alloc(0, migratetype)
    }
}

impl Experiment for Replace {
    const SHARE: &'static str = SHARES[1];
    const FIGURES: &'static [Figure<Outcome>] = &[
        Figure::higher("huge_frames_free", Unit::Count, |o| Some(o.series.last()?.1)),
        Figure::known("huge_frames_ideal", Unit::Count, outcome::ideal),
        Figure::higher("huge_frames_share_pct", Unit::Percent, |o| {
            Some(outcome::percent(o.series.last()?.1 as u64, o.ideal))
        }),
        Figure::higher("order9_allocatable", Unit::Count, outcome::allocatable),
        Figure::lower("refused", Unit::Count, |o| Some(o.calls.refused_small as f64)),
        Figure::lower("zone_lock_wait_pct", Unit::Percent, outcome::lock_wait),
        Figure::lower("lock_cycles_per_frame", Unit::CyclesPerFrame, outcome::lock_cycles),
        Figure::lower("acquisitions_per_page", Unit::Ratio, |o| {
            outcome::acquisitions_per(o, o.calls.allocs.calls())
        }),
        Figure::lower("modelled_ns_per_operation", Unit::Nanos, outcome::modelled_mean),
        Figure::lower("ns_per_operation", Unit::Nanos, outcome::measured_mean),
        Figure::lower("cpu_ns_per_operation", Unit::Nanos, outcome::cpu_mean),
    ];

    fn steps(&self) -> u64 {
        self.rounds.into()
    }

    fn check(&self, _setup: &Setup, _share: u8) -> Result<(), Refusal> {
        Ok(())
    }

    fn play<P: Subject>(
        &self,
        setup: &Setup,
        share: u8,
        cpus: &mut Cpus<P>,
        tell: &mut dyn FnMut(u64),
    ) -> Result<Outcome, Error> {
        cpus.each(|cpu| Self::fill(setup, cpu))?;
        cpus.each(|cpu| Self::thin(share, cpu))?;
        cpus.clear_calls();
        let mut series = vec![Point(0.0, cpus.free_pageblocks() as f64)];
        for round in 1..=self.rounds {
            cpus.each(|cpu| self.round(setup, cpu))?;
            series.push(Point(f64::from(round), cpus.free_pageblocks() as f64));
            tell(round.into());
        }
        Ok(Outcome {
            ideal: setup.ideal(cpus.used()),
            // Read before `allocatable`, as in `churn`.
            locks: cpus.locks(),
            allocatable: cpus.allocatable(),
            refused_huge: None,
            calls: cpus.calls(),
            series,
            samples: Vec::new(),
        })
    }
}
