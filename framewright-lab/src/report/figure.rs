//! Figures: metrics, and how they follow from what was counted.

use indexmap::IndexMap;

use super::{Better, Metric, Unit};

/// A metric, and how it follows from an outcome of kind `O`; not at all if it cannot be known.
pub(crate) struct Figure<O> {
    pub(crate) name: &'static str,
    pub(crate) unit: Unit,
    pub(crate) better: Option<Better>,
    pub(crate) of: fn(&O) -> Option<f64>,
}

impl<O> Figure<O> {
    /// One that is better the greater it is.
    pub(crate) const fn higher(name: &'static str, unit: Unit, of: fn(&O) -> Option<f64>) -> Self {
        Self { name, unit, better: Some(Better::Higher), of }
    }

    /// One that is better the less it is.
    pub(crate) const fn lower(name: &'static str, unit: Unit, of: fn(&O) -> Option<f64>) -> Self {
        Self { name, unit, better: Some(Better::Lower), of }
    }

    /// One that is told and not judged.
    pub(crate) const fn known(name: &'static str, unit: Unit, of: fn(&O) -> Option<f64>) -> Self {
        Self { name, unit, better: None, of }
    }

    /// Its value for each outcome, if all have one.
    pub(crate) fn values(&self, outcomes: &[O]) -> Option<Vec<f64>> {
        outcomes.iter().map(self.of).collect()
    }
}

/// Medians over outcomes of those figures that all of them have, in their order.
pub(crate) fn metrics<O>(figures: &[Figure<O>], outcomes: &[O]) -> IndexMap<String, Metric> {
    let metric = |figure: &Figure<O>| {
        let metric = Metric::of_rounds(&figure.values(outcomes)?, figure.unit, figure.better)?;
        Some((figure.name.to_owned(), metric))
    };
    figures.iter().filter_map(metric).collect()
}

/// A part of a whole; 0 of 0 is 0: what never happened.
pub(crate) fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_that_one_outcome_lacks_is_left_out() {
        const FIGURES: [Figure<u64>; 2] = [
            Figure::lower("itself", Unit::Count, |it| Some(*it as f64)),
            Figure::known("inverse", Unit::Ratio, |it| (*it > 0).then(|| ratio(1, *it))),
        ];
        let names = |outcomes: &[u64]| -> Vec<String> {
            metrics(&FIGURES, outcomes).keys().cloned().collect()
        };
        assert_eq!(names(&[1, 2, 4]), ["itself", "inverse"]);
        assert_eq!(names(&[1, 0, 4]), ["itself"]);
        assert_eq!(metrics(&FIGURES, &[1, 2, 4])["inverse"].median, 0.5);
        assert_eq!(ratio(3, 0), 0.0);
    }
}
