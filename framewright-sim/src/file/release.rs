//! Taking pages out of the cache for good, or finding that this must not be.

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
    /// Whether a frame holds a page that is dirty.
    #[must_use]
    pub fn is_dirty(&self, frame: u32) -> bool {
        self.page(frame).is(DIRTY)
    }

    /// Whether what a frame holds is on its way to the store.
    #[must_use]
    pub fn is_being_written(&self, frame: u32) -> bool {
        self.page(frame).is(WRITEBACK)
    }

    /// Locks a page, unless somebody has, or it is being read or a program waits for that, or the frame holds none.
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

    /// Takes the pages of `frames` out of the cache that nobody uses, maps, has made dirty or writes;
    /// what `shadow` says of a frame stays in its place. Tells of each of them; the others stay.
    ///
    /// That nobody can get hold of a page any more comes first, that it is clean after: who had hold of
    /// it in between may have made it dirty.
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
                        if self.leaves(frame, shadow(nth)) {
                            released(nth);
                        }
                    }
                });
            }
            first += same;
        }
    }

    /// Takes a page out if that may be. Under the file's lock.
    fn leaves(&self, frame: u32, shadow: Option<u64>) -> bool {
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

    /// A frame was handed out: if it was released before, reclaim has freed it since.
    pub(super) fn taken(&self, cpu: Cpu<'_>, frame: u32) {
        let Some(oracle) = self.mmu.oracle() else { return };
        if self.released.borrow_mut().remove(&frame) {
            oracle.freed(cpu, frame);
        }
        oracle.taken(cpu, frame);
    }

    /// Whether all last stores of programs are in a frame or in the store. To be asked when no CPU
    /// runs.
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
