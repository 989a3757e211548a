//! The cache as the owner of pages that compaction migrates.
//!
//! A page is claimed by isolating it from the LRU lists, which succeeds for one caller only. During
//! its migration the page is locked and marked: a program that faults on it tries again later, and
//! no write of it begins. The migration does not map it in the new frame; the next fault does.

#![allow(unsafe_code)]

use framewright::{
    FrameRange, Pfn,
    migrate::{ClaimEnd, Claims, Effort, Locking, MigrateMode, Move, Mover},
    reclaim::{Lru, LruList, PageKind},
    tlb::{Flushed, Unmapping},
};

use super::{
    PageCache,
    cache::Slot,
    page::{ACTIVE, DIRTY, ERROR, MOVING, WRITEBACK},
};
use crate::{
    engine::{Cpu, Machine},
    platform::Simulated,
};

/// A cache on a machine, and the LRU lists of its pages.
pub(super) struct PageMoves<'c, 'm> {
    cache: &'c PageCache,
    lru: Lru<'c, 'm, Simulated>,
    machine: &'c Machine,
}

impl<'c, 'm> PageMoves<'c, 'm> {
    pub(super) fn new(
        cache: &'c PageCache,
        lru: Lru<'c, 'm, Simulated>,
        machine: &'c Machine,
    ) -> Self {
        Self { cache, lru, machine }
    }

    fn cpu(&self) -> Cpu<'c> {
        self.machine.current().expect("pages move on a CPU")
    }

    /// Isolates a page if it can be migrated in its current state.
    fn claim_one(&self, cpu: Cpu<'_>, pfn: Pfn, effort: &Effort) -> bool {
        let page = self.cache.page(number(pfn));
        let written = page.is(WRITEBACK) && effort.mode != MigrateMode::Sync;
        let may = page.holds().is_some() && page.ready.get() <= cpu.now() && !written;
        let active = self.lru.list_of(pfn) == Some(LruList::ActiveFile);
        let claimed = may && self.lru.isolate(pfn);
        if claimed && active {
            page.mark(ACTIVE);
        }
        claimed
    }

    /// Locks a page and removes all its mappings, unless it is in use.
    fn unmap_one(
        &self,
        cpu: Cpu<'_>,
        at: &mut Move,
        effort: &Effort,
        batch: &mut Unmapping<'_, '_, '_, Simulated>,
    ) {
        let frame = number(at.from());
        let page = self.cache.page(frame);
        if page.is(WRITEBACK) && effort.mode != MigrateMode::Sync {
            return at.set_refused();
        }
        if page.is(WRITEBACK) || page.users.get() > 0 || !self.cache.try_lock(cpu, frame) {
            return at.set_busy();
        }
        self.cache.unmap(cpu, &[frame], &mut |gone| gone.add_flush(cpu, batch));
        // Another CPU may have used the page in between.
        let alone = page.mapped.get() == 0 && page.users.get() == 0 && !page.is(WRITEBACK);
        if alone {
            page.mark(MOVING);
            at.set_unmapped();
        } else {
            self.cache.unlock(frame);
            at.set_busy();
        }
    }

    /// Completes the migration of a page.
    fn remap_one(&self, cpu: Cpu<'_>, at: &mut Move) {
        let (from, to) = (number(at.from()), number(at.to()));
        let active = self.cache.page(from).is(ACTIVE);
        if !self.cache.relocate(cpu, from, to) {
            return at.set_refused();
        }
        // SAFETY: the claim, which ends here, has isolated the page, and its old frame has no users
        // any more.
        let theirs = unsafe {
            let _ = self.lru.abandon(at.from());
            self.lru.put_back(at.from())
        };
        debug_assert!(!theirs, "an abandoned page was put back");
        self.lru.add(cpu.id(), at.to(), PageKind::File);
        if active {
            self.lru.activate(cpu.id(), at.to());
        }
        at.set_moved();
    }
}

impl PageCache {
    /// Makes `to` the frame of the page in `from`. The contents have been copied already.
    fn relocate(&self, cpu: Cpu<'_>, from: u32, to: u32) -> bool {
        let (old, new) = (self.page(from), self.page(to));
        let Some((file, index)) = old.holds() else { return false };
        let of = self.file(file);
        of.locked(cpu, || {
            cpu.work(self.costs.release);
            self.taken(cpu, to);
            new.set(file, index, 0);
            if old.is(ERROR) {
                new.mark(ERROR);
            }
            if old.is(DIRTY) {
                new.mark(DIRTY);
                self.dirty.borrow_mut().push_back(to);
            }
            of.slots[index as usize].set(Slot::Frame(to));
            old.clear();
            if let Some(oracle) = self.mmu.oracle() {
                oracle.freed(cpu, from);
            }
        });
        true
    }
}

/// The number of a frame in the cache.
fn number(pfn: Pfn) -> u32 {
    pfn.get() as u32
}

// SAFETY: a claimed page is in the cache, and was allocated as a block of order 0. It is isolated,
// so neither reclaim nor the cache frees it. Faults do not map it while it is unmapped. Once its
// slot in the file names the new frame, the old one cannot be reached.
unsafe impl Mover<Simulated> for PageMoves<'_, '_> {
    fn claim(&self, frames: FrameRange, effort: &Effort, claims: &mut Claims<'_>) -> ClaimEnd {
        let cpu = self.cpu();
        cpu.step();
        claims.take_pages(frames, |pfn| {
            cpu.work(self.cache.costs.look);
            self.claim_one(cpu, pfn, effort)
        });
        ClaimEnd::Done
    }

    fn unmap(
        &self,
        moves: &mut [Move],
        effort: &Effort,
        _: Locking,
        batch: &mut Unmapping<'_, '_, '_, Simulated>,
    ) {
        let cpu = self.cpu();
        moves.iter_mut().for_each(|at| self.unmap_one(cpu, at, effort, batch));
    }

    fn remap(&self, moves: &mut [Move], _: &Effort, _: &Flushed<'_>) {
        let cpu = self.cpu();
        moves.iter_mut().for_each(|at| self.remap_one(cpu, at));
    }

    fn undo(&self, moves: &[Move]) {
        for at in moves {
            let frame = number(at.from());
            self.cache.page(frame).unmark(MOVING);
            self.cache.unlock(frame);
        }
    }

    fn release(&self, moves: &mut [Move]) {
        for at in moves {
            self.cache.page(number(at.from())).unmark(ACTIVE);
            // SAFETY: the claim, which ends here, has isolated the page.
            let mine = unsafe { self.lru.put_back(at.from()) };
            debug_assert!(mine, "a page of the cache was abandoned");
        }
    }
}
