//! What maps frames, found through their files: whether it was used, and taking it away.
//!
//! Frames come in the order of a list of the library's, in which neighbours of a file mostly stand
//! together, since they were read together. Neighbours that one page table maps are looked at under one
//! hold of its lock.

use super::{
    AreaId, PageCache,
    area::{Area, TABLE},
};
use crate::{
    engine::Cpu,
    process::{AddressSpace, Mapping, Pte},
};
use framewright::tlb::DeferredFlush;

/// An entry that maps one of the frames asked for. Its page table is locked.
#[derive(Clone, Copy)]
pub(super) struct Entry<'c> {
    /// Which of the frames, counted from the first.
    pub(super) of: usize,
    pub(super) area: &'c Area,
    /// Where it is in the address space.
    pub(super) page: u32,
    pub(super) mapping: Mapping,
}

/// A translation that was taken away, and may still be cached.
#[derive(Clone, Copy)]
pub struct Unmapped<'c> {
    /// Which of the frames, counted from the first.
    pub of: usize,
    /// The frame.
    pub frame: u32,
    /// The address space.
    pub space: &'c AddressSpace,
    /// Where it was there.
    pub page: u32,
    /// Somebody may store through it without looking at the entry.
    pub dirty: bool,
    /// Stores through it were allowed.
    pub writable: bool,
    /// Flushes of the file's pages that were put off.
    pub file_flush: &'c DeferredFlush,
}

impl PageCache {
    /// How often each of `frames` was used since this was asked last, at most once per mapping: added
    /// to `used`. No translation is flushed for it; who has it cached is not seen to use it.
    pub fn count_used(&self, cpu: Cpu<'_>, frames: &[u32], used: &mut [u32]) {
        self.each_entry(cpu, frames, &mut |entry: Entry<'_>| {
            cpu.work(self.costs.look);
            let Entry { of, area, page, mapping, .. } = entry;
            if !mapping.accessed {
                return;
            }
            used[of] += 1;
            self.change(cpu, area, page, |now| Mapping { accessed: false, ..now });
        });
    }

    /// Takes all translations of `frames` away. `taken` is told of each while its page table is
    /// locked; other CPUs may still have it cached. Dirty entries make their pages dirty.
    pub fn unmap(&self, cpu: Cpu<'_>, frames: &[u32], taken: &mut dyn FnMut(Unmapped<'_>)) {
        self.each_entry(cpu, frames, &mut |entry: Entry<'_>| {
            cpu.work(self.costs.unmap);
            let Entry { of, area, page, .. } = entry;
            let Pte::Present(mapping) = area.space.take_pte(cpu, page) else { return };
            if mapping.dirty {
                self.set_dirty(mapping.frame);
            }
            let held = self.page(mapping.frame);
            held.mapped.set(held.mapped.get() - 1);
            self.count(|stats| stats.unmapped += 1);
            taken(self.unmapped(of, area, page, mapping));
        });
    }

    /// What was mapped so at `page` of an area, and is not any more.
    pub(super) fn unmapped<'c>(
        &'c self,
        of: usize,
        area: &'c Area,
        page: u32,
        Mapping { frame, dirty, writable, .. }: Mapping,
    ) -> Unmapped<'c> {
        Unmapped {
            of,
            frame,
            space: &area.space,
            page,
            dirty,
            writable,
            file_flush: &self.file(area.file).owed,
        }
    }

    /// Whether any entry maps a frame.
    #[must_use]
    pub fn is_frame_mapped(&self, frame: u32) -> bool {
        self.page(frame).mapped.get() > 0
    }

    /// Changes an entry that hardware may set bits in meanwhile. Its table is locked.
    pub(super) fn change(
        &self,
        cpu: Cpu<'_>,
        area: &Area,
        page: u32,
        to: impl Fn(Mapping) -> Mapping,
    ) -> Option<Mapping> {
        let Pte::Present(now) = area.space.take_pte(cpu, page) else { return None };
        area.space.replace_pte(cpu, page, Pte::Present(to(now)));
        Some(now)
    }

    /// Visits every entry that maps one of `frames`.
    pub(super) fn each_entry(
        &self,
        cpu: Cpu<'_>,
        frames: &[u32],
        visit: &mut dyn FnMut(Entry<'_>),
    ) {
        let mut first = 0;
        while first < frames.len() {
            let end = self.end_of_run(frames, first);
            if let Some((file, index)) = self.page(frames[first]).holds() {
                for &area in &self.file(file).areas {
                    self.visit_run(cpu, area, index, (first, &frames[first..end]), visit);
                }
            }
            first = end;
        }
    }

    /// Where the run of frames from `first` ends that one page table per area maps.
    fn end_of_run(&self, frames: &[u32], first: usize) -> usize {
        let place =
            |frame: u32| self.page(frame).holds().map(|(file, index)| (file, index / TABLE));
        let at = place(frames[first]);
        let same = frames[first..].iter().take_while(|&&frame| place(frame) == at).count();
        first + same
    }

    /// Visits the entries of one area that map a run of frames, the first of which is the `first`-th of
    /// those asked for and holds page `index`.
    fn visit_run(
        &self,
        cpu: Cpu<'_>,
        area: AreaId,
        index: u32,
        (first, frames): (usize, &[u32]),
        visit: &mut dyn FnMut(Entry<'_>),
    ) {
        let area = self.area(area);
        if frames.iter().all(|&frame| self.page(frame).mapped.get() == 0) {
            return;
        }
        area.locked(cpu, index, || {
            for (of, &frame) in (first..).zip(frames) {
                let Some((_, index)) = self.page(frame).holds() else { continue };
                let Some(page) = area.shows(index) else { continue };
                let Some(mapping) = area.space.pte(cpu, page).present() else { continue };
                if mapping.frame == frame {
                    visit(Entry { of, area, page, mapping });
                }
            }
        });
    }
}
