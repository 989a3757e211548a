//! Figures as the computation of a metric from the outcomes of runs, and sets of counters.

use indexmap::IndexMap;

use super::{Better, Metric, Unit};

/// A metric, and its computation from an outcome of type `O`; `None` if it is undefined.
pub(crate) struct Figure<O> {
    pub(crate) name: &'static str,
    pub(crate) unit: Unit,
    pub(crate) better: Option<Better>,
    pub(crate) over: Over,
    pub(crate) of: fn(&O) -> Option<f64>,
}

/// The way to compute the figure of several outcomes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Over {
    /// The median of all, if all outcomes have the figure.
    Median,
    /// The mean of the outcomes that have it.
    Mean,
    /// The minimum of these.
    Least,
    /// The maximum of these.
    Greatest,
}

impl Over {
    fn of(self, values: &[f64]) -> Option<f64> {
        let values = values.iter().copied();
        match self {
            Self::Median => None,
            Self::Mean => {
                let count = values.len() as f64;
                (count > 0.0).then(|| values.sum::<f64>() / count)
            }
            Self::Least => values.min_by(f64::total_cmp),
            Self::Greatest => values.max_by(f64::total_cmp),
        }
    }
}

impl<O> Figure<O> {
    /// A figure of which more is better.
    pub(crate) const fn higher(name: &'static str, unit: Unit, of: fn(&O) -> Option<f64>) -> Self {
        Self { name, unit, better: Some(Better::Higher), over: Over::Median, of }
    }

    /// A figure of which less is better.
    pub(crate) const fn lower(name: &'static str, unit: Unit, of: fn(&O) -> Option<f64>) -> Self {
        Self { name, unit, better: Some(Better::Lower), over: Over::Median, of }
    }

    /// A figure without a better direction.
    pub(crate) const fn known(name: &'static str, unit: Unit, of: fn(&O) -> Option<f64>) -> Self {
        Self { name, unit, better: None, over: Over::Median, of }
    }

    /// This figure, with another way to combine several outcomes.
    pub(crate) const fn over(mut self, over: Over) -> Self {
        self.over = over;
        self
    }

    /// Its value for each outcome, if all have one.
    pub(crate) fn values(&self, outcomes: &[O]) -> Option<Vec<f64>> {
        outcomes.iter().map(self.of).collect()
    }
}

/// The figures that outcomes have, in order.
pub(crate) fn metrics<O>(figures: &[Figure<O>], outcomes: &[O]) -> IndexMap<String, Metric> {
    let metric = |figure: &Figure<O>| {
        let Figure { unit, better, over, of, .. } = *figure;
        let metric = if over == Over::Median {
            Metric::of_rounds(&figure.values(outcomes)?, unit, better)?
        } else {
            let values: Vec<f64> = outcomes.iter().filter_map(of).collect();
            Metric::once(over.of(&values)?, unit, better)
        };
        Some((figure.name.to_owned(), metric))
    };
    figures.iter().filter_map(metric).collect()
}

/// A set of counters. The difference of two readings has the counts of the interval between them.
/// Sums add the counters of several CPUs.
macro_rules! counters {
    ($(#[$about:meta])* $vis:vis struct $set:ident; $($(#[$doc:meta])* $name:ident,)*) => {
        $(#[$about])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        $vis struct $set {
            $($(#[$doc])* pub(crate) $name: u64,)*
        }

        impl std::ops::Add for $set {
            type Output = Self;

            fn add(self, other: Self) -> Self {
                Self { $($name: self.$name + other.$name,)* }
            }
        }

        impl std::ops::Sub for $set {
            type Output = Self;

            fn sub(self, before: Self) -> Self {
                Self { $($name: self.$name - before.$name,)* }
            }
        }
    };
}
pub(crate) use counters;

/// The ratio of a part to a whole; 0 if the whole is 0.
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
