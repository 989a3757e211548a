//! A picture of memory. Two maps, with a cell per pageblock, show memory before and after the first
//! pass. A strip for each pass shows memory over time, with a line per snapshot. Because the size
//! of the picture is limited, a cell represents several neighbouring pageblocks in large memory.

mod draw;
mod states;

use framewright::{MigrateType, Pfn, frame::PAGEBLOCK_FRAMES, tuning::CompactMethod};
use std::fmt::Write;

use super::{frames::Holds, kernel::Kernel, world::World};
use crate::report::several;
use draw::{Paint, Point, colour, dot, frame, text, text_before, text_centred};

pub(super) use draw::draw;
pub(super) use states::states;

/// The use of a pageblock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Use {
    /// A huge page.
    Huge,
    /// Pages of this type.
    Of(MigrateType),
}

/// One pageblock, or several neighbours.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Cell {
    of: Use,
    /// The share of its frames in use, 0 to 1.
    full: f32,
    /// Whether compaction skips it.
    skip: bool,
    /// The number of its first page frame.
    first: u64,
}

/// The pageblocks that the scanners of a zone examine next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Scanners {
    /// The migrate scanner of asynchronous compaction.
    migrate_async: usize,
    /// The migrate scanner of synchronous compaction.
    migrate_sync: usize,
    /// The free scanner, which moves downwards.
    free: usize,
}

/// A snapshot of memory.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Snapshot {
    /// The pass, counted from 1.
    pub(crate) pass: u8,
    /// Requests so far in the pass.
    attempt: u64,
    /// Seconds since the start of the pass.
    seconds: f64,
    cells: Vec<Cell>,
    /// The scanners of each zone, if compaction uses scanners.
    scanners: Vec<Scanners>,
}

impl Snapshot {
    /// A snapshot of the current state, `nanos` after the start of the pass.
    pub(super) fn of<W: World>(
        kernel: &Kernel<'_, '_, W>,
        pass: u8,
        attempt: u64,
        nanos: u64,
    ) -> Self {
        let (mut cells, mut scanners) = (Vec::new(), Vec::new());
        for zone in kernel.memory.zones() {
            let mut firsts: Vec<Pfn> = Vec::new();
            let before = cells.len();
            for block in kernel.memory.pageblocks(zone.id) {
                let first = kernel.state.frames.at(block.first.get() as u32).holds();
                let huge = first == Holds::Huge;
                firsts.push(block.first);
                cells.push(Cell {
                    of: if huge { Use::Huge } else { Use::Of(block.migratetype) },
                    full: 1.0 - f32::from(block.free) / PAGEBLOCK_FRAMES as f32,
                    skip: block.skip,
                    first: block.first.get(),
                });
            }
            if kernel.memory.tuning().compact.method != CompactMethod::Scan {
                continue;
            }
            let at = |pfn: Pfn| before + firsts.partition_point(|&first| first < pfn);
            scanners.extend(kernel.memory.scanners(zone.id).map(|of| Scanners {
                migrate_async: at(of.migrate_async),
                migrate_sync: at(of.migrate_sync),
                free: at(of.free),
            }));
        }
        Self { pass, attempt, seconds: nanos as f64 / 1e9, cells, scanners }
    }

    /// This snapshot with `group` neighbours in a cell: their most frequent use and mean share in
    /// use. The cell is skipped if all of them are.
    fn grouped(&self, group: usize) -> Self {
        let cells = self.cells.chunks(group).map(merged).collect();
        let scanners = self.scanners.iter().map(|of| Scanners {
            migrate_async: of.migrate_async / group,
            migrate_sync: of.migrate_sync / group,
            free: of.free.div_ceil(group),
        });
        Self { cells, scanners: scanners.collect(), ..*self }
    }
}

/// Neighbours as one cell.
fn merged(cells: &[Cell]) -> Cell {
    let count = |of: Use| cells.iter().filter(|cell| cell.of == of).count();
    // The first of equally frequent uses.
    let most = cells.iter().rev().map(|cell| cell.of).max_by_key(|&of| count(of));
    Cell {
        of: most.unwrap_or(Use::Huge),
        full: cells.iter().map(|cell| cell.full).sum::<f32>() / cells.len().max(1) as f32,
        skip: cells.iter().all(|cell| cell.skip),
        first: cells.first().map_or(0, |cell| cell.first),
    }
}

/// Width of a map.
const WIDTH: f64 = 480.0;
/// Maximum number of cells of a map: smaller cells would not show their share in use.
const MOST: usize = 2048;
/// Share of a cell that stays white.
const GAP: f64 = 2.0 / 15.0;

/// The layout of cells.
#[derive(Clone, Copy)]
struct Grid {
    /// Pageblocks per cell.
    group: usize,
    columns: usize,
    rows: usize,
}

impl Grid {
    /// The layout for this number of pageblocks.
    fn of(pageblocks: usize) -> Self {
        let group = pageblocks.div_ceil(MOST).next_power_of_two();
        let cells = pageblocks.div_ceil(group);
        let columns = if cells > 1024 { 64 } else { 32 };
        Self { group, columns, rows: cells.div_ceil(columns) }
    }

    fn step(self) -> f64 {
        WIDTH / self.columns as f64
    }

    /// Height of the map.
    fn height(self) -> f64 {
        self.rows as f64 * self.step()
    }
}

/// Draws a map.
fn map(svg: &mut String, (left, top): Point, grid: Grid, snapshot: &Snapshot) {
    let snapshot = snapshot.grouped(grid.group);
    let step = grid.step();
    let size = step * (1.0 - GAP);
    let place = |at: usize| {
        let (column, row) = ((at % grid.columns) as f64, (at / grid.columns) as f64);
        (left + column * step, top + row * step)
    };
    let cells = snapshot.cells.iter().enumerate().map(|(at, &cell)| (place(at), cell));
    paint(svg, size, cells);
    axis_of_map(svg, (left, top), grid, &snapshot.cells);
    for of in &snapshot.scanners {
        let places = [of.migrate_async, of.migrate_sync, of.free.saturating_sub(1)];
        for (which, at) in
            places.into_iter().enumerate().filter(|(_, at)| *at < snapshot.cells.len())
        {
            frame(svg, place(at), size, which);
        }
    }
}

/// Maximum number of labels of an axis of page frames.
const LABELS: usize = 8;

/// Labels rows of a map by the first page frame of each.
fn axis_of_map(svg: &mut String, (left, top): Point, grid: Grid, cells: &[Cell]) {
    let every = grid.rows.div_ceil(LABELS);
    for row in (0..grid.rows).step_by(every.max(1)) {
        if let Some(cell) = cells.get(row * grid.columns) {
            let y = top + row as f64 * grid.step() + 9.0;
            text_before(svg, (left - 6.0, y), &pfn(cell.first));
        }
    }
}

/// The number of a page frame, as kernels print it.
fn pfn(number: u64) -> String {
    format!("{number:#x}")
}

/// Draws cells of this size.
fn paint(svg: &mut String, size: f64, cells: impl Iterator<Item = (Point, Cell)>) {
    let (mut pale, mut filled, mut marks) = (Paint::default(), Paint::default(), String::new());
    for ((x, y), Cell { of, full, skip, .. }) in cells {
        let colour = colour(of);
        let high = size * f64::from(full);
        pale.rect((x, y), (size, size), (colour, 18));
        if high > 0.0 {
            filled.rect((x, y + size - high), (size, high), (colour, 100));
        }
        if skip {
            let (x, y) = (x + size * 0.77, y + size * 0.23);
            let radius = size * 0.15;
            let _ = writeln!(marks, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius:.2}\"/>");
        }
    }
    pale.draw(svg);
    filled.draw(svg);
    svg.push_str(&marks);
}

/// Height of a line.
const LINE: f64 = 3.0;
/// Height of the title above a strip, and of the axis below the title.
const TITLE: f64 = 36.0;
/// Width of the times next to a strip.
const TIME: f64 = 52.0;
/// Maximum number of cells of a line: narrower ones blur.
const MOST_COLUMNS: usize = 512;

/// Height of a strip of this number of snapshots.
fn height(moments: usize) -> f64 {
    if moments == 0 { 0.0 } else { TITLE + moments as f64 * LINE }
}

/// Draws the snapshots of a pass, `wide` units wide.
fn strip(svg: &mut String, (left, top): Point, wide: f64, seen: &[&Snapshot]) {
    let (Some(first), Some(last)) = (seen.first(), seen.last()) else { return };
    let group = first.cells.len().div_ceil(MOST_COLUMNS);
    let each = if group > 1 { format!(", {group} at a point") } else { String::new() };
    let title = format!(
        "pass {}, {}: time from top to bottom, page frames from left to right{each}",
        last.pass,
        requests(last.attempt)
    );
    let (from, top) = (left + TIME, top + TITLE);
    text(svg, (from, top - 19.0), &title);
    axis_of_strip(svg, (from, top), wide - TIME, &first.cells);
    let bottom = top + seen.len() as f64 * LINE;
    text_before(svg, (from - 6.0, top + 8.0), &seconds(first));
    if seen.len() > 6 {
        text_before(svg, (from - 6.0, bottom), &seconds(last));
    }
    let mut paint = Paint::default();
    let mut dots = String::new();
    for (at, snapshot) in seen.iter().enumerate() {
        let place = (from, top + at as f64 * LINE);
        line(&mut paint, &mut dots, place, wide - TIME, &snapshot.grouped(group));
    }
    paint.draw(svg);
    svg.push_str(&dots);
}

/// Labels a strip by page frames, from the first pageblock on.
fn axis_of_strip(svg: &mut String, (left, top): Point, wide: f64, cells: &[Cell]) {
    for label in 0..LABELS {
        let at = label * cells.len() / LABELS;
        let Some(cell) = cells.get(at) else { continue };
        let x = left + wide * at as f64 / cells.len() as f64;
        let _ = writeln!(svg, "<path stroke=\"#666\" d=\"M{x:.1} {:.1}v3\"/>", top - 4.0);
        match label {
            0 => text(svg, (x, top - 6.0), &pfn(cell.first)),
            _ => text_centred(svg, (x, top - 6.0), &pfn(cell.first)),
        }
    }
}

/// A number of requests.
fn requests(number: u64) -> String {
    several(number, "request")
}

fn seconds(snapshot: &Snapshot) -> String {
    format!("{:.1} s", snapshot.seconds)
}

fn line(paint: &mut Paint, dots: &mut String, (left, y): Point, wide: f64, snapshot: &Snapshot) {
    let cells = &snapshot.cells;
    let each = wide / cells.len() as f64;
    let shade = |cell: &Cell| (colour(cell.of), 12 + 22 * (cell.full * 4.0).round() as u32);
    let mut at = 0;
    // Equal neighbours are one rectangle.
    while at < cells.len() {
        let first = shade(&cells[at]);
        let run = cells[at..].iter().take_while(|&cell| shade(cell) == first).count();
        paint.rect((left + at as f64 * each, y), (run as f64 * each, LINE), first);
        at += run;
    }
    for of in &snapshot.scanners {
        for (which, at) in [of.migrate_async, of.migrate_sync, of.free].into_iter().enumerate() {
            let x = (at as f64 * each).clamp(LINE / 2.0, wide - LINE / 2.0);
            dot(dots, (left + x, y + LINE / 2.0), which);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOVABLE: Cell =
        Cell { of: Use::Of(MigrateType::Movable), full: 0.5, skip: true, first: 512 };

    /// A snapshot of a memory of this number of pageblocks.
    pub(super) fn snapshot(pass: u8, pageblocks: usize) -> Snapshot {
        let scanners = vec![Scanners { migrate_async: 3, migrate_sync: 1, free: pageblocks }];
        Snapshot { pass, attempt: 7, seconds: 1.5, cells: vec![MOVABLE; pageblocks], scanners }
    }

    #[test]
    fn a_merged_cell_has_the_use_of_most_of_its_pageblocks() {
        let huge = Cell { of: Use::Huge, full: 1.0, skip: false, first: 0 };
        let one = merged(&[huge, MOVABLE, MOVABLE]);
        assert_eq!((one.of, one.skip, one.first), (MOVABLE.of, false, 0));
        assert!((one.full - 2.0 / 3.0).abs() < 1e-6);
        assert_eq!(merged(&[huge, MOVABLE]).of, Use::Huge);
        let grouped = snapshot(1, 10).grouped(4);
        assert_eq!(grouped.cells, [MOVABLE; 3]);
        assert_eq!(grouped.scanners, [Scanners { migrate_async: 0, migrate_sync: 0, free: 3 }]);
    }

    #[test]
    fn a_map_is_at_most_as_high_as_wide() {
        for (pageblocks, group) in [(512, 1), (2048, 1), (2049, 2), (8192, 4), (131_072, 64)] {
            let grid = Grid::of(pageblocks);
            assert_eq!(grid.group, group);
            assert!(grid.height() <= WIDTH, "{pageblocks}: {}", grid.height());
            assert!(grid.columns * grid.rows * group >= pageblocks);
        }
    }
}
