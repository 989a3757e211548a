//! Where reclaimed frames wait for the flush, and where they go then.

#![allow(unsafe_code)]

use crate::{
    alloc::CpuToken,
    frame::{Order, Pfn},
    memory::Memory,
    platform::{CpuId, Platform},
    tlb::FlushBatch,
    tuning::FlushBatching,
};

/// Who takes frames that nobody owns any more.
pub(super) enum FreeTarget<'t, 'a, 'm, P: Platform> {
    /// The lists of the CPU.
    Token(&'t mut CpuToken<'a, 'm, P>),
    /// The request that holds the CPU's token, if it comes for them, and the zones.
    Zones(&'t Memory<'m, P>, CpuId),
}

impl<P: Platform> FreeTarget<'_, '_, '_, P> {
    fn take(&mut self, frames: &[Pfn]) {
        match self {
            FreeTarget::Token(token) => {
                for &pfn in frames {
                    // SAFETY: the owner of the page has released it as a block of order 0, or
                    // abandoned it as one, and all translations to it are flushed.
                    let block = unsafe { token.adopt_unchecked(pfn, Order::ZERO) };
                    // The block is of this memory. A refusal by hardening has been reported.
                    let _ = token.free(block);
                }
            }
            FreeTarget::Zones(memory, cpu) => {
                let kept = memory.keep(*cpu, frames);
                memory.free_frames_to_zones(*cpu, &frames[kept..]);
            }
        }
    }
}

/// Frames that reclaim has got hold of, on their way through the flush batch.
pub(super) struct Retire<'t, 'a, 'f, 'm, P: Platform> {
    batch: FlushBatch<'f, 'm, P>,
    /// Frames that the batch may know by now, and that it can know.
    used: usize,
    room: usize,
    target: FreeTarget<'t, 'a, 'm, P>,
    /// Frames that were freed.
    freed: u64,
}

impl<'t, 'a, 'f, 'm, P: Platform> Retire<'t, 'a, 'f, 'm, P> {
    /// `batch` is empty, and has `room` slots.
    pub(super) fn new(
        batch: FlushBatch<'f, 'm, P>,
        room: usize,
        target: FreeTarget<'t, 'a, 'm, P>,
    ) -> Self {
        Self { batch, used: 0, room, target, freed: 0 }
    }

    /// Sees to it that pages can be retired with one flush, of those that are mapped as many as may be
    /// unflushed now, perhaps none: how many of the ones and of the others. Up to as many as are asked
    /// for, if the batch is large enough; the others come first.
    pub(super) fn reserve(&mut self, mapped: usize, others: usize) -> (usize, usize) {
        let others = others.min(self.room);
        let mapped = mapped.min(self.room - others);
        if self.used + mapped + others > self.room {
            self.finish();
        }
        let mut reserved = self.batch.reserve(mapped as u64);
        if reserved < mapped as u64 {
            // What was unmapped last may wait elsewhere, and what waits there longest makes room.
            self.finish();
            self.drain_some_deferred();
            reserved = self.batch.reserve(mapped as u64);
        }
        self.used += reserved as usize + others;
        (reserved as usize, others)
    }

    /// The same for pages that are mapped while somebody else makes room, and has not come far: helps,
    /// as a page by itself would take a flush, too, and serve nobody else.
    pub(super) fn reserve_with_flush(&mut self, mapped: usize) -> usize {
        self.drain_oldest_half();
        let reserved = self.batch.reserve(mapped.min(self.room) as u64) as usize;
        self.used += reserved;
        reserved
    }

    /// Parks what may wait, where others could lack the room that it takes while this CPU looks for more:
    /// lazily. Other batches rather become full.
    pub(super) fn finish_if_lazy(&mut self) {
        if self.batch.flusher().tlb().tuning().batching == FlushBatching::Lazy {
            self.finish();
        }
    }

    /// Has some of what is deferred freed, unless somebody is at that.
    fn drain_some_deferred(&mut self) {
        let (flusher, target, freed) = (self.batch.flusher(), &mut self.target, &mut self.freed);
        flusher.limit_deferred(flusher.tlb().parked_max() / 2, &mut |frames| {
            target.take(frames);
            *freed += frames.len() as u64;
        });
    }

    /// Where the owner puts what it unmaps.
    pub(super) fn batch(&mut self) -> &mut FlushBatch<'f, 'm, P> {
        &mut self.batch
    }

    /// Before anything is written out.
    pub(super) fn flush_if_dirty(&mut self) {
        self.batch.flush_if_dirty();
    }

    /// Before pages that were unmapped are given back to their owner.
    pub(super) fn flush(&mut self) {
        self.batch.flush();
    }

    /// A frame whose page was released.
    pub(super) fn push(&mut self, pfn: Pfn) {
        if let Err(pfn) = self.batch.retire_frame(pfn) {
            self.finish();
            // An empty batch has room for one.
            let _ = self.batch.retire_frame(pfn);
        }
    }

    /// Frees frames of pages that were abandoned: no translation to them is left.
    pub(super) fn free(&mut self, frames: &[Pfn]) {
        self.target.take(frames);
        self.freed += frames.len() as u64;
    }

    /// Flushes, or parks what may wait, and frees.
    pub(super) fn finish(&mut self) {
        let (target, freed) = (&mut self.target, &mut self.freed);
        self.batch.finish_frames(&mut |frames| {
            target.take(frames);
            *freed += frames.len() as u64;
        });
        self.used = 0;
    }

    /// Frees what was deferred and needs no flush any more.
    pub(super) fn drain_flushed(&mut self) {
        let flusher = self.batch.flusher();
        flusher.drain_flushed_frames(&mut |frames| self.free(frames));
    }

    /// Frees what was deferred longest, with one flush for it.
    pub(super) fn drain_oldest_half(&mut self) {
        let flusher = self.batch.flusher();
        flusher.drain_oldest_half_frames(&mut |frames| self.free(frames));
    }

    /// Frees all that was deferred, with one flush for it.
    pub(super) fn drain_deferred(&mut self) {
        let flusher = self.batch.flusher();
        flusher.drain_deferred_frames(&mut |frames| self.free(frames));
    }

    /// Frames that were freed so far.
    pub(super) fn freed(&self) -> u64 {
        self.freed
    }
}
