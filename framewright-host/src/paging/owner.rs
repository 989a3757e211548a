//! The cache as the owner of pages that the library reclaims.

#![allow(unsafe_code)]

use framewright::{
    CpuToken, Order, Pfn,
    reclaim::{PageOwner, PageState, Reference, Released, Shadow, Unmapped, WriteError, WriteOut},
    tlb::{CpuMask, FlushBatch, Translation},
};
use std::{
    any::Any,
    io, mem,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::Ordering::Release,
};

use super::{
    cache::{PageCache, PageId, Slot, count, locked},
    page,
    store::write_error,
};
use crate::HostMachine;

impl PageCache {
    /// Writes a page that the caller has locked. It is clean then, or as dirty as before; the latter
    /// also if the store panics.
    pub(super) fn write(&self, id: PageId, by_reclaim: bool) -> io::Result<()> {
        let (file, state) = (self.file(id.file), &self.page(id).state);
        let failed = Failed(self, state);
        // SAFETY: the page is locked, and nobody uses a locked page.
        unsafe {
            file.region.with_bytes(id.page..id.page + 1, |bytes| file.store.write(id.page, bytes))
        }?;
        mem::forget(failed);
        count(&self.counters.written, 1);
        state.written(by_reclaim);
        Ok(())
    }

    /// The same for the library, which cannot be unwound while it has pages locked: a store that
    /// panics could not write, and whoever [runs](super::Pager::run) it all is told in the end. Also
    /// dropping what it fails with runs its code.
    fn write_contained(&self, id: PageId) -> Result<(), WriteError> {
        let write = || self.write(id, true).map_err(|error| write_error(&error));
        catch_unwind(AssertUnwindSafe(write)).unwrap_or_else(|panic| {
            self.remember(panic);
            Err(WriteError::Io)
        })
    }

    /// Keeps the first panic. Others are leaked: they might panic when they are dropped.
    fn remember(&self, panic: Box<dyn Any + Send>) {
        let mut first = locked(&self.panicked);
        if first.is_none() {
            *first = Some(panic);
        } else {
            mem::forget(panic);
        }
    }
}

/// A page that is being written: dropped, it could not be.
struct Failed<'c>(&'c PageCache, &'c page::PageState);

impl Drop for Failed<'_> {
    fn drop(&mut self) {
        count(&self.0.counters.write_failed, 1);
        self.1.not_written();
    }
}

/// Gives back a frame that a block of order 0 was taken apart for.
pub(super) fn free(token: &mut CpuToken<'_, '_, HostMachine>, frame: Pfn) {
    // SAFETY: the caller owns the frame, as whoever took the block apart did; nothing is behind its
    // number.
    let freed = unsafe { token.free_raw(frame, Order::ZERO) };
    debug_assert_eq!(freed, Ok(()), "frame {frame}");
}

// SAFETY: pages are added to the lists as frames that were allocated as blocks of order 0 and taken
// apart. A page that is released has left its file, and the frame, which is a number here, names
// nothing any more.
unsafe impl PageOwner<HostMachine> for PageCache {
    /// A page that is dirty is not taken from its file before it is written: there is nothing to
    /// unmap of it.
    fn lock(&self, frames: &[Pfn], out: &mut [Option<PageState>]) {
        for (&frame, out) in frames.iter().zip(out) {
            *out = match self.slot(frame) {
                Slot::Empty => None,
                Slot::Left(_) => Some(PageState::default()),
                Slot::Holds(id) => self.page(id).state.try_lock(frame).map(|page| PageState {
                    mapped: !page.dirty,
                    dirty: page.dirty,
                    writeback: page.writeback,
                    ..PageState::default()
                }),
            };
        }
    }

    fn unlock(&self, frames: &[Pfn]) {
        for &frame in frames {
            if let Slot::Holds(id) = self.slot(frame) {
                self.page(id).state.unlock();
            }
        }
    }

    fn referenced(&self, frames: &[Pfn], out: &mut [Reference]) {
        for (&frame, out) in frames.iter().zip(out) {
            let used = match self.slot(frame) {
                Slot::Holds(id) => self.page(id).state.take_accessed(frame),
                Slot::Empty | Slot::Left(_) => false,
            };
            *out = Reference { young: used.into(), ..Reference::default() };
        }
    }

    fn unmap(
        &self,
        frames: &[Pfn],
        batch: &mut FlushBatch<'_, '_, HostMachine>,
        out: &mut [Unmapped],
    ) {
        let cpu = batch.flusher().cpu();
        let cpus: CpuMask = [cpu].into_iter().collect();
        for (&frame, out) in frames.iter().zip(out) {
            *out = Unmapped::Gone { dirty: false };
            let Slot::Holds(id) = self.slot(frame) else { continue };
            if !self.page(id).state.leave() {
                *out = Unmapped::Gone { dirty: true };
                continue;
            }
            count(&self.counters.unmapped, 1);
            self.set_slot(frame, Slot::Left(id));
            self.leave(cpu, id);
            let translation = Translation {
                cpus: &cpus,
                writable: true,
                dirty: false,
                space: id.file.0.into(),
                page: id.page.into(),
                owed_space: &self.file(id.file).owed,
                owed_file: None,
            };
            batch.add(frame, &translation);
        }
    }

    /// Writes at once; that it has ended is told when reclaim does not ask any more.
    fn write_out(&self, frames: &[Pfn], out: &mut [WriteOut]) {
        for (&frame, out) in frames.iter().zip(out) {
            let Slot::Holds(id) = self.slot(frame) else { continue };
            *out = match self.write_contained(id) {
                Ok(()) => {
                    locked(&self.written).push((frame, Ok(())));
                    WriteOut::Started
                }
                Err(error) => WriteOut::Failed(error),
            };
        }
    }

    fn release(&self, frames: &[Pfn], shadows: &[Shadow], out: &mut [Released]) {
        for ((&frame, shadow), out) in frames.iter().zip(shadows).zip(out) {
            *out = match self.slot(frame) {
                Slot::Left(id) => {
                    self.page(id).shadow.store(shadow.into_raw(), Release);
                    self.set_slot(frame, Slot::Empty);
                    Released::Released
                }
                Slot::Holds(id) if self.page(id).state.is_dirty() => Released::Dirty,
                Slot::Holds(_) | Slot::Empty => Released::Busy,
            };
        }
    }
}
