//! What happened over time, drawn.

use super::{Work, course::HOURS, figures::HUGE};
use crate::{
    plot::{Axis, Panel, Plot},
    report::Run,
};

/// Throughput, the longest wait and fragmentation of all runs of `work`, part by part: hour by hour of a
/// server's days, or by how much of what is read once has been read.
#[must_use]
pub fn plot(runs: &[Run], work: &Work, subtitle: &str) -> Plot {
    let (axis, per_part) = match work {
        Work::MmapRead(work) => (
            Axis::linear("read so far, in multiples of memory"),
            f64::from(work.times) / HOURS as f64,
        ),
        Work::Cdn(_) => (Axis::whole("hours, each a 24th of 2,500 turnovers of memory"), 1.0),
    };
    let panel = |y: Axis, series: &str| {
        Panel::of_series(runs, series, axis.clone(), y).with_x_times(per_part)
    };
    let huge = runs.iter().any(|run| run.series.contains_key(HUGE));
    let huge = huge.then(|| panel(Axis::linear("huge pages without a stall, %"), HUGE));
    Plot {
        title: work.name().to_owned(),
        subtitle: subtitle.to_owned(),
        panels: [
            panel(Axis::linear("pages per second, modelled"), "pages_per_s"),
            panel(Axis::linear("longest wait for a page, ns, modelled"), "stall_max_ns"),
            panel(Axis::linear("free memory of no use for order 3, %"), "unusable_for_order_3_pct"),
        ]
        .into_iter()
        .chain(huge)
        .collect(),
    }
}
