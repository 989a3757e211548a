//! Pages of programs: in frames, or in swap.
//!
//! Reclaim writes a page to swap. After the write the page leaves its frame, if it was not used
//! meanwhile. A program that uses the page again reads it back. Swap has space for all pages:
//! programs together never have more pages than memory.

#![allow(unsafe_code)]

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
};

use framewright::{
    CpuId, Pfn, Request,
    reclaim::{FreedBy, PageKind, WriteOut},
};

use super::{
    frames::{CLAIMED, DIRTY, GONE, Holds, UNMAPPED, WRITEBACK, YOUNG},
    io::{LATENCY_NS, OutOfMemory, PAGE, PAGE_NS},
    kernel::{CpuContext, Kernel, State, pfn},
    world::{OnCpu, World},
};

/// Frames that are freed in one batch.
const AT_ONCE: usize = 64;

/// A program: the compiler of a builder, or the program that runs besides builders.
pub(super) struct Program<W: World> {
    pub(super) space: W::Space,
    /// The frame of each of its pages; [`SWAPPED`] for pages in swap.
    pub(super) pages: RefCell<Vec<u32>>,
}

/// The page is in swap.
pub(super) const SWAPPED: u32 = u32::MAX;

/// The swap area.
#[derive(Default)]
pub(super) struct SwapArea {
    /// Frames that are being written, each with the time at which its write ends, in order of time.
    writes: RefCell<VecDeque<(u64, u32)>>,
    /// Whether swap refuses pages for now.
    pub(super) closed: Cell<bool>,
    /// Pages that were written to swap and read from it.
    pub(super) written: Cell<u64>,
    pub(super) read: Cell<u64>,
}

impl<W: World> Program<W> {
    /// A program without pages.
    pub(super) fn new(space: W::Space) -> Self {
        Self { space, pages: RefCell::default() }
    }
}

impl SwapArea {
    /// The time at which the next write ends.
    pub(super) fn next(&self) -> Option<u64> {
        self.writes.borrow().front().map(|&(ends, _)| ends)
    }

    /// Writes the page of a frame to swap. Swap has a device of its own, which writes one page
    /// after the other.
    pub(super) fn write<W: World>(&self, state: &State<'_, W>, world: &W, frame: u32) -> WriteOut {
        let Some(cpu) = world.current().filter(|_| !self.closed.get()) else {
            return WriteOut::Refused;
        };
        let held = state.frames.at(frame);
        held.unmark(DIRTY);
        held.mark(WRITEBACK);
        let idle = cpu.now() + world.ticks(LATENCY_NS);
        let mut writes = self.writes.borrow_mut();
        let begins = writes.back().map_or(idle, |&(ends, _)| ends.max(idle));
        let ends = begins + world.ticks(PAGE_NS);
        state.record_device_time(ends.saturating_sub(cpu.now()));
        writes.push_back((ends, frame));
        self.written.update(|pages| pages + 1);
        world.wake_worker(cpu);
        WriteOut::Started
    }
}

impl<W: World> CpuContext<'_, '_, '_, W> {
    /// Allocates a frame for a page of a program or a file.
    pub(super) fn page_frame(&mut self, request: Request) -> Result<u32, OutOfMemory> {
        let block = self.alloc_counted(request).ok_or(OutOfMemory)?;
        Ok(block.into_raw().0.get() as u32)
    }

    /// A program stores to a page that it has used before. Returns the time at which a read from
    /// swap ends, if one is needed.
    pub(super) fn use_again(
        &mut self,
        builder: u32,
        index: u32,
    ) -> Result<Option<u64>, OutOfMemory> {
        let (kernel, cpu) = (self.kernel, self.cpu);
        let State { frames, programs, costs, swap, .. } = kernel.state;
        let pages = &programs[builder as usize].pages;
        let frame = pages.borrow()[index as usize];
        if frame != SWAPPED {
            let held = frames.at(frame);
            let was_unmapped = held.is(UNMAPPED);
            // The page is marked before other CPUs run, because reclaim may be about to release it.
            held.unmark(UNMAPPED);
            held.mark(DIRTY | YOUNG);
            if was_unmapped {
                cpu.work(costs.fault);
            }
            return Ok(None);
        }
        kernel.faults.update(|faults| faults + 1);
        let frame = self.page_frame(PAGE)?;
        cpu.work(costs.fault);
        pages.borrow_mut()[index as usize] = frame;
        kernel.own_page(cpu.id(), frame, builder, index);
        swap.read.update(|pages| pages + 1);
        Ok(Some(cpu.now() + kernel.ticks(LATENCY_NS + PAGE_NS)))
    }

    /// Frees some pages of a program. The frame of a claimed page is freed at the end of its claim.
    pub(super) fn give_up(&mut self, mut pages: Vec<u32>, cost: u64) {
        let Kernel { state, world, reclaim, .. } = self.kernel;
        // One step removes all pages, before other CPUs run: a page that is about to be freed must
        // not be claimed.
        pages.retain(|&frame| {
            if frame == SWAPPED {
                return false;
            }
            let held = state.frames.at(frame);
            world.verify(frame);
            let claimed = held.is(CLAIMED);
            if claimed {
                held.mark(GONE);
            } else {
                held.clear();
            }
            !claimed
        });
        // Unfinished writes of these pages must not count as writes of the next pages in their
        // frames.
        let mut ended = Vec::new();
        state.swap.writes.borrow_mut().retain(|&(_, frame)| {
            let goes_on = state.frames.at(frame).is(WRITEBACK);
            if !goes_on {
                ended.push(frame);
            }
            goes_on
        });
        ended.into_iter().for_each(|frame| reclaim.written(self.cpu.id(), pfn(frame), Ok(())));
        for some in pages.chunks(AT_ONCE) {
            self.cpu.work(cost * some.len() as u64);
            let mut frames = [Pfn::default(); AT_ONCE];
            frames.iter_mut().zip(some).for_each(|(to, &frame)| *to = pfn(frame));
            let mut who = [FreedBy::Isolator; AT_ONCE];
            let (frames, who) = (&frames[..some.len()], &mut who[..some.len()]);
            // SAFETY: the pages are in no program any more: it has ended, or has never run. Nothing
            // accesses them through a cached translation, and reclaim cannot lock a frame without a
            // page.
            unsafe { reclaim.lru().abandon_many(frames, who) };
            for (&frame, who) in frames.iter().zip(&*who) {
                if *who == FreedBy::Caller {
                    // SAFETY: the frame was allocated as a block of order 0, and has no other user.
                    unsafe { self.free_page(frame) };
                }
            }
        }
    }
}

impl<W: World> Kernel<'_, '_, W> {
    /// Makes a frame a page of a program, which has just stored to it.
    pub(super) fn own_page(&self, cpu: CpuId, frame: u32, builder: u32, index: u32) {
        let holds = Holds::Anonymous { builder, index };
        self.state.frames.at(frame).set(holds, DIRTY | YOUNG);
        self.world.store(frame);
        let added = self.reclaim.lru().add(cpu, pfn(frame), PageKind::Anon);
        debug_assert!(added, "frame {frame} is already on a list");
    }

    /// Completes the writes to swap that have ended.
    pub(super) fn complete_swap_writes(&self, cpu: W::Cpu) {
        loop {
            let is_due = |&mut (ends, _): &mut (u64, u32)| ends <= cpu.now();
            let write = self.state.swap.writes.borrow_mut().pop_front_if(is_due);
            let Some((_, frame)) = write else { return };
            let held = self.state.frames.at(frame);
            // The end of a claim may have freed the frame meanwhile.
            if held.is(WRITEBACK) && matches!(held.holds(), Holds::Anonymous { .. }) {
                held.unmark(WRITEBACK);
                self.reclaim.written(cpu.id(), pfn(frame), Ok(()));
            }
        }
    }
}

#[cfg(test)]
mod tests;
