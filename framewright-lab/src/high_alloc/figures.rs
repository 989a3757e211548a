//! Metrics of outcomes. Success has a mean, a minimum and a maximum over the seeds. The longest
//! request is the longest of all seeds. Other figures are medians.

use framewright::{observe::NodeStat, reclaim::Throttle};

use super::{kernel::Kernel, picture::Snapshot, world::World};
use crate::{
    report::{
        Run, Unit,
        figure::{Figure, Over, counters, metrics},
    },
    samples::Sample,
    workloads::{EXPIRED, Side},
};

/// One of the three passes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Builders compile.
    First,
    /// Builders compile; this pass starts immediately after the first.
    Second,
    /// The machine is idle.
    Idle,
}

impl Phase {
    /// The passes, in the order in which they run.
    pub const ALL: [Self; 3] = [Self::First, Self::Second, Self::Idle];
}

counters! {
    /// Counters of the library and of the kernel around it.
    pub(crate) struct Counts;
    /// Pages that the migrate scanner examined.
    migrate_scanned,
    /// Pages that the free scanner examined.
    free_scanned,
    /// Pages that these scanners examined in background compaction.
    daemon_migrate_scanned,
    daemon_free_scanned,
    /// Pages that compaction isolated.
    isolated,
    /// Headers of pageblocks that were examined.
    headers,
    moved,
    not_moved,
    /// Entries into the branches of scanners that the repairs of 2013 changed.
    restarts,
    without_targets,
    unsuitable,
    meetings,
    /// Requests that waited for compaction, and their success.
    stalls,
    stalls_served,
    stalls_failed,
    /// Requests that ran direct reclaim.
    allocstall,
    kswapd_scanned,
    kswapd_reclaimed,
    direct_scanned,
    direct_reclaimed,
    /// Pages of programs that were written to swap, and read from it.
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
    /// The current values.
    pub(super) fn of<W: World>(kernel: &Kernel<'_, '_, W>) -> Self {
        let (compact, stats) = (kernel.memory.compact_stats(), kernel.memory.stats());
        let lru = kernel.reclaim.lru().stats();
        Self {
            migrate_scanned: compact.compact_migrate_scanned,
            free_scanned: compact.compact_free_scanned,
            daemon_migrate_scanned: compact.compact_daemon_migrate_scanned,
            daemon_free_scanned: compact.compact_daemon_free_scanned,
            isolated: compact.compact_isolated,
            headers: compact.compact_headers_scanned,
            moved: compact.pgmigrate_success,
            not_moved: compact.pgmigrate_fail,
            restarts: compact.scan_restarts,
            without_targets: compact.scan_without_targets,
            unsuitable: compact.scan_unsuitable,
            meetings: compact.scan_meetings,
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

/// The result of a pass.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Pass {
    pub(crate) attempts: u64,
    pub(crate) successes: u64,
    /// Huge pages that existed or could have been formed at its end.
    pub(crate) formable: u64,
    /// The latency of each request, in nanoseconds.
    pub(crate) latencies: Vec<u64>,
    /// Its duration.
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

/// The result of one side with one seed.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Outcome {
    /// In the order of [`Phase::ALL`].
    pub(crate) phases: Vec<Pass>,
    /// Number of builders in the first two passes.
    pub(crate) builders: u64,
    /// Counts since the start of the machine.
    pub(crate) counts: Counts,
    /// The longest time of a memory request and of a device request, in nanoseconds.
    pub(crate) stall: u64,
    pub(crate) device: u64,
    /// Snapshots of memory, if it was watched.
    pub(crate) seen: Vec<Snapshot>,
    /// The memory over time, if it was watched.
    pub(crate) samples: Vec<Sample>,
}

/// A count of the whole run, by the kernel's name if it has one.
macro_rules! count {
    ($judged:ident $name:expr, $of:ident) => {
        Figure::$judged($name, Unit::Count, |o: &Outcome| Some(o.counts.$of as f64))
    };
}

/// A count of the first pass alone, for comparison with measurements on running kernels.
macro_rules! first {
    ($name:literal, $of:ident) => {
        Figure::known($name, Unit::Count, |o: &Outcome| Some(o.phases.first()?.counts.$of as f64))
    };
}

/// Success of a pass, over the seeds.
macro_rules! success {
    ($name:literal, $pass:literal, $over:ident) => {
        Figure::higher($name, Unit::Percent, |o: &Outcome| Some(o.phases.get($pass)?.success_pct()))
            .over(Over::$over)
    };
}

/// All figures, in the order of output. The cost of a huge page includes the work between the
/// passes, because huge pages cause it.
const FIGURES: &[Figure<Outcome>] = &[
    success!("success1_mean_pct", 0, Mean),
    success!("success1_min_pct", 0, Least),
    success!("success1_max_pct", 0, Greatest),
    success!("success2_mean_pct", 1, Mean),
    success!("success2_min_pct", 1, Least),
    success!("success2_max_pct", 1, Greatest),
    success!("success3_mean_pct", 2, Mean),
    success!("success3_min_pct", 2, Least),
    success!("success3_max_pct", 2, Greatest),
    Figure::known("achievable1_pct", Unit::Percent, |o| achievable(o, 0)),
    Figure::known("achievable2_pct", Unit::Percent, |o| achievable(o, 1)),
    Figure::known("achievable3_pct", Unit::Percent, |o| achievable(o, 2)),
    Figure::higher("achieved1_of_achievable_pct", Unit::Percent, |o| achieved(o, 0)),
    Figure::higher("achieved2_of_achievable_pct", Unit::Percent, |o| achieved(o, 1)),
    Figure::higher("achieved3_of_achievable_pct", Unit::Percent, |o| achieved(o, 2)),
    Figure::lower("examined_per_huge_page", Unit::Ratio, |o| {
        let Counts { migrate_scanned, free_scanned, headers, .. } = o.counts;
        Some((migrate_scanned + free_scanned + headers) as f64 / successes(o))
    }),
    Figure::lower("migrated_per_huge_page", Unit::Ratio, |o| {
        Some(o.counts.moved as f64 / successes(o))
    }),
    Figure::lower("alloc_p50_ns", Unit::Nanos, |o| quantile(&o.phases.first()?.latencies, 0.5)),
    Figure::lower("stall_p99_ns", Unit::Nanos, |o| quantile(&o.phases.first()?.latencies, 0.99)),
    Figure::lower("alloc_p999_ns", Unit::Nanos, |o| quantile(&o.phases.first()?.latencies, 0.999)),
    Figure::lower("alloc_max_ns", Unit::Nanos, |o: &Outcome| {
        quantile(&o.phases.first()?.latencies, 1.0)
    })
    .over(Over::Greatest),
    Figure::lower("stall_max_ns", Unit::Nanos, |o: &Outcome| positive(o.stall))
        .over(Over::Greatest),
    Figure::lower("device_max_ns", Unit::Nanos, |o: &Outcome| positive(o.device))
        .over(Over::Greatest),
    Figure::known("pass1_s", Unit::Seconds, |o| Some(o.phases.first()?.nanos as f64 / 1e9)),
    Figure::known("pass1_builder_faults_per_s", Unit::PerSecond, |o| {
        Some(faults_per_second(o.phases.first()?, o.builders))
    }),
    count!(lower "migrate_scanned", migrate_scanned),
    count!(lower "free_scanned", free_scanned),
    count!(known "daemon_migrate_scanned", daemon_migrate_scanned),
    count!(known "daemon_free_scanned", daemon_free_scanned),
    count!(known "headers_scanned", headers),
    count!(known "isolated", isolated),
    count!(lower "pages_migrated", moved),
    count!(known "pgmigrate_fail", not_moved),
    count!(known "compact_stall", stalls),
    count!(known "compact_success", stalls_served),
    count!(known "compact_fail", stalls_failed),
    count!(known "allocstall", allocstall),
    count!(known "pgscan_kswapd", kswapd_scanned),
    count!(known "pgsteal_kswapd", kswapd_reclaimed),
    count!(known "pgscan_direct", direct_scanned),
    count!(known "pgsteal_direct", direct_reclaimed),
    count!(known "fallback_claims", claims),
    count!(known "fallback_steals", steals),
    count!(known "pswpout", swapped_out),
    count!(known "pswpin", swapped_in),
    count!(known "pgfault", faults),
    count!(known "builders_out_of_memory", out_of_memory),
    count!(lower EXPIRED[0], expired_writeback),
    count!(lower EXPIRED[1], expired_isolated),
    count!(lower EXPIRED[2], expired_noprogress),
    count!(lower EXPIRED[3], expired_congested),
    count!(lower EXPIRED[4], expired_reserve),
    first!("pass1_migrate_scanned", migrate_scanned),
    first!("pass1_free_scanned", free_scanned),
    first!("pass1_pages_migrated", moved),
    first!("pass1_compact_stall", stalls),
    first!("pass1_pgsteal_kswapd", kswapd_reclaimed),
    first!("pass1_pgsteal_direct", direct_reclaimed),
    first!("pass1_pgfault", faults),
];

/// Figures for comparison with publications: costs, numbers per request, and entries into the branches that the repairs
/// changed.
const COMPARED: &[Figure<Outcome>] = &[
    Figure::lower("compaction_cost", Unit::Count, |o| {
        // The weights of the published row. It was meant to include the free scanner's frames, and did not.
        let Counts { migrate_scanned, isolated, moved, not_moved, .. } = o.counts;
        Some((7 * migrate_scanned + 19 * isolated + 1038 * moved + 14 * not_moved) as f64 / 1e6)
    }),
    Figure::lower("migrate_scanned_per_request", Unit::Ratio, |o| {
        Some(o.counts.migrate_scanned as f64 / attempts(o))
    }),
    Figure::lower("isolated_per_request", Unit::Ratio, |o| {
        Some(o.counts.isolated as f64 / attempts(o))
    }),
    Figure::lower("migrated_per_request", Unit::Ratio, |o| {
        Some(o.counts.moved as f64 / attempts(o))
    }),
    count!(known "scan_restarts", restarts),
    count!(known "scan_without_targets", without_targets),
    count!(known "scan_unsuitable", unsuitable),
    count!(known "scan_meetings", meetings),
];

/// The figures of one side with one seed, and those for comparison with publications.
pub(crate) fn compared_run_of(side: &Side, outcome: Outcome) -> Run {
    let outcome = [outcome];
    let mut run = run_of(side, &outcome);
    run.metrics.extend(metrics(COMPARED, &outcome));
    run
}

/// The figures of one side.
pub(crate) fn run_of(side: &Side, outcomes: &[Outcome]) -> Run {
    side.run(FIGURES, outcomes)
}

/// The share of requests of a pass that could be served, in percent.
fn achievable(outcome: &Outcome, pass: usize) -> Option<f64> {
    outcome.phases.get(pass).map(Pass::achievable_pct)
}

/// Success of a pass, in percent of the achievable share.
fn achieved(outcome: &Outcome, pass: usize) -> Option<f64> {
    let pass = outcome.phases.get(pass)?;
    let formable = pass.formable.min(pass.attempts).max(1);
    Some(100.0 * pass.successes as f64 / formable as f64)
}

fn positive(nanos: u64) -> Option<f64> {
    (nanos > 0).then_some(nanos as f64)
}

/// Faults of a builder per second of a pass: the rate of the load. Success can be compared between
/// passes of equal load.
fn faults_per_second(pass: &Pass, builders: u64) -> f64 {
    pass.counts.faults as f64 * 1e9 / (pass.nanos * builders).max(1) as f64
}

/// Requests of the three passes.
fn attempts(outcome: &Outcome) -> f64 {
    outcome.phases.iter().map(|pass| pass.attempts).sum::<u64>().max(1) as f64
}

/// Huge pages that requests got in the three passes.
fn successes(outcome: &Outcome) -> f64 {
    outcome.phases.iter().map(|pass| pass.successes).sum::<u64>().max(1) as f64
}

/// The smallest value that at least this share of `values` does not exceed.
fn quantile(values: &[u64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let nth = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(nth.clamp(1, sorted.len().max(1)) - 1).map(|&value| value as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(latencies: &[u64], successes: u64, counts: Counts) -> Outcome {
        let first = Pass { latencies: latencies.to_vec(), successes, ..Pass::default() };
        // The counts of a pass are part of the counts of the run.
        let part = Counts { migrate_scanned: 1, moved: 1, ..Counts::default() };
        Outcome { phases: vec![Pass { counts: part, ..first }], counts, ..Outcome::default() }
    }

    #[test]
    fn the_longest_request_is_that_of_all_seeds() {
        let latencies = [&[3, 9][..], &[40, 1], &[7]];
        let outcomes = latencies.map(|latencies| outcome(latencies, 1, Counts::default()));
        assert_eq!(run_of(&Side::new("x"), &outcomes).metrics["alloc_max_ns"].median, 40.0);
    }

    #[test]
    fn the_cost_of_a_huge_page_counts_the_whole_run() {
        let counts = Counts {
            migrate_scanned: 60,
            free_scanned: 30,
            headers: 10,
            moved: 50,
            ..Counts::default()
        };
        let metrics = run_of(&Side::new("x"), &[outcome(&[1], 10, counts)]).metrics;
        let of = |name: &str| metrics[name].median;
        assert_eq!((of("examined_per_huge_page"), of("migrated_per_huge_page")), (10.0, 5.0));
    }

    #[test]
    fn the_published_cost_of_compaction_follows_from_the_published_counts() {
        let counts = Counts {
            migrate_scanned: 42_290_478,
            isolated: 2_547_248,
            moved: 1_177_325,
            ..Counts::default()
        };
        let run = compared_run_of(&Side::new("x"), outcome(&[1], 10, counts));
        assert_eq!(run.metrics["compaction_cost"].median.floor(), 1566.0);
    }

    #[test]
    fn quantiles_are_values_of_the_data() {
        let values: Vec<u64> = (1..=100).rev().collect();
        assert_eq!(quantile(&values, 0.5), Some(50.0));
        assert_eq!(quantile(&values, 0.99), Some(99.0));
        assert_eq!(quantile(&values, 0.999), Some(100.0));
        assert_eq!(quantile(&[], 0.5), None);
    }
}
