//! The goals of the library's row, as checks.

use super::{METADATA, METRICS};
use crate::report::{Check, Run};

/// Medians whose ratio is at most this are equal.
const TIE: f64 = 1.05;

/// The rank of one row in one column.
#[derive(Clone, Debug, PartialEq)]
pub struct Rank {
    /// The row.
    pub label: String,
    /// 1 for the fastest; rows within 5 % of a better one share its rank.
    pub rank: usize,
    /// Its median divided by the best median of all ranked rows.
    pub to_best: f64,
}

/// The ranks in column `metric` of those rows of `runs` that `ranked` names, best first.
#[must_use]
pub fn ranks(runs: &[Run], ranked: &[String], metric: &str) -> Vec<Rank> {
    let mut medians: Vec<(&str, f64)> = runs
        .iter()
        .filter(|run| ranked.contains(&run.label))
        .filter_map(|run| Some((run.label.as_str(), run.metrics.get(metric)?.median)))
        .collect();
    medians.sort_by(|a, b| a.1.total_cmp(&b.1));
    let best = medians.first().map_or(1.0, |first| first.1);
    medians
        .iter()
        .map(|&(label, median)| Rank {
            label: label.to_owned(),
            rank: 1 + medians.iter().filter(|other| other.1 * TIE < median).count(),
            to_best: median / best,
        })
        .collect()
}

/// The median of row `label` in column `metric`, divided by that of row `other`.
#[must_use]
pub fn ratio(runs: &[Run], metric: &str, label: &str, other: &str) -> Option<f64> {
    let median = |wanted: &str| {
        let run = runs.iter().find(|run| run.label == wanted)?;
        run.metrics.get(metric).map(|metric| metric.median)
    };
    Some(median(label)? / median(other)?)
}

const OURS: &str = "framewright";
const FLOOR: &str = "floor-trylock";
/// Limit of an allocation and a free of order 0, relative to one try-lock per operation.
const PAIR_TO_FLOOR: f64 = 0.6;
/// Limit of the columns `bulk` and `half`, also relative to one try-lock per operation.
const BULK_TO_FLOOR: f64 = 2.0;
/// The row that is compared with the library's on a large machine.
const LARGE_PEER: &str = "frame-alloc-depot";
/// Pressure on a large machine, relative to that row.
const PRESSURE_TO_PEER: f64 = 1.2;
/// Limit of every operation in any state, in nanoseconds.
const CEILING: f64 = 100.0;
/// Bytes of metadata per frame.
const METADATA_CEILING: f64 = 0.5;

/// Checks the row of the library; no checks without it.
pub(super) fn checks(runs: &[Run], ranked: &[String]) -> Vec<Check> {
    let Some(ours) = runs.iter().find(|run| run.label == OURS) else {
        return Vec::new();
    };
    let mut checks = Vec::new();
    for metric in METRICS.iter().filter(|metric| ours.metrics.contains_key(**metric)) {
        checks.extend(first(runs, ranked, metric));
        checks.extend(near_floor(runs, metric));
        checks.push(below(ours, metric, CEILING, "ns"));
    }
    checks.push(below(ours, METADATA, METADATA_CEILING, "bytes"));
    checks
}

/// Checks the row of the library on a large machine; no checks without it. `suffix` is the end of
/// the labels of such rows.
pub(super) fn large_checks(runs: &[Run], suffix: &str) -> Vec<Check> {
    let (ours, peer) = (format!("{OURS}{suffix}"), format!("{LARGE_PEER}{suffix}"));
    let Some(run) = runs.iter().find(|run| run.label == ours) else {
        return Vec::new();
    };
    let mut checks = Vec::new();
    for metric in METRICS.iter().filter(|metric| run.metrics.contains_key(**metric)) {
        checks.push(below(run, metric, CEILING, "ns"));
        if metric.starts_with("pressure") {
            let ratio = ratio(runs, metric, &ours, &peer);
            checks.extend(ratio.map(|ratio| at_most(metric, PRESSURE_TO_PEER, &peer, ratio)));
        }
    }
    checks
        .into_iter()
        .map(|check| Check { name: format!("{ours} {}", check.name), ..check })
        .collect()
}

fn at_most(metric: &str, limit: f64, of: &str, ratio: f64) -> Check {
    Check::new(
        format!("{metric}: at most {limit} times {of}"),
        ratio <= limit,
        format!("{ratio:.2} times"),
    )
}

fn first(runs: &[Run], ranked: &[String], metric: &str) -> Option<Check> {
    let ranks = ranks(runs, ranked, metric);
    let ours = ranks.iter().find(|rank| rank.label == OURS)?;
    let best = ranks.first()?;
    Some(Check::new(
        format!("{metric}: first among allocators that merge"),
        ours.rank == 1,
        format!("rank {}, {:.2} times the best, {}", ours.rank, ours.to_best, best.label),
    ))
}

fn near_floor(runs: &[Run], metric: &str) -> Option<Check> {
    let limit = if metric.starts_with("pair_o0") {
        PAIR_TO_FLOOR
    } else if metric.starts_with("bulk") || metric.starts_with("half") {
        BULK_TO_FLOOR
    } else {
        return None;
    };
    Some(at_most(metric, limit, FLOOR, ratio(runs, metric, OURS, FLOOR)?))
}

fn below(ours: &Run, metric: &str, limit: f64, unit: &str) -> Check {
    let median = ours.metrics.get(metric).map_or(f64::INFINITY, |metric| metric.median);
    Check::new(
        format!("{metric}: at most {limit} {unit}"),
        median <= limit,
        format!("{median:.2} {unit}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Better, Metric, Unit};

    fn column(label: &str, nanos: f64) -> Run {
        let mut run = Run { label: label.to_owned(), ..Run::default() };
        run.metrics.insert("x".to_owned(), Metric::once(nanos, Unit::Nanos, Some(Better::Lower)));
        run
    }

    #[test]
    fn ties_share_a_rank_and_unranked_rows_have_none() {
        let runs = [column("a", 10.4), column("b", 10.0), column("floor", 1.0), column("c", 20.0)];
        let ranked = ["a", "b", "c"].map(str::to_owned);
        let places: Vec<(String, usize)> =
            ranks(&runs, &ranked, "x").into_iter().map(|rank| (rank.label, rank.rank)).collect();
        assert_eq!(places, [("b", 1), ("a", 1), ("c", 3)].map(|(l, p)| (l.to_owned(), p)));
        assert_eq!(ranks(&runs, &ranked, "x")[2].to_best, 2.0);
        assert_eq!(ratio(&runs, "x", "c", "b"), Some(2.0));
        assert_eq!(ratio(&runs, "x", "c", "nobody"), None);
        assert_eq!(ranks(&runs, &ranked, "y"), []);
    }

    fn run(label: &str, metrics: &[(&str, f64)]) -> Run {
        let mut run = Run { label: label.to_owned(), ..Run::default() };
        for (name, value) in metrics {
            let metric = Metric::once(*value, Unit::Nanos, Some(Better::Lower));
            run.metrics.insert((*name).to_owned(), metric);
        }
        run
    }

    #[test]
    fn each_goal_can_fail() {
        let ours =
            run(OURS, &[("pair_o0_1t_ns", 8.0), ("half_alloc_1t_ns", 101.0), (METADATA, 0.6)]);
        let floor = run(FLOOR, &[("pair_o0_1t_ns", 10.0), ("half_alloc_1t_ns", 10.0)]);
        let other = run("other", &[("pair_o0_1t_ns", 7.0), ("half_alloc_1t_ns", 200.0)]);
        let ranked = [OURS, "other"].map(str::to_owned);
        let failed: Vec<String> = checks(&[ours, floor, other], &ranked)
            .into_iter()
            .filter(|check| !check.passed)
            .map(|check| check.name)
            .collect();
        assert_eq!(
            failed,
            [
                "pair_o0_1t_ns: first among allocators that merge",
                "pair_o0_1t_ns: at most 0.6 times floor-trylock",
                "half_alloc_1t_ns: at most 2 times floor-trylock",
                "half_alloc_1t_ns: at most 100 ns",
                "metadata_bytes_per_frame: at most 0.5 bytes",
            ]
        );
    }

    #[test]
    fn the_large_row_has_goals_of_its_own() {
        let ours = [("pair_o0_1t_ns", 99.0), ("half_alloc_1t_ns", 101.0)];
        let pressure = |nanos| ("pressure_alloc_1t_ns", nanos);
        let runs = [
            run(OURS, &[pressure(900.0)]),
            run("framewright-256g", &[ours[0], ours[1], pressure(61.0)]),
            run("frame-alloc-depot-256g", &[pressure(50.0)]),
        ];
        let checks = large_checks(&runs, "-256g");
        let outcomes: Vec<(&str, bool)> =
            checks.iter().map(|check| (check.name.as_str(), check.passed)).collect();
        assert_eq!(
            outcomes,
            [
                ("framewright-256g pair_o0_1t_ns: at most 100 ns", true),
                ("framewright-256g half_alloc_1t_ns: at most 100 ns", false),
                ("framewright-256g pressure_alloc_1t_ns: at most 100 ns", true),
                (
                    "framewright-256g pressure_alloc_1t_ns: at most 1.2 times frame-alloc-depot-256g",
                    false
                ),
            ]
        );
        assert_eq!(large_checks(&runs, "-0g"), []);
    }

    #[test]
    fn without_our_row_there_is_nothing_to_check() {
        assert_eq!(checks(&[run(FLOOR, &[("pair_o0_1t_ns", 1.0)])], &[]), []);
    }
}
