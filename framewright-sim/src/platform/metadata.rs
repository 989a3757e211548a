//! The buffer for the metadata of a memory.

use crate::host_memory::in_huge_pages;
use framewright::Layout;
use std::mem::MaybeUninit;

/// Memory of this process for the metadata of a simulated memory, with the size and alignment of
/// its layout. The host allocates its pages when they are first used.
pub struct MetadataBuffer {
    /// The metadata, and padding for its alignment.
    buffer: Box<[MaybeUninit<u8>]>,
    start: usize,
    bytes: usize,
}

impl MetadataBuffer {
    /// A buffer for `layout`.
    ///
    /// # Panics
    ///
    /// If the layout is larger than an address space.
    #[must_use]
    pub fn new(layout: &Layout) -> Self {
        let (bytes, align) = (layout.bytes(), layout.align());
        let buffer = Box::new_uninit_slice(bytes + align);
        in_huge_pages(&buffer);
        let start = buffer.as_ptr().align_offset(align);
        Self { buffer, start, bytes }
    }

    /// The buffer, for [`framewright::Memory::new`].
    #[allow(clippy::should_implement_trait, reason = "the returned buffer is uninitialised")]
    pub fn as_mut(&mut self) -> &mut [MaybeUninit<u8>] {
        &mut self.buffer[self.start..][..self.bytes]
    }
}
