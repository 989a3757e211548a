//! A recorded initial state: the use of frames before the builders start.
//!
//! Pageblocks that were not movable have the recorded kernel's own memory, which stays; movable
//! ones have file pages, which reclaim may drop, and pages of other programs, in the recorded
//! proportion. The pages of a file are in runs of neighbouring frames, as read-ahead leaves them.

use framewright::{Block, CpuId, MigrateType, Order, Pfn, frame::PAGEBLOCK_ORDER};

use super::{
    files::{FileId, Files},
    frames::{CLAIMED, Holds},
    io::PAGE,
    kernel::{CpuContext, Kernel, pfn},
    program::SWAPPED,
    world::{OnCpu, World},
};
use crate::replay::{Pageblock, State};

/// Pages of a file that are neighbours: the size of a read-ahead.
const READ_AT_ONCE: u32 = 32;
/// The largest blocks of the kernel, in frames: those of its slabs.
const SLAB: u32 = 8;

/// A state, and the files in it.
pub(super) struct Recorded {
    pageblocks: Vec<Pageblock>,
    /// The use of movable frames, run by run.
    movable: Vec<Run>,
}

/// Neighbouring movable frames.
struct Run {
    first: u32,
    frames: u32,
    /// The file of the pages; `None`: pages of a program.
    file: Option<FileId>,
}

impl Recorded {
    /// Draws the positions of all pages on a machine of this number of pageblocks.
    pub(super) fn new(
        state: &State,
        pageblocks: u64,
        files: &mut Files,
        random: &mut fastrand::Rng,
    ) -> Self {
        let pageblocks = state.on(pageblocks, random);
        let mut movable = Vec::new();
        for (at, block) in (0..).zip(&pageblocks) {
            if block.of != MigrateType::Movable {
                continue;
            }
            for (first, frames) in aligned(&block.used, READ_AT_ONCE) {
                let of_file = random.f64() < state.file_share();
                let file = of_file.then(|| files.create(frames));
                movable.push(Run { first: first_of(at) + first, frames, file });
            }
        }
        Self { pageblocks, movable }
    }

    /// Allocates all frames of the state from memory that is free. Returns the kernel's blocks.
    pub(super) fn load<'m, W: World>(&self, on: &mut CpuContext<'_, '_, 'm, W>) -> Vec<Block<'m>> {
        let kernel = on.kernel;
        let mut blocks = Vec::new();
        for (at, block) in (0..).zip(&self.pageblocks) {
            if block.of == MigrateType::Movable {
                continue;
            }
            let typed = kernel.memory.set_pageblock_type(pfn(first_of(at)), block.of);
            debug_assert!(typed, "the pageblock is of another memory");
            for (first, frames) in aligned(&block.used, SLAB) {
                let order = Order::new(frames.ilog2() as u8).unwrap_or(Order::ZERO);
                let first = first_of(at) + first;
                let taken = on.token.alloc_at(pfn(first), order, block.of);
                debug_assert!(taken.is_ok(), "frame {first} is not free");
                if taken.is_ok() {
                    kernel.state.frames.set_block(first, order, Holds::Kernel);
                }
                blocks.extend(taken);
            }
        }
        self.movable.iter().for_each(|run| run.load(on));
        blocks
    }
}

impl Run {
    fn load<W: World>(&self, on: &mut CpuContext<'_, '_, '_, W>) {
        for at in 0..self.frames {
            let page: Pfn = pfn(self.first + at);
            let Ok(block) = on.token.alloc_at(page, Order::ZERO, MigrateType::Movable) else {
                debug_assert!(false, "frame {page:?} is not free");
                continue;
            };
            let frame = block.into_raw().0.get() as u32;
            match self.file {
                Some(file) => on.kernel.cache_page(on.cpu.id(), file, at, frame, 0),
                None => add_to_system(on.kernel, on.cpu.id(), frame),
            }
        }
    }
}

/// The first frame of a pageblock.
fn first_of(pageblock: u32) -> u32 {
    pageblock << PAGEBLOCK_ORDER
}

/// Runs as aligned blocks of at most `most` frames, a power of two.
fn aligned(runs: &[(u32, u32)], most: u32) -> impl Iterator<Item = (u32, u32)> {
    runs.iter().flat_map(move |&(first, frames)| {
        let (mut at, end) = (first, first + frames);
        std::iter::from_fn(move || {
            let largest = 1 << (end - at).checked_ilog2()?;
            let alignment = if at == 0 { most } else { 1 << at.trailing_zeros() };
            let block = (at, most.min(largest).min(alignment));
            at += block.1;
            Some(block)
        })
    })
}

/// Pages that the program besides builders frees and allocates again for each program of a builder.
const RENEWED: usize = 256;

/// Allocates the pages of the program besides builders.
pub(super) fn start<W: World>(on: &mut CpuContext<'_, '_, '_, W>) {
    let pages = on.kernel.memory.managed() / on.kernel.state.environment.residue;
    (0..pages).for_each(|_| add(on));
}

/// Frees some pages of the program besides builders, and allocates the same number.
pub(super) fn renew<W: World>(on: &mut CpuContext<'_, '_, '_, W>) {
    for _ in 0..RENEWED {
        if let Some(frame) = take_away(on.kernel) {
            on.give_up(vec![frame], 0);
            add(on);
        }
    }
}

fn add<W: World>(on: &mut CpuContext<'_, '_, '_, W>) {
    // Without memory the program continues with fewer pages.
    let Ok(block) = on.alloc(PAGE) else { return };
    add_to_system(on.kernel, on.cpu.id(), block.into_raw().0.get() as u32);
}

/// Adds a page in this frame to the program besides builders.
fn add_to_system<W: World>(kernel: &Kernel<'_, '_, W>, cpu: CpuId, frame: u32) {
    let (builder, mut pages) = (kernel.state.system(), kernel.state.system_pages());
    let index = pages.len() as u32;
    pages.push(frame);
    drop(pages);
    kernel.own_page(cpu, frame, builder, index);
}

/// Removes a random page from the program. Returns its frame, or [`SWAPPED`]. Returns `None` and
/// removes nothing if compaction has claimed the page, or the last page, which would take its
/// index.
fn take_away<W: World>(kernel: &Kernel<'_, '_, W>) -> Option<u32> {
    let (builder, mut pages) = (kernel.state.system(), kernel.state.system_pages());
    let last = *pages.last()?;
    let index = kernel.state.random.borrow_mut().usize(..pages.len());
    let frames = &kernel.state.frames;
    let is_claimed = |frame| frame != SWAPPED && frames.at(frame).is(CLAIMED);
    if is_claimed(pages[index]) || is_claimed(last) {
        return None;
    }
    let frame = pages.swap_remove(index);
    if index < pages.len() && last != SWAPPED {
        let index = index as u32;
        frames.at(last).set(Holds::Anonymous { builder, index }, frames.at(last).flags());
    }
    Some(frame)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_cut_into_aligned_blocks() {
        let blocks = |runs: &[_], most| aligned(runs, most).collect::<Vec<_>>();
        assert_eq!(blocks(&[(0, 12)], 8), [(0, 8), (8, 4)]);
        assert_eq!(blocks(&[(3, 6), (16, 1)], 8), [(3, 1), (4, 4), (8, 1), (16, 1)]);
        assert_eq!(blocks(&[(0, 512)], 256), [(0, 256), (256, 256)]);
    }
}
