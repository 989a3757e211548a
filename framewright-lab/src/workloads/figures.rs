//! Converts counters and times into metrics, in the same way for all machines.
//!
//! Figures that a machine cannot measure or a workload does not have are omitted.

use indexmap::IndexMap;

use super::{Counts, counts::Done};
use crate::{
    report::{
        Better, Metric, Run, Unit,
        figure::{Figure, counters, metrics, ratio},
    },
    samples::Sample,
};

/// The results of one round, or one window, of one side.
#[derive(Clone, Debug, Default)]
pub(crate) struct Window {
    pub(crate) seconds: f64,
    pub(crate) done: Done,
    pub(crate) counts: Counts,
    /// Real threads: waits for zone locks.
    pub(crate) waits: Option<Waits>,
    /// Simulated CPUs: the costs of zone locks.
    pub(crate) cycles: Option<LockCycles>,
    /// Simulated CPUs: busy cycles of waiting for the lock of each zone.
    pub(crate) zone_waits: Vec<u64>,
    /// Share of memory that all CPUs' lists hold at the end, in percent.
    pub(crate) held_percent: f64,
    /// Windows before this one, if it was repeated until it was steady.
    pub(crate) windows_before: u32,
    /// Whether it was repeated, and did not become steady.
    pub(crate) unsettled: bool,
    /// Simulated CPUs: the memory over time, if it was watched.
    pub(crate) samples: Vec<Sample>,
}

/// Waits of real threads for zone locks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Waits {
    pub(crate) times: u64,
    pub(crate) nanos: u64,
}

counters! {
    /// Costs of the zone locks of simulated CPUs, so far or within a window.
    pub(crate) struct LockCycles;
    /// Busy cycles of all CPUs together, as a profiler counts them.
    busy,
    /// Busy cycles of waiting for a zone lock.
    waiting,
    /// Busy cycles of holding a zone lock.
    holding,
    /// Busy cycles of waiting for cache lines, under locks or not.
    missing,
    /// Acquisitions that had to wait.
    contended,
    /// All acquisitions.
    acquisitions,
}

impl LockCycles {
    /// The share of busy cycles that CPUs wait for zone locks, in percent.
    pub(crate) fn wait_pct(self) -> f64 {
        percent(self.waiting, self.busy)
    }

    /// Cycles for which zone locks are held, per frame that is moved under them; `None` if no frame
    /// is moved.
    pub(crate) fn per_frame(self, counts: &Counts) -> Option<f64> {
        share(self.holding, counts.lock_frames)
    }
}

/// All figures, in the order of output. Counts are per round or window. In a given time the faster
/// side does more work, so only rates and ratios are compared.
const FIGURES: &[Figure<Window>] = &[
    Figure::higher("pages_per_s", Unit::PerSecond, |w| Some(w.done.pages as f64 / w.seconds)),
    Figure::higher("bandwidth_bytes_per_s", Unit::BytesPerSecond, |w| {
        (w.done.bytes > 0).then(|| w.done.bytes as f64 / w.seconds)
    }),
    Figure::lower("stall_max_ns", Unit::Nanos, |w| {
        (w.done.longest > 0).then_some(w.done.longest as f64)
    }),
    Figure::lower("zone_lock_wait_pct", Unit::Percent, |w| w.cycles.map(LockCycles::wait_pct)),
    Figure::lower("lock_cycles_per_frame", Unit::CyclesPerFrame, |w| {
        w.cycles.and_then(|cycles| cycles.per_frame(&w.counts))
    }),
    Figure::lower("line_wait_pct", Unit::Percent, |w| {
        w.cycles.map(|cycles| percent(cycles.missing, cycles.busy))
    }),
    Figure::lower("acquisitions_per_page", Unit::Ratio, |w| {
        Some(ratio(w.counts.acquisitions, w.done.pages))
    }),
    Figure::higher("frames_per_lock_hold", Unit::FramesPerAcquisition, |w| {
        share(w.counts.lock_frames, w.counts.acquisitions)
    }),
    Figure::lower("drains_per_exit", Unit::Ratio, |w| {
        share(w.counts.drains_high_order, w.done.exits)
    }),
    Figure::higher("hot_reuse_pct", Unit::Percent, |w| {
        (w.done.checked > 0).then(|| percent(w.done.hot, w.done.checked))
    }),
    Figure::higher("warm_reuse_pct", Unit::Percent, |w| {
        (w.done.checked > 0).then(|| percent(w.done.warm, w.done.checked))
    }),
    Figure::known("same_cpu_pct", Unit::Percent, |w| {
        share(w.done.same_cpu, w.done.reads).map(|share| 100.0 * share)
    }),
    Figure::known("same_socket_pct", Unit::Percent, |w| {
        share(w.done.same_socket, w.done.reads).map(|share| 100.0 * share)
    }),
    Figure::lower("held_by_cpus_pct", Unit::Percent, |w| Some(w.held_percent)),
    Figure::higher("list_hits_pct", Unit::Percent, |w| {
        Some(percent(w.counts.list_hits, w.counts.requests))
    }),
    Figure::lower("contended_pct", Unit::Percent, |w| {
        let (waits, all) = match (w.waits, w.cycles) {
            (Some(waits), _) => (waits.times, w.counts.acquisitions),
            (None, Some(cycles)) => (cycles.contended, cycles.acquisitions),
            (None, None) => return None,
        };
        // A wait that ends after the window counts, its acquisition does not.
        Some(percent(waits.min(all), all))
    }),
    Figure::lower("lock_wait_ns_per_page", Unit::Nanos, |w| {
        w.waits.map(|waits| ratio(waits.nanos, w.done.pages))
    }),
    count("pages", |w| Some(w.done.pages as f64)),
    count("exits", |w| (w.done.exits > 0).then_some(w.done.exits as f64)),
    count("lock_wait_cycles", |w| w.cycles.map(|cycles| cycles.waiting as f64)),
    count("lock_hold_cycles", |w| w.cycles.map(|cycles| cycles.holding as f64)),
    count("zone_lock_acquisitions", |w| Some(w.counts.acquisitions as f64)),
    count("zone_lock_frames", |w| Some(w.counts.lock_frames as f64)),
    count("refills", |w| Some(w.counts.refills as f64)),
    count("refilled_frames", |w| Some(w.counts.refilled_frames as f64)),
    count("drains", |w| Some(w.counts.drains as f64)),
    count("drains_threshold", |w| Some(w.counts.drains_threshold as f64)),
    count("drains_high_order", |w| Some(w.counts.drains_high_order as f64)),
    count("drains_capacity", |w| Some(w.counts.drains_capacity as f64)),
    count("drains_emptying", |w| Some(w.counts.drains_emptying as f64)),
    count("drained_frames", |w| Some(w.counts.drained_frames as f64)),
    count("zone_allocs", |w| Some(w.counts.zone_allocs as f64)),
    count("zone_frees", |w| Some(w.counts.zone_frees as f64)),
    count("claims", |w| Some(w.counts.claims as f64)),
    count("steals", |w| Some(w.counts.steals as f64)),
    count("slow_paths", |w| Some(w.counts.slow_paths as f64)),
];

/// A count, which is not compared.
const fn count(name: &'static str, of: fn(&Window) -> Option<f64>) -> Figure<Window> {
    Figure::known(name, Unit::Count, of)
}

/// The ratio of a part to a whole, unless the whole is zero.
fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| ratio(part, whole))
}

fn percent(part: u64, whole: u64) -> f64 {
    100.0 * ratio(part, whole)
}

/// The figures of one side: medians over its windows.
pub(crate) fn run_of(label: &str, settings: &IndexMap<String, String>, windows: &[Window]) -> Run {
    let mut metrics = metrics(FIGURES, windows);
    metrics.extend(zone_waits(windows));
    Run { label: label.to_owned(), settings: settings.clone(), metrics, ..Run::default() }
}

/// The share of busy cycles that CPUs wait for the lock of each zone, if there are several.
fn zone_waits(windows: &[Window]) -> impl Iterator<Item = (String, Metric)> {
    let zones = windows.iter().map(|window| window.zone_waits.len()).min().unwrap_or(0);
    let of = |zone: usize| {
        let share = |window: &Window| {
            window.cycles.map(|cycles| percent(window.zone_waits[zone], cycles.busy))
        };
        let values: Vec<f64> = windows.iter().filter_map(share).collect();
        let metric = Metric::of_rounds(&values, Unit::Percent, Some(Better::Lower))?;
        Some((format!("zone{zone}_lock_wait_pct"), metric))
    };
    (0..if zones > 1 { zones } else { 0 }).filter_map(of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_that_a_machine_cannot_measure_are_omitted() {
        let window = Window {
            seconds: 2.0,
            done: Done { pages: 10, ..Done::default() },
            ..Window::default()
        };
        let run = run_of("x", &IndexMap::new(), &[window.clone(), window]);
        assert_eq!(run.metrics["pages_per_s"].median, 5.0);
        assert_eq!(run.metrics["pages_per_s"].n, 2);
        for unknown in
            ["zone_lock_wait_pct", "lock_wait_ns_per_page", "drains_per_exit", "hot_reuse_pct"]
        {
            assert!(!run.metrics.contains_key(unknown), "{unknown}");
        }
    }

    #[test]
    fn waits_are_divided_among_several_zones() {
        let cycles = Some(LockCycles { busy: 200, waiting: 30, ..LockCycles::default() });
        let of = |zone_waits: &[u64]| {
            let window = Window { cycles, zone_waits: zone_waits.to_vec(), ..Window::default() };
            run_of("x", &IndexMap::new(), &[window]).metrics
        };
        let metrics = of(&[10, 20]);
        assert_eq!(
            ["zone0", "zone1"].map(|zone| metrics[&format!("{zone}_lock_wait_pct")].median),
            [5.0, 10.0]
        );
        assert!(!of(&[30]).contains_key("zone0_lock_wait_pct"));
    }

    #[test]
    fn costs_of_a_lock_that_is_never_taken_are_omitted() {
        let window = Window { cycles: Some(LockCycles::default()), ..Window::default() };
        let run = run_of("x", &IndexMap::new(), &[window]);
        for unknown in ["frames_per_lock_hold", "lock_cycles_per_frame"] {
            assert!(!run.metrics.contains_key(unknown), "{unknown}");
        }
        assert_eq!(run.metrics["zone_lock_acquisitions"].median, 0.0);
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
        assert_eq!(run.metrics["contended_pct"].median, 25.0);
    }
}
