//! Memory hotplug.

use super::Memory;
use crate::{
    platform::Platform,
    types::{FrameRange, HotplugError},
};

impl<P: Platform> Memory<'_, P> {
    /// Adds absent memory of the memory map as free frames. The range must consist of whole pageblocks, unless the
    /// memory of its zone is added [in pieces](super::Presence::InPieces). Pieces may be added in any order; adjacent
    /// pieces are joined, so that blocks form across their boundary.
    ///
    /// # Errors
    ///
    /// [`HotplugError`]: the range is not within one zone of the memory map, or a part of it is
    /// present already. Nothing has changed.
    pub fn add_memory(&self, range: FrameRange) -> Result<(), HotplugError> {
        self.core.add_memory(range)
    }

    /// Removes memory, so that it can no longer be allocated. `in_the_way` is called with each run
    /// of frames in use, and may call any method of this memory.
    ///
    /// # Errors
    ///
    /// [`HotplugError::Busy`] if frames are in use. Other errors: the range does not consist of whole pageblocks, a
    /// pageblock is absent, or another caller has isolated a pageblock.
    pub fn remove_memory(
        &self,
        range: FrameRange,
        in_the_way: &mut dyn FnMut(FrameRange),
    ) -> Result<(), HotplugError> {
        self.core.remove_memory(range, &mut |_, _, _| (), in_the_way)
    }
}
