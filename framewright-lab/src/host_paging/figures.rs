//! What came of rounds, as metrics.

use super::moment::Interval;
use crate::{
    report::{Better, Metric, Run, Sides, Unit},
    workloads::Side,
};

/// A metric, and how it follows from a round.
struct Figure {
    name: &'static str,
    unit: Unit,
    better: Option<Better>,
    of: fn(&Interval) -> Option<f64>,
}

/// All of them, in the order in which they are shown. Those of time are of one round.
const FIGURES: &[Figure] = &[
    lower("shootdowns_per_evicted_page", Unit::Ratio, |i| {
        Some(ratio(i.shootdowns.or(i.ipis)?, i.evicted))
    }),
    lower("ns_per_evicted_page", Unit::Nanos, |i| Some(ratio(i.call_nanos, i.evicted))),
    lower("ipis_per_reclaimed_page", Unit::Ratio, |i| Some(ratio(i.ipis?, i.stolen.iter().sum()))),
    higher("unmaps_per_flush", Unit::Ratio, |i| Some(ratio(i.unmapped, i.flushes))),
    lower("unflushed_frames_max", Unit::Frames, |i| Some(i.unflushed as f64)),
    lower("elapsed_s", Unit::Seconds, |i| Some(i.seconds)),
    lower("system_time_s", Unit::Seconds, |i| Some(i.system)),
    higher("pages_per_s", Unit::PerSecond, |i| Some(i.pages as f64 / i.seconds)),
    lower("scans_per_reclaimed_page", Unit::Ratio, |i| {
        Some(ratio(i.scanned, i.stolen.iter().sum()))
    }),
    known("kswapd_pct", Unit::Percent, |i| Some(100.0 * ratio(i.stolen[0], i.stolen.iter().sum()))),
    known("pages", Unit::Count, |i| Some(i.pages as f64)),
    known("misses", Unit::Count, |i| Some(i.misses as f64)),
    known("evicted", Unit::Count, |i| Some(i.evicted as f64)),
    known("rescued", Unit::Count, |i| Some(i.rescued as f64)),
    known("flushes", Unit::Count, |i| Some(i.flushes as f64)),
    known("calls", Unit::Count, |i| Some(i.calls as f64)),
    known("shootdowns", Unit::Count, |i| Some(i.shootdowns.or(i.ipis)? as f64)),
    known("ipis", Unit::Count, |i| Some(i.ipis? as f64)),
    known("allocstall", Unit::Count, |i| Some(i.stalls as f64)),
];

const fn higher(name: &'static str, unit: Unit, of: fn(&Interval) -> Option<f64>) -> Figure {
    Figure { name, unit, better: Some(Better::Higher), of }
}

const fn lower(name: &'static str, unit: Unit, of: fn(&Interval) -> Option<f64>) -> Figure {
    Figure { name, unit, better: Some(Better::Lower), of }
}

const fn known(name: &'static str, unit: Unit, of: fn(&Interval) -> Option<f64>) -> Figure {
    Figure { name, unit, better: None, of }
}

/// 0 of 0 is 0: what never happened.
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// The figures of one side: medians over its rounds.
pub(super) fn run_of(side: &Side, rounds: &[Interval]) -> Run {
    let metric = |figure: &Figure| {
        let values: Option<Vec<f64>> = rounds.iter().map(figure.of).collect();
        let metric = Metric::of_rounds(&values?, figure.unit, figure.better)?;
        Some((figure.name.to_owned(), metric))
    };
    Run {
        label: side.label.clone(),
        settings: side.settings.clone(),
        metrics: FIGURES.iter().filter_map(metric).collect(),
        ..Run::default()
    }
}

/// A figure of two sides whose rounds took turns.
pub(super) fn sides(before: &[Interval], after: &[Interval], name: &str) -> Option<Sides> {
    let figure = FIGURES.iter().find(|figure| figure.name == name)?;
    let values = |rounds: &[Interval]| rounds.iter().map(figure.of).collect::<Option<Vec<f64>>>();
    Sides::paired(&values(before)?, &values(after)?, figure.unit, figure.better)
}

#[cfg(test)]
mod tests {
    use super::*;
    use framewright::Tuning;

    #[test]
    fn own_interrupts_are_preferred_to_those_of_the_system() {
        let side = Side {
            label: "x".into(),
            tuning: Tuning::default(),
            settings: indexmap::IndexMap::new(),
        };
        let round = Interval {
            seconds: 2.0,
            pages: 1_000,
            ipis: Some(50),
            shootdowns: Some(10),
            unmapped: 480,
            evicted: 400,
            flushes: 4,
            call_nanos: 80_000,
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
