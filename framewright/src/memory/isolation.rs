//! Isolating pageblocks.

use core::fmt;

use super::Memory;
use crate::{
    buddy::IsolationRefused,
    platform::Platform,
    types::{FrameRange, MemoryTag, Order, PAGEBLOCK_ORDER, Pfn, ZoneId},
};

/// An isolated pageblock, owned by its isolator. If two zones share the pageblock, the value covers
/// the part of one zone.
///
/// Allocated frames stay allocated. Free frames, and frames that are freed later, cannot be
/// allocated. The pageblock stays isolated if this value is forgotten.
#[must_use = "the pageblock stays isolated until the isolation is undone"]
#[derive(PartialEq, Eq)]
pub struct IsolatedBlock<'m> {
    memory: MemoryTag<'m>,
    zone: ZoneId,
    range: FrameRange,
}

impl IsolatedBlock<'_> {
    /// The frames of the pageblock from the zone's first present frame in it to the last, holes
    /// included.
    #[must_use]
    pub fn range(&self) -> FrameRange {
        self.range
    }
}

impl fmt::Debug for IsolatedBlock<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "isolated {:?}", self.range())
    }
}

/// The reason why a pageblock could not be isolated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum IsolateError {
    /// The frame is not of this memory.
    NotOurs,
    /// The pageblock is isolated already.
    AlreadyIsolated,
    /// The pageblock contains frames that cannot move.
    Unmovable {
        /// The number of these frames.
        frames: u16,
    },
}

impl fmt::Display for IsolateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IsolateError::NotOurs => f.write_str("the frame does not belong to this memory"),
            IsolateError::AlreadyIsolated => f.write_str("the pageblock is isolated already"),
            IsolateError::Unmovable { frames } => {
                write!(f, "{frames} frames of the pageblock cannot move")
            }
        }
    }
}

impl core::error::Error for IsolateError {}

impl<'m, P: Platform> Memory<'m, P> {
    /// Isolates the pageblock of `pfn` from allocation, and drains the CPU lists. From then on, no
    /// frame of the pageblock is on a list. If two zones share the pageblock, the zone's part that
    /// contains `pfn` is isolated.
    ///
    /// # Errors
    ///
    /// The frame is not of this memory, or its pageblock is isolated already or contains frames
    /// that cannot move.
    pub fn isolate(&self, pfn: Pfn) -> Result<IsolatedBlock<'m>, IsolateError> {
        let (id, frame) = self.core.find(pfn, Order::ZERO).ok_or(IsolateError::NotOurs)?;
        let zone = &self.core.zones()[id.index()];
        // The zone counts frames on the lists of CPUs as allocated.
        self.core.drain_all();
        let isolation =
            self.core.isolate_movable(id, frame >> PAGEBLOCK_ORDER).map_err(|why| match why {
                IsolationRefused::AlreadyIsolated => IsolateError::AlreadyIsolated,
                IsolationRefused::Unmovable(frames) => IsolateError::Unmovable { frames },
            })?;
        // An owner reads the type of a pageblock while it uses its lists. An owner that is using
        // them now may have read the old type.
        self.core.drain_every_cpu(id);
        isolation.keep();
        let range = zone.frames_of(frame >> PAGEBLOCK_ORDER);
        Ok(IsolatedBlock { memory: self.core.tag(), zone: id, range })
    }

    /// Ends the isolation of a pageblock.
    ///
    /// # Errors
    ///
    /// A pageblock of another memory is returned.
    pub fn undo_isolate(&self, block: IsolatedBlock<'m>) -> Result<(), IsolatedBlock<'m>> {
        if block.memory != self.core.tag() {
            return Err(block);
        }
        let zone = &self.core.zones()[block.zone.index()];
        let frame = (block.range.start().get() - zone.base().get()) as u32;
        zone.undo_isolate(self.platform(), frame >> PAGEBLOCK_ORDER);
        Ok(())
    }
}
