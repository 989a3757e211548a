//! Free memory over time as charts: blocks with a line for each order, frames with a line for each migratetype.

use framewright::MigrateType;

use crate::{
    plot::{Axis, Line, Panel},
    report::Point,
    samples::{SHOWN_ORDERS, Sample},
};

/// The charts of one side, with their titles: none without samples, and none of migratetypes for an allocator that does
/// not count by them.
pub(super) fn charts(label: &str, samples: &[Sample]) -> Vec<(String, Panel)> {
    let line = |label: String, value: &dyn Fn(&Sample) -> u64| {
        let point = |sample: &Sample| Point(sample.seconds, value(sample) as f64);
        Line { label, points: samples.iter().map(point).collect() }
    };
    let order = |order: usize| line(format!("order {order}"), &|it| it.free_blocks[order]);
    let of =
        |(index, of): (usize, &MigrateType)| line(of.name().into(), &|it| it.free_by_type[index]);
    let panel = |y, lines| Panel { x: Axis::linear("seconds"), y: Axis::decades(y), lines };
    let mut charts = Vec::new();
    if !samples.is_empty() {
        let blocks = panel("free blocks", (0..SHOWN_ORDERS).map(order).collect());
        charts.push((format!("free blocks by order, {label}"), blocks));
    }
    if samples.iter().any(|sample| sample.free_by_type.iter().any(|&frames| frames > 0)) {
        let lines = MigrateType::REQUESTABLE.iter().enumerate().map(of).collect();
        let frames = panel("free frames", lines);
        charts.push((format!("free frames by migratetype, {label}"), frames));
    }
    charts
}
