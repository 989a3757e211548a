//! The zones of a replay, and their free blocks by order beside the recorded kernel's.

use framewright_lab::replay::{FreeMemory, ReplayReport, SHOWN_ORDERS};
use framewright_lab::report::{Report, Style, Table};

use super::bold;

/// The zones, and what of them was on CPU lists.
pub(super) fn zones(replay: &ReplayReport, style: Style) -> String {
    let header = [
        "",
        "frames",
        "min",
        "low",
        "high",
        "start: on\nCPU lists",
        "recorded\nkernel",
        "end: on\nCPU lists",
        "recorded\nkernel",
    ];
    let mut table = Table::new(header, style);
    for zone in &replay.zones {
        let ([min, low, high], held) = (zone.watermarks, &zone.held);
        let figures = [
            Some(zone.managed),
            Some(min),
            Some(low),
            Some(high),
            Some(held.start),
            held.kernel_start,
            Some(held.end),
            held.kernel_end,
        ];
        let name = format!("node {} {}", zone.node, zone.zone);
        let shown = |figure: Option<u64>| figure.map_or("-".to_owned(), |value| value.to_string());
        table.plain_row(std::iter::once(name).chain(figures.map(shown)));
    }
    format!("{}\n{table}", bold("zones", style))
}

/// Free blocks by order, over all zones, as in `/proc/buddyinfo`.
pub(super) fn by_order(report: &Report, replays: &[ReplayReport], style: Style) -> String {
    let Some(first) = replays.first() else { return String::new() };
    let kernel = report.runs.last().map_or("", |run| run.label.as_str());
    let mut rows = Rows::new(style);
    let ours = || report.runs.iter().map(|run| run.label.as_str()).zip(replays);
    rows.moment(
        "start",
        kernel,
        first.free.kernel_start.as_ref(),
        ours().map(|(label, replay)| (label, &replay.free.start)),
    );
    rows.moment(
        "end",
        kernel,
        first.free.kernel_end.as_ref(),
        ours().map(|(label, replay)| (label, &replay.free.end)),
    );
    let note = match (&first.free.kernel_end, first.ends_early) {
        (None, _) => "",
        (Some(_), false) => {
            "recorded kernel, end: its tables from after the recording (NAME.after)\n"
        }
        (Some(_), true) => {
            "recorded kernel, end: the recording was cut, and its tables (NAME.after) are of a \
             later time\n"
        }
    };
    format!("{}\n{}{note}", bold("free blocks", style), rows.0)
}

/// A table with a column per order.
struct Rows(Table);

impl Rows {
    fn new(style: Style) -> Self {
        let last = SHOWN_ORDERS - 1;
        let orders = (0..SHOWN_ORDERS).map(|order| {
            if order == last { format!("order {order}+") } else { format!("order {order}") }
        });
        let header: Vec<String> = std::iter::once(String::new()).chain(orders).collect();
        Self(Table::new(header.iter().map(String::as_str), style))
    }

    /// The kernel's blocks at one moment, ours, and how many more we have.
    fn moment<'r>(
        &mut self,
        when: &str,
        kernel: &str,
        theirs: Option<&FreeMemory>,
        ours: impl Iterator<Item = (&'r str, &'r FreeMemory)>,
    ) {
        if let Some(theirs) = theirs {
            self.row(format!("{when:5}  {kernel}"), theirs.blocks.map(|blocks| blocks.to_string()));
        }
        for (label, ours) in ours {
            self.row(format!("{when:5}  {label}"), ours.blocks.map(|blocks| blocks.to_string()));
            if let Some(theirs) = theirs {
                let beyond = ours.beyond(theirs).map(|blocks| format!("{blocks:+}"));
                self.row("         difference".to_owned(), beyond);
            }
        }
    }

    fn row(&mut self, name: String, figures: [String; SHOWN_ORDERS]) {
        self.0.plain_row(std::iter::once(name).chain(figures));
    }
}
