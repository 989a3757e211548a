//! What the figures have to show.

use super::{
    LargeMemory, Section, contiguous, hotplug, orders,
    plan::{GIB, size},
    start,
};
use crate::report::{Check, Metric, Unit};

/// Making a memory, in nanoseconds for each TiB; smaller machines have as much time.
const INIT_PER_TIB: f64 = 0.5e9;
/// Adding memory, in bytes per second.
const ADD: f64 = 100.0 * (1_u64 << 30) as f64;
/// A block of 1 GiB from a fresh zone, in nanoseconds.
const LARGEST: f64 = 2_000.0;
/// A contiguous run in a half-full zone, found or refused, in nanoseconds.
const CONTIGUOUS: f64 = 10e6;
/// The same, for each pageblock of the zone: no walk over 512 frames is so short.
const PER_PAGEBLOCK: f64 = 100.0;
/// How many times as much a large block may cost in the largest zone as in the smallest: as much,
/// but for noise.
const GROWTH: f64 = 1.5;
/// The same at random places of a full zone, whose books do not stay in the caches.
const GROWTH_FULL: f64 = 4.0;

/// A goal beside what was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Goal {
    /// What the goal is about.
    pub what: String,
    /// What was measured.
    pub measured: f64,
    /// What it is measured in.
    pub unit: Unit,
    /// The most it may be; for rates, the least.
    pub limit: f64,
}

impl Goal {
    /// Whether more is better.
    #[must_use]
    pub fn is_rate(&self) -> bool {
        self.unit == Unit::BytesPerSecond
    }

    /// Whether it is reached.
    #[must_use]
    pub fn is_met(&self) -> bool {
        if self.is_rate() { self.measured >= self.limit } else { self.measured <= self.limit }
    }

    /// The goal as a check.
    #[must_use]
    pub fn check(&self) -> Check {
        let Self { what, measured, limit, .. } = self;
        let bound = if self.is_rate() { "at least" } else { "at most" };
        let detail = format!("{measured:.1}, {bound} {limit:.1}");
        Check { name: what.clone(), passed: self.is_met(), detail }
    }
}

/// All goals that the figures say something about.
pub(super) fn goals(plan: &LargeMemory, sections: &[Section]) -> Vec<Goal> {
    let figures = Figures(sections);
    let parts = [start_up(plan, &figures), hotplug(&figures), large(plan, &figures)];
    parts.into_iter().flatten().chain(runs(plan, &figures)).collect()
}

struct Figures<'s>(&'s [Section]);

impl<'s> Figures<'s> {
    fn find(&self, topic: super::samples::Topic, column: &str, row: &str) -> Option<&'s Metric> {
        let section = self.0.iter().find(|section| section.title == topic.title)?;
        let run = section.runs.iter().find(|run| run.label == column)?;
        run.metrics.get(row)
    }
}

fn goal(what: String, metric: &Metric, limit: f64) -> Goal {
    Goal { what, measured: metric.median, unit: metric.unit, limit }
}

fn start_up(plan: &LargeMemory, figures: &Figures<'_>) -> Vec<Goal> {
    let tebibytes = plan.frames as f64 / (1024 * GIB) as f64;
    let plural = if plan.nodes == 1 { "" } else { "s" };
    let what = format!("initialise {} on {} node{plural}", size(plan.frames), plan.nodes);
    let metric = figures.find(start::TOPIC, start::FRESH, start::INIT);
    metric.map(|metric| goal(what, metric, INIT_PER_TIB * tebibytes.max(1.0))).into_iter().collect()
}

fn hotplug(figures: &Figures<'_>) -> Vec<Goal> {
    let metric = figures.find(hotplug::TOPIC, hotplug::AT_ONCE, hotplug::ADD);
    metric.map(|metric| goal("add memory".to_owned(), metric, ADD)).into_iter().collect()
}

/// Blocks of 1 GiB in the largest zone, and every order in the largest beside the smallest.
fn large(plan: &LargeMemory, figures: &Figures<'_>) -> Vec<Goal> {
    let large = size(plan.zones[2]);
    let absolute = orders::LARGEST.into_iter().skip(1).filter_map(|row| {
        let what = format!("allocate {row}, from a fresh zone of {large}");
        Some(goal(what, figures.find(orders::TOPIC, &large, row)?, LARGEST))
    });
    let states = [("fresh", orders::FRESH, GROWTH), ("full", orders::FULL, GROWTH_FULL)];
    let growth = states.into_iter().filter_map(|(state, rows, limit)| {
        let small = size(plan.zones[0]);
        let what = format!("orders 10 to 18, {state} zone: {large} to {small}, at worst");
        let measured = growth(plan, figures, rows)?;
        Some(Goal { what, measured, unit: Unit::Ratio, limit })
    });
    absolute.chain(growth).collect()
}

/// How many times as much an order costs in the largest zone as in the smallest, at worst.
fn growth(plan: &LargeMemory, figures: &Figures<'_>, rows: [&str; 2]) -> Option<f64> {
    let figure = |zone: u64, row: &str| figures.find(orders::TOPIC, &size(zone), row);
    let ratio = |row: String| {
        Some(figure(plan.zones[2], &row)?.median / figure(plan.zones[0], &row)?.median)
    };
    let rows = orders::ORDERS.flat_map(|order| rows.map(|what| orders::row(order, what)));
    rows.filter_map(ratio).max_by(f64::total_cmp)
}

/// The slowest length, refused and found.
fn runs(plan: &LargeMemory, figures: &Figures<'_>) -> Vec<Goal> {
    let words = ["refused", "found"].into_iter().zip(contiguous::COLUMNS);
    let goals = words.filter_map(|(word, column)| {
        let find = |row: &str| figures.find(contiguous::TOPIC, column, row);
        let lengths: Vec<String> = contiguous::rows(plan).collect();
        let metrics = lengths.iter().filter_map(|row| find(row));
        let slowest = metrics.max_by(|a, b| a.median.total_cmp(&b.median))?;
        let each = find(contiguous::PER_PAGEBLOCK)?;
        let what = format!("contiguous run {word} in a half-full {}", size(plan.half_full));
        let of_each = goal(format!("{what}, per pageblock"), each, PER_PAGEBLOCK);
        Some([goal(what, slowest, CONTIGUOUS), of_each])
    });
    goals.flatten().collect()
}
