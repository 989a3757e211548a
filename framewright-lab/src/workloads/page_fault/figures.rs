//! Counters and times to metrics.

use framewright::observe::{CpuStats, DrainReason};
use framewright_host::Contention;

use crate::{
    report::{Better, Metric, Run, Unit},
    workloads::Side,
};

/// One round of one side.
pub(super) struct Round {
    pub(super) pages: u64,
    pub(super) pages_per_second: f64,
    pub(super) before: Counters,
    pub(super) after: Counters,
}

/// What was counted up to some moment.
#[derive(Clone, Copy)]
pub(super) struct Counters {
    pub(super) stats: CpuStats,
    pub(super) contention: Contention,
}

impl Round {
    /// How far a counter of the library went on in this round.
    fn counted(&self, of: fn(&CpuStats) -> u64) -> u64 {
        of(&self.after.stats) - of(&self.before.stats)
    }

    fn locks(&self) -> u64 {
        self.counted(|stats| stats.zone_lock_acquisitions)
    }

    fn requests(&self) -> u64 {
        self.counted(|stats| stats.list_hits + stats.list_misses + stats.zone_allocs)
    }

    fn lock_waits(&self) -> u64 {
        self.after.contention.waits - self.before.contention.waits
    }

    fn lock_wait_nanos(&self) -> u64 {
        self.after.contention.nanos - self.before.contention.nanos
    }
}

/// A metric, and how it follows from a round.
struct Figure {
    name: &'static str,
    unit: Unit,
    better: Option<Better>,
    source: Source,
}

enum Source {
    /// Worked out.
    Value(fn(&Round) -> f64),
    /// Counted by the library.
    Count(fn(&CpuStats) -> u64),
}

const FIGURES: [Figure; 20] = [
    judged("pages_per_s", Unit::PerSecond, Better::Higher, |round| round.pages_per_second),
    judged("acquisitions_per_page", Unit::Ratio, Better::Lower, |round| {
        ratio(round.locks(), round.pages)
    }),
    judged("frames_per_lock_hold", Unit::FramesPerAcquisition, Better::Higher, |round| {
        ratio(round.counted(|stats| stats.zone_lock_frames), round.locks())
    }),
    judged("list_hits_percent", Unit::Percent, Better::Higher, |round| {
        100.0 * ratio(round.counted(|stats| stats.list_hits), round.requests())
    }),
    judged("contended_percent", Unit::Percent, Better::Lower, |round| {
        100.0 * ratio(round.lock_waits(), round.locks())
    }),
    judged("lock_wait_ns_per_page", Unit::Nanos, Better::Lower, |round| {
        ratio(round.lock_wait_nanos(), round.pages)
    }),
    value("pages", Unit::Frames, |round| round.pages as f64),
    count("zone_lock_acquisitions", |stats| stats.zone_lock_acquisitions),
    count("refills", |stats| stats.refills),
    count("refilled_frames", |stats| stats.refilled_frames),
    count("drains", |stats| stats.drains.iter().sum()),
    count("drains_threshold", |stats| stats.drains[DrainReason::Threshold as usize]),
    count("drains_high_order", |stats| stats.drains[DrainReason::HighOrder as usize]),
    count("drains_capacity", |stats| stats.drains[DrainReason::Capacity as usize]),
    count("drained_frames", |stats| stats.drained_frames),
    count("zone_allocs", |stats| stats.zone_allocs),
    count("zone_frees", |stats| stats.zone_frees),
    count("claims", |stats| stats.claims),
    count("steals", |stats| stats.steals),
    count("slow_paths", |stats| stats.slow_paths),
];

/// The names of the metrics, in the order in which they are shown. Counts are per round; a round
/// that lasts a given time does more work on the faster side, so only rates and ratios are
/// judged.
pub const METRICS: [&str; FIGURES.len()] = {
    let mut names = [""; FIGURES.len()];
    let mut i = 0;
    while i < names.len() {
        names[i] = FIGURES[i].name;
        i += 1;
    }
    names
};

const fn judged(name: &'static str, unit: Unit, better: Better, of: fn(&Round) -> f64) -> Figure {
    Figure { name, unit, better: Some(better), source: Source::Value(of) }
}

const fn value(name: &'static str, unit: Unit, of: fn(&Round) -> f64) -> Figure {
    Figure { name, unit, better: None, source: Source::Value(of) }
}

const fn count(name: &'static str, of: fn(&CpuStats) -> u64) -> Figure {
    Figure { name, unit: Unit::Count, better: None, source: Source::Count(of) }
}

impl Figure {
    fn of(&self, round: &Round) -> f64 {
        match self.source {
            Source::Value(of) => of(round),
            Source::Count(of) => round.counted(of) as f64,
        }
    }
}

/// 0 of 0 is 0: what never happened.
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// The figures of one side.
pub(super) fn run(side: &Side, rounds: &[Round]) -> Run {
    let metric = |figure: &Figure| {
        let values: Vec<f64> = rounds.iter().map(|round| figure.of(round)).collect();
        let metric = Metric::of_rounds(&values, figure.unit, figure.better)?;
        Some((figure.name.to_owned(), metric))
    };
    Run {
        label: side.label.clone(),
        settings: side.settings.clone(),
        metrics: FIGURES.iter().filter_map(metric).collect(),
        ..Run::default()
    }
}
