//! Results of rounds as metrics.

use framewright::{Memory, observe::NodeStat};
use framewright_host::{
    HostMachine,
    paging::{PageCache, PagingStats, shootdowns},
};
use std::{
    fs,
    time::{Duration, Instant},
};

use crate::{
    record::Shootdowns,
    report::{
        Run, Sides, Unit,
        figure::{Figure, ratio},
    },
    workloads::Side,
};

/// The counters at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    at: Instant,
    system: Duration,
    /// Shootdown interrupts received by the whole system.
    ipis: Option<u64>,
    /// Shootdown interrupts received by threads of this process.
    shootdowns: Option<u64>,
    paging: PagingStats,
    stolen: [u64; 2],
    scanned: u64,
    /// Maximum number of frames that were unmapped and not evicted yet.
    unflushed: u64,
}

/// The difference of two moments.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Interval {
    pub(super) seconds: f64,
    pub(super) system: f64,
    pub(super) pages: u64,
    pub(super) ipis: Option<u64>,
    pub(super) shootdowns: Option<u64>,
    pub(super) paging: PagingStats,
    /// Pages reclaimed by background reclaim, and by direct reclaim.
    pub(super) stolen: [u64; 2],
    pub(super) scanned: u64,
    pub(super) unflushed: u64,
    pub(super) stalls: u64,
}

impl Moment {
    pub(super) fn now(
        memory: &Memory<'_, HostMachine>,
        cache: &PageCache,
        counter: Option<&Shootdowns>,
    ) -> Self {
        let stats = memory.lru().map(|lru| lru.stats()).unwrap_or_default();
        let of = |stat| stats.get(stat);
        Self {
            at: Instant::now(),
            system: system_time(),
            ipis: shootdowns(),
            shootdowns: counter.and_then(|counter| counter.so_far().ok()),
            paging: cache.stats(),
            stolen: [of(NodeStat::PgstealKswapd), of(NodeStat::PgstealDirect)],
            scanned: of(NodeStat::PgscanKswapd) + of(NodeStat::PgscanDirect),
            unflushed: memory.tlb().stats().unflushed_frames_max,
        }
    }

    /// The interval from `before` to `self`, in which readers read `pages` pages and ran direct
    /// reclaim for `stalls` of them.
    pub(super) fn since(&self, before: &Self, pages: u64, stalls: u64) -> Interval {
        let both = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
        Interval {
            seconds: (self.at - before.at).as_secs_f64(),
            system: self.system.saturating_sub(before.system).as_secs_f64(),
            pages,
            ipis: both(self.ipis, before.ipis),
            shootdowns: both(self.shootdowns, before.shootdowns),
            paging: self.paging - before.paging,
            stolen: [0, 1].map(|by| self.stolen[by] - before.stolen[by]),
            scanned: self.scanned - before.scanned,
            unflushed: self.unflushed,
            stalls,
        }
    }
}

/// System time of this process, with a resolution of a hundredth of a second.
fn system_time() -> Duration {
    const TICK: Duration = Duration::from_millis(10);
    let text = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    stime(&text).map_or(Duration::ZERO, |ticks| TICK * u32::try_from(ticks).unwrap_or(u32::MAX))
}

/// Field 15. Field 2, the name of the program, is in parentheses and may contain blanks.
fn stime(stat: &str) -> Option<u64> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(12)?.parse().ok()
}

/// All figures, in the order of output. Figures of time are of one round.
const FIGURES: &[Figure<Interval>] = &[
    Figure::lower("shootdowns_per_evicted_page", Unit::Ratio, |i| {
        Some(ratio(i.shootdowns.or(i.ipis)?, i.paging.evicted))
    }),
    Figure::lower("ns_per_evicted_page", Unit::Nanos, |i| {
        Some(ratio(i.paging.call_nanos, i.paging.evicted))
    }),
    Figure::lower("ipis_per_reclaimed_page", Unit::Ratio, |i| {
        Some(ratio(i.ipis?, i.stolen.iter().sum()))
    }),
    Figure::higher("unmaps_per_flush", Unit::Ratio, |i| {
        (i.paging.flushes > 0).then(|| ratio(i.paging.unmapped, i.paging.flushes))
    }),
    Figure::lower("unflushed_frames_max", Unit::Frames, |i| Some(i.unflushed as f64)),
    Figure::lower("elapsed_s", Unit::Seconds, |i| Some(i.seconds)),
    Figure::lower("system_time_s", Unit::Seconds, |i| Some(i.system)),
    Figure::higher("pages_per_s", Unit::PerSecond, |i| Some(i.pages as f64 / i.seconds)),
    Figure::lower("scans_per_reclaimed_page", Unit::Ratio, |i| {
        Some(ratio(i.scanned, i.stolen.iter().sum()))
    }),
    Figure::known("kswapd_pct", Unit::Percent, |i| {
        Some(100.0 * ratio(i.stolen[0], i.stolen.iter().sum()))
    }),
    Figure::known("pages", Unit::Count, |i| Some(i.pages as f64)),
    Figure::known("misses", Unit::Count, |i| Some(i.paging.misses as f64)),
    Figure::known("evicted", Unit::Count, |i| Some(i.paging.evicted as f64)),
    Figure::known("rescued", Unit::Count, |i| Some(i.paging.rescued as f64)),
    Figure::known("flushes", Unit::Count, |i| Some(i.paging.flushes as f64)),
    Figure::known("calls", Unit::Count, |i| Some(i.paging.calls as f64)),
    Figure::known("shootdowns", Unit::Count, |i| Some(i.shootdowns.or(i.ipis)? as f64)),
    Figure::known("ipis", Unit::Count, |i| Some(i.ipis? as f64)),
    Figure::known("allocstall", Unit::Count, |i| Some(i.stalls as f64)),
];

/// The figures of one side: medians over its rounds.
pub(super) fn run_of(side: &Side, rounds: &[Interval]) -> Run {
    side.run(FIGURES, rounds)
}

/// A figure of two sides with alternating rounds.
pub(super) fn sides(before: &[Interval], after: &[Interval], name: &str) -> Option<Sides> {
    let figure = FIGURES.iter().find(|figure| figure.name == name)?;
    let (before, after) = (figure.values(before)?, figure.values(after)?);
    Sides::paired(&before, &after, figure.unit, figure.better)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_time_is_the_fifteenth_field() {
        let stat = "7 (a) b) R 3 4 5 6 7 8 9 10 11 12 140 155 16 17";
        assert_eq!(stime(stat), Some(155));
        assert_eq!(stime("what"), None);
    }

    #[test]
    fn own_interrupts_are_preferred_to_those_of_the_system() {
        let side = Side::new("x");
        let round = Interval {
            seconds: 2.0,
            pages: 1_000,
            ipis: Some(50),
            shootdowns: Some(10),
            paging: PagingStats {
                unmapped: 480,
                evicted: 400,
                flushes: 4,
                call_nanos: 80_000,
                ..PagingStats::default()
            },
            stolen: [300, 200],
            ..Interval::default()
        };
        let run = run_of(&side, &[round]);
        let of = |name: &str| run.metrics[name].median;
        assert_eq!(of("shootdowns_per_evicted_page"), 0.025);
        assert_eq!((of("ipis_per_reclaimed_page"), of("ns_per_evicted_page")), (0.1, 200.0));
        assert_eq!(
            (of("unmaps_per_flush"), of("pages_per_s"), of("kswapd_pct")),
            (120.0, 500.0, 60.0)
        );
        let blind = Interval { shootdowns: None, ..round };
        assert_eq!(run_of(&side, &[blind]).metrics["shootdowns_per_evicted_page"].median, 0.125);
        let blinder = Interval { ipis: None, ..blind };
        assert!(!run_of(&side, &[blinder]).metrics.contains_key("ipis"));
    }
}
