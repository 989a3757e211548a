//! Reclaimed frames in the flush batch, and their destination when they are freed.

#![allow(unsafe_code)]

use core::cell::Cell;

use super::Lru;
use crate::{
    alloc::CpuToken,
    platform::{Platform, or_on_panic},
    tlb::{FlushBatch, Unmapping},
    tuning::FlushBatching,
    types::{CpuId, Order, Pfn},
};

/// The destination of freed frames.
pub(super) enum FreeTarget<'t, 'a, 'm, P: Platform> {
    /// The lists of the CPU.
    Token(&'t mut CpuToken<'a, 'm, P>),
    /// The request that holds the CPU's token, if it will take frames; otherwise the zones.
    Zones(Lru<'t, 'm, P>, CpuId),
}

impl<P: Platform> FreeTarget<'_, '_, '_, P> {
    fn take(&mut self, frames: &[Pfn]) {
        match self {
            FreeTarget::Token(token) => {
                let (memory, cpu, freed) = (token.memory(), token.cpu(), Cell::new(0));
                let free = || {
                    for &pfn in frames {
                        freed.set(freed.get() + 1);
                        // SAFETY: the owner of the page has released or abandoned it as a block of
                        // order 0, and all translations to it are flushed.
                        let block = unsafe { token.adopt_unchecked(pfn, Order::ZERO) };
                        // The block is of this memory. A refusal by hardening has been reported.
                        let _ = token.free(block);
                    }
                };
                or_on_panic(free, || memory.give_frames_to_zones(cpu, &frames[freed.get()..]));
            }
            FreeTarget::Zones(Lru { memory, state }, cpu) => {
                let kept = state.keep(memory.platform(), *cpu, frames);
                memory.free_frames_to_zones(*cpu, &frames[kept..]);
            }
        }
    }
}

/// The flush batch of a pass, and the frames that the pass frees.
pub(super) struct Retire<'t, 'a, 'f, 'm, P: Platform> {
    batch: FlushBatch<'f, 'm, P>,
    /// An upper bound on the number of slots that are in use now.
    used: usize,
    /// The number of slots.
    capacity: usize,
    target: FreeTarget<'t, 'a, 'm, P>,
    /// Number of frames freed.
    freed: u64,
}

impl<'t, 'a, 'f, 'm, P: Platform> Retire<'t, 'a, 'f, 'm, P> {
    /// Starts with an empty batch that has `capacity` slots.
    pub(super) fn new(
        batch: FlushBatch<'f, 'm, P>,
        capacity: usize,
        target: FreeTarget<'t, 'a, 'm, P>,
    ) -> Self {
        Self { batch, used: 0, capacity, target, freed: 0 }
    }

    /// Makes space in the batch for pages that are to be retired with one flush: at most `mapped`
    /// mapped pages and `others` other pages. Returns the numbers that fit. The other pages take
    /// precedence. The bound on unflushed frames limits only mapped pages, so their number may be
    /// 0.
    pub(super) fn reserve(&mut self, mapped: usize, others: usize) -> (usize, usize) {
        let others = others.min(self.capacity);
        let mapped = mapped.min(self.capacity - others);
        if self.used + mapped + others > self.capacity {
            self.finish();
        }
        let mut reserved = self.batch.reserve(mapped as u64);
        if reserved < mapped as u64 {
            // Finishing may defer the pages unmapped last, and a flush for the oldest deferred
            // frames makes space.
            self.finish();
            self.drain_some_deferred();
            reserved = self.batch.reserve(mapped as u64);
        }
        self.used += reserved as usize + others;
        (reserved as usize, others)
    }

    /// As [`Retire::reserve`] for mapped pages, for use while another CPU is making space. Flushes
    /// for deferred frames, because a flush for a single page would cost as much and make no space.
    pub(super) fn reserve_with_flush(&mut self, mapped: usize) -> usize {
        self.drain_oldest_half();
        let reserved = self.batch.reserve(mapped.min(self.capacity) as u64) as usize;
        self.used += reserved;
        reserved
    }

    /// With lazy batching, finishes the batch, because other CPUs may need its reservation while
    /// this CPU scans. With other batching, the batch is filled further.
    pub(super) fn finish_if_lazy(&mut self) {
        if self.batch.flusher().tlb().tuning().batching == FlushBatching::Lazy {
            self.finish();
        }
    }

    /// Frees some deferred frames, unless another CPU is doing that.
    fn drain_some_deferred(&mut self) {
        let (flusher, target, freed) = (self.batch.flusher(), &mut self.target, &mut self.freed);
        flusher.limit_deferred(flusher.tlb().deferred_max() / 2, &mut |frames| {
            target.take(frames);
            *freed += frames.len() as u64;
        });
    }

    /// The view of the batch to which the owner adds removed translations.
    pub(super) fn unmapping(&mut self) -> Unmapping<'_, 'f, 'm, P> {
        self.batch.unmapping()
    }

    /// Flushes dirty translations. To be called before anything is written out.
    pub(super) fn flush_if_dirty(&mut self) {
        self.batch.flush_if_dirty();
    }

    /// Flushes. To be called before unmapped pages are returned to their owner.
    pub(super) fn flush(&mut self) {
        self.batch.flush();
    }

    /// Retires the frame of a page that was released.
    pub(super) fn push(&mut self, pfn: Pfn) {
        if let Err(pfn) = self.batch.retire_frame(pfn) {
            self.finish();
            // An empty batch has space for one frame.
            let _ = self.batch.retire_frame(pfn);
        }
    }

    /// Frees frames of abandoned pages, to which no translation is left.
    pub(super) fn free(&mut self, frames: &[Pfn]) {
        self.target.take(frames);
        self.freed += frames.len() as u64;
    }

    /// Flushes or defers, and frees.
    pub(super) fn finish(&mut self) {
        let (target, freed) = (&mut self.target, &mut self.freed);
        self.batch.finish_frames(&mut |frames| {
            target.take(frames);
            *freed += frames.len() as u64;
        });
        self.used = 0;
    }

    /// Frees deferred frames that need no flush any more.
    pub(super) fn drain_flushed(&mut self) {
        let flusher = self.batch.flusher();
        flusher.drain_flushed_frames(&mut |frames| self.free(frames));
    }

    /// Frees the older half of the deferred frames, after one flush.
    pub(super) fn drain_oldest_half(&mut self) {
        let flusher = self.batch.flusher();
        flusher.drain_oldest_half_frames(&mut |frames| self.free(frames));
    }

    /// Frees all deferred frames, after one flush.
    pub(super) fn drain_deferred(&mut self) {
        let flusher = self.batch.flusher();
        flusher.drain_deferred_frames(&mut |frames| self.free(frames));
    }

    /// Number of frames freed so far.
    pub(super) fn freed(&self) -> u64 {
        self.freed
    }
}
