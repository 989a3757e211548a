//! The traits through which the library calls a [`FakeMover`]: `Mover`, and `Shootdown` for a
//! machine with TLBs.

use framewright::{
    CpuId, FrameRange, MigrateType, Order, Pfn,
    migrate::{ClaimEnd, Claims, Effort, Locking, Move, Mover, Stage},
    tlb::{CpuMask, Flushed, Scope, Shootdown, Translation, Unmapping},
};

use super::{FakeMover, OTHER, Page};
use crate::FakePlatform;

impl<const TRACED: bool> FakeMover<'_, '_, TRACED> {
    fn unmap_one(
        &self,
        at: &mut Move,
        locking: Locking,
        batch: &mut Unmapping<'_, '_, '_, FakePlatform<TRACED>>,
    ) {
        let fault_rates = self.fault_rates.get();
        let from = at.from().get();
        if self.fuller_only.get() {
            let (used, there) =
                (self.used_in_pageblock(from), self.used_in_pageblock(at.to().get()));
            assert!(used <= there, "a page moves from {used} frames in use to {there}");
        }
        let mut pages = self.pages.borrow_mut();
        assert!(!pages.contains_key(&at.to().get()), "the new frames of a page are in use");
        if self.movable_only.get() {
            let of = self.memory.pageblock_type(at.to());
            assert_eq!(of, Some(MigrateType::Movable), "{} is not in a movable pageblock", at.to());
        }
        let page = pages.get_mut(&from).expect("a claimed page");
        assert!(page.claimed && !page.locked && at.stage() == Stage::Ready);
        if self.happens(fault_rates.gone) {
            pages.remove(&from);
            at.set_gone();
        } else if page.pinned || self.happens(fault_rates.refused) {
            at.set_refused();
        } else if locking == Locking::Try && self.happens(fault_rates.busy) {
            at.set_busy();
        } else {
            page.locked = true;
            let cpus: CpuMask = [OTHER].into_iter().collect();
            let translation = Translation {
                cpus: &cpus,
                writable: true,
                dirty: true,
                space: 1,
                page: page.value,
                space_flush: &self.space_flush,
                file_flush: None,
            };
            drop(pages);
            self.stale.borrow_mut().push(from);
            batch.add(at.from(), &translation);
            at.set_unmapped();
        }
    }
}

// SAFETY: only one thread uses the value; the fields of a page record its claim and its lock, and
// no other code frees claimed pages.
unsafe impl<const TRACED: bool> Mover<FakePlatform<TRACED>> for FakeMover<'_, '_, TRACED> {
    fn claim(&self, frames: FrameRange, _: &Effort, claims: &mut Claims<'_>) -> ClaimEnd {
        let fault_rates = self.fault_rates.get();
        if self.happens(fault_rates.contended) {
            return if self.below(2) == 0 { ClaimEnd::Contended } else { ClaimEnd::TooMany };
        }
        if let Some(range) = self.plugged.get() {
            self.memory.add_memory(range).expect_err("added memory that is present");
        }
        if self.allocates_while_claiming.get() {
            let page = self.alloc(0, MigrateType::Movable, false);
            self.free(page.expect("there is a free frame"));
        }
        self.scanned.set(self.scanned.get() + frames.frames());
        if self.stuck.get() {
            return ClaimEnd::Done;
        }
        let (start, end) = (frames.start().get(), frames.end().get());
        let mut pages = self.pages.borrow_mut();
        let before = pages.range(..start).next_back();
        let overlaps = before.filter(|(at, page)| *at + (1 << page.order) > start);
        let first = overlaps.map_or(start, |(&at, _)| at);
        for (&at, page) in pages.range_mut(first..end) {
            assert!(!page.locked);
            let order = Order::new(page.order).unwrap();
            if page.claimed || page.pinned && self.below(2) == 0 {
                continue;
            }
            if !claims.push(Pfn::new(at), order) {
                break;
            }
            page.claimed = true;
        }
        ClaimEnd::Done
    }

    fn unmap(
        &self,
        moves: &mut [Move],
        _: &Effort,
        locking: Locking,
        batch: &mut Unmapping<'_, '_, '_, FakePlatform<TRACED>>,
    ) {
        assert!(locking == Locking::Try || moves.len() == 1, "may wait with several pages locked");
        moves.iter_mut().for_each(|at| self.unmap_one(at, locking, batch));
    }

    fn remap(&self, moves: &mut [Move], _: &Effort, _: &Flushed<'_>) {
        let fault_rates = self.fault_rates.get();
        self.least_free.set(self.least_free.get().min(self.memory.free()));
        for at in moves {
            assert_eq!(at.stage(), Stage::Copied);
            let mut pages = self.pages.borrow_mut();
            assert!(!self.stale.borrow().contains(&at.from().get()), "copied before the flush");
            if self.happens(fault_rates.busy) {
                at.set_busy();
            } else if self.happens(fault_rates.refused) {
                at.set_refused();
            } else {
                let page = pages.remove(&at.from().get()).expect("a locked page");
                assert!(page.claimed && page.locked);
                let page = Page { claimed: false, locked: false, ..page };
                assert!(pages.insert(at.to().get(), page).is_none());
                at.set_moved();
            }
        }
    }

    fn undo(&self, moves: &[Move]) {
        for at in moves {
            let mut pages = self.pages.borrow_mut();
            let page = pages.get_mut(&at.from().get()).expect("a locked page");
            assert!(core::mem::take(&mut page.locked), "undone, but not locked");
            self.stale.borrow_mut().retain(|&stale| stale != at.from().get());
        }
    }

    fn release(&self, moves: &mut [Move]) {
        let fault_rates = self.fault_rates.get();
        for at in moves {
            let mut pages = self.pages.borrow_mut();
            let from = at.from().get();
            let page = pages.get_mut(&from).expect("a claimed page");
            assert!(core::mem::take(&mut page.claimed) && !page.locked);
            if self.happens(fault_rates.gone) {
                pages.remove(&from);
                at.set_gone();
            }
        }
    }
}

impl<const TRACED: bool> Shootdown for FakeMover<'_, '_, TRACED> {
    fn invalidate(&self, cpu: CpuId, _: Scope) {
        assert_eq!(cpu, OTHER);
        self.last_stores();
    }

    fn interrupt(&self, _: CpuId, targets: &CpuMask) {
        for cpu in targets.iter() {
            self.flusher(cpu).serve();
        }
    }
}
