//! Writing back in the background, on the first CPU.

use framewright::{CpuId, Pfn, reclaim::WriteError, tlb::BatchSlot};

use super::{Keep, StoreError, Written, owner};
use crate::engine::Cpu;

/// Pages that are made clean with one flush.
const CLEANED_AT_ONCE: usize = 32;
/// One frame in so many may be dirty before somebody writes in the background: Linux's
/// `dirty_background_ratio` of 10 %.
const BACKGROUND_SHARE: u64 = 10;

impl Keep<'_, '_> {
    /// The first CPU writes back what is dirty: when much is, or reclaim is in want of clean pages.
    pub(super) fn wants_writer(&self, cpu: CpuId) -> bool {
        let Self { cache, memory, .. } = self;
        let much = memory.managed() / BACKGROUND_SHARE;
        cpu.index() == 0 && cache.dirty_pages() > if cache.wants_writers() { 0 } else { much }
    }

    /// Makes pages clean that became dirty first, flushes what is cached of them, and sends them. Whether
    /// there were any.
    pub(super) fn write_back(&self, cpu: Cpu<'_>) -> bool {
        let picked = self.cache.pick_dirty(CLEANED_AT_ONCE, 0);
        if picked.is_empty() {
            self.cache.writers_done();
        }
        let mut slots = [BatchSlot::default(); CLEANED_AT_ONCE];
        self.shootdown.for_writes(cpu.id(), || {
            let mut batch = self.flusher(cpu.id()).batch(&mut slots);
            self.cache.clean(cpu, &picked, &mut |gone| owner::note(cpu, &mut batch, &gone));
            batch.flush();
        });
        self.cache.write_back(cpu, &picked);
        !picked.is_empty()
    }

    /// Tells the library of pages that were written, or could not be. Whether there were any.
    pub(super) fn hear_of_writes(&self, cpu: Cpu<'_>) -> bool {
        let mut heard = false;
        while let Some(Written { frame, result }) = self.cache.next_written(cpu) {
            let result = result.map_err(|error| match error {
                StoreError::Io => WriteError::Io,
                StoreError::Full => WriteError::NoSpace,
            });
            self.reclaim.written(cpu.id(), Pfn::new(frame.into()), result);
            heard = true;
        }
        heard
    }
}
