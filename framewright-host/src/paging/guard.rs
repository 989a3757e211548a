//! Pages in use.

use std::{
    ops::Range,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

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

    /// Copies the bytes from byte `offset` of the page on to `bytes`. The bytes of a word are read at once, and
    /// different words may be of different times if another thread stores to the page.
    ///
    /// # Panics
    ///
    /// If the bytes are not all in the page.
    pub fn read_bytes(&self, offset: usize, bytes: &mut [u8]) {
        for (number, part, within) in parts(offset, bytes.len()) {
            bytes[part].copy_from_slice(&self.word(number).to_ne_bytes()[within]);
        }
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

    /// Copies `bytes` to the page, from its byte `offset` on. Bytes of the same word that another thread stores at the
    /// same time are not lost.
    ///
    /// # Panics
    ///
    /// If the page has no space for all of them.
    pub fn write_bytes(&mut self, offset: usize, bytes: &[u8]) {
        for (number, part, within) in parts(offset, bytes.len()) {
            let word = &self.words()[number];
            let store = |old: u64| {
                let mut new = old.to_ne_bytes();
                new[within.clone()].copy_from_slice(&bytes[part.clone()]);
                Some(u64::from_ne_bytes(new))
            };
            // The closure always returns a value.
            let _ = word.try_update(Relaxed, Relaxed, store);
        }
    }

    /// Stores the same value into all words.
    pub fn fill(&mut self, value: u64) {
        self.words().iter().for_each(|word| word.store(value, Relaxed));
    }
}

/// The words of `len` bytes of a page from byte `offset` on: the number of the word, the part of the bytes that is in
/// it, and the place of that part in the word.
fn parts(offset: usize, len: usize) -> impl Iterator<Item = (usize, Range<usize>, Range<usize>)> {
    const BYTES: usize = size_of::<u64>();
    let end = offset.checked_add(len).filter(|&end| end <= WORDS * BYTES);
    let Some(end) = end else { panic!("{len} bytes from byte {offset} on are not all in a page") };
    let first = offset / BYTES;
    let words = if len == 0 { 0 } else { end.div_ceil(BYTES) - first };
    (first..first + words).map(move |number| {
        let (from, to) = ((number * BYTES).max(offset), ((number + 1) * BYTES).min(end));
        (number, from - offset..to - offset, from - number * BYTES..to - number * BYTES)
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_the_bytes_once_and_in_order() {
        for _ in 0..1000 {
            let offset = fastrand::usize(..=4096);
            let len = fastrand::usize(..=4096 - offset);
            let mut next = 0;
            for (number, part, within) in parts(offset, len) {
                assert_eq!((part.start, part.len()), (next, within.len()));
                assert_eq!(number * 8 + within.start, offset + next);
                assert!(!within.is_empty() && within.end <= 8);
                next = part.end;
            }
            assert_eq!(next, len, "{len} bytes from {offset} on");
        }
    }

    #[test]
    #[should_panic(expected = "2 bytes from byte 4095 on are not all in a page")]
    fn bytes_beyond_the_page_are_refused() {
        let _ = parts(4095, 2);
    }

    #[test]
    #[should_panic(expected = "not all in a page")]
    fn bytes_at_the_end_of_the_address_space_are_refused() {
        let _ = parts(usize::MAX, 2);
    }
}
