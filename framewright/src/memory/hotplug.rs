//! Memory hotplug.

use super::Memory;
use crate::{
    platform::Platform,
    types::{FrameRange, HotplugError},
};

impl<P: Platform> Memory<'_, P> {
    /// Adds memory that the memory map names and that is absent, free: whole pageblocks, or frames in any number where
    /// the map says that memory comes [in pieces](super::Presence::InPieces). Pieces may come in any order; adjacent
    /// ones are joined, so that blocks form across their ends.
    ///
    /// # Errors
    ///
    /// [`HotplugError`] says that the map does not name the range in one zone, or names what is present already.
    /// Nothing has changed then.
    pub fn add_memory(&self, range: FrameRange) -> Result<(), HotplugError> {
        self.core.add_memory(range)
    }

    /// Removes memory, so that it can no longer be allocated. `in_the_way` is called with each run
    /// of frames in use; it may call any method of this memory.
    ///
    /// # Errors
    ///
    /// [`HotplugError::Busy`] if frames are in use. The other errors are a range that does not consist
    /// of whole pageblocks, a pageblock that is absent, and one that another caller has isolated.
    pub fn remove_memory(
        &self,
        range: FrameRange,
        in_the_way: &mut dyn FnMut(FrameRange),
    ) -> Result<(), HotplugError> {
        self.core.remove_memory(range, &mut |_, _, _| (), in_the_way)
    }
}
