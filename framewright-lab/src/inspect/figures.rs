//! All figures of a look, as one list: for reports, and for time series as CSV.

use std::fmt;

use super::{Fragmentation, HugePages, Look, counters};
use crate::{report::Unit, trace::snapshot::Zone};

/// The heading of a time series: a line for each [`Figure`] and time follows.
pub const CSV_HEADER: &str = "seconds,node,zone,migratetype,order,figure,unit,value";

/// One figure. The parts that it does not depend on are `None`.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// The node.
    pub node: Option<u16>,
    /// The zone, by the kernel's name.
    pub zone: Option<String>,
    /// The migratetype, by the kernel's name.
    pub migratetype: Option<String>,
    /// The order.
    pub order: Option<usize>,
    /// Its name.
    pub name: &'static str,
    /// The unit.
    pub unit: Unit,
    /// The value. Counters count from boot.
    pub value: f64,
}

/// The figures of a look: zone by zone, then those of the whole machine.
#[must_use]
pub fn figures(look: &Look) -> Vec<Figure> {
    let tables = &look.tables;
    let mut list = List::default();
    let huge = HugePages::predict(look);
    for zone in tables.zones.iter().filter(|zone| zone.managed > 0) {
        list.zone(zone);
        let of_zone = huge.zones.iter().find(|of| (of.node, &of.zone) == (zone.node, &zone.name));
        if let Some(of) = of_zone {
            list.huge_pages(of.without, of.with);
        }
    }
    list.place = (None, None);
    if !huge.zones.is_empty() {
        list.huge_pages(huge.without(), huge.with());
    }
    for counter in counters(tables) {
        list.push(counter.name, None, Unit::Count, counter.value as f64);
    }
    list.figures
}

/// Figures so far, and the place that the next ones belong to.
#[derive(Default)]
struct List {
    figures: Vec<Figure>,
    place: (Option<u16>, Option<String>),
}

impl List {
    fn push(&mut self, name: &'static str, order: Option<usize>, unit: Unit, value: f64) {
        let (node, zone) = self.place.clone();
        self.figures.push(Figure { node, zone, migratetype: None, order, name, unit, value });
    }

    fn zone(&mut self, zone: &Zone) {
        self.place = (Some(zone.node), Some(zone.name.clone()));
        for (name, frames) in [
            ("managed", zone.managed),
            ("free", zone.free),
            ("on_cpu_lists", zone.held_by_cpus()),
            ("watermark_min", zone.min),
            ("watermark_low", zone.low),
            ("watermark_high", zone.high),
            ("watermark_boost", zone.boost),
        ] {
            self.push(name, None, Unit::Frames, frames as f64);
        }
        let Some(of) = Fragmentation::of(zone) else { return };
        for (order, &blocks) in of.blocks.iter().enumerate() {
            self.push("free_blocks", Some(order), Unit::Count, blocks as f64);
            self.push("unusable_free_index", Some(order), Unit::Ratio, of.unusable(order));
            self.push("fragmentation_index", Some(order), Unit::Ratio, of.index(order));
        }
        for lists in of.types {
            let first = self.figures.len();
            self.push("pageblocks", None, Unit::Count, lists.pageblocks as f64);
            for (order, &blocks) in lists.blocks.iter().enumerate() {
                self.push("free_blocks", Some(order), Unit::Count, blocks as f64);
            }
            let added = self.figures[first..].iter_mut();
            added.for_each(|figure| figure.migratetype = Some(lists.name.clone()));
        }
    }

    fn huge_pages(&mut self, without: u64, [least, most]: [u64; 2]) {
        self.push("huge_pages_without_compaction", None, Unit::Count, without as f64);
        self.push("huge_pages_with_compaction_least", None, Unit::Count, least as f64);
        self.push("huge_pages_with_compaction_most", None, Unit::Count, most as f64);
    }
}

impl Figure {
    /// The column of a report: `machine`, or node and zone.
    #[must_use]
    pub fn place(&self) -> String {
        match (self.node, &self.zone) {
            (Some(node), Some(zone)) => format!("node {node} {zone}"),
            _ => "machine".to_owned(),
        }
    }

    /// The key in a report: the name, and the migratetype and order that it depends on.
    #[must_use]
    pub fn key(&self) -> String {
        let of = self.migratetype.iter().map(|of| format!("_{}", of.to_lowercase()));
        let at = self.order.iter().map(|order| format!("_order{order}"));
        std::iter::once(self.name.to_owned()).chain(of).chain(at).collect()
    }

    /// A line of a time series, without its end: the columns of [`CSV_HEADER`].
    #[must_use]
    pub fn csv(&self, seconds: f64) -> String {
        let unit = serde_json::to_value(self.unit).unwrap_or_default();
        format!(
            "{seconds:.3},{},{},{},{},{},{},{}",
            Cell(self.node),
            Cell(self.zone.as_deref()),
            Cell(self.migratetype.as_deref()),
            Cell(self.order),
            self.name,
            unit.as_str().unwrap_or_default(),
            self.value
        )
    }
}

/// A column that may be empty. The kernel's names have no commas and no quotation marks.
struct Cell<T>(Option<T>);

impl<T: fmt::Display> fmt::Display for Cell<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(value) => value.fmt(f),
            None => Ok(()),
        }
    }
}
