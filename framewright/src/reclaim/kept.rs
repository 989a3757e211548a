//! Frames that reclaim keeps for the request that it is for.
//!
//! Who needs memory and has to reclaim it would give what it finds to the zone and ask for it again:
//! two holds of a lock that everybody wants, and others may be faster, so that it reclaims once more.
//! Instead the request says that it is coming for them, and a part of the frames that its CPU finds
//! from then on waits beside the moves of that CPU until the request puts them on its lists. The
//! field does the same more simply: there, reclaim frees to the lists of its CPU. Here these are the
//! holder's of the CPU's token, which is the request.

use crate::{
    frame::Pfn,
    memory::Memory,
    platform::{CpuId, Platform},
};

/// Frames that are kept at the most: what a request of reclaim is for, twice.
const CAPACITY: usize = 64;

/// Frames kept for a CPU.
#[derive(Clone, Copy)]
pub(crate) struct KeptFrames {
    /// Somebody comes for them.
    open: bool,
    len: u8,
    frames: [Pfn; CAPACITY],
}

impl KeptFrames {
    pub(super) fn new() -> Self {
        Self { open: false, len: 0, frames: [Pfn::new(0); CAPACITY] }
    }

    pub(super) fn open(&mut self) {
        self.open = true;
    }

    /// Takes in frames while there is room for them and somebody comes; how many, from the first.
    pub(super) fn keep(&mut self, frames: &[Pfn]) -> usize {
        let start = usize::from(self.len);
        let count = if self.open { frames.len().min(CAPACITY - start) } else { 0 };
        self.frames[start..start + count].copy_from_slice(&frames[..count]);
        self.len += count as u8;
        count
    }

    /// Takes all out; nobody comes any more.
    pub(super) fn close(&mut self) -> Self {
        let all = *self;
        (self.open, self.len) = (false, 0);
        all
    }

    /// All of them.
    pub(crate) fn frames(&self) -> &[Pfn] {
        &self.frames[..usize::from(self.len)]
    }
}

impl<P: Platform> Memory<'_, P> {
    /// The holder of the CPU's token is about to reclaim: it comes for frames afterwards
    /// ([`Memory::take_kept`]).
    pub(crate) fn keep_reclaimed(&self, cpu: CpuId) {
        if let Some(batch) = self.lru_state().and_then(|state| state.batches.get(cpu.index())) {
            batch.with_kept(self.platform(), KeptFrames::open);
        }
    }

    /// Hands over what was kept, whose blocks are the caller's now.
    pub(crate) fn take_kept(&self, cpu: CpuId) -> KeptFrames {
        let batch = self.lru_state().and_then(|state| state.batches.get(cpu.index()));
        batch.map_or_else(KeptFrames::new, |batch| {
            batch.with_kept(self.platform(), KeptFrames::close)
        })
    }

    /// Keeps some of `frames`, whose blocks are the caller's, for the CPU's next request if it comes
    /// for them; how many, from the first.
    pub(super) fn keep(&self, cpu: CpuId, frames: &[Pfn]) -> usize {
        let batch = self.lru_state().and_then(|state| state.batches.get(cpu.index()));
        batch.map_or(0, |batch| batch.with_kept(self.platform(), |kept| kept.keep(frames)))
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "tso"))))]
mod tests {
    use super::*;

    #[test]
    fn frames_are_kept_only_for_who_comes_for_them() {
        let frames: [Pfn; 40] = core::array::from_fn(|i| Pfn::new(i as u64));
        let mut kept = KeptFrames::new();
        assert_eq!(kept.keep(&frames), 0);
        kept.open();
        assert_eq!((kept.keep(&frames), kept.keep(&frames)), (40, CAPACITY - 40));
        assert_eq!(kept.keep(&frames), 0, "there is no more room");
        let taken = kept.close();
        assert_eq!(taken.frames()[..40], frames);
        assert_eq!(taken.frames()[40..], frames[..CAPACITY - 40]);
        assert_eq!((kept.frames().len(), kept.keep(&frames)), (0, 0));
    }
}
