//! A look as tables: the zones, the huge pages, the counters.

use std::fmt::Write;

use framewright_lab::{
    inspect::{Basis, Fragmentation, HugePages, Look, counters},
    report::{Style, Table, Tone, decimal},
    trace::snapshot::Zone,
};

use super::increase;
use crate::print::{FRAME_BYTES, bold, head, notes, paragraph};

/// The tables of a look, with the increase of the counters since `before`.
pub(super) fn show(name: &str, look: &Look, before: Option<&Look>, style: Style) -> String {
    let tables = &look.tables;
    let free = format!("{name}: {} of {} MiB are free", mib(tables.free()), mib(tables.managed()));
    let mut text = head([("memory", free)]);
    for (_, note) in notes(&look.missing) {
        text += &paragraph(&format!("note     {note}"));
    }
    for zone in tables.zones.iter().filter(|zone| zone.managed > 0) {
        text += &show_zone(zone, style);
    }
    text += &huge_pages(&HugePages::predict(look), style);
    text + &counted(look, before, style)
}

/// Frames in MiB, with one decimal.
pub(super) fn mib(frames: u64) -> String {
    decimal((frames * FRAME_BYTES) as f64 / f64::from(1 << 20), 1)
}

fn show_zone(zone: &Zone, style: Style) -> String {
    let (node, name) = (zone.node, &zone.name);
    let (free, managed) = (mib(zone.free), mib(zone.managed));
    let title = bold(&format!("node {node}, zone {name}"), style);
    let [min, low, high] = [zone.min, zone.low, zone.high].map(mib);
    let mut text = format!(
        "\n{title}  {free} of {managed} MiB are free, {} MiB are on CPU lists\nwatermarks in MiB: min {min}, low {low}, \
         high {high}",
        mib(zone.held_by_cpus())
    );
    if zone.boost > 0 {
        text += &format!(", boost {}", mib(zone.boost));
    }
    let reserve = zone.protection.iter().max().copied().unwrap_or(0);
    if reserve > 0 {
        text += &format!("; lowmem reserve {}", mib(reserve));
    }
    text.push('\n');
    let Some(of) = Fragmentation::of(zone) else { return text };
    // Writing to a string does not fail.
    let _ = write!(text, "{}", blocks(&of, style));
    let pageblocks = of.types.iter().filter(|of| of.pageblocks > 0);
    let pageblocks: Vec<_> =
        pageblocks.map(|of| format!("{} {}", of.pageblocks, of.name)).collect();
    if !pageblocks.is_empty() {
        let _ = writeln!(text, "pageblocks: {}", pageblocks.join(", "));
    }
    text
}

/// Free blocks and indices, a column for each order.
fn blocks(of: &Fragmentation, style: Style) -> Table {
    let orders: Vec<String> = (0..of.blocks.len()).map(|order| order.to_string()).collect();
    let header = std::iter::once("order").chain(orders.iter().map(String::as_str));
    let mut table = Table::new(header, style);
    let mut row = |name: String, cells: Vec<String>| {
        table.plain_row(std::iter::once(name).chain(cells));
    };
    let numbers = |blocks: &[u64]| blocks.iter().map(u64::to_string).collect();
    row("free blocks".to_owned(), numbers(&of.blocks));
    for of in of.types.iter().filter(|of| of.blocks.iter().any(|&blocks| blocks > 0)) {
        row(format!("  {}", of.name), numbers(&of.blocks));
    }
    let indices = |index: &dyn Fn(usize) -> f64| {
        (0..of.blocks.len()).map(|order| decimal(index(order), 3)).collect()
    };
    row("unusable free space index".to_owned(), indices(&|order| of.unusable(order)));
    row("fragmentation index".to_owned(), indices(&|order| of.index(order)));
    table
}

fn huge_pages(huge: &HugePages, style: Style) -> String {
    if huge.zones.is_empty() {
        return String::new();
    }
    let title = format!("huge pages of {} MiB that a program could get now", huge.bytes() >> 20);
    let header =
        ["zone", "free blocks", "above watermark", "without compaction", "with compaction"];
    let mut table = Table::new(header, style);
    for of in &huge.zones {
        table.plain_row([
            format!("node {}, {}", of.node, of.zone),
            of.free.to_string(),
            of.above_watermark.to_string(),
            of.without.to_string(),
            range(of.with),
        ]);
    }
    let total = [String::from("all"), String::new(), String::new()];
    let sums = [huge.without().to_string(), range(huge.with())];
    table.row(total.into_iter().chain(sums).map(|cell| (cell, Tone::Plain)));
    format!("\n{}\n{table}{}", bold(&title, style), paragraph(source(huge.basis)))
}

/// The source of the prediction with compaction.
pub(super) fn source(basis: Basis) -> &'static str {
    match basis {
        Basis::Buddyinfo => {
            "with compaction: predicted from buddyinfo; all free memory counts as movable"
        }
        Basis::Pagetypeinfo => "with compaction: predicted from pagetypeinfo",
        Basis::Kpageflags => {
            "with compaction: simulated with the library's compaction on the flags of all frames (kpageflags)"
        }
    }
}

/// A range of numbers, or the only number in it.
pub(super) fn range([least, most]: [u64; 2]) -> String {
    if least == most { least.to_string() } else { format!("{least} to {most}") }
}

fn counted(look: &Look, before: Option<&Look>, style: Style) -> String {
    let counters = counters(&look.tables);
    if counters.is_empty() {
        return String::new();
    }
    let columns: &[&str] = match before {
        Some(_) => &["counted by the kernel", "since the last look", "since boot", "meaning"],
        None => &["counted by the kernel", "since boot", "meaning"],
    };
    let mut table = Table::new(columns.iter().copied(), style).left_aligned(columns.len() - 1);
    for counter in counters {
        let new = increase(counter.name, counter.value, before);
        let new = before.map(|_| new.map_or_else(|| "-".to_owned(), |new| new.to_string()));
        let cells = [Some(counter.name.to_owned()), new, Some(counter.value.to_string())];
        let cells = cells.into_iter().flatten();
        table.plain_row(cells.chain([counter.meaning.to_owned()]));
    }
    format!("\n{table}")
}
