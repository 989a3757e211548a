//! Compaction by the library in the state of a zone: the number of huge pages that requests get.
//!
//! A memory of the library gets the zone's pageblocks. Each has as many free frames, pages and fixed frames as the
//! flags of its frames say, in runs: only these numbers decide whether the pageblock can be emptied and how many pages
//! it has room for. Every page can be moved, by itself. Then huge pages are requested until several requests in a row
//! have failed. Each request takes a free block, or compacts as thoroughly as possible.

#![allow(unsafe_code)]

use std::cell::Cell;

use framewright::{
    Block, Config, CpuId, FrameRange, Layout, Memory, MigrateType, Order, Pfn, Request,
    compact::Workspace,
    migrate::{ClaimEnd, Claims, Effort, Locking, Move, Mover},
    platform::CompactPriority,
    tlb::{BatchSlot, Flushed, NoShootdown, Unmapping},
    tuning::{Auto, Tuning},
};

use super::pages::Pageblock;
use crate::replay::{Serial, aligned};

/// Frames of a pageblock.
const SIZE: u64 = Order::PAGEBLOCK.frames();
/// The requests end after this many failures in a row.
const FAILURES: u32 = 3;
/// The most pages that move together.
const BATCH: usize = 512;

/// The number of huge pages that requests get from these pageblocks if `min` frames stay free; `None` if the library
/// cannot have such a memory.
pub(super) fn huge_pages(pageblocks: &[Pageblock], min: u64) -> Option<u64> {
    if pageblocks.is_empty() {
        return Some(0);
    }
    let frames = FrameRange::new(Pfn::new(0), Pfn::new(pageblocks.len() as u64 * SIZE))?;
    let map = [frames.into()];
    let mut tuning = Tuning::default();
    tuning.zone.min_free = Auto::Fixed(u32::try_from(min).ok()?);
    let config = Config::new(&map, 1).with_tuning(tuning);
    let layout = Layout::new::<Serial>(&config).ok()?;
    let mut buffer = Vec::with_capacity(layout.bytes() + layout.align());
    let metadata = aligned(buffer.spare_capacity_mut(), &layout);
    let memory = Memory::new(Serial::default(), &config, metadata).ok()?;
    let pages = Pages::place(&memory, pageblocks)?;
    Some(requested(&memory, &pages))
}

/// Requests huge pages. Returns how many there were.
fn requested(memory: &Memory<'_, Serial>, pages: &Pages) -> u64 {
    let cpu = CpuId::new(0);
    let Ok(mut token) = memory.cpu(cpu) else { return 0 };
    let mut moves = [Move::default(); BATCH];
    let mut slots = [BatchSlot::default(); BATCH];
    let work = Workspace { moves: &mut moves, slots: &mut slots };
    // SAFETY: the pages claim only frames that `place` has allocated and made blocks of order 0, or that pages have moved to.
    // Nothing is mapped, so there is nothing to flush.
    let mut compactor = unsafe { memory.compactor(cpu, pages, &NoShootdown, work) };
    let request = Request::new(Order::PAGEBLOCK, MigrateType::Movable);
    let (mut huge, mut failures) = (0, 0);
    while failures < FAILURES {
        let free = token.alloc(request.no_wait()).ok();
        match free.or_else(|| compactor.form(request, CompactPriority::Sync).1).map(Block::into_raw)
        {
            Some(_) => (huge, failures) = (huge + 1, 0),
            None => failures += 1,
        }
    }
    huge
}

/// The use of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Frame {
    /// It is free, or stays in use.
    Other,
    /// It has a page.
    Page,
    /// It has a page that is claimed.
    Claimed,
}

/// The use of all frames. They have no contents.
struct Pages(Vec<Cell<Frame>>);

impl Pages {
    /// Allocates the frames in use: in each pageblock first those of pages, then those that stay in use.
    fn place(memory: &Memory<'_, Serial>, pageblocks: &[Pageblock]) -> Option<Self> {
        let frames = vec![Cell::new(Frame::Other); pageblocks.len() * SIZE as usize];
        for (number, of) in (0..).zip(pageblocks) {
            let start = Pfn::new(number * SIZE);
            if of.fixed > 0 {
                // The kernel moves no pages to where its own frames are.
                memory.set_pageblock_type(start, MigrateType::Unmovable);
            }
            let used = FrameRange::new(start, start.offset((of.movable + of.fixed).into()))?;
            if used.frames() > 0 {
                let extent = memory.alloc_range(used, MigrateType::Movable, &mut |_| ()).ok()?;
                let _ = memory.split_extent(extent).ok()?.into_raw();
            }
            let first = start.get() as usize;
            frames[first..first + of.movable as usize].iter().for_each(|it| it.set(Frame::Page));
        }
        Some(Self(frames))
    }

    fn at(&self, pfn: Pfn) -> &Cell<Frame> {
        &self.0[pfn.get() as usize]
    }
}

// SAFETY: pages are frames that were split into blocks of order 0, and only this value, on one thread, changes what a frame
// is used for: a page is claimed once, and no page is freed.
unsafe impl Mover<Serial> for Pages {
    fn claim(&self, frames: FrameRange, _: &Effort, claims: &mut Claims<'_>) -> ClaimEnd {
        claims.take_pages(frames, |pfn| {
            let is_page = self.at(pfn).get() == Frame::Page;
            if is_page {
                self.at(pfn).set(Frame::Claimed);
            }
            is_page
        });
        ClaimEnd::Done
    }

    fn unmap(
        &self,
        moves: &mut [Move],
        _: &Effort,
        _: Locking,
        _: &mut Unmapping<'_, '_, '_, Serial>,
    ) {
        moves.iter_mut().for_each(Move::set_unmapped);
    }

    fn remap(&self, moves: &mut [Move], _: &Effort, _: &Flushed<'_>) {
        for at in moves {
            self.at(at.from()).set(Frame::Other);
            self.at(at.to()).set(Frame::Page);
            at.set_moved();
        }
    }

    fn undo(&self, _: &[Move]) {}

    fn release(&self, moves: &mut [Move]) {
        moves.iter().for_each(|at| self.at(at.from()).set(Frame::Page));
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn pageblock([free, movable, fixed]: [u32; 3]) -> Pageblock {
        Pageblock { free, movable, fixed, unknown: 0 }
    }

    fn formed(pageblocks: &[[u32; 3]], min: u64) -> u64 {
        let all: Vec<_> = pageblocks.iter().copied().map(pageblock).collect();
        huge_pages(&all, min).unwrap()
    }

    #[test]
    fn pages_move_from_empty_pageblocks_into_full_ones() {
        // The emptiest has 100 pages. Two have 250, and the third one has room for 212, or 312.
        assert_eq!(formed(&[[212, 300, 0], [412, 100, 0], [362, 150, 0]], 0), 1);
        assert_eq!(formed(&[[312, 200, 0], [412, 100, 0], [362, 150, 0]], 0), 2);
        assert_eq!(formed(&[[512, 0, 0]; 4], 0), 4);
        assert_eq!(formed(&[[0, 512, 0]; 4], 0), 0);
    }

    #[test]
    fn a_frame_of_the_kernel_keeps_its_pageblock_and_takes_no_pages() {
        assert_eq!(formed(&[[511, 0, 1], [512, 0, 0], [112, 400, 0]], 0), 1);
    }

    /// The most pageblocks that can be emptied if `spare` frames of the others stay free: the pages of the emptiest move into
    /// the free frames of the others.
    fn most(pageblocks: &[Pageblock], spare: u32) -> u64 {
        let mut movable: Vec<_> = pageblocks.iter().filter(|of| of.fixed == 0).collect();
        movable.sort_unstable_by_key(|of| of.movable);
        let (mut room, mut pages) = (movable.iter().map(|of| of.free).sum::<u32>(), 0);
        let emptied = movable.iter().take_while(|of| {
            (pages, room) = (pages + of.movable, room - of.free);
            pages == 0 || pages + spare <= room
        });
        emptied.count() as u64
    }

    proptest! {
        #[test]
        fn compaction_empties_as_many_pageblocks_as_possible(
            all in vec((0u32..=512, 0u32..=512, prop_oneof![3 => Just(0u32), 1 => 1u32..100]), 1..120),
        ) {
            let all: Vec<_> = all
                .iter()
                .map(|&(movable, more, fixed)| {
                    let movable = movable.min(more).min(512 - fixed);
                    pageblock([512 - movable - fixed, movable, fixed])
                })
                .collect();
            let huge = huge_pages(&all, 0).unwrap();
            // Pages need not move into the very last free frame.
            prop_assert!((most(&all, 1)..=most(&all, 0)).contains(&huge), "{} of {}", huge, most(&all, 0));
        }
    }

    #[test]
    fn the_watermark_stays_free() {
        assert_eq!(formed(&[[512, 0, 0]; 8], 1000), 6);
    }
}
