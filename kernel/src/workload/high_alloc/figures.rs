//! The counts of a run, with the names that the figures of this workload have on simulated
//! machines.

use core::sync::atomic::Ordering;

use framewright::observe::NodeStat;

use super::{Done, PHASES, Pass};
use crate::{
    cpu,
    memory::memory,
    report::{Better, Fixed, Report, Unit},
};

/// The figures that are counts, and whether less is better.
const NAMES: [(&str, bool); COUNT] = [
    ("migrate_scanned", true),
    ("free_scanned", true),
    ("daemon_migrate_scanned", false),
    ("daemon_free_scanned", false),
    ("headers_scanned", false),
    ("isolated", false),
    ("pages_migrated", true),
    ("pgmigrate_fail", false),
    ("compact_stall", false),
    ("compact_success", false),
    ("compact_fail", false),
    ("allocstall", false),
    ("pgscan_kswapd", false),
    ("pgsteal_kswapd", false),
    ("pgscan_direct", false),
    ("pgsteal_direct", false),
    ("fallback_claims", false),
    ("fallback_steals", false),
    ("pgfault", false),
];
const COUNT: usize = 19;
/// The index of the migrated pages in [`NAMES`].
const MOVED: usize = 6;
/// The indices of the frames and headers that compaction examined.
const EXAMINED: [usize; 3] = [0, 1, 4];

/// Counters of the library, in the order of [`NAMES`].
#[derive(Clone, Copy)]
pub(super) struct Counts([u64; COUNT]);

impl Counts {
    /// The current counts.
    pub(super) fn now() -> Self {
        let (compact, stats) = (memory().compact_stats(), memory().stats());
        let node = |stat| memory().lru().map_or(0, |lru| lru.stats().get(stat));
        Self([
            compact.compact_migrate_scanned,
            compact.compact_free_scanned,
            compact.compact_daemon_migrate_scanned,
            compact.compact_daemon_free_scanned,
            compact.compact_headers_scanned,
            compact.compact_isolated,
            compact.pgmigrate_success,
            compact.pgmigrate_fail,
            stats.compact_stall,
            stats.compact_success,
            stats.compact_fail,
            stats.allocstall,
            node(NodeStat::PgscanKswapd),
            node(NodeStat::PgstealKswapd),
            node(NodeStat::PgscanDirect),
            node(NodeStat::PgstealDirect),
            stats.claims,
            stats.steals,
            cpu::all().map(|cpu| cpu.faults.load(Ordering::Relaxed)).sum(),
        ])
    }

    /// The difference to earlier counts.
    pub(super) fn since(&self, before: &Self) -> Self {
        Self(core::array::from_fn(|at| self.0[at] - before.0[at]))
    }

    /// Migrated pages.
    pub(super) fn moved(&self) -> u64 {
        self.0[MOVED]
    }

    fn examined(&self) -> u64 {
        EXAMINED.iter().map(|&at| self.0[at]).sum()
    }
}

/// Adds all counts to a report. Returns the least share of huge pages that was achievable, in
/// percent.
pub(super) fn show(
    report: &mut Report,
    attempts: u64,
    passes: &[Pass; PHASES],
    counts: &Counts,
    done: &Done,
) -> Fixed {
    const SHARES: [[&str; 3]; PHASES] = [
        ["success1_mean_pct", "success1_min_pct", "success1_max_pct"],
        ["success2_mean_pct", "success2_min_pct", "success2_max_pct"],
        ["success3_mean_pct", "success3_min_pct", "success3_max_pct"],
    ];
    const ACHIEVED: [&str; PHASES] = [
        "achieved1_of_achievable_pct",
        "achieved2_of_achievable_pct",
        "achieved3_of_achievable_pct",
    ];
    for (names, pass) in SHARES.iter().zip(passes) {
        let share = Fixed::ratio(100 * pass.successes, attempts);
        names.iter().for_each(|name| report.add(name, share, Unit::Percent, Better::Higher));
    }
    let formable = passes.iter().map(|pass| pass.formable).min().unwrap_or(0);
    let achievable = Fixed::ratio(100 * formable, attempts);
    report.add("achievable_pct", achievable, Unit::Percent, Better::Neither);
    for (name, pass) in ACHIEVED.iter().zip(passes) {
        let share = Fixed::ratio(100 * pass.successes, pass.formable.max(1));
        report.add(name, share, Unit::Percent, Better::Higher);
    }
    let successes: u64 = passes.iter().map(|pass| pass.successes).sum();
    let mut each =
        |name, of| report.add(name, Fixed::ratio(of, successes), Unit::Ratio, Better::Lower);
    each("examined_per_huge_page", counts.examined());
    each("migrated_per_huge_page", counts.moved());
    for ((name, lower), value) in NAMES.into_iter().zip(counts.0) {
        let better = if lower { Better::Lower } else { Better::Neither };
        report.add(name, Fixed::whole(value), Unit::Count, better);
    }
    let failed = Fixed::whole(done.out_of_memory);
    report.add("builders_out_of_memory", failed, Unit::Count, Better::Neither);
    report.add("exits", Fixed::whole(done.exits), Unit::Count, Better::Neither);
    achievable
}
