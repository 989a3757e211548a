//! Extents: neighbouring frames in any number, owned.

use core::fmt;

use super::{FrameRange, MemoryTag, Pfn};

/// Allocated frames from one to another, owned by whoever has this value.
///
/// What a [`Block`](super::Block) is for powers of two, an extent is for contiguous memory of
/// any length: moved, not copied, and given back to the memory it came from, as a whole or in
/// parts. To keep it where no Rust value can live, take it apart with [`Extent::into_raw`] and put it
/// together again with [`Memory::adopt_extent`](crate::Memory::adopt_extent); its frames are no
/// blocks and cannot be freed as such. Forgetting it leaks the frames.
#[must_use = "the frames stay allocated until the extent is freed"]
#[derive(PartialEq, Eq)]
pub struct Extent<'m> {
    memory: MemoryTag<'m>,
    range: FrameRange,
}

impl<'m> Extent<'m> {
    /// Frames that have just been taken.
    pub(crate) fn new(memory: MemoryTag<'m>, range: FrameRange) -> Self {
        Self { memory, range }
    }

    /// Its frames.
    #[must_use]
    pub fn range(&self) -> FrameRange {
        self.range
    }

    /// Its frames, which stay allocated: the caller answers for them.
    #[must_use = "the frames are leaked unless they are adopted"]
    pub fn into_raw(self) -> FrameRange {
        self.range
    }

    /// Whether it comes from a memory.
    pub(crate) fn belongs_to(&self, memory: MemoryTag<'m>) -> bool {
        self.memory == memory
    }

    /// Cuts it in two: what lies below `at`, and the rest.
    ///
    /// # Errors
    ///
    /// It is given back if one of the two would be empty.
    pub fn split_at(self, at: Pfn) -> Result<(Self, Self), Self> {
        let inside = self.range.start() < at && at < self.range.end();
        let low = FrameRange::new(self.range.start(), at);
        let high = FrameRange::new(at, self.range.end());
        match (inside, low, high) {
            (true, Some(low), Some(high)) => {
                Ok((Self::new(self.memory, low), Self::new(self.memory, high)))
            }
            _ => Err(self),
        }
    }
}

impl fmt::Debug for Extent<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "extent {:?}", self.range)
    }
}
