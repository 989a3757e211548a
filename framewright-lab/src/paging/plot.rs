//! The hours of a run, drawn.

use crate::{
    plot::{Axis, Panel, Plot},
    report::Run,
};

/// Throughput, the longest wait and fragmentation, hour by hour, of all runs that have hours.
#[must_use]
pub fn plot(runs: &[Run], title: &str, subtitle: &str) -> Plot {
    let hours = || Axis::linear("hours, each a 24th of 2,500 turnovers of memory");
    let panel = |y: Axis, series: &str| Panel::of_series(runs, series, hours(), y);
    Plot {
        title: title.to_owned(),
        subtitle: subtitle.to_owned(),
        panels: vec![
            panel(Axis::linear("pages per second, modelled"), "pages_per_s"),
            panel(Axis::linear("longest wait for a page, ns, modelled"), "stall_max_ns"),
            panel(
                Axis::linear("free memory of no use for a pageblock, %"),
                "unusable_for_order_9_pct",
            ),
        ],
    }
}
