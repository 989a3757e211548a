//! The result of one run, and figures that follow from it.

use super::cpu::Tally;
use crate::report::Point;

/// The result of one run of one allocator.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    /// Huge pages that the free frames would make.
    pub(super) ideal: u64,
    /// Huge pages that can be allocated at the end, without and with a drain.
    pub(super) allocatable: Option<(u64, Option<u64>)>,
    /// Requests for huge pages that were refused, where there are such requests.
    pub(super) refused_huge: Option<u64>,
    /// Calls after the beginning.
    pub(super) tally: Tally,
    /// Pageblocks of which nothing is allocated, over time.
    pub(super) course: Vec<Point>,
}

pub(super) fn ideal(outcome: &Outcome) -> Option<f64> {
    Some(outcome.ideal as f64)
}

/// `part` of `whole`, in percent.
pub(super) fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

/// Nanoseconds of an allocation or a free by the clock, refused requests included.
pub(super) fn mean(outcome: &Outcome) -> Option<f64> {
    let Tally { allocs, frees, .. } = &outcome.tally;
    let nanos = allocs.mean() * allocs.calls() as f64 + frees.mean() * frees.calls() as f64;
    Some(nanos / (allocs.calls() + frees.calls()).max(1) as f64)
}

/// CPU time of an allocation or a free, the experiment's own work included, which is the same for every
/// allocator. Other programs do not add to it.
pub(super) fn cpu_mean(outcome: &Outcome) -> Option<f64> {
    let Tally { allocs, frees, cpu_time, .. } = &outcome.tally;
    let operations = (allocs.calls() + frees.calls()).max(1);
    Some(cpu_time.as_nanos() as f64 / operations as f64)
}

/// The figure of a quantile of allocations or frees.
macro_rules! latency {
    ($name:literal, $kind:ident, $share:literal) => {
        Figure::lower($name, Unit::Nanos, |outcome: &Outcome| outcome.tally.$kind.quantile($share))
    };
}
pub(super) use latency;
