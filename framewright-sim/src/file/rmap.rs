//! The mappings of frames, found through their files: accessed bits, and unmapping.
//!
//! Frames are visited in the order of an LRU list. Pages that were read together are mostly
//! neighbours in it. One hold of a page table's lock serves all neighbours under that table.

use super::{
    AreaId, PageCache,
    area::{Area, TABLE},
};
use crate::{
    engine::Cpu,
    platform::Simulated,
    process::{AddressSpace, Mapping, Pte},
};
use framewright::tlb::{DeferredFlush, Unmapping};

/// A page-table entry that maps one of the given frames. Its page table is locked.
#[derive(Clone, Copy)]
pub(super) struct Entry<'c> {
    /// The index of the frame among the given ones.
    pub(super) of: usize,
    pub(super) area: &'c Area,
    /// The page of the address space.
    pub(super) page: u32,
    pub(super) mapping: Mapping,
}

/// A removed translation, which TLBs may still hold.
#[derive(Clone, Copy)]
pub struct Unmapped<'c> {
    /// The index of the frame among the given ones.
    pub of: usize,
    /// The address space.
    pub space: &'c AddressSpace,
    /// The page of the address space.
    pub page: u32,
    /// The entry. If it is dirty, a CPU may store through a cached translation without reading the
    /// entry again.
    pub mapping: Mapping,
    /// The deferred flushes of the file's pages.
    pub file_flush: &'c DeferredFlush,
}

impl Unmapped<'_> {
    /// Adds its flush to a batch.
    pub(super) fn add_flush(&self, cpu: Cpu<'_>, batch: &mut Unmapping<'_, '_, '_, Simulated>) {
        self.space.add_flush(cpu, self.page, self.mapping, Some(self.file_flush), batch);
    }
}

impl PageCache {
    /// Adds to `used`, for each of `frames`, the number of mappings through which it was accessed
    /// since the last call, and clears their accessed bits. No translation is flushed, so accesses
    /// through cached translations are missed.
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

    /// Removes all translations of `frames`. Calls `taken` for each while its page table is locked.
    /// TLBs may still hold them. A dirty entry makes its page dirty.
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

    /// The record of a mapping that was removed from `page` of an area.
    pub(super) fn unmapped<'c>(
        &'c self,
        of: usize,
        area: &'c Area,
        page: u32,
        mapping: Mapping,
    ) -> Unmapped<'c> {
        let file_flush = &self.file(area.file).deferred_flush;
        Unmapped { of, space: &area.space, page, mapping, file_flush }
    }

    /// Whether a page-table entry maps the frame.
    #[must_use]
    pub fn is_frame_mapped(&self, frame: u32) -> bool {
        self.page(frame).mapped.get() > 0
    }

    /// Changes an entry whose bits the hardware may set meanwhile. The caller holds the lock of its
    /// table.
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

    /// Calls `visit` for every entry that maps one of `frames`.
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

    /// The end of the run of frames from `first` whose pages are under the same page table in each
    /// area.
    fn end_of_run(&self, frames: &[u32], first: usize) -> usize {
        let place =
            |frame: u32| self.page(frame).holds().map(|(file, index)| (file, index / TABLE));
        let at = place(frames[first]);
        let same = frames[first..].iter().take_while(|&&frame| place(frame) == at).count();
        first + same
    }

    /// Visits the entries of one area that map a run of frames. The first frame of the run is
    /// number `first` of the given ones, and holds page `index`.
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
                let Some(page) = area.page_of(index) else { continue };
                let Some(mapping) = area.space.pte(cpu, page).present() else { continue };
                if mapping.frame == frame {
                    visit(Entry { of, area, page, mapping });
                }
            }
        });
    }
}
