//! A picture of memory: a cell per pageblock, before and after the first pass, and all passes as strips
//! over time, a line for each of some moments. Where memory has many pageblocks, a cell stands for some
//! neighbours, so that a picture is as large, and as easy to read, whatever memory is.
//!
//! | module  | job                                                      |
//! |---------|----------------------------------------------------------|
//! | `draw`  | the page: titles, legend, a part per side                |
//! | `map`   | a moment, as rows of cells                               |
//! | `strip` | a pass, as lines over time                               |
//! | `paint` | rectangles by colour, text                               |

mod draw;
mod map;
mod paint;
mod strip;

use framewright::{MigrateType, Pfn, frame::PAGEBLOCK_FRAMES, tuning::CompactMethod};

use super::{frames::Holds, kernel::Kernel, world::World};
pub(super) use draw::draw;

/// What a pageblock is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Use {
    /// It is a huge page.
    Huge,
    /// Pages of that type.
    Of(MigrateType),
}

/// A pageblock, or some neighbours.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Cell {
    of: Use,
    /// The share of it that is not free, 0 to 1.
    full: f32,
    /// Compaction passes it over for now.
    skip: bool,
}

/// The pageblocks that the scanners of a zone look at next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Scanners {
    /// The migrate scanner of who waits for nothing.
    migrate_async: usize,
    /// That of the others.
    migrate_sync: usize,
    /// The free scanner: what is below is next.
    free: usize,
}

/// All of memory at a moment.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Snapshot {
    /// In which pass, counted from 1.
    pub(crate) pass: u8,
    /// Attempts so far in it.
    attempt: u64,
    /// Seconds since it began.
    seconds: f64,
    cells: Vec<Cell>,
    /// Where there are scanners: those of each zone.
    scanners: Vec<Scanners>,
}

impl Snapshot {
    /// Memory as it is now, so many nanoseconds after the pass began.
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

    /// The same with `group` neighbours in a cell: what most of them are for, as full as they are on average,
    /// passed over if all are.
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
    // The first of equals.
    let most = cells.iter().rev().map(|cell| cell.of).max_by_key(|&of| count(of));
    Cell {
        of: most.unwrap_or(Use::Huge),
        full: cells.iter().map(|cell| cell.full).sum::<f32>() / cells.len().max(1) as f32,
        skip: cells.iter().all(|cell| cell.skip),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOVABLE: Cell = Cell { of: Use::Of(MigrateType::Movable), full: 0.5, skip: true };

    /// A moment in a memory of so many pageblocks.
    pub(super) fn snapshot(pass: u8, pageblocks: usize) -> Snapshot {
        let scanners = vec![Scanners { migrate_async: 3, migrate_sync: 1, free: pageblocks }];
        Snapshot { pass, attempt: 7, seconds: 1.5, cells: vec![MOVABLE; pageblocks], scanners }
    }

    #[test]
    fn neighbours_are_what_most_of_them_are() {
        let huge = Cell { of: Use::Huge, full: 1.0, skip: false };
        let one = merged(&[huge, MOVABLE, MOVABLE]);
        assert_eq!((one.of, one.skip), (MOVABLE.of, false));
        assert!((one.full - 2.0 / 3.0).abs() < 1e-6);
        assert_eq!(merged(&[huge, MOVABLE]).of, Use::Huge);
        let grouped = snapshot(1, 10).grouped(4);
        assert_eq!(grouped.cells, [MOVABLE; 3]);
        assert_eq!(grouped.scanners, [Scanners { migrate_async: 0, migrate_sync: 0, free: 3 }]);
    }
}
