//! A picture of memory: a cell per pageblock, before and after the first pass, and all passes as strips
//! over time, a line for each of some moments.

use std::fmt::Write;

use framewright::{MigrateType, frame::PAGEBLOCK_FRAMES, tuning::CompactMethod};

use super::{frames::Holds, kernel::Kernel, world::World};

/// What a pageblock is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Use {
    /// It is a huge page.
    Huge,
    /// Pages of that type.
    Of(MigrateType),
}

/// A pageblock.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Cell {
    of: Use,
    /// The share of it that is not free, 0 to 1.
    full: f32,
    /// Compaction passes it over for now.
    skip: bool,
}

/// All of memory at a moment.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Snapshot {
    /// In which pass, counted from 1.
    pub(crate) pass: u8,
    /// Attempts so far in it.
    attempt: u64,
    cells: Vec<Cell>,
    /// The pageblocks that the scanners look at next, where there are scanners.
    scanners: Option<(usize, usize)>,
}

impl Snapshot {
    /// Memory as it is now.
    pub(super) fn of<W: World>(kernel: &Kernel<'_, '_, W>, pass: u8, attempt: u64) -> Self {
        let mut taken = Self { pass, attempt, cells: Vec::new(), scanners: None };
        for zone in kernel.memory.zones() {
            for block in kernel.memory.pageblocks(zone.id) {
                let first = kernel.state.frames.at(block.first.get() as u32).holds();
                let huge = first == Holds::Huge;
                taken.cells.push(Cell {
                    of: if huge { Use::Huge } else { Use::Of(block.migratetype) },
                    full: 1.0 - f32::from(block.free) / PAGEBLOCK_FRAMES as f32,
                    skip: block.skip,
                });
            }
            if kernel.memory.tuning().compact.method == CompactMethod::Scan
                && let Some(scanners) = kernel.memory.scanners(zone.id)
            {
                let at = |pfn: framewright::Pfn| pfn.get() as usize / PAGEBLOCK_FRAMES;
                taken.scanners = Some((at(scanners.migrate_async), at(scanners.free)));
            }
        }
        taken
    }
}

/// Cells of a row of the maps, and their size.
const COLUMNS: usize = 32;
const SIZE: f64 = 13.0;
const GAP: f64 = 2.0;
const MARGIN: f64 = 24.0;
const LEGEND: f64 = 74.0;
/// The height of a line of a strip.
const LINE: f64 = 3.0;
const WIDTH: f64 = 2.0 * MARGIN + 2.0 * MAP + 40.0;
const MAP: f64 = COLUMNS as f64 * (SIZE + GAP);

/// A colour for what a pageblock is for.
fn colour(of: Use) -> &'static str {
    match of {
        Use::Huge => "#1a7f37",
        Use::Of(MigrateType::Movable) => "#4c8eda",
        Use::Of(MigrateType::Reclaimable) => "#e69f00",
        Use::Of(MigrateType::Unmovable) => "#c0392b",
        Use::Of(MigrateType::HighAtomic) => "#8e44ad",
        Use::Of(_) => "#7f8c8d",
    }
}

const NAMES: [(Use, &str); 5] = [
    (Use::Of(MigrateType::Movable), "movable"),
    (Use::Of(MigrateType::Reclaimable), "reclaimable"),
    (Use::Of(MigrateType::Unmovable), "unmovable"),
    (Use::Of(MigrateType::HighAtomic), "high-atomic"),
    (Use::Huge, "huge page"),
];

/// Draws what was seen of each side: its name, and moments in their order.
pub(crate) fn draw(title: &str, sides: &[(String, Vec<Snapshot>)]) -> String {
    let heights: Vec<f64> = sides.iter().map(|(_, seen)| height(seen)).collect();
    let all = LEGEND + heights.iter().sum::<f64>() + MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH:.0}\" height=\"{all:.0}\" \
         viewBox=\"0 0 {WIDTH:.0} {all:.0}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    text(
        &mut svg,
        (MARGIN, 22.0),
        &format!("<tspan font-weight=\"bold\">{}</tspan>", escape(title)),
    );
    legend(&mut svg);
    let mut top = LEGEND;
    for ((label, seen), height) in sides.iter().zip(heights) {
        side(&mut svg, top, label, seen);
        top += height;
    }
    svg.push_str("</svg>\n");
    svg
}

fn rows(seen: &[Snapshot]) -> usize {
    seen.first().map_or(0, |snapshot| snapshot.cells.len().div_ceil(COLUMNS))
}

fn height(seen: &[Snapshot]) -> f64 {
    let strips = seen.len() as f64 * LINE + 3.0 * 26.0;
    60.0 + rows(seen) as f64 * (SIZE + GAP) + strips
}

fn legend(svg: &mut String) {
    let mut x = MARGIN;
    for (of, name) in NAMES {
        cell(svg, (x, 34.0), Cell { of, full: 0.7, skip: false });
        text(svg, (x + SIZE + 5.0, 45.0), name);
        x += 34.0 + 6.4 * name.len() as f64;
    }
    cell(svg, (x, 34.0), Cell { of: NAMES[0].0, full: 0.7, skip: true });
    text(svg, (x + SIZE + 5.0, 45.0), "passed over for now");
    let note = "filled as far as the pageblock is, pale what is free; migrate scanner: black frame, free scanner: red frame; \
                strips: a line per moment, dark is full, scanners as black and red dots";
    text(svg, (MARGIN, 64.0), note);
}

fn side(svg: &mut String, top: f64, label: &str, seen: &[Snapshot]) {
    let (Some(before), Some(after)) =
        (seen.first(), seen.iter().rfind(|snapshot| snapshot.pass == 1))
    else {
        return;
    };
    let label = escape(label);
    text(svg, (MARGIN, top + 16.0), &format!("<tspan font-weight=\"bold\">{label}</tspan>"));
    let right = MARGIN + MAP + 40.0;
    text(svg, (MARGIN, top + 34.0), "before the first pass");
    let asked = format!("after {} requests of the first pass", after.attempt);
    text(svg, (right, top + 34.0), &asked);
    map(svg, (MARGIN, top + 42.0), before);
    map(svg, (right, top + 42.0), after);
    let mut y = top + 42.0 + rows(seen) as f64 * (SIZE + GAP);
    for pass in 1..=3 {
        let mine: Vec<&Snapshot> = seen.iter().filter(|snapshot| snapshot.pass == pass).collect();
        if mine.is_empty() {
            continue;
        }
        y += 22.0;
        let title = format!("pass {pass}, from top to bottom; pageblocks from left to right");
        text(svg, (MARGIN, y - 4.0), &title);
        for snapshot in mine {
            line(svg, y, snapshot);
            y += LINE;
        }
    }
}

fn map(svg: &mut String, (left, top): (f64, f64), snapshot: &Snapshot) {
    let place = |at: usize| {
        let (column, row) = ((at % COLUMNS) as f64, (at / COLUMNS) as f64);
        (left + column * (SIZE + GAP), top + row * (SIZE + GAP))
    };
    for (at, seen) in snapshot.cells.iter().enumerate() {
        cell(svg, place(at), *seen);
    }
    let Some((migrate, free)) = snapshot.scanners else { return };
    for (at, colour) in [(migrate, "black"), (free.saturating_sub(1), "#d00000")] {
        if at < snapshot.cells.len() {
            let (x, y) = place(at);
            // Writing to a string does not fail.
            let _ = writeln!(
                svg,
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"none\" \
                 stroke=\"{colour}\" stroke-width=\"2\"/>",
                x - 1.0,
                y - 1.0,
                SIZE + 2.0,
                SIZE + 2.0
            );
        }
    }
}

fn cell(svg: &mut String, (x, y): (f64, f64), Cell { of, full, skip }: Cell) {
    let colour = colour(of);
    let filled = SIZE * f64::from(full);
    let _ = write!(
        svg,
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{SIZE}\" height=\"{SIZE}\" fill=\"{colour}\" \
         fill-opacity=\"0.18\"/>"
    );
    if filled > 0.0 {
        let y = y + SIZE - filled;
        let _ = write!(
            svg,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{SIZE}\" height=\"{filled:.2}\" \
             fill=\"{colour}\"/>"
        );
    }
    svg.push('\n');
    if skip {
        let (x, y) = (x + SIZE - 3.0, y + 3.0);
        let _ = writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2\" fill=\"black\"/>");
    }
}

fn line(svg: &mut String, y: f64, snapshot: &Snapshot) {
    let wide = (2.0 * MAP + 40.0) / snapshot.cells.len() as f64;
    let mut at = 0;
    // Neighbours that look the same are one rectangle.
    while at < snapshot.cells.len() {
        let shade = |cell: &Cell| (cell.of, (cell.full * 4.0).round() as u8);
        let first = shade(&snapshot.cells[at]);
        let run = snapshot.cells[at..].iter().take_while(|&cell| shade(cell) == first).count();
        let _ = writeln!(
            svg,
            "<rect x=\"{:.2}\" y=\"{y:.1}\" width=\"{:.2}\" height=\"{LINE}\" fill=\"{}\" \
             fill-opacity=\"{:.2}\"/>",
            MARGIN + at as f64 * wide,
            run as f64 * wide,
            colour(first.0),
            0.12 + 0.22 * f64::from(first.1)
        );
        at += run;
    }
    let Some((migrate, free)) = snapshot.scanners else { return };
    for (at, colour) in [(migrate, "black"), (free, "#d00000")] {
        const RADIUS: f64 = 1.6;
        let all = snapshot.cells.len() as f64 * wide;
        let x = MARGIN + (at as f64 * wide).clamp(RADIUS, all - RADIUS);
        let y = y + LINE / 2.0;
        let _ =
            writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{RADIUS}\" fill=\"{colour}\"/>");
    }
}

fn text(svg: &mut String, (x, y): (f64, f64), text: &str) {
    let _ = writeln!(svg, "<text x=\"{x:.0}\" y=\"{y:.0}\">{text}</text>");
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pageblock_is_a_cell_in_both_maps() {
        let cell = Cell { of: Use::Of(MigrateType::Movable), full: 0.5, skip: true };
        let snapshot =
            |pass| Snapshot { pass, attempt: 7, cells: vec![cell; 40], scanners: Some((3, 40)) };
        let side = ("a < b".to_owned(), vec![snapshot(1), snapshot(1), snapshot(2)]);
        let svg = draw("t", &[side]);
        assert!(svg.contains("a &lt; b") && svg.contains("after 7 requests"));
        // A mark on each cell that is passed over, and one in the legend; two scanners on every line.
        assert_eq!(svg.matches("r=\"2\"").count(), 2 * 40 + 1);
        assert_eq!(svg.matches("r=\"1.6\"").count(), 2 * 3);
    }
}
