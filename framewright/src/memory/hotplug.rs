//! Adding and removing memory.

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

    /// Removes memory: nothing of it will be handed out any more. `in_the_way` is told of frames
    /// in use; it may do whatever it likes with this memory.
    ///
    /// # Errors
    ///
    /// [`HotplugError::Busy`] if frames are in use.
    pub fn remove_memory(
        &self,
        range: FrameRange,
        in_the_way: &mut dyn FnMut(FrameRange),
    ) -> Result<(), HotplugError> {
        self.core.remove_memory(range, &mut |_, _, _| (), in_the_way)
    }
}
