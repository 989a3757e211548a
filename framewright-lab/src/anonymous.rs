//! Anonymous memory of this process, as a program uses it: mapped, touched, discarded, unmapped.

#![allow(unsafe_code)]

use rustix::{
    io::Errno,
    mm::{Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap_anonymous, mprotect, munmap},
};
use std::ptr::NonNull;

/// Bytes of a page.
pub(crate) const PAGE: usize = 4096;

/// A private mapping of small pages. A page gets a frame when it is first touched.
pub(crate) struct Anonymous {
    start: NonNull<u8>,
    pages: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread; all accesses need `&mut self`.
unsafe impl Send for Anonymous {}

impl Anonymous {
    /// Maps `pages` pages, at least one.
    ///
    /// # Errors
    ///
    /// The kernel's reason.
    pub(crate) fn new(pages: usize) -> Result<Self, Errno> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let bytes = pages.max(1) * PAGE;
        // SAFETY: a fresh mapping at an address that the kernel selects.
        let start =
            unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, access, MapFlags::PRIVATE)? };
        let start = NonNull::new(start.cast()).ok_or(Errno::NOMEM)?;
        let area = Self { start, pages: pages.max(1) };
        // A kernel without huge pages refuses this advice, and does not need it.
        // SAFETY: the advice changes no contents.
        let _ = unsafe { madvise(start.as_ptr().cast(), bytes, Advice::LinuxNoHugepage) };
        Ok(area)
    }

    /// Writes a byte into each page, in ascending order. Returns the number of pages.
    pub(crate) fn touch(&mut self) -> u64 {
        for page in 0..self.pages {
            // SAFETY: inside the mapping, which is writable and borrowed exclusively.
            unsafe { self.start.add(page * PAGE).write_volatile(1) };
        }
        self.pages as u64
    }

    /// Returns the frames of all pages to the kernel. The pages stay mapped.
    ///
    /// # Errors
    ///
    /// The kernel's reason.
    pub(crate) fn discard(&mut self) -> Result<(), Errno> {
        let (start, bytes) = (self.start.as_ptr().cast(), self.pages * PAGE);
        // SAFETY: the whole mapping, borrowed exclusively. Its contents are bytes without meaning.
        unsafe { madvise(start, bytes, Advice::LinuxDontNeed) }
    }

    /// Forbids stores to all pages.
    ///
    /// # Errors
    ///
    /// The kernel's reason.
    pub(crate) fn forbid_stores(self) -> Result<ReadOnly, Errno> {
        let (start, bytes) = (self.start.as_ptr().cast(), self.pages * PAGE);
        // SAFETY: the whole mapping, which nothing stores to any more: `touch` needs the value that
        // is consumed here.
        unsafe { mprotect(start, bytes, MprotectFlags::READ)? };
        Ok(ReadOnly { _area: self })
    }
}

/// A mapping that can be read, and not written.
pub(crate) struct ReadOnly {
    _area: Anonymous,
}

impl Drop for Anonymous {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and no borrow of it is left.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.pages * PAGE) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_touched_again_after_they_were_discarded() {
        for pages in [0, 1, 64] {
            let mut area = Anonymous::new(pages).unwrap();
            for _ in 0..3 {
                assert_eq!(area.touch(), pages.max(1) as u64);
                // SAFETY: a byte of the first page.
                assert_eq!(unsafe { area.start.read_volatile() }, 1);
                area.discard().unwrap();
                // SAFETY: as above.
                assert_eq!(unsafe { area.start.read_volatile() }, 0);
            }
        }
    }
}
