//! Runs of several settings, for experiments that compare more than two.

use super::{
    bands::Varied,
    pairs::{over_seeds, values},
};
use crate::report::{Metric, Run, Sides, Unit};

/// Runs of several settings, each with one run per seed.
pub(super) struct BySetting(pub(super) Vec<Vec<Run>>);

impl BySetting {
    /// A figure with two settings, if both were run.
    pub(super) fn sides(&self, before: usize, after: usize, metric: &str) -> Option<Sides> {
        let known = self.0[before].first()?.metrics.get(metric)?;
        let (unit, better) = (known.unit, known.better);
        Sides::paired(&self.values(before, metric)?, &self.values(after, metric)?, unit, better)
    }

    /// The runs of two settings with the first seed, if both were run.
    pub(super) fn first(&self, before: usize, after: usize) -> Option<Varied> {
        let run = |setting: usize| self.0[setting].first().cloned();
        Some(Varied { by: None, before: run(before)?, after: run(after)? })
    }

    /// The minimum (or whatever `pick` prefers) of a figure over the seeds, with two settings.
    pub(super) fn extremes(
        &self,
        before: usize,
        after: usize,
        metric: &str,
        pick: fn(f64, f64) -> f64,
    ) -> Option<Sides> {
        let known = self.0[before].first()?.metrics.get(metric)?;
        let of = |setting| self.values(setting, metric)?.into_iter().reduce(pick);
        Sides::paired(&[of(before)?], &[of(after)?], known.unit, known.better)
    }

    /// The median of a figure over the seeds.
    pub(super) fn median(&self, setting: usize, metric: &str) -> Option<f64> {
        Some(Metric::of_rounds(&self.values(setting, metric)?, Unit::Count, None)?.median)
    }

    /// The mean of a figure over the seeds.
    pub(super) fn mean(&self, setting: usize, metric: &str) -> f64 {
        let values = self.values(setting, metric).unwrap_or_default();
        values.iter().sum::<f64>() / values.len().max(1) as f64
    }

    /// The maximum of a figure over the seeds.
    pub(super) fn most(&self, setting: usize, metric: &str) -> f64 {
        self.values(setting, metric).unwrap_or_default().into_iter().fold(0.0, f64::max)
    }

    fn values(&self, setting: usize, metric: &str) -> Option<Vec<f64>> {
        let values = values(&self.0[setting], metric)?;
        (!values.is_empty()).then_some(values)
    }

    /// One run per setting: medians over the seeds.
    pub(super) fn medians(self) -> impl Iterator<Item = Run> {
        self.0.into_iter().filter_map(|runs| over_seeds(&runs))
    }
}
