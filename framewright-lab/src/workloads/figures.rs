//! Counters and times to metrics, the same for all machines.
//!
//! A machine that cannot know a figure leaves it out; so does a workload that has none.

use indexmap::IndexMap;

use super::{Counts, tally::Done};
use crate::report::{Better, Metric, Run, Unit};

/// What happened in one round, or one window, of one side.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Window {
    pub(crate) seconds: f64,
    pub(crate) done: Done,
    pub(crate) counts: Counts,
    /// Real threads: how they waited for zone locks.
    pub(crate) waits: Option<Waits>,
    /// Simulated CPUs: what zone locks cost.
    pub(crate) cycles: Option<LockCycles>,
    /// Share of memory that all CPUs' lists hold at the end, in percent.
    pub(crate) held_percent: f64,
}

/// How real threads waited for zone locks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Waits {
    pub(crate) times: u64,
    pub(crate) nanos: u64,
}

/// What the zone locks of simulated CPUs cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LockCycles {
    /// Cycles of all CPUs together that were not idle, as a profiler counts them.
    pub(crate) busy: u64,
    /// Of these, waiting for a zone lock.
    pub(crate) waiting: u64,
    /// Of these, holding one.
    pub(crate) holding: u64,
    /// Of these, waiting for cache lines, under locks or not.
    pub(crate) missing: u64,
    /// Acquisitions that had to wait.
    pub(crate) contended: u64,
    /// All acquisitions.
    pub(crate) acquisitions: u64,
}

/// A metric, and how it follows from a window.
struct Figure {
    name: &'static str,
    unit: Unit,
    better: Option<Better>,
    source: Source,
}

enum Source {
    /// Worked out, where it can be known.
    Value(fn(&Window) -> Option<f64>),
    /// Counted.
    Count(fn(&Window) -> u64),
}

/// All figures, in the order in which they are shown. Counts are per round or window; one that
/// lasts a given time does more work on the faster side, so only rates and ratios are judged.
const FIGURES: &[Figure] = &[
    higher("pages_per_s", Unit::PerSecond, |w| Some(w.done.pages as f64 / w.seconds)),
    higher("bandwidth_bytes_per_s", Unit::BytesPerSecond, |w| {
        (w.done.bytes > 0).then(|| w.done.bytes as f64 / w.seconds)
    }),
    lower("zone_lock_wait_pct", Unit::Percent, |w| {
        w.cycles.map(|cycles| percent(cycles.waiting, cycles.busy))
    }),
    lower("lock_cycles_per_frame", Unit::CyclesPerFrame, |w| {
        w.cycles.map(|cycles| ratio(cycles.holding, w.counts.lock_frames))
    }),
    lower("line_wait_pct", Unit::Percent, |w| {
        w.cycles.map(|cycles| percent(cycles.missing, cycles.busy))
    }),
    lower("acquisitions_per_page", Unit::Ratio, |w| {
        Some(ratio(w.counts.acquisitions, w.done.pages))
    }),
    higher("frames_per_lock_hold", Unit::FramesPerAcquisition, |w| {
        Some(ratio(w.counts.lock_frames, w.counts.acquisitions))
    }),
    lower("drains_per_exit", Unit::Ratio, |w| {
        (w.done.exits > 0).then(|| ratio(w.counts.drains_high_order, w.done.exits))
    }),
    higher("hot_reuse_pct", Unit::Percent, |w| {
        (w.done.looked_at > 0).then(|| percent(w.done.hot, w.done.looked_at))
    }),
    higher("warm_reuse_pct", Unit::Percent, |w| {
        (w.done.looked_at > 0).then(|| percent(w.done.warm, w.done.looked_at))
    }),
    lower("held_by_cpus_pct", Unit::Percent, |w| Some(w.held_percent)),
    higher("list_hits_percent", Unit::Percent, |w| {
        Some(percent(w.counts.list_hits, w.counts.requests))
    }),
    lower("contended_percent", Unit::Percent, |w| match (w.waits, w.cycles) {
        (Some(waits), _) => Some(percent(waits.times, w.counts.acquisitions)),
        (None, Some(cycles)) => Some(percent(cycles.contended, cycles.acquisitions)),
        (None, None) => None,
    }),
    lower("lock_wait_ns_per_page", Unit::Nanos, |w| {
        w.waits.map(|waits| ratio(waits.nanos, w.done.pages))
    }),
    count("pages", |w| w.done.pages),
    known("exits", |w| (w.done.exits > 0).then_some(w.done.exits as f64)),
    known("lock_wait_cycles", |w| w.cycles.map(|cycles| cycles.waiting as f64)),
    known("lock_hold_cycles", |w| w.cycles.map(|cycles| cycles.holding as f64)),
    count("zone_lock_acquisitions", |w| w.counts.acquisitions),
    count("zone_lock_frames", |w| w.counts.lock_frames),
    count("refills", |w| w.counts.refills),
    count("refilled_frames", |w| w.counts.refilled_frames),
    count("drains", |w| w.counts.drains),
    count("drains_threshold", |w| w.counts.drains_threshold),
    count("drains_high_order", |w| w.counts.drains_high_order),
    count("drains_capacity", |w| w.counts.drains_capacity),
    count("drained_frames", |w| w.counts.drained_frames),
    count("zone_allocs", |w| w.counts.zone_allocs),
    count("zone_frees", |w| w.counts.zone_frees),
    count("claims", |w| w.counts.claims),
    count("steals", |w| w.counts.steals),
    count("slow_paths", |w| w.counts.slow_paths),
];

const fn higher(name: &'static str, unit: Unit, of: fn(&Window) -> Option<f64>) -> Figure {
    Figure { name, unit, better: Some(Better::Higher), source: Source::Value(of) }
}

const fn lower(name: &'static str, unit: Unit, of: fn(&Window) -> Option<f64>) -> Figure {
    Figure { name, unit, better: Some(Better::Lower), source: Source::Value(of) }
}

const fn known(name: &'static str, of: fn(&Window) -> Option<f64>) -> Figure {
    Figure { name, unit: Unit::Count, better: None, source: Source::Value(of) }
}

const fn count(name: &'static str, of: fn(&Window) -> u64) -> Figure {
    Figure { name, unit: Unit::Count, better: None, source: Source::Count(of) }
}

impl Figure {
    fn of(&self, window: &Window) -> Option<f64> {
        match self.source {
            Source::Value(of) => of(window),
            Source::Count(of) => Some(of(window) as f64),
        }
    }

    /// Over all windows; `None` if it is not known in every one of them.
    fn metric(&self, windows: &[Window]) -> Option<Metric> {
        let values: Option<Vec<f64>> = windows.iter().map(|window| self.of(window)).collect();
        Metric::of_rounds(&values?, self.unit, self.better)
    }
}

/// 0 of 0 is 0: what never happened.
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn percent(part: u64, whole: u64) -> f64 {
    100.0 * ratio(part, whole)
}

/// The figures of one side: medians over its windows.
pub(crate) fn run_of(label: &str, settings: &IndexMap<String, String>, windows: &[Window]) -> Run {
    let metric = |figure: &Figure| Some((figure.name.to_owned(), figure.metric(windows)?));
    Run {
        label: label.to_owned(),
        settings: settings.clone(),
        metrics: FIGURES.iter().filter_map(metric).collect(),
        ..Run::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_machine_cannot_know_is_left_out() {
        let window = Window {
            seconds: 2.0,
            done: Done { pages: 10, ..Done::default() },
            ..Window::default()
        };
        let run = run_of("x", &IndexMap::new(), &[window, window]);
        assert_eq!(run.metrics["pages_per_s"].median, 5.0);
        assert_eq!(run.metrics["pages_per_s"].n, 2);
        for unknown in
            ["zone_lock_wait_pct", "lock_wait_ns_per_page", "drains_per_exit", "hot_reuse_pct"]
        {
            assert!(!run.metrics.contains_key(unknown), "{unknown}");
        }
    }

    #[test]
    fn shares_of_cycles_are_of_those_that_were_not_idle() {
        let cycles = LockCycles {
            busy: 400,
            waiting: 100,
            holding: 60,
            missing: 40,
            contended: 1,
            acquisitions: 4,
        };
        let counts = Counts { lock_frames: 30, ..Counts::default() };
        let window = Window { seconds: 1.0, cycles: Some(cycles), counts, ..Window::default() };
        let run = run_of("x", &IndexMap::new(), &[window]);
        assert_eq!(run.metrics["zone_lock_wait_pct"].median, 25.0);
        assert_eq!(run.metrics["lock_cycles_per_frame"].median, 2.0);
        assert_eq!(run.metrics["contended_percent"].median, 25.0);
    }
}
