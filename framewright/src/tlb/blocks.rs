//! Flushed frames of a batch, or from deferred frees, as blocks for the embedder.

use core::fmt;

use crate::{
    core::MemoryCore,
    platform::Platform,
    types::{Block, CpuId, Order, Pfn},
};

/// Blocks of order 0 without a translation on any CPU. The iterator passes their ownership to the
/// caller one by one; dropping it frees the rest to their zones.
pub struct Blocks<'r, 'm, P: Platform> {
    memory: &'r MemoryCore<'m, P>,
    frames: &'r [Pfn],
}

impl<'m, P: Platform> Iterator for Blocks<'_, 'm, P> {
    type Item = Block<'m>;

    fn next(&mut self) -> Option<Block<'m>> {
        let (&pfn, others) = self.frames.split_first()?;
        self.frames = others;
        Some(Block::new(self.memory.tag(), pfn, Order::ZERO))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.frames.len(), Some(self.frames.len()))
    }
}

impl<P: Platform> ExactSizeIterator for Blocks<'_, '_, P> {}

impl<P: Platform> Drop for Blocks<'_, '_, P> {
    fn drop(&mut self) {
        if !self.frames.is_empty() {
            // The iterator does not know its CPU. The number matters only for traces and
            // statistics, because the lists of the CPU are bypassed.
            self.memory.free_frames_to_zones(CpuId::default(), self.frames);
        }
    }
}

impl<P: Platform> fmt::Debug for Blocks<'_, '_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.frames).finish()
    }
}

/// A callback for flushed frames that nobody owns any more: it wraps them in [`Blocks`], and passes
/// these to `free`.
pub(super) fn receiver<'r, 'm, P: Platform>(
    memory: &'r MemoryCore<'m, P>,
    free: &'r mut dyn FnMut(Blocks<'_, 'm, P>),
) -> impl FnMut(&[Pfn]) + use<'r, 'm, P> {
    move |frames| free(Blocks { memory, frames })
}
