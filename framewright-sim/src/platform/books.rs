//! The buffer that a memory keeps its books in.

use framewright::Layout;
use std::{
    alloc::{Layout as Bytes, alloc_zeroed, dealloc, handle_alloc_error},
    mem::MaybeUninit,
    ptr::NonNull,
};

/// Memory of this process for the metadata of a simulated one: as large and as aligned as its
/// layout asks for, and taken from the system page by page as it is used.
pub struct Books {
    start: NonNull<u8>,
    bytes: Bytes,
}

impl Books {
    /// A buffer for `layout`.
    ///
    /// # Panics
    ///
    /// If the layout is larger than an address space.
    #[must_use]
    pub fn new(layout: &Layout) -> Self {
        let bytes = Bytes::from_size_align(layout.bytes().max(1), layout.align());
        let bytes = bytes.expect("a layout fits in an address space");
        // SAFETY: the size is not 0.
        let start = unsafe { alloc_zeroed(bytes) };
        Self { start: NonNull::new(start).unwrap_or_else(|| handle_alloc_error(bytes)), bytes }
    }

    /// The buffer, for [`framewright::Memory::new`].
    #[allow(clippy::should_implement_trait, reason = "what is lent is uninitialised to its user")]
    pub fn as_mut(&mut self) -> &mut [MaybeUninit<u8>] {
        // SAFETY: allocated with this size, and borrowed exclusively like `self`.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().cast(), self.bytes.size()) }
    }
}

impl Drop for Books {
    fn drop(&mut self) {
        // SAFETY: allocated by `Books::new` with this layout, and nobody borrows it any more.
        unsafe { dealloc(self.start.as_ptr(), self.bytes) };
    }
}
