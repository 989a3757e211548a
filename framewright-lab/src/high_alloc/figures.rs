//! Outcomes to metrics: of success the mean, least and most over the seeds, of the longest request the longest
//! of all seeds, of the rest medians.

use framewright::{observe::NodeStat, reclaim::Throttle};

use super::{kernel::Kernel, picture::Snapshot, world::World};
use crate::{
    report::{Better, Metric, Run, Unit},
    workloads::{EXPIRED, Side},
};

/// One of the three passes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// While builders build.
    First,
    /// The same at once again.
    Second,
    /// On the idle machine.
    Idle,
}

impl Phase {
    /// In order.
    pub const ALL: [Self; 3] = [Self::First, Self::Second, Self::Idle];
}

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What the library counts, and the kernel around it; in frames and times.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub(crate) struct Counts {
            $($(#[$doc])* pub(crate) $name: u64,)*
        }

        impl std::ops::Sub for Counts {
            type Output = Self;

            fn sub(self, before: Self) -> Self {
                Self { $($name: self.$name - before.$name,)* }
            }
        }
    };
}

counts! {
    /// Looked at by the migrate scanner.
    migrate_scanned,
    /// Looked at by the free scanner.
    free_scanned,
    /// The parts of these in the background.
    daemon_migrate_scanned,
    daemon_free_scanned,
    /// Claimed or taken.
    isolated,
    /// Headers of pageblocks that were looked at.
    headers,
    moved,
    not_moved,
    /// Requests that waited for compaction, and what came of it.
    stalls,
    stalls_served,
    stalls_failed,
    /// Requests that reclaimed themselves.
    allocstall,
    kswapd_scanned,
    kswapd_reclaimed,
    direct_scanned,
    direct_reclaimed,
    /// Pages of programs that were written to the swap area, and read from it.
    swapped_out,
    swapped_in,
    /// Faults of builders.
    faults,
    /// Requests of builders that failed.
    out_of_memory,
    /// Pageblocks that were claimed for another type, and blocks that were stolen.
    claims,
    steals,
    /// Pauses of reclaim that ended before their condition was met, by kind.
    expired_writeback,
    expired_isolated,
    expired_noprogress,
    expired_congested,
    expired_reserve,
}

impl Counts {
    /// As they are now.
    pub(super) fn of<W: World>(kernel: &Kernel<'_, '_, W>) -> Self {
        let (compact, stats) = (kernel.memory.compact_stats(), kernel.memory.stats());
        let lru = kernel.reclaim.lru().stats();
        Self {
            migrate_scanned: compact.compact_migrate_scanned,
            free_scanned: compact.compact_free_scanned,
            daemon_migrate_scanned: compact.compact_daemon_migrate_scanned,
            daemon_free_scanned: compact.compact_daemon_free_scanned,
            isolated: compact.compact_isolated,
            headers: compact.compact_headers,
            moved: compact.pgmigrate_success,
            not_moved: compact.pgmigrate_fail,
            stalls: stats.compact_stall,
            stalls_served: stats.compact_success,
            stalls_failed: stats.compact_fail,
            allocstall: stats.allocstall,
            kswapd_scanned: lru.get(NodeStat::PgscanKswapd),
            kswapd_reclaimed: lru.get(NodeStat::PgstealKswapd),
            direct_scanned: lru.get(NodeStat::PgscanDirect),
            direct_reclaimed: lru.get(NodeStat::PgstealDirect),
            swapped_out: kernel.state.swap.written.get(),
            swapped_in: kernel.state.swap.read.get(),
            faults: kernel.faults.get(),
            out_of_memory: kernel.out_of_memory.get(),
            claims: stats.claims,
            steals: stats.steals,
            expired_writeback: lru.get(Throttle::WriteBack.expired()),
            expired_isolated: lru.get(Throttle::Isolated.expired()),
            expired_noprogress: lru.get(Throttle::NoProgress.expired()),
            expired_congested: lru.get(Throttle::Congested.expired()),
            expired_reserve: lru.get(Throttle::Reserve.expired()),
        }
    }
}

/// What came of a pass.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Pass {
    pub(crate) attempts: u64,
    pub(crate) successes: u64,
    /// Huge pages that there were or could have been at its end.
    pub(crate) formable: u64,
    /// What each attempt took, in nanoseconds.
    pub(crate) latencies: Vec<u64>,
    /// From its begin to its end.
    pub(crate) nanos: u64,
    pub(crate) counts: Counts,
}

impl Pass {
    pub(crate) fn success_pct(&self) -> f64 {
        100.0 * self.successes as f64 / self.attempts.max(1) as f64
    }

    pub(crate) fn achievable_pct(&self) -> f64 {
        100.0 * self.formable.min(self.attempts) as f64 / self.attempts.max(1) as f64
    }
}

/// One side, one seed.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Outcome {
    /// In the order of [`Phase::ALL`].
    pub(crate) phases: Vec<Pass>,
    /// Those who build in the first two.
    pub(crate) builders: u64,
    /// From the start of the machine on.
    pub(crate) counts: Counts,
    /// The longest time of a memory request and of a device request, in nanoseconds.
    pub(crate) stall: u64,
    pub(crate) device: u64,
    /// Memory at some moments, if it was watched.
    pub(crate) seen: Vec<Snapshot>,
}

/// A figure of counts of the whole course: its name, and how it follows.
type Figure = (&'static str, Option<Better>, fn(&Counts) -> u64);

/// All of them, in the order in which they are shown; by the kernel's names where it has some.
const COUNTS: &[Figure] = &[
    ("migrate_scanned", Some(Better::Lower), |c| c.migrate_scanned),
    ("free_scanned", Some(Better::Lower), |c| c.free_scanned),
    ("daemon_migrate_scanned", None, |c| c.daemon_migrate_scanned),
    ("daemon_free_scanned", None, |c| c.daemon_free_scanned),
    ("headers_scanned", None, |c| c.headers),
    ("isolated", None, |c| c.isolated),
    ("pages_migrated", Some(Better::Lower), |c| c.moved),
    ("pgmigrate_fail", None, |c| c.not_moved),
    ("compact_stall", None, |c| c.stalls),
    ("compact_success", None, |c| c.stalls_served),
    ("compact_fail", None, |c| c.stalls_failed),
    ("allocstall", None, |c| c.allocstall),
    ("pgscan_kswapd", None, |c| c.kswapd_scanned),
    ("pgsteal_kswapd", None, |c| c.kswapd_reclaimed),
    ("pgscan_direct", None, |c| c.direct_scanned),
    ("pgsteal_direct", None, |c| c.direct_reclaimed),
    ("fallback_claims", None, |c| c.claims),
    ("fallback_steals", None, |c| c.steals),
    ("pswpout", None, |c| c.swapped_out),
    ("pswpin", None, |c| c.swapped_in),
    ("pgfault", None, |c| c.faults),
    ("builders_out_of_memory", None, |c| c.out_of_memory),
    (EXPIRED[0], Some(Better::Lower), |c| c.expired_writeback),
    (EXPIRED[1], Some(Better::Lower), |c| c.expired_isolated),
    (EXPIRED[2], Some(Better::Lower), |c| c.expired_noprogress),
    (EXPIRED[3], Some(Better::Lower), |c| c.expired_congested),
    (EXPIRED[4], Some(Better::Lower), |c| c.expired_reserve),
];

/// The same of the first pass alone, which running kernels were measured in.
const FIRST: &[Figure] = &[
    ("pass1_migrate_scanned", None, |c| c.migrate_scanned),
    ("pass1_free_scanned", None, |c| c.free_scanned),
    ("pass1_pages_migrated", None, |c| c.moved),
    ("pass1_compact_stall", None, |c| c.stalls),
    ("pass1_pgsteal_kswapd", None, |c| c.kswapd_reclaimed),
    ("pass1_pgsteal_direct", None, |c| c.direct_reclaimed),
    ("pass1_pgfault", None, |c| c.faults),
];

/// The longest waits for memory and for a device.
const STALL: (&str, fn(&Outcome) -> u64) = ("stall_max_ns", |o| o.stall);
const DEVICE: (&str, fn(&Outcome) -> u64) = ("device_max_ns", |o| o.device);

/// What each huge page has cost: counts of the whole course too, because what is done in the background
/// between the passes is done for them.
const PER_HUGE_PAGE: &[Figure] = &[
    ("examined_per_huge_page", Some(Better::Lower), |c| {
        c.migrate_scanned + c.free_scanned + c.headers
    }),
    ("migrated_per_huge_page", Some(Better::Lower), |c| c.moved),
];

/// The figures of one side.
pub(crate) fn run_of(side: &Side, outcomes: &[Outcome]) -> Run {
    let mut run =
        Run { label: side.label.clone(), settings: side.settings.clone(), ..Run::default() };
    let mut put = |name: String, metric: Option<Metric>| {
        if let Some(metric) = metric {
            run.metrics.insert(name, metric);
        }
    };
    for phase in 0..3 {
        let values: Vec<f64> =
            outcomes.iter().filter_map(|it| Some(it.phases.get(phase)?.success_pct())).collect();
        for (of, value) in
            [("mean", mean(&values)), ("min", least(&values)), ("max", most(&values))]
        {
            let name = format!("success{}_{of}_pct", phase + 1);
            put(name, value.map(|value| Metric::once(value, Unit::Percent, Some(Better::Higher))));
        }
    }
    let medians = |of: &dyn Fn(&Outcome) -> Option<f64>, unit, better| {
        let values: Option<Vec<f64>> = outcomes.iter().map(of).collect();
        Metric::of_rounds(&values?, unit, better)
    };
    let achievable = |outcome: &Outcome| {
        least(&outcome.phases.iter().map(Pass::achievable_pct).collect::<Vec<_>>())
    };
    put("achievable_pct".into(), medians(&achievable, Unit::Percent, None));
    for phase in 0..3 {
        let name = format!("achieved{}_of_achievable_pct", phase + 1);
        let share = |outcome: &Outcome| {
            let pass = outcome.phases.get(phase)?;
            let formable = pass.formable.min(pass.attempts).max(1);
            Some(100.0 * pass.successes as f64 / formable as f64)
        };
        put(name, medians(&share, Unit::Percent, Some(Better::Higher)));
    }
    for (name, better, of) in PER_HUGE_PAGE {
        let each = |outcome: &Outcome| Some(of(&outcome.counts) as f64 / successes(outcome));
        put((*name).into(), medians(&each, Unit::Ratio, *better));
    }
    for (name, share) in [("p50", 0.5), ("p99", 0.99), ("p999", 0.999)] {
        let of = |outcome: &Outcome| quantile(&outcome.phases.first()?.latencies, share);
        let name = if name == "p99" { "stall_p99_ns".into() } else { format!("alloc_{name}_ns") };
        put(name, medians(&of, Unit::Nanos, Some(Better::Lower)));
    }
    let longest = longest(outcomes).map(|it| Metric::once(it, Unit::Nanos, Some(Better::Lower)));
    put("alloc_max_ns".into(), longest);
    for (name, of) in [STALL, DEVICE] {
        let nanos = outcomes.iter().map(of).max().filter(|&nanos| nanos > 0);
        let metric = |nanos: u64| Metric::once(nanos as f64, Unit::Nanos, Some(Better::Lower));
        put(name.into(), nanos.map(metric));
    }
    let seconds = |outcome: &Outcome| Some(outcome.phases.first()?.nanos as f64 / 1e9);
    put("pass1_s".into(), medians(&seconds, Unit::Seconds, None));
    let rate =
        |outcome: &Outcome| Some(faults_per_second(outcome.phases.first()?, outcome.builders));
    put("pass1_builder_faults_per_s".into(), medians(&rate, Unit::PerSecond, None));
    for (name, better, of) in COUNTS {
        let value = |outcome: &Outcome| Some(of(&outcome.counts) as f64);
        put((*name).into(), medians(&value, Unit::Count, *better));
    }
    for (name, better, of) in FIRST {
        let value = |outcome: &Outcome| Some(of(&outcome.phases.first()?.counts) as f64);
        put((*name).into(), medians(&value, Unit::Count, *better));
    }
    run
}

/// What a builder took in a pass: the rate of the load, which says whose success can be compared.
fn faults_per_second(pass: &Pass, builders: u64) -> f64 {
    pass.counts.faults as f64 * 1e9 / (pass.nanos * builders).max(1) as f64
}

/// What the longest request of all first passes took, in nanoseconds.
fn longest(outcomes: &[Outcome]) -> Option<f64> {
    let first = outcomes.iter().filter_map(|outcome| outcome.phases.first());
    first.flat_map(|pass| &pass.latencies).max().map(|&nanos| nanos as f64)
}

/// Huge pages that requests got in the three passes.
fn successes(outcome: &Outcome) -> f64 {
    outcome.phases.iter().map(|pass| pass.successes).sum::<u64>().max(1) as f64
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn least(values: &[f64]) -> Option<f64> {
    values.iter().copied().min_by(f64::total_cmp)
}

fn most(values: &[f64]) -> Option<f64> {
    values.iter().copied().max_by(f64::total_cmp)
}

/// The value that such a share of all is not above.
fn quantile(values: &[u64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let nth = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(nth.clamp(1, sorted.len().max(1)) - 1).map(|&value| value as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use framewright::Tuning;
    use indexmap::IndexMap;

    fn side() -> Side {
        Side { label: "one".into(), tuning: Tuning::default(), settings: IndexMap::new() }
    }

    fn outcome(latencies: &[u64], successes: u64, counts: Counts) -> Outcome {
        let first = Pass { latencies: latencies.to_vec(), successes, ..Pass::default() };
        // What is counted in a pass is a part of what is counted in all.
        let part = Counts { migrate_scanned: 1, moved: 1, ..Counts::default() };
        Outcome { phases: vec![Pass { counts: part, ..first }], counts, ..Outcome::default() }
    }

    #[test]
    fn the_longest_is_that_of_all_seeds() {
        let latencies = [&[3, 9][..], &[40, 1], &[7]];
        let outcomes = latencies.map(|latencies| outcome(latencies, 1, Counts::default()));
        assert_eq!(run_of(&side(), &outcomes).metrics["alloc_max_ns"].median, 40.0);
    }

    #[test]
    fn what_a_huge_page_has_cost_is_counted_over_the_whole_course() {
        let counts = Counts {
            migrate_scanned: 60,
            free_scanned: 30,
            headers: 10,
            moved: 50,
            ..Counts::default()
        };
        let metrics = run_of(&side(), &[outcome(&[1], 10, counts)]).metrics;
        let of = |name: &str| metrics[name].median;
        assert_eq!((of("examined_per_huge_page"), of("migrated_per_huge_page")), (10.0, 5.0));
    }

    #[test]
    fn quantiles_are_values_that_were_seen() {
        let values: Vec<u64> = (1..=100).rev().collect();
        assert_eq!(quantile(&values, 0.5), Some(50.0));
        assert_eq!(quantile(&values, 0.99), Some(99.0));
        assert_eq!(quantile(&values, 0.999), Some(100.0));
        assert_eq!(quantile(&[], 0.5), None);
    }
}
