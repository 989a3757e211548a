//! Removes pages from the cache; at the end of a run, checks their contents.

use super::{
    FileId, PageCache,
    cache::Slot,
    page::{AWAITED, DIRTY, LOCKED, WRITEBACK},
};
use crate::{
    engine::Cpu,
    process::{Pte, Symptom},
};

impl PageCache {
    /// Whether the page in a frame is dirty.
    #[must_use]
    pub fn is_dirty(&self, frame: u32) -> bool {
        self.page(frame).is(DIRTY)
    }

    /// Whether the page in a frame is being written to the store.
    #[must_use]
    pub fn is_being_written(&self, frame: u32) -> bool {
        self.page(frame).is(WRITEBACK)
    }

    /// Locks a page. Fails if it is locked, if it is being read, if a program waits for it, or if
    /// the frame holds no page.
    pub fn try_lock(&self, cpu: Cpu<'_>, frame: u32) -> bool {
        let page = self.page(frame);
        let read = page.holds().is_some() && page.ready.get() <= cpu.now();
        let free = read && !page.is(LOCKED | AWAITED);
        if free {
            page.mark(LOCKED);
        }
        free
    }

    /// Unlocks a page.
    pub fn unlock(&self, frame: u32) {
        self.page(frame).unmark(LOCKED);
    }

    /// Removes those pages of `frames` that have no users and no mappings, and are clean and not
    /// being written. Replaces each by the shadow entry that `shadow` returns for its index. Calls
    /// `released` with the index of each removed page.
    ///
    /// The order matters: the check for dirty pages follows the checks for users, because a user
    /// may make the page dirty.
    pub fn release(
        &self,
        cpu: Cpu<'_>,
        frames: &[u32],
        shadow: &dyn Fn(usize) -> Option<u64>,
        released: &mut dyn FnMut(usize),
    ) {
        let mut first = 0;
        while first < frames.len() {
            let file = |frame: u32| self.page(frame).holds().map(|(file, _)| file);
            let of = file(frames[first]);
            let same = frames[first..].iter().take_while(|&&frame| file(frame) == of).count();
            if let Some(of) = of {
                let run = &frames[first..first + same];
                self.file(of).locked(cpu, || {
                    for (nth, &frame) in (first..).zip(run) {
                        cpu.work(self.costs.release);
                        if self.try_remove(frame, shadow(nth)) {
                            released(nth);
                        }
                    }
                });
            }
            first += same;
        }
    }

    /// Removes a page if it is unused and clean. The caller holds the file's lock.
    fn try_remove(&self, frame: u32, shadow: Option<u64>) -> bool {
        let page = self.page(frame);
        let Some((file, index)) = page.holds() else { return false };
        let used = page.users.get() > 0 || page.mapped.get() > 0;
        if used || page.is(DIRTY) || page.is(WRITEBACK) {
            return false;
        }
        let slot = &self.file(file).slots[index as usize];
        slot.set(shadow.map_or(Slot::Empty, Slot::Shadow));
        page.clear();
        if self.mmu.oracle().is_some() {
            self.released.borrow_mut().insert(frame);
        }
        self.count(|stats| stats.released += 1);
        true
    }

    /// Reports the allocation of a frame to the oracle. If the frame was released before, reclaim
    /// has freed it since, which the oracle learns here.
    pub(super) fn taken(&self, cpu: Cpu<'_>, frame: u32) {
        let Some(oracle) = self.mmu.oracle() else { return };
        if self.released.borrow_mut().remove(&frame) {
            oracle.freed(cpu, frame);
        }
        oracle.taken(cpu, frame);
    }

    /// Checks that the last store to each page is in a frame or in the store. No CPU may run.
    ///
    /// # Errors
    ///
    /// The page whose last store was lost.
    pub fn check_contents(&self) -> Result<(), (Symptom, FileId, u32)> {
        let Some(oracle) = self.mmu.oracle() else { return Ok(()) };
        for area in &self.areas {
            let space = area.space.id();
            for page in oracle.stored_pages(space) {
                let index = area.index(page);
                let found = match (area.space.peek(page), self.file(area.file).frame(index)) {
                    (Pte::Present(mapping), _) => oracle.contents(mapping.frame),
                    (_, Some(frame)) => oracle.contents(frame),
                    _ => self.store.contents(area.file, index),
                };
                if !oracle.is_last(space, page, found) {
                    return Err((oracle.see_late(Symptom::LostWrite), area.file, index));
                }
            }
        }
        Ok(())
    }
}
