//! The cache as the owner of pages that the library reclaims.

#![allow(unsafe_code)]

use framewright::{
    Pfn,
    reclaim::{PageOwner, PageState, Reference, Released, Shadow, Unmapped as Became, WriteOut},
    tlb::Unmapping,
};

use super::PageCache;
use crate::{
    engine::{Cpu, Machine},
    host_memory::prefetch,
    one_thread::OneThread,
    platform::Simulated,
};

/// A cache on a machine.
pub(super) struct Owner<'c>(OneThread<(&'c PageCache, &'c Machine)>);

impl<'c> Owner<'c> {
    pub(super) fn new(cache: &'c PageCache, machine: &'c Machine) -> Self {
        Self(OneThread::new((cache, machine)))
    }

    fn cache(&self) -> &'c PageCache {
        self.0.get().0
    }

    /// The CPU that runs reclaim.
    fn cpu(&self) -> Cpu<'c> {
        self.0.get().1.current().expect("reclaim runs on a CPU")
    }
}

fn numbers(frames: &[Pfn]) -> Vec<u32> {
    frames.iter().map(|frame| frame.get() as u32).collect()
}

// SAFETY: pages on the LRU lists are frames that were allocated as blocks of order 0. A released
// page is no longer in the cache, and the cache does not use its frame until it is allocated again.
unsafe impl PageOwner<Simulated> for Owner<'_> {
    fn lock(&self, frames: &[Pfn], out: &mut [Option<PageState>]) {
        let (cache, cpu) = (self.cache(), self.cpu());
        let frames = numbers(frames);
        // Frames from the ends of the lists are scattered, and not in the caches of the host.
        frames.iter().for_each(|&frame| prefetch(cache.page(frame)));
        for (frame, out) in frames.into_iter().zip(out) {
            *out = cache.try_lock(cpu, frame).then(|| PageState {
                mapped: cache.is_frame_mapped(frame),
                dirty: cache.is_dirty(frame),
                writeback: cache.is_being_written(frame),
                ..PageState::default()
            });
        }
    }

    fn unlock(&self, frames: &[Pfn]) {
        numbers(frames).into_iter().for_each(|frame| self.cache().unlock(frame));
    }

    fn referenced(&self, frames: &[Pfn], out: &mut [Reference]) {
        let mut used = vec![0; frames.len()];
        self.cache().count_used(self.cpu(), &numbers(frames), &mut used);
        for (young, out) in used.into_iter().zip(out) {
            *out = Reference { young, ..Reference::default() };
        }
    }

    fn unmap(
        &self,
        frames: &[Pfn],
        batch: &mut Unmapping<'_, '_, '_, Simulated>,
        out: &mut [Became],
    ) {
        let (cache, cpu) = (self.cache(), self.cpu());
        let frames = numbers(frames);
        cache.unmap(cpu, &frames, &mut |gone| gone.add_flush(cpu, batch));
        for (frame, out) in frames.into_iter().zip(out) {
            *out = match cache.is_frame_mapped(frame) {
                true => Became::StillMapped,
                false => Became::Removed { dirty: cache.is_dirty(frame) },
            };
        }
    }

    fn write_out(&self, frames: &[Pfn], out: &mut [WriteOut]) {
        let cpu = self.cpu();
        for (frame, out) in numbers(frames).into_iter().zip(out) {
            // A page that was mapped again may be stored to. Background write-back cleans it.
            let sent = !self.cache().is_frame_mapped(frame) && self.cache().send(cpu, frame);
            *out = if sent { WriteOut::Started } else { WriteOut::Refused };
        }
    }

    fn release(&self, frames: &[Pfn], shadows: &[Shadow], out: &mut [Released]) {
        let (cache, cpu) = (self.cache(), self.cpu());
        let frames = numbers(frames);
        for (frame, out) in frames.iter().zip(&mut *out) {
            *out = if cache.is_dirty(*frame) { Released::Dirty } else { Released::Busy };
        }
        let shadow = |nth: usize| Some(shadows[nth].into_raw());
        cache.release(cpu, &frames, &shadow, &mut |nth| out[nth] = Released::Released);
    }

    fn has_writers(&self) -> bool {
        true
    }

    fn wake_writers(&self) {
        self.cache().writers_wanted.set(true);
    }
}
