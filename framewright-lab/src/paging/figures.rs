//! Converts outcomes of runs into metrics and series.

use framewright::reclaim::Throttle;

use super::{
    Work,
    timeline::{HOURS, Hour, Huge},
};
use crate::{
    plot::{Axis, Panel, Plot},
    report::{
        Point, Run, Unit,
        figure::{Figure, ratio},
    },
    samples::Sample,
    workloads::{EXPIRED, Side},
};

/// The result of one side with one seed. Times are in seconds of the machine; cycles are sums over
/// all CPUs.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Outcome {
    /// The time from the start to the end of the work.
    pub(crate) elapsed: f64,
    /// Time of the CPUs, without the time in which programs use their pages.
    pub(crate) system: f64,
    /// The longest wait of a program for a page, in nanoseconds.
    pub(crate) stall: f64,
    /// Waits of programs for a page that took more than a second.
    pub(crate) freezes: u64,
    /// The longest time of a request to the storage device, in nanoseconds.
    pub(crate) device: f64,
    /// Pauses of reclaim that ended before their condition was met, by kind.
    pub(crate) expired: [u64; Throttle::COUNT],
    /// Pages that programs used.
    pub(crate) pages: u64,
    /// Pages that were reclaimed.
    pub(crate) reclaimed: u64,
    /// Reclaimed pages that background reclaim has reclaimed.
    pub(crate) by_kswapd: u64,
    /// Pages that reclaim scanned.
    pub(crate) scanned: u64,
    /// Pages that were read again soon after they were reclaimed.
    pub(crate) refaults: u64,
    /// Requests that ran direct reclaim.
    pub(crate) direct: u64,
    /// Page-table entries removed by reclaim.
    pub(crate) unmapped: u64,
    /// Flushes with interrupts to other CPUs.
    pub(crate) flushes: u64,
    /// Interrupts that were sent for them.
    pub(crate) interrupts: u64,
    /// CPUs that did not need an interrupt because another CPU was about to send one.
    pub(crate) coalesced: u64,
    /// Maximum number of frames that were unmapped and waited for a flush.
    pub(crate) unflushed: u64,
    /// Pages that were written to the storage device.
    pub(crate) written: u64,
    /// Page faults.
    pub(crate) faults: u64,
    /// Page-table entries set by faults.
    pub(crate) mapped: u64,
    /// Cycles that CPUs worked, or waited for one another.
    pub(crate) busy_cycles: u64,
    /// Busy cycles for flushes: sending, waiting for acknowledgements, serving.
    pub(crate) flush_cycles: u64,
    /// Busy cycles of waiting for zone locks, and of holding them.
    pub(crate) zone_lock_cycles: u64,
    /// Busy cycles of waiting for and holding locks of LRU lists and of deferred frees.
    pub(crate) lru_lock_cycles: u64,
    /// Requests for huge pages.
    pub(crate) huge: Huge,
    /// Compactions that requests waited for.
    pub(crate) compact_stalls: u64,
    /// Pages that compaction moved.
    pub(crate) moved: u64,
    /// Frames and headers of pageblocks that compaction examined.
    pub(crate) frames_scanned: u64,
    pub(crate) headers_scanned: u64,
    /// Whether the workload ends by itself.
    pub(crate) ends: bool,
    /// The timeline.
    pub(crate) hours: Vec<Hour>,
    /// Cycles per second.
    pub(crate) frequency: f64,
    /// The memory over time, if it was watched.
    pub(crate) samples: Vec<Sample>,
}

/// All figures, in the order of output.
const FIGURES: &[Figure<Outcome>] = &[
    Figure::lower("elapsed_s", Unit::Seconds, |o| Some(o.elapsed)),
    Figure::lower("system_time_s", Unit::Seconds, |o| Some(o.system)),
    Figure::higher("pages_per_s", Unit::PerSecond, |o| Some(o.pages as f64 / o.elapsed)),
    Figure::lower("ipis_per_reclaimed_page", Unit::Ratio, |o| {
        Some(ratio(o.interrupts, o.reclaimed))
    }),
    Figure::lower("ipis_per_s", Unit::PerSecond, |o| Some(o.interrupts as f64 / o.elapsed)),
    Figure::higher("unmaps_per_flush", Unit::Ratio, |o| {
        (o.flushes > 0).then(|| ratio(o.unmapped, o.flushes))
    }),
    Figure::lower("unflushed_frames_max", Unit::Frames, |o| Some(o.unflushed as f64)),
    Figure::lower("stall_max_ns", Unit::Nanos, |o| Some(o.stall)),
    Figure::known("device_max_ns", Unit::Nanos, |o| (o.device > 0.0).then_some(o.device)),
    Figure::lower(EXPIRED[0], Unit::Count, |o| Some(o.expired[0] as f64)),
    Figure::lower(EXPIRED[1], Unit::Count, |o| Some(o.expired[1] as f64)),
    Figure::lower(EXPIRED[2], Unit::Count, |o| Some(o.expired[2] as f64)),
    Figure::lower(EXPIRED[3], Unit::Count, |o| Some(o.expired[3] as f64)),
    Figure::lower(EXPIRED[4], Unit::Count, |o| Some(o.expired[4] as f64)),
    Figure::higher("last_hour_pct_of_best", Unit::Percent, last_hour),
    Figure::known("huge_requests", Unit::Count, |o| of_huge(o, o.huge.requests as f64)),
    Figure::higher("huge_without_stall_pct", Unit::Percent, |o| {
        of_huge(o, 100.0 * ratio(o.huge.unstalled, o.huge.requests))
    }),
    Figure::higher("huge_without_stall_last_hour_pct", Unit::Percent, |o| {
        of_huge(o, without_stall(o.hours.last()?))
    }),
    Figure::higher("huge_served_pct", Unit::Percent, |o| {
        of_huge(o, 100.0 * ratio(o.huge.served, o.huge.requests))
    }),
    Figure::lower("huge_max_ns", Unit::Nanos, |o| {
        of_huge(o, o.huge.longest as f64 * 1e9 / o.frequency)
    }),
    Figure::lower("compact_stall", Unit::Count, |o| of_huge(o, o.compact_stalls as f64)),
    Figure::lower("pages_migrated", Unit::Count, |o| of_huge(o, o.moved as f64)),
    Figure::lower("frames_scanned", Unit::Count, |o| of_huge(o, o.frames_scanned as f64)),
    Figure::known("headers_scanned", Unit::Count, |o| of_huge(o, o.headers_scanned as f64)),
    Figure::lower("flush_and_lock_pct", Unit::Percent, |o| {
        let locks = o.zone_lock_cycles + o.lru_lock_cycles;
        Some(100.0 * ratio(o.flush_cycles + locks, o.busy_cycles))
    }),
    Figure::lower("flush_pct", Unit::Percent, |o| {
        Some(100.0 * ratio(o.flush_cycles, o.busy_cycles))
    }),
    Figure::lower("zone_lock_pct", Unit::Percent, |o| {
        Some(100.0 * ratio(o.zone_lock_cycles, o.busy_cycles))
    }),
    Figure::lower("lru_lock_pct", Unit::Percent, |o| {
        Some(100.0 * ratio(o.lru_lock_cycles, o.busy_cycles))
    }),
    Figure::lower("scans_per_reclaimed_page", Unit::Ratio, |o| Some(ratio(o.scanned, o.reclaimed))),
    Figure::known("kswapd_pct", Unit::Percent, |o| Some(100.0 * ratio(o.by_kswapd, o.reclaimed))),
    Figure::known("pages_per_fault", Unit::Ratio, |o| Some(ratio(o.mapped, o.faults))),
    Figure::known("pages", Unit::Count, |o| Some(o.pages as f64)),
    Figure::known("pgscan", Unit::Count, |o| Some(o.scanned as f64)),
    Figure::known("pgsteal", Unit::Count, |o| Some(o.reclaimed as f64)),
    Figure::known("allocstall", Unit::Count, |o| Some(o.direct as f64)),
    Figure::known("workingset_refault_file", Unit::Count, |o| Some(o.refaults as f64)),
    Figure::known("unmaps", Unit::Count, |o| Some(o.unmapped as f64)),
    Figure::known("nr_tlb_remote_flush", Unit::Count, |o| Some(o.flushes as f64)),
    Figure::known("ipis", Unit::Count, |o| Some(o.interrupts as f64)),
    Figure::known("ipis_coalesced", Unit::Count, |o| Some(o.coalesced as f64)),
    Figure::known("pages_written", Unit::Count, |o| Some(o.written as f64)),
    Figure::known("faults", Unit::Count, |o| Some(o.faults as f64)),
];

/// A figure that is defined only if huge pages were requested.
fn of_huge(outcome: &Outcome, figure: f64) -> Option<f64> {
    (outcome.huge.requests > 0).then_some(figure)
}

/// Share of an hour's requests for huge pages that succeeded without reclaim and compaction, in
/// percent.
fn without_stall(hour: &Hour) -> f64 {
    100.0 * ratio(hour.unstalled, hour.huge)
}

/// Throughput of the last hour, in percent of the best hour (a 24th of the pages of a day). The
/// first hour, which fills memory, is excluded. `None` for less than a day, and for workloads that
/// end by themselves.
fn last_hour(outcome: &Outcome) -> Option<f64> {
    let speeds = if outcome.ends { Vec::new() } else { speeds(outcome) };
    let counted = speeds.get(1..).filter(|_| speeds.len() as u64 >= HOURS)?;
    let best = counted.iter().copied().fold(0.0, f64::max);
    (best > 0.0).then(|| 100.0 * counted[counted.len() - 1] / best)
}

/// Pages per second, hour by hour.
fn speeds(outcome: &Outcome) -> Vec<f64> {
    let mut begin = 0;
    let speed = |hour: &Hour| {
        let seconds = (hour.end - begin).max(1) as f64 / outcome.frequency;
        begin = hour.end;
        hour.pages as f64 / seconds
    };
    outcome.hours.iter().map(speed).collect()
}

/// The figures of one side: medians over its outcomes, and the series of the first.
pub(crate) fn run_of(side: &Side, outcomes: &[Outcome]) -> Run {
    let mut run = side.run(FIGURES, outcomes);
    if let Some(outcome) = outcomes.first() {
        run.series = series(outcome);
    }
    run
}

/// The series of the success of requests for huge pages.
pub(super) const HUGE: &str = "huge_without_stall_pct";

/// The timeline as series.
fn series(outcome: &Outcome) -> indexmap::IndexMap<String, Vec<Point>> {
    let points = |of: &dyn Fn(usize, &Hour) -> f64| -> Vec<Point> {
        // If programs end one by one, the last hour is excluded: only some of them run in it.
        let whole = outcome.hours.len() - usize::from(outcome.ends && outcome.hours.len() > 1);
        let hours = outcome.hours[..whole].iter().enumerate();
        hours.map(|(nth, hour)| Point((nth + 1) as f64, of(nth, hour))).collect()
    };
    let speeds = speeds(outcome);
    let nanos = |cycles: u64| cycles as f64 * 1e9 / outcome.frequency;
    [
        ("pages_per_s", points(&|nth, _| speeds[nth])),
        ("stall_max_ns", points(&|_, hour| nanos(hour.stall))),
        ("unusable_for_order_3_pct", points(&|_, hour| hour.blocks.unusable as f64 / 10.0)),
        (
            HUGE,
            if outcome.huge.requests > 0 {
                points(&|_, hour| without_stall(hour))
            } else {
                Vec::new()
            },
        ),
    ]
    .into_iter()
    .filter(|(_, points)| !points.is_empty())
    .map(|(name, points)| (name.to_owned(), points))
    .collect()
}

/// Throughput, longest wait and fragmentation of all runs of `work` over time: hour by hour of a
/// server's days, or by the share of the files that was read.
#[must_use]
pub fn plot(runs: &[Run], work: &Work, subtitle: &str) -> Plot {
    let (axis, per_part) = match work {
        Work::MmapRead(work) => (
            Axis::linear("read so far, in multiples of memory"),
            f64::from(work.times) / HOURS as f64,
        ),
        Work::Cdn(_) => (Axis::whole("hours (24 hours read 2,500 times the memory)"), 1.0),
    };
    let panel = |y: Axis, series: &str| {
        Panel::of_series(runs, series, axis.clone(), y).with_x_times(per_part)
    };
    let huge = runs.iter().any(|run| run.series.contains_key(HUGE));
    let huge = huge.then(|| panel(Axis::linear("huge pages without a stall, %"), HUGE));
    Plot {
        title: work.name().to_owned(),
        subtitle: subtitle.to_owned(),
        panels: [
            panel(Axis::linear("pages per second, modelled"), "pages_per_s"),
            panel(Axis::linear("longest wait for a page, ms, modelled"), "stall_max_ns")
                .with_y_times(1e-6),
            panel(
                Axis::linear("unusable free space index, order 3, %"),
                "unusable_for_order_3_pct",
            ),
        ]
        .into_iter()
        .chain(huge)
        .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_hour_is_compared_with_the_best_but_for_the_first() {
        let hour = |nth: u64| {
            let pages = match nth {
                0 => 900,
                10 => 200,
                23 => 150,
                _ => 100,
            };
            Hour { end: (nth + 1) * 1_000, pages, ..Hour::default() }
        };
        let outcome = Outcome {
            elapsed: 1.0,
            hours: (0..24).map(hour).collect(),
            frequency: 1_000.0,
            ..Outcome::default()
        };
        let run = run_of(&Side::new("x"), std::slice::from_ref(&outcome));
        assert_eq!(run.metrics["last_hour_pct_of_best"].median, 75.0);
        assert_eq!(run.series["pages_per_s"][10], Point(11.0, 200.0));
        let short = Outcome { hours: outcome.hours[..23].to_vec(), ..outcome };
        assert!(!run_of(&Side::new("x"), &[short]).metrics.contains_key("last_hour_pct_of_best"));
    }

    #[test]
    fn interrupts_are_counted_per_reclaimed_page() {
        let outcome = Outcome {
            elapsed: 2.0,
            reclaimed: 320,
            unmapped: 310,
            flushes: 10,
            interrupts: 16,
            scanned: 640,
            ..Outcome::default()
        };
        let run = run_of(&Side::new("x"), &[outcome]);
        let of = |name: &str| run.metrics[name].median;
        assert_eq!(of("ipis_per_reclaimed_page"), 0.05);
        assert_eq!((of("unmaps_per_flush"), of("ipis_per_s")), (31.0, 8.0));
        assert_eq!(of("scans_per_reclaimed_page"), 2.0);
    }
}
