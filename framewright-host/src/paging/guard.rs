//! Pages in use.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::{
    cache::{PageCache, PageId},
    region::WORDS,
};

/// A page that stays in memory until this value is dropped.
struct Fixed<'c> {
    cache: &'c PageCache,
    id: PageId,
}

impl<'c> Fixed<'c> {
    #[inline]
    fn words(&self) -> &'c [AtomicU64] {
        self.cache.file(self.id.file).region.words(self.id.page)
    }
}

impl Drop for Fixed<'_> {
    #[inline]
    fn drop(&mut self) {
        self.cache.page(self.id).state.release();
    }
}

/// A page that may be read. It stays in memory until this value is dropped.
#[must_use = "the page stays in memory only while this value lives"]
pub struct Reading<'c>(Fixed<'c>);

impl<'c> Reading<'c> {
    /// The guard of a page that the caller has fixed.
    #[inline]
    pub(super) fn new(cache: &'c PageCache, id: PageId) -> Self {
        Self(Fixed { cache, id })
    }

    /// The words of the page.
    #[inline]
    pub fn words(&self) -> impl ExactSizeIterator<Item = u64> + use<'_> {
        self.0.words().iter().map(|word| word.load(Relaxed))
    }

    /// The word `number`.
    ///
    /// # Panics
    ///
    /// If `number` is above 511.
    #[inline]
    #[must_use]
    pub fn word(&self, number: usize) -> u64 {
        self.0.words()[number].load(Relaxed)
    }
}

/// A dirty page that may be stored to. It stays in memory until this value is dropped.
#[must_use = "the page stays in memory only while this value lives"]
pub struct Writing<'c>(Fixed<'c>);

impl<'c> Writing<'c> {
    /// The guard of a page that the caller has fixed, and marked dirty.
    #[inline]
    pub(super) fn new(cache: &'c PageCache, id: PageId) -> Self {
        Self(Fixed { cache, id })
    }

    /// The words of the page.
    #[inline]
    #[must_use]
    pub fn words(&self) -> &[AtomicU64] {
        self.0.words()
    }

    /// Stores the same value into all words.
    pub fn fill(&mut self, value: u64) {
        self.words().iter().for_each(|word| word.store(value, Relaxed));
    }
}

impl std::fmt::Debug for Reading<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Reading(page {}, {WORDS} words)", self.0.id.page)
    }
}

impl std::fmt::Debug for Writing<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Writing(page {}, {WORDS} words)", self.0.id.page)
    }
}
