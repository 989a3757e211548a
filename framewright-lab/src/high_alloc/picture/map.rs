//! A moment, as rows of cells: filled as far as a cell is full, with marks on what is passed over, and frames
//! around what scanners look at next.

use std::fmt::Write;

use super::{
    Cell, Snapshot,
    paint::{Paint, Point, colour, frame},
};

/// How wide a map is.
pub(super) const WIDTH: f64 = 480.0;
/// The most cells that a map has: they are as large as an eye needs to see how full they are.
const MOST: usize = 2048;
/// Of what a cell takes, the share that stays white.
const GAP: f64 = 2.0 / 15.0;

/// How cells are laid out.
#[derive(Clone, Copy)]
pub(super) struct Grid {
    /// Pageblocks of a cell.
    pub(super) group: usize,
    columns: usize,
    rows: usize,
}

impl Grid {
    /// For so many pageblocks.
    pub(super) fn of(pageblocks: usize) -> Self {
        let group = pageblocks.div_ceil(MOST).next_power_of_two();
        let cells = pageblocks.div_ceil(group);
        let columns = if cells > 1024 { 64 } else { 32 };
        Self { group, columns, rows: cells.div_ceil(columns) }
    }

    fn step(self) -> f64 {
        WIDTH / self.columns as f64
    }

    /// How high the map is.
    pub(super) fn height(self) -> f64 {
        self.rows as f64 * self.step()
    }
}

/// Draws a map.
pub(super) fn map(svg: &mut String, (left, top): Point, grid: Grid, snapshot: &Snapshot) {
    let snapshot = snapshot.grouped(grid.group);
    let step = grid.step();
    let size = step * (1.0 - GAP);
    let place = |at: usize| {
        let (column, row) = ((at % grid.columns) as f64, (at / grid.columns) as f64);
        (left + column * step, top + row * step)
    };
    let cells = snapshot.cells.iter().enumerate().map(|(at, &cell)| (place(at), cell));
    paint(svg, size, cells);
    for of in &snapshot.scanners {
        let places = [of.migrate_async, of.migrate_sync, of.free.saturating_sub(1)];
        for (which, at) in
            places.into_iter().enumerate().filter(|(_, at)| *at < snapshot.cells.len())
        {
            frame(svg, place(at), size, which);
        }
    }
}

/// Draws cells of a size.
pub(super) fn paint(svg: &mut String, size: f64, cells: impl Iterator<Item = (Point, Cell)>) {
    let (mut pale, mut filled, mut marks) = (Paint::default(), Paint::default(), String::new());
    for ((x, y), Cell { of, full, skip }) in cells {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_is_as_high_as_it_is_wide_at_the_most() {
        for (pageblocks, group) in [(512, 1), (2048, 1), (2049, 2), (8192, 4), (131_072, 64)] {
            let grid = Grid::of(pageblocks);
            assert_eq!(grid.group, group);
            assert!(grid.height() <= WIDTH, "{pageblocks}: {}", grid.height());
            assert!(grid.columns * grid.rows * group >= pageblocks);
        }
    }
}
