//! The buffer for the metadata of a memory.

#![allow(unsafe_code)]

use framewright::Layout;
use std::mem::MaybeUninit;

use crate::{
    Backing, HostError, PageSize,
    mapping::{Mapping, MappingSpec},
};

/// A buffer for the metadata of a [`framewright::Memory`]: aligned to 2 MiB, zeroed, and unmapped
/// when dropped. It must outlive the memory that borrows it.
///
/// # Example
///
/// ```
/// use framewright::{Config, Layout};
/// use framewright_host::{HostMachine, Metadata};
///
/// let machine = HostMachine::builder().frames(8192).cpus(1).build()?;
/// let map = [machine.frames().into()];
/// let layout = Layout::new::<HostMachine>(&Config::new(&map, 1))?;
/// let mut metadata = Metadata::for_layout(&layout)?;
/// assert_eq!(metadata.as_mut().len(), layout.bytes());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Metadata {
    mapping: Mapping,
    bytes: usize,
}

impl Metadata {
    /// A buffer of the size of `layout`, on small pages.
    ///
    /// # Errors
    ///
    /// [`HostError::OutOfMemory`] if the kernel refuses the memory.
    pub fn for_layout(layout: &Layout) -> Result<Self, HostError> {
        Self::new(layout.bytes(), PageSize::Small)
    }

    /// A buffer of `bytes` bytes on pages of the given size.
    ///
    /// # Errors
    ///
    /// [`HostError`], as for the frames of a machine.
    pub fn new(bytes: usize, pages: PageSize) -> Result<Self, HostError> {
        let backing = Backing::Anonymous;
        let spec = MappingSpec { what: "the metadata", bytes, backing, pages, populate: false };
        Ok(Self { mapping: Mapping::new(&spec)?, bytes })
    }

    /// The buffer, for [`framewright::Memory::new`].
    #[allow(
        clippy::should_implement_trait,
        reason = "the buffer is uninitialised memory for its user"
    )]
    pub fn as_mut(&mut self) -> &mut [MaybeUninit<u8>] {
        let start = self.mapping.start().cast::<MaybeUninit<u8>>();
        // SAFETY: the mapping is at least `bytes` long, readable, writable, used only through this
        // value, and borrowed exclusively for as long as the slice lives.
        unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), self.bytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_buffer_is_as_long_as_asked_and_aligned() {
        for bytes in [0, 1, 4096, 5 << 20] {
            let mut metadata = Metadata::new(bytes, PageSize::Small).unwrap();
            let buffer = metadata.as_mut();
            assert_eq!(buffer.len(), bytes);
            assert_eq!(buffer.as_ptr().align_offset(1 << 21), 0);
            buffer.fill(MaybeUninit::new(1));
        }
    }
}
