//! Who is first, and by how much.

use crate::report::Run;

/// Medians this close are equal.
const TIE: f64 = 1.05;

/// The place of one row in one column.
#[derive(Clone, Debug, PartialEq)]
pub struct Rank {
    /// The row.
    pub label: String,
    /// 1 for the fastest; rows within 5 % of a better one share its place.
    pub place: usize,
    /// Its median divided by the best median of all ranked rows.
    pub to_best: f64,
}

/// The places in column `metric` of those rows of `runs` that `ranked` names, best first.
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
            place: 1 + medians.iter().filter(|other| other.1 * TIE < median).count(),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Better, Metric, Unit};

    fn run(label: &str, nanos: f64) -> Run {
        let mut run = Run { label: label.to_owned(), ..Run::default() };
        run.metrics.insert("x".to_owned(), Metric::once(nanos, Unit::Nanos, Some(Better::Lower)));
        run
    }

    #[test]
    fn ties_share_a_place_and_outsiders_have_none() {
        let runs = [run("a", 10.4), run("b", 10.0), run("floor", 1.0), run("c", 20.0)];
        let ranked = ["a", "b", "c"].map(str::to_owned);
        let places: Vec<(String, usize)> =
            ranks(&runs, &ranked, "x").into_iter().map(|rank| (rank.label, rank.place)).collect();
        assert_eq!(places, [("b", 1), ("a", 1), ("c", 3)].map(|(l, p)| (l.to_owned(), p)));
        assert_eq!(ranks(&runs, &ranked, "x")[2].to_best, 2.0);
        assert_eq!(ratio(&runs, "x", "c", "b"), Some(2.0));
        assert_eq!(ratio(&runs, "x", "c", "nobody"), None);
        assert_eq!(ranks(&runs, &ranked, "y"), []);
    }
}
