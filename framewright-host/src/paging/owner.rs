//! The cache as the owner of pages that the library reclaims.

#![allow(unsafe_code)]

use framewright::{
    Pfn,
    reclaim::{PageOwner, PageState, Reference, Released, Shadow, Unmapped, WriteError, WriteOut},
    tlb::{CpuMask, Translation, Unmapping},
};
use std::{
    any::Any,
    io, mem,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::Ordering::Release,
};

use super::{
    cache::{PageCache, PageId, Slot, locked},
    page::{PageLock, UnmapResult, Writer},
    stats::count,
    store::write_error,
};
use crate::HostMachine;

impl PageCache {
    /// Writes a page. If the write succeeds, the page is clean. Otherwise it is as dirty as before,
    /// also after a panic of the store.
    pub(super) fn write(&self, id: PageId, lock: &PageLock<'_>, by: Writer) -> io::Result<()> {
        assert!(lock.is_of(&self.page(id).state), "the lock of another page");
        let file = self.file(id.file);
        let failed = Failed(self, lock);
        // SAFETY: the page is locked, and no thread uses a locked page.
        unsafe {
            file.region.with_bytes(id.page..id.page + 1, |bytes| file.store.write(id.page, bytes))
        }?;
        mem::forget(failed);
        count(&self.counters.written, 1);
        lock.written(by);
        Ok(())
    }

    /// Writes a page for the library. The library must not unwind while it has pages locked, so a
    /// panic of the store counts as a failed write. [`Pager::run`](super::Pager::run) resumes the
    /// panic at its end. Dropping the error of the store may also panic, so `catch_unwind` covers
    /// that drop, too.
    fn write_contained(&self, id: PageId, lock: &PageLock<'_>) -> Result<(), WriteError> {
        let write = || self.write(id, lock, Writer::Reclaim).map_err(|error| write_error(&error));
        catch_unwind(AssertUnwindSafe(write)).unwrap_or_else(|panic| {
            self.remember(panic);
            Err(WriteError::Io)
        })
    }

    /// Stores the first panic. Later panics are leaked, because dropping them may panic.
    fn remember(&self, panic: Box<dyn Any + Send>) {
        let mut first = locked(&self.panicked);
        if first.is_none() {
            *first = Some(panic);
        } else {
            mem::forget(panic);
        }
    }
}

/// A write in progress. Dropping this value means that the write has failed.
struct Failed<'c>(&'c PageCache, &'c PageLock<'c>);

impl Drop for Failed<'_> {
    fn drop(&mut self) {
        count(&self.0.counters.write_failed, 1);
        self.1.not_written();
    }
}

/// The cache as a [`PageOwner`]. Private, so that only the library calls its methods.
///
/// No method relies on the order of calls. Any user of the memory can change the LRU lists. So the library may pass any
/// frame at any time, to two calls at once, or long after another page has got the frame. Each step checks and changes
/// the word of the page, or the slot of the frame, with one compare-exchange:
///
/// * a store uses a page under a [`PageLock`], and the library cannot unlock it;
/// * a page is unmapped only if it is clean, unused, and chosen by [`PageOwner::lock`] in this
///   frame;
/// * only one of several concurrent releases of an unmapped page's frame succeeds.
pub(super) struct Owner<'c>(pub(super) &'c PageCache);

impl Owner<'_> {
    /// The page that is in a frame, and the number of the frame.
    fn held(&self, frame: Pfn) -> Option<(PageId, u32)> {
        let number = self.0.number(frame)?;
        match self.0.slot(number) {
            Slot::Holds(id) => Some((id, number)),
            Slot::Empty | Slot::Unmapped(_) => None,
        }
    }

    fn lock_one(&self, frame: Pfn) -> Option<PageState> {
        let number = self.0.number(frame)?;
        match self.0.slot(number) {
            Slot::Empty => None,
            Slot::Unmapped(_) => Some(PageState::default()),
            Slot::Holds(id) => {
                let page = self.0.page(id).state.choose(number)?;
                let (dirty, writeback) = (page.dirty, page.writeback);
                Some(PageState { mapped: !dirty, dirty, writeback, ..PageState::default() })
            }
        }
    }

    fn write_one(&self, frame: Pfn) -> WriteOut {
        let Some((id, number)) = self.held(frame) else { return WriteOut::Refused };
        let Some(lock) = self.0.page(id).state.lock_chosen(number) else {
            return WriteOut::Refused;
        };
        match self.0.write_contained(id, &lock) {
            Ok(()) => {
                locked(&self.0.written).push((frame, Ok(())));
                WriteOut::Started
            }
            Err(error) => WriteOut::Failed(error),
        }
    }

    fn release_one(&self, frame: Pfn, shadow: Shadow) -> Released {
        let Some(number) = self.0.number(frame) else { return Released::Busy };
        match self.0.slot(number) {
            slot @ Slot::Unmapped(id) if self.0.empty_slot(number, slot) => {
                self.0.page(id).shadow.store(shadow.into_raw(), Release);
                Released::Released
            }
            Slot::Holds(id) if self.0.page(id).state.is_dirty() => Released::Dirty,
            Slot::Holds(_) | Slot::Unmapped(_) | Slot::Empty => Released::Busy,
        }
    }
}

// SAFETY: a frame is released only once after each unmapping of its page. The page owned the frame, a block of order 0,
// and had no other frame. The frame is only a number here, so no memory of the frame can be in use.
unsafe impl PageOwner<HostMachine> for Owner<'_> {
    /// A dirty page is reported as not mapped, so that the library does not unmap it before it is
    /// written.
    fn lock(&self, frames: &[Pfn], out: &mut [Option<PageState>]) {
        for (&frame, out) in frames.iter().zip(out) {
            *out = self.lock_one(frame);
        }
    }

    fn unlock(&self, frames: &[Pfn]) {
        for (id, number) in frames.iter().filter_map(|&frame| self.held(frame)) {
            self.0.page(id).state.unchoose(number);
        }
    }

    fn referenced(&self, frames: &[Pfn], out: &mut [Reference]) {
        for (&frame, out) in frames.iter().zip(out) {
            let used = self
                .held(frame)
                .is_some_and(|(id, number)| self.0.page(id).state.take_accessed(number));
            *out = Reference { young: used.into(), ..Reference::default() };
        }
    }

    fn unmap(
        &self,
        frames: &[Pfn],
        batch: &mut Unmapping<'_, '_, '_, HostMachine>,
        out: &mut [Unmapped],
    ) {
        let cache = self.0;
        let cpu = batch.cpu();
        let cpus: CpuMask = [cpu].into_iter().collect();
        for (&frame, out) in frames.iter().zip(out) {
            *out = Unmapped::Removed { dirty: false };
            let Some((id, number)) = self.held(frame) else { continue };
            match cache.page(id).state.unmap(number) {
                UnmapResult::Unmapped => {}
                UnmapResult::Dirty => {
                    *out = Unmapped::Removed { dirty: true };
                    continue;
                }
                UnmapResult::Refused => {
                    *out = Unmapped::StillMapped;
                    continue;
                }
            }
            count(&cache.counters.unmapped, 1);
            cache.set_slot(number, Slot::Unmapped(id));
            cache.list_unmapped(cpu, id);
            let translation = Translation {
                cpus: &cpus,
                writable: true,
                dirty: false,
                space: id.file.0.into(),
                page: id.page.into(),
                space_flush: &cache.file(id.file).deferred_flush,
                file_flush: None,
            };
            batch.add(frame, &translation);
        }
    }

    /// Writes at once. The results are reported after reclaim, because the library does not accept
    /// reports during its calls.
    fn write_out(&self, frames: &[Pfn], out: &mut [WriteOut]) {
        for (&frame, out) in frames.iter().zip(out) {
            *out = self.write_one(frame);
        }
    }

    fn release(&self, frames: &[Pfn], shadows: &[Shadow], out: &mut [Released]) {
        for ((&frame, &shadow), out) in frames.iter().zip(shadows).zip(out) {
            *out = self.release_one(frame, shadow);
        }
    }
}
