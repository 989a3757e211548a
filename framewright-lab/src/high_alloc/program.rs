//! Pages of programs: in frames, or in the swap area where reclaim has put them.
//!
//! A page that reclaim takes is written to the area by itself, and leaves its frame when it is written
//! and was not used meanwhile; a program that uses it again reads it back. There is room for all of
//! them: programs never have more than memory together.

#![allow(unsafe_code)]

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
};

use framewright::{
    CpuId, MigrateType, Order, Pfn, Request,
    reclaim::{FreedBy, PageKind, WriteOut},
};

use super::{
    frames::{CLAIMED, DIRTY, GONE, Holds, UNMAPPED, WRITEBACK, YOUNG},
    io::{LATENCY_NS, OutOfMemory, PAGE_NS},
    kernel::{Kernel, State, Token, pfn},
    world::{OnCpu, World},
};

/// Frames that are given back at once.
const AT_ONCE: usize = 64;

/// A program: a builder's compiler that runs, or what runs besides builders.
pub(super) struct Program<W: World> {
    pub(super) space: W::Space,
    /// The frame of each of its pages; [`SWAPPED`] for those that are in none.
    pub(super) pages: RefCell<Vec<u32>>,
}

/// The page is in the swap area.
pub(super) const SWAPPED: u32 = u32::MAX;

/// Where pages of programs go.
#[derive(Default)]
pub(super) struct SwapArea {
    /// Frames on their way there, and when they have got there: those that are first in front.
    writes: RefCell<VecDeque<(u64, u32)>>,
    /// Nothing goes there for now.
    pub(super) closed: Cell<bool>,
    /// Pages that were written to it and read from it so far.
    pub(super) written: Cell<u64>,
    pub(super) read: Cell<u64>,
}

impl<W: World> Program<W> {
    /// One that has no page yet.
    pub(super) fn new(space: W::Space) -> Self {
        Self { space, pages: RefCell::default() }
    }
}

impl SwapArea {
    /// When the next page has got there.
    pub(super) fn next(&self) -> Option<u64> {
        self.writes.borrow().front().map(|&(ends, _)| ends)
    }

    /// Sends the page of a frame there: with a device of its own, one after the other.
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
        state.took(ends.saturating_sub(cpu.now()));
        writes.push_back((ends, frame));
        self.written.update(|pages| pages + 1);
        world.wake_worker(cpu);
        WriteOut::Started
    }
}

impl<'m, W: World> Kernel<'_, 'm, W> {
    /// A frame is a page of a program from now on, which has just stored to it.
    pub(super) fn own_page(&self, cpu: CpuId, frame: u32, builder: u32, index: u32) {
        let holds = Holds::Anonymous { builder, index };
        self.state.frames.at(frame).set(holds, DIRTY | YOUNG);
        self.world.store(frame);
        let added = self.reclaim.lru().add(cpu, pfn(frame), PageKind::Anon);
        debug_assert!(added, "frame {frame} is on no list");
    }

    /// A frame for a page of a program.
    pub(super) fn page_frame(
        &self,
        token: &mut Token<'_, 'm, W>,
        request: Request,
    ) -> Result<u32, OutOfMemory> {
        let Ok(block) = self.alloc(token, request) else {
            self.out_of_memory.update(|times| times + 1);
            return Err(OutOfMemory);
        };
        Ok(block.into_raw().0.get() as u32)
    }

    /// A program stores to a page that it has used before; until when that takes, if it has to be read.
    pub(super) fn use_again(
        &self,
        cpu: W::Cpu,
        token: &mut Token<'_, 'm, W>,
        builder: u32,
        index: u32,
    ) -> Result<Option<u64>, OutOfMemory> {
        const PAGE: Request = Request::new(Order::ZERO, MigrateType::Movable);
        let pages = &self.state.programs[builder as usize].pages;
        let frame = pages.borrow()[index as usize];
        if frame != SWAPPED {
            let held = self.state.frames.at(frame);
            let was_unmapped = held.is(UNMAPPED);
            // It is in use before others go on: reclaim may be about to release it.
            held.unmark(UNMAPPED);
            held.mark(DIRTY | YOUNG);
            if was_unmapped {
                cpu.work(self.state.costs.fault);
            }
            return Ok(None);
        }
        self.faults.update(|faults| faults + 1);
        let frame = self.page_frame(token, PAGE)?;
        cpu.work(self.state.costs.fault);
        pages.borrow_mut()[index as usize] = frame;
        self.own_page(cpu.id(), frame, builder, index);
        self.state.swap.read.update(|pages| pages + 1);
        Ok(Some(cpu.now() + self.ticks(LATENCY_NS + PAGE_NS)))
    }

    /// A program has no use for some pages any more. Who has claimed one gives its frame back.
    pub(super) fn give_up(&self, token: &mut Token<'_, 'm, W>, mut pages: Vec<u32>, cost: u64) {
        // All at once, before anybody else goes on: nobody shall claim what is about to be freed.
        pages.retain(|&frame| {
            if frame == SWAPPED {
                return false;
            }
            let held = self.state.frames.at(frame);
            self.world.look(frame);
            let claimed = held.is(CLAIMED);
            if claimed {
                held.mark(GONE);
            } else {
                held.clear();
            }
            !claimed
        });
        // What is still on its way of these is nobody's, and shall not be taken for what frames hold next.
        let mut ended = Vec::new();
        self.state.swap.writes.borrow_mut().retain(|&(_, frame)| {
            let goes_on = self.state.frames.at(frame).is(WRITEBACK);
            if !goes_on {
                ended.push(frame);
            }
            goes_on
        });
        ended.into_iter().for_each(|frame| self.reclaim.written(token.cpu(), pfn(frame), Ok(())));
        for some in pages.chunks(AT_ONCE) {
            self.current().work(cost * some.len() as u64);
            let mut frames = [Pfn::default(); AT_ONCE];
            frames.iter_mut().zip(some).for_each(|(to, &frame)| *to = pfn(frame));
            let mut who = [FreedBy::Isolator; AT_ONCE];
            let (frames, who) = (&frames[..some.len()], &mut who[..some.len()]);
            // SAFETY: the pages are in no program any more: it has ended, or has never run, so nothing reaches them
            // through what a CPU may have cached; and reclaim cannot lock a frame that holds nothing.
            unsafe { self.reclaim.lru().abandon_many(frames, who) };
            for (&frame, who) in frames.iter().zip(&*who) {
                if *who == FreedBy::Caller {
                    // SAFETY: the frame was allocated as a block of order 0, and nobody has it any more.
                    let block = unsafe { token.adopt_unchecked(frame, Order::ZERO) };
                    // The block is of the token's memory, so this cannot fail.
                    let _ = token.free(block);
                }
            }
        }
    }

    /// Hears of pages that are in the swap area by now.
    pub(super) fn hear_of_swapped(&self, cpu: W::Cpu) {
        loop {
            let is_due = |&mut (ends, _): &mut (u64, u32)| ends <= cpu.now();
            let write = self.state.swap.writes.borrow_mut().pop_front_if(is_due);
            let Some((_, frame)) = write else { return };
            let held = self.state.frames.at(frame);
            // Who had claimed it may have given it up meanwhile.
            if held.is(WRITEBACK) && matches!(held.holds(), Holds::Anonymous { .. }) {
                held.unmark(WRITEBACK);
                self.reclaim.written(cpu.id(), pfn(frame), Ok(()));
            }
        }
    }
}

#[cfg(test)]
mod tests;
