//! Skip hints: one bit per pageblock, set if the pageblock is not worth searching for now. Both
//! methods of compaction use these hints. A lost race makes a search examine a pageblock needlessly,
//! or skip a pageblock once.

use crate::sync::{AtomicU64, Ordering};

/// The skip hints of a zone.
pub(crate) struct SkipHints<'m>(&'m [AtomicU64]);

impl<'m> SkipHints<'m> {
    /// Number of words for `pageblocks` bits.
    pub(crate) const fn words(pageblocks: usize) -> usize {
        pageblocks.div_ceil(64)
    }

    pub(crate) fn new(words: &'m [AtomicU64]) -> Self {
        Self(words)
    }

    /// Whether the pageblock has a skip hint.
    pub(crate) fn is_set(&self, pageblock: u32) -> bool {
        self.word(pageblock).is_some_and(|word| word.load(Ordering::Relaxed) & bit(pageblock) != 0)
    }

    /// Sets the skip hint. Returns whether it was set before.
    pub(super) fn set(&self, pageblock: u32) -> bool {
        self.word(pageblock).is_some_and(|word| {
            word.fetch_or(bit(pageblock), Ordering::Relaxed) & bit(pageblock) != 0
        })
    }

    pub(super) fn clear(&self, pageblock: u32) {
        if let Some(word) = self.word(pageblock) {
            word.fetch_and(!bit(pageblock), Ordering::Relaxed);
        }
    }

    pub(super) fn clear_all(&self) {
        self.0.iter().for_each(|word| word.store(0, Ordering::Relaxed));
    }

    fn word(&self, pageblock: u32) -> Option<&'m AtomicU64> {
        self.0.get(pageblock as usize / 64)
    }
}

fn bit(pageblock: u32) -> u64 {
    1 << (pageblock % 64)
}
