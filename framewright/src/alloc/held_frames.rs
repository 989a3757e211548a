//! Frames that a hook of [`Relief`](crate::platform::Relief) has obtained for a request, until the
//! request takes them. No frame is lost if the hook panics.

use crate::{
    core::{Claim, MemoryCore, SlowPathState},
    platform::{CaptureSlot, Captured, Platform},
    types::{Block, Order},
};

/// The place of the block that compaction forms for a request. Compaction gets a [`Captured`],
/// which refers to this value. A block that is not taken returns to the zone when this value is
/// dropped.
pub(crate) struct Capture<'s, 'm, P: Platform> {
    memory: &'s MemoryCore<'m, P>,
    slot: CaptureSlot,
}

impl<'s, 'm, P: Platform> Capture<'s, 'm, P> {
    /// A capture for a request of `order`.
    pub(crate) fn new(memory: &'s MemoryCore<'m, P>, order: Order) -> Self {
        let frames = memory.tuning().compact.migrate_budget;
        Self { memory, slot: CaptureSlot::new(memory.tag(), order, frames) }
    }

    /// The reference that is passed to [`Relief::compact`](crate::platform::Relief::compact).
    pub(crate) fn handle(&self) -> Captured<'_> {
        Captured::of(&self.slot)
    }

    /// The block, if compaction has formed one.
    pub(crate) fn take(&self) -> Option<Block<'m>> {
        let pfn = self.slot.take()?;
        Some(Block::new(self.memory.tag(), pfn, self.slot.order()))
    }
}

impl<P: Platform> Drop for Capture<'_, '_, P> {
    fn drop(&mut self) {
        if let Some(block) = self.take() {
            // Never refused: the block is of this memory.
            let _ = self.memory.free_bypassing_lists(block);
        }
    }
}

/// While this value lives, frames that are reclaimed for the request are kept for its claimed CPU.
/// Dropping it frees them to the lists of that CPU.
pub(super) struct KeptForCpu<'k, 'a, 'm, P: Platform> {
    claim: &'k mut Claim<'a, 'm, P>,
    state: &'a dyn SlowPathState,
}

impl<'k, 'a, 'm, P: Platform> KeptForCpu<'k, 'a, 'm, P> {
    pub(super) fn begin(claim: &'k mut Claim<'a, 'm, P>, state: &'a dyn SlowPathState) -> Self {
        state.keep_reclaimed(claim.cpu());
        Self { claim, state }
    }
}

impl<P: Platform> Drop for KeptForCpu<'_, '_, '_, P> {
    fn drop(&mut self) {
        let kept = self.state.take_kept(self.claim.cpu());
        self.claim.free_frames(kept.frames());
    }
}
