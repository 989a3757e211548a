//! The block that compaction forms for a request, until the request takes it.

use crate::{
    frame::{Block, Order},
    memory::Memory,
    platform::{CaptureSlot, Captured, Platform},
};

/// A request's own side of [`Captured`]. A block that is never taken, because relief panicked, goes
/// back to the zone when this is dropped.
pub(crate) struct Capture<'s, 'm, P: Platform> {
    memory: &'s Memory<'m, P>,
    slot: CaptureSlot,
}

impl<'s, 'm, P: Platform> Capture<'s, 'm, P> {
    /// For a request of `order`.
    pub(crate) fn new(memory: &'s Memory<'m, P>, order: Order) -> Self {
        let frames = memory.tuning().compact.frames;
        Self { memory, slot: CaptureSlot::new(memory.tag(), order, frames) }
    }

    /// What relief gets of it.
    pub(crate) fn handle(&self) -> Captured<'_> {
        Captured::of(&self.slot)
    }

    /// The block, if there is one.
    pub(crate) fn take(&self) -> Option<Block<'m>> {
        let pfn = self.slot.take()?;
        Some(Block::new(self.memory.tag(), pfn, self.slot.order()))
    }
}

impl<P: Platform> Drop for Capture<'_, '_, P> {
    fn drop(&mut self) {
        if let Some(block) = self.take() {
            // It is of this memory.
            let _ = self.memory.free_unlisted(block);
        }
    }
}
