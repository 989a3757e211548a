//! Background write-back, on the first CPU.

use framewright::{CpuId, Pfn, reclaim::WriteError, tlb::BatchSlot};

use super::{KernelState, StoreError, Unmapped, Written};
use crate::engine::Cpu;

/// Pages that one flush cleans.
const CLEANED_AT_ONCE: usize = 32;
/// The reciprocal of the share of frames that may be dirty before background write-back begins:
/// Linux's `dirty_background_ratio` of 10 %.
const BACKGROUND_SHARE: u64 = 10;

impl KernelState<'_, '_> {
    /// Whether this CPU must write back dirty pages. Only the first CPU does, if many pages are
    /// dirty or reclaim needs clean pages.
    pub(super) fn wants_writer(&self, cpu: CpuId) -> bool {
        let Self { cache, memory, .. } = self;
        let much = memory.managed() / BACKGROUND_SHARE;
        cpu.index() == 0 && cache.dirty_pages() > if cache.writers_wanted.get() { 0 } else { much }
    }

    /// Marks the oldest dirty pages clean, flushes their translations, and submits their writes.
    /// Returns whether there were any such pages.
    pub(super) fn write_back(&self, cpu: Cpu<'_>) -> bool {
        let picked = self.cache.pick_dirty(CLEANED_AT_ONCE, 0);
        if picked.is_empty() {
            self.cache.writers_wanted.set(false);
        }
        let mut slots = [BatchSlot::default(); CLEANED_AT_ONCE];
        self.shootdown.for_writes(cpu.id(), || {
            let mut batch = self.flusher(cpu.id()).batch(&mut slots);
            // The pages stay mapped, read-only. `old` is the entry from before the change.
            let mut changed = |old: Unmapped<'_>| old.add_flush(cpu, &mut batch.unmapping());
            self.cache.clean(cpu, &picked, &mut changed);
            batch.flush();
        });
        self.cache.write_back(cpu, &picked);
        !picked.is_empty()
    }

    /// Reports to the library the pages whose writes have ended or failed. Returns whether there
    /// were any.
    pub(super) fn report_writes(&self, cpu: Cpu<'_>) -> bool {
        let mut any = false;
        while let Some(Written { frame, result }) = self.cache.next_written(cpu) {
            let result = result.map_err(|error| match error {
                StoreError::Io => WriteError::Io,
                StoreError::Full => WriteError::NoSpace,
            });
            self.reclaim.written(cpu.id(), Pfn::new(frame.into()), result);
            any = true;
        }
        any
    }
}
