//! Looks over time as charts.

use std::collections::BTreeSet;

use framewright::frame::FRAME_SIZE;

use super::Figure;
use crate::{
    plot::{Axis, Line, Panel},
    report::Point,
};

/// The lines of the chart of huge pages, by figure.
const HUGE_PAGES: [(&str, &str); 3] = [
    ("huge_pages_without_compaction", "without compaction"),
    ("huge_pages_with_compaction_least", "with compaction, least"),
    ("huge_pages_with_compaction_most", "with compaction, most"),
];

/// The charts of looks, each with its title and its time in seconds: huge pages, the free memory of all zones, events,
/// and for each zone its free blocks by order, its free memory by migratetype and its unusable free space index. None
/// for a single look.
#[must_use]
pub fn charts(looks: &[(f64, Vec<Figure>)]) -> Vec<(String, Panel)> {
    let Some((_, last)) = looks.last().filter(|_| looks.len() > 1) else { return Vec::new() };
    let zones: BTreeSet<String> =
        last.iter().filter(|it| it.zone.is_some()).map(Figure::place).collect();
    let mut charts = vec![
        chart("huge pages that a program could get", "huge pages", huge_pages(looks)),
        chart("free memory", "MiB", zones.iter().map(|zone| free(looks, zone)).collect()),
        chart("events since the look before", "events", events(looks, last)),
    ];
    charts.extend(zones.iter().flat_map(|zone| of_zone(looks, zone)));
    charts.retain(|(_, panel)| !panel.lines.is_empty());
    charts
}

fn chart(title: &str, y: &str, lines: Vec<Line>) -> (String, Panel) {
    (title.to_owned(), Panel { x: Axis::linear("seconds"), y: Axis::linear(y), lines })
}

/// A line with the sum over the figures of each look that `value` returns a value for.
fn line(looks: &[(f64, Vec<Figure>)], label: &str, value: impl Fn(&Figure) -> Option<f64>) -> Line {
    let point = |(seconds, figures): &(f64, Vec<Figure>)| {
        Point(*seconds, figures.iter().filter_map(&value).sum())
    };
    Line { label: label.to_owned(), points: looks.iter().map(point).collect() }
}

fn huge_pages(looks: &[(f64, Vec<Figure>)]) -> Vec<Line> {
    let of_machine =
        |name| move |it: &Figure| (it.zone.is_none() && it.name == name).then_some(it.value);
    HUGE_PAGES.map(|(name, label)| line(looks, label, of_machine(name))).into()
}

fn free(looks: &[(f64, Vec<Figure>)], zone: &str) -> Line {
    line(looks, zone, |it| (it.name == "free" && it.place() == zone).then(|| mib(it.value)))
}

/// Frames in MiB.
fn mib(frames: f64) -> f64 {
    frames * FRAME_SIZE as f64 / f64::from(1 << 20)
}

/// The increase of each counter that grew, for all looks but the first.
fn events(looks: &[(f64, Vec<Figure>)], last: &[Figure]) -> Vec<Line> {
    let counters = last.iter().filter(|it| it.zone.is_none() && !is_huge_pages(it));
    let lines = counters.map(|counter| {
        let counted = line(looks, counter.name, |it| (it.name == counter.name).then_some(it.value));
        let grown = counted.points.windows(2).map(|pair| Point(pair[1].0, pair[1].1 - pair[0].1));
        Line { points: grown.collect(), ..counted }
    });
    lines.filter(|line| line.points.iter().any(|point| point.1 > 0.0)).collect()
}

fn is_huge_pages(figure: &Figure) -> bool {
    HUGE_PAGES.iter().any(|(name, _)| figure.name == *name)
}

fn of_zone(looks: &[(f64, Vec<Figure>)], zone: &str) -> [(String, Panel); 3] {
    let last = looks.last().map_or(&[][..], |(_, figures)| figures);
    let here: Vec<&Figure> = last.iter().filter(|it| it.place() == zone).collect();
    let orders: BTreeSet<usize> = here.iter().filter_map(|it| it.order).collect();
    let types: BTreeSet<&String> = here.iter().filter_map(|it| it.migratetype.as_ref()).collect();
    let by_order = |name: &'static str| -> Vec<Line> {
        let of = |order| {
            move |it: &Figure| {
                let is_it = it.name == name && it.order == Some(order) && it.migratetype.is_none();
                (is_it && it.place() == zone).then_some(it.value)
            }
        };
        orders.iter().map(|order| line(looks, &format!("order {order}"), of(*order))).collect()
    };
    let of_type = |of: &&String| {
        line(looks, of, |it| {
            let is_it = it.name == "free_blocks" && it.migratetype.as_ref() == Some(*of);
            let frames = it.value * f64::from(1_u32 << it.order.unwrap_or(0));
            (is_it && it.place() == zone).then(|| mib(frames))
        })
    };
    let (title, mut blocks) =
        chart(&format!("free blocks by order, {zone}"), "free blocks", by_order("free_blocks"));
    blocks.y = Axis::decades("free blocks");
    let free = types.iter().map(of_type).collect();
    let index = by_order("unusable_free_index");
    [
        (title, blocks),
        chart(&format!("free memory by migratetype, {zone}"), "MiB", free),
        chart(&format!("unusable free space index, {zone}"), "index", index),
    ]
}
