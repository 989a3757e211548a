//! Dirty pages on their way to the store.
//!
//! Whoever writes a page back first calls it clean; then makes its entries clean and read-only, so that
//! the next store faults and makes it dirty again; then flushes what is cached of them; and only then
//! is what it holds sent. So a store is in what is sent, or makes the page dirty. Where pages were taken
//! out of the page tables, and that was flushed, nothing is left to clean. A page that could not be
//! written is dirty as before, and says so.

use super::{
    FileId, PageCache, StoreError,
    page::{DIRTY, ERROR, MOVING, WRITEBACK},
    rmap::{Entry, Unmapped},
};
use crate::{
    engine::Cpu,
    process::{Mapping, Token},
};

/// A page on its way.
pub(super) struct Write {
    frame: u32,
    ends: u64,
    result: Result<(), StoreError>,
}

/// A page that was on its way to the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Written {
    /// Its frame.
    pub frame: u32,
    /// How it ended.
    pub result: Result<(), StoreError>,
}

impl PageCache {
    /// Sends a page to the store that no translation leads to any more. Says whether it was sent: not
    /// if it is clean, or on its way.
    pub fn send(&self, cpu: Cpu<'_>, frame: u32) -> bool {
        let begins = self.begin(frame);
        if begins {
            self.submit(cpu, frame);
        }
        begins
    }

    /// A page is about to be sent, if it is dirty and not on its way already. Who stores to it from
    /// now on makes it dirty again.
    fn begin(&self, frame: u32) -> bool {
        let page = self.page(frame);
        let begins = page.is(DIRTY) && !page.is(WRITEBACK | MOVING);
        if begins {
            page.unmark(DIRTY);
            page.mark(WRITEBACK);
            self.dirty_pages.set(self.dirty_pages.get() - 1);
        }
        begins
    }

    /// What the page holds now is on its way.
    fn submit(&self, cpu: Cpu<'_>, frame: u32) {
        let Some(at) = self.page(frame).holds() else { return };
        cpu.work(self.costs.write);
        let contents = self.mmu.oracle().map_or(Token::ZERO, |oracle| oracle.contents(frame));
        let (ends, result) = self.store.write(cpu.now(), at, contents);
        self.writes.borrow_mut().push_back(Write { frame, ends, result });
    }

    /// The next page whose way to the store has ended by now, if one has. What could not be written
    /// is dirty again.
    pub fn next_written(&self, cpu: Cpu<'_>) -> Option<Written> {
        let write = self.writes.borrow_mut().pop_front_if(|write| write.ends <= cpu.now())?;
        let Write { frame, result, .. } = write;
        let page = self.page(frame);
        page.unmark(WRITEBACK);
        if result.is_err() {
            page.mark(ERROR);
            self.set_dirty(frame);
            self.count(|stats| stats.write_failed += 1);
        } else {
            page.unmark(ERROR);
        }
        Some(Written { frame, result })
    }

    /// When the next page on its way arrives.
    #[must_use]
    pub fn next_write_ends(&self) -> Option<u64> {
        self.writes.borrow().front().map(|write| write.ends)
    }

    /// Dirty pages that are to be written back now: up to `most` of those that became so first, while
    /// more than `background` are. [Clean](PageCache::clean) them, flush, and
    /// [write them back](PageCache::write_back): until then, nobody else will.
    #[must_use]
    pub fn pick_dirty(&self, most: usize, background: u64) -> Vec<u32> {
        let mut picked = Vec::new();
        let waiting = self.dirty.borrow().len();
        for _ in 0..waiting {
            if picked.len() == most || self.dirty_pages.get() <= background {
                break;
            }
            let Some(frame) = self.dirty.borrow_mut().pop_front() else { break };
            if self.begin(frame) {
                picked.push(frame);
            } else if self.page(frame).is(DIRTY) {
                // On its way, and dirty again; or it gets another frame just now.
                self.dirty.borrow_mut().push_back(frame);
            }
        }
        picked
    }

    /// Makes the entries of `frames` clean and read-only. `taken` is told of every translation that may
    /// be cached otherwise: flush them, then [send](PageCache::write_back) the pages.
    pub fn clean(&self, cpu: Cpu<'_>, frames: &[u32], taken: &mut dyn FnMut(Unmapped<'_>)) {
        self.each_entry(cpu, frames, &mut |Entry { of, area, page, mapping }: Entry<'_>| {
            cpu.work(self.costs.look);
            if !mapping.writable {
                return;
            }
            let clean = |now| Mapping { writable: false, dirty: false, ..now };
            let Some(was) = self.change(cpu, area, page, clean) else { return };
            taken(self.unmapped(of, area, page, was));
        });
    }

    /// Sends pages that were picked, and cleaned, and whose translations were flushed.
    pub fn write_back(&self, cpu: Cpu<'_>, frames: &[u32]) {
        frames.iter().for_each(|&frame| self.submit(cpu, frame));
    }

    /// The end of the pause of a program that has just made a page dirty, if too many pages wait to be written.
    ///
    /// The pause is proportional to the number of pages above the limit, and the store continues after it. So
    /// programs continue in the order of their stores, at the rate at which pages are written: if each
    /// waited until the number is below the limit, late ones would overtake early ones. If writing takes
    /// longer than `PAUSE`, more pages are above the limit, but no program waits longer than its turn.
    pub(super) fn dirty_pause(&self, cpu: Cpu<'_>) -> Option<u64> {
        /// Cycles for each page above the limit: 10 us.
        const PAUSE: u64 = 25_000;
        let above = self.unwritten().saturating_sub(self.most_dirty.get());
        (above > 0).then(|| cpu.now() + above * PAUSE)
    }

    /// How many pages may be dirty before programs that make more of them wait.
    pub fn limit_dirty(&self, most: u64) {
        self.most_dirty.set(most);
    }

    /// Whether a page could not be written when that was tried last.
    #[must_use]
    pub fn has_failed(&self, file: FileId, page: u32) -> bool {
        self.file(file).frame(page).is_some_and(|frame| self.page(frame).is(ERROR))
    }
}
