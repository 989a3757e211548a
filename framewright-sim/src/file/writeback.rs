//! Write-back of dirty pages to the store.
//!
//! Write-back first clears the dirty flag of a page. Then it makes the page-table entries of the
//! page clean and read-only, so that the next store faults and sets the flag again. Then it flushes
//! the translations of the page, and only then submits the contents. Every store is therefore in
//! the written contents, or makes the page dirty. Pages that were unmapped and flushed need no
//! cleaning. A page whose write failed stays dirty and is marked.

use super::{
    FileId, PageCache, StoreError,
    page::{DIRTY, ERROR, MOVING, WRITEBACK},
    rmap::{Entry, Unmapped},
};
use crate::{
    engine::Cpu,
    process::{Mapping, Token},
};

/// A write in progress.
pub(super) struct Write {
    frame: u32,
    ends: u64,
    result: Result<(), StoreError>,
}

/// A write that has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Written {
    /// The frame of the page.
    pub frame: u32,
    /// The result.
    pub result: Result<(), StoreError>,
}

impl PageCache {
    /// Submits the write of a page without translations. Returns false, without a write, if the
    /// page is clean or being written.
    pub fn send(&self, cpu: Cpu<'_>, frame: u32) -> bool {
        let begins = self.begin(frame);
        if begins {
            self.submit(cpu, frame);
        }
        begins
    }

    /// Begins the write of a page if it is dirty, not being written and not being migrated. Later
    /// stores make it dirty again.
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

    /// Submits the write of the current contents.
    fn submit(&self, cpu: Cpu<'_>, frame: u32) {
        let Some(at) = self.page(frame).holds() else { return };
        cpu.work(self.costs.write);
        let contents = self.mmu.oracle().map_or(Token::ZERO, |oracle| oracle.contents(frame));
        let (ends, result) = self.store.write(cpu.now(), at, contents);
        self.writes.borrow_mut().push_back(Write { frame, ends, result });
    }

    /// Removes and returns the next write that has ended by now. If it failed, its page becomes
    /// dirty again.
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

    /// The time at which the next write ends.
    #[must_use]
    pub fn next_write_ends(&self) -> Option<u64> {
        self.writes.borrow().front().map(|write| write.ends)
    }

    /// Selects up to `most` of the oldest dirty pages, while more than `background` pages are
    /// dirty, and begins their writes. The caller [cleans](PageCache::clean) them, flushes, and
    /// [submits them](PageCache::write_back). No other CPU writes them meanwhile.
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
                // The page is being written and dirty again, or is being migrated.
                self.dirty.borrow_mut().push_back(frame);
            }
        }
        picked
    }

    /// Makes the entries of `frames` clean and read-only. Calls `changed` with every old entry that
    /// a TLB may still cache. The caller flushes these, then [submits](PageCache::write_back) the
    /// pages.
    pub fn clean(&self, cpu: Cpu<'_>, frames: &[u32], changed: &mut dyn FnMut(Unmapped<'_>)) {
        self.each_entry(cpu, frames, &mut |Entry { of, area, page, mapping }: Entry<'_>| {
            cpu.work(self.costs.look);
            if !mapping.writable {
                return;
            }
            let clean = |now| Mapping { writable: false, dirty: false, ..now };
            let Some(was) = self.change(cpu, area, page, clean) else { return };
            changed(self.unmapped(of, area, page, was));
        });
    }

    /// Submits pages that were selected and cleaned, and whose translations were flushed.
    pub fn write_back(&self, cpu: Cpu<'_>, frames: &[u32]) {
        frames.iter().for_each(|&frame| self.submit(cpu, frame));
    }

    /// The end of the pause of a program that has just made a page dirty; `None` if few enough
    /// pages are dirty.
    ///
    /// The pause is proportional to the number of pages above the limit. After it, the store
    /// continues. Programs therefore continue in the order of their stores, at the rate at which
    /// pages are written. If each program waited until the number is below the limit, late programs
    /// would overtake early ones. If the write of a page takes longer than `PAUSE`, the number of
    /// pages above the limit grows, but no program waits longer than its pause.
    pub(super) fn dirty_pause(&self, cpu: Cpu<'_>) -> Option<u64> {
        /// Cycles for each page above the limit: 10 us.
        const PAUSE: u64 = 25_000;
        let above = self.unwritten().saturating_sub(self.most_dirty.get());
        (above > 0).then(|| cpu.now() + above * PAUSE)
    }

    /// Sets the number of pages that may be dirty before programs that store wait.
    pub fn limit_dirty(&self, most: u64) {
        self.most_dirty.set(most);
    }

    /// Whether the last write of a page failed.
    #[must_use]
    pub fn has_failed(&self, file: FileId, page: u32) -> bool {
        self.file(file).frame(page).is_some_and(|frame| self.page(frame).is(ERROR))
    }
}
