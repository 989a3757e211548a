//! The address space of a file. Page `n` of the file is page `n` of the region, or is not in
//! memory.

#![allow(unsafe_code)]

use framewright::frame::FRAME_SIZE;
use std::{ops::Range, sync::atomic::AtomicU64};

use crate::{HostError, mapping::Mapping};

/// Words of a page.
pub(super) const WORDS: usize = FRAME_SIZE / size_of::<u64>();

/// Pages per query of the kernel.
const IN_MEMORY: usize = 1 << 14;

/// The address space of a file. The kernel allocates the memory of a page at the first access, and
/// frees it on [request](super::eviction).
pub(super) struct Region {
    mapping: Mapping,
    pages: u32,
}

impl Region {
    pub(super) fn new(pages: u32) -> Result<Self, HostError> {
        let mapping = Mapping::reserved("a region", pages as usize * FRAME_SIZE)?;
        Ok(Self { mapping, pages })
    }

    pub(super) fn pages(&self) -> u32 {
        self.pages
    }

    /// The addresses of pages.
    pub(super) fn addresses(&self, pages: Range<u32>) -> Range<usize> {
        assert!(pages.start <= pages.end && pages.end <= self.pages, "pages of the region");
        let at = |page: u32| self.mapping.start().as_ptr() as usize + page as usize * FRAME_SIZE;
        at(pages.start)..at(pages.end)
    }

    /// The words of a page. Their contents are meaningful only to a thread that has fixed the page.
    pub(super) fn words(&self, page: u32) -> &[AtomicU64] {
        let start = self.addresses(page..page + 1).start as *const AtomicU64;
        // SAFETY: the words are inside the mapping. The mapping lives as long as `self`, and is
        // aligned to pages, readable and writable. The kernel zeroes memory before it maps it. Safe
        // code accesses the words only atomically. The callers of `with_bytes` exclude all other
        // accesses.
        unsafe { std::slice::from_raw_parts(start, WORDS) }
    }

    /// The number of pages with memory.
    pub(super) fn in_memory(&self) -> u64 {
        let mut found = [0; IN_MEMORY];
        (0..self.pages).step_by(IN_MEMORY).map(|page| self.in_memory_from(page, &mut found)).sum()
    }

    fn in_memory_from(&self, page: u32, found: &mut [u8; IN_MEMORY]) -> u64 {
        let at = self.addresses(page..page.saturating_add(IN_MEMORY as u32).min(self.pages));
        // SAFETY: the range is in our mapping, and `found` has a byte for each of its pages.
        let result = unsafe {
            libc::mincore(at.start as *mut libc::c_void, at.len(), found.as_mut_ptr().cast())
        };
        let found = &found[..at.len() / FRAME_SIZE];
        if result == 0 { found.iter().filter(|byte| **byte & 1 == 1).count() as u64 } else { 0 }
    }

    /// Runs `body` with the bytes of pages.
    ///
    /// # Safety
    ///
    /// No other code uses the pages until `body` has returned.
    pub(super) unsafe fn with_bytes<R>(
        &self,
        pages: Range<u32>,
        body: impl FnOnce(&mut [u8]) -> R,
    ) -> R {
        let at = self.addresses(pages);
        // SAFETY: the bytes are inside the mapping, as above, and exclusive to the caller.
        body(unsafe { std::slice::from_raw_parts_mut(at.start as *mut u8, at.len()) })
    }
}
