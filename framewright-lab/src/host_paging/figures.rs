//! What came of rounds, as metrics.

use super::moment::Interval;
use crate::{
    report::{
        Run, Sides, Unit,
        figure::{Figure, metrics, ratio},
    },
    workloads::Side,
};

/// All of them, in the order in which they are shown. Those of time are of one round.
const FIGURES: &[Figure<Interval>] = &[
    Figure::lower("shootdowns_per_evicted_page", Unit::Ratio, |i| {
        Some(ratio(i.shootdowns.or(i.ipis)?, i.evicted))
    }),
    Figure::lower("ns_per_evicted_page", Unit::Nanos, |i| Some(ratio(i.call_nanos, i.evicted))),
    Figure::lower("ipis_per_reclaimed_page", Unit::Ratio, |i| {
        Some(ratio(i.ipis?, i.stolen.iter().sum()))
    }),
    Figure::higher("unmaps_per_flush", Unit::Ratio, |i| {
        (i.flushes > 0).then(|| ratio(i.unmapped, i.flushes))
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
    Figure::known("misses", Unit::Count, |i| Some(i.misses as f64)),
    Figure::known("evicted", Unit::Count, |i| Some(i.evicted as f64)),
    Figure::known("rescued", Unit::Count, |i| Some(i.rescued as f64)),
    Figure::known("flushes", Unit::Count, |i| Some(i.flushes as f64)),
    Figure::known("calls", Unit::Count, |i| Some(i.calls as f64)),
    Figure::known("shootdowns", Unit::Count, |i| Some(i.shootdowns.or(i.ipis)? as f64)),
    Figure::known("ipis", Unit::Count, |i| Some(i.ipis? as f64)),
    Figure::known("allocstall", Unit::Count, |i| Some(i.stalls as f64)),
];

/// The figures of one side: medians over its rounds.
pub(super) fn run_of(side: &Side, rounds: &[Interval]) -> Run {
    Run {
        label: side.label.clone(),
        settings: side.settings.clone(),
        metrics: metrics(FIGURES, rounds),
        ..Run::default()
    }
}

/// A figure of two sides whose rounds took turns.
pub(super) fn sides(before: &[Interval], after: &[Interval], name: &str) -> Option<Sides> {
    let figure = FIGURES.iter().find(|figure| figure.name == name)?;
    let (before, after) = (figure.values(before)?, figure.values(after)?);
    Sides::paired(&before, &after, figure.unit, figure.better)
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
