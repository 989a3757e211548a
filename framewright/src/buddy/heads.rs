//! A map of the frames that start an allocated block. It is written under the zone lock and may be
//! read without it.
//!
//! The map exists where raw frees are checked. Under the lock, it and the map of free frames give
//! the order of a block ([`Buddy::check_allocated`](super::Buddy::check_allocated)). A read without the lock can only
//! confirm a block. If it does not, the reader takes the lock. So the words need no ordering.

use super::levels::WORDS;
use crate::{
    sync::{HintU64, Ordering},
    types::PAGEBLOCK_FRAMES,
};

/// One bit per frame of a pageblock: the first frame of an allocated block. A folded
/// pageblock (allocated as one block, or as a part of a larger one) has no bit set.
#[repr(C, align(64))]
pub(crate) struct Heads([HintU64; WORDS]);

impl Heads {
    /// No block is allocated.
    pub(crate) fn none() -> Self {
        Self(core::array::from_fn(|_| HintU64::new(0)))
    }

    /// Word `i`.
    #[inline(always)]
    pub(super) fn word(&self, i: usize) -> u64 {
        self.0[i].load(Ordering::Relaxed)
    }

    /// Adds the blocks that start at `heads` in word `i`. Under the zone lock.
    #[inline(always)]
    pub(super) fn add(&self, i: usize, heads: u64) {
        self.0[i].store(self.word(i) | heads, Ordering::Relaxed);
    }

    /// Removes the blocks that start at `heads` in word `i`. Under the zone lock.
    #[inline(always)]
    pub(super) fn remove(&self, i: usize, heads: u64) {
        self.0[i].store(self.word(i) & !heads, Ordering::Relaxed);
    }

    /// Whether a block starts at frame `at` of the pageblock.
    pub(super) fn has(&self, at: usize) -> bool {
        self.word(at / 64) >> (at % 64) & 1 == 1
    }

    /// Whether a block starts at one of the frames of a map.
    #[inline(never)]
    pub(super) fn has_any_of(&self, map: &[u64; WORDS]) -> bool {
        map.iter().enumerate().any(|(i, frames)| self.word(i) & frames != 0)
    }

    /// Whether the pageblock is one block, but not folded.
    #[inline(never)]
    pub(super) fn is_one_block(&self) -> bool {
        (0..WORDS).all(|i| self.word(i) == u64::from(i == 0))
    }

    /// Whether frame `at` of the pageblock is certainly a block of order 0. A block starts there,
    /// and it cannot have a higher order, because the frame is odd, or because the next frame
    /// starts another block. Lockless. If `false`, decide under the zone lock.
    #[inline(always)]
    pub(crate) fn confirms_frame(&self, at: usize) -> bool {
        let word = self.word(at % PAGEBLOCK_FRAMES / 64) >> (at % 64);
        word & 1 == 1 && (at % 2 == 1 || word & 2 == 2)
    }
}

#[cfg(all(test, not(framewright_loom)))]
mod tests {
    use super::*;

    #[test]
    fn only_blocks_that_cannot_be_larger_are_confirmed_without_the_lock() {
        let heads = Heads::none();
        heads.add(1, 0b1011_0111);
        let confirmed = (64..72).filter(|&at| heads.confirms_frame(at));
        // The frames after 66, 69 and 71 start no block.
        // 69 and 71 are confirmed nevertheless, because they are odd.
        assert!(confirmed.eq([64, 65, 68, 69, 71]), "of 64, 65, 66, 68, 69 and 71");
        heads.remove(1, 0b10);
        assert!(!heads.confirms_frame(64) && !heads.confirms_frame(65));
        assert!(heads.has(64) && !heads.has(65) && !heads.is_one_block());
    }

    #[test]
    fn a_pageblock_is_one_block_if_only_its_first_frame_starts_one() {
        let heads = Heads::none();
        assert!(!heads.is_one_block());
        heads.add(0, 1);
        assert!(heads.is_one_block());
        heads.add(7, 1);
        assert!(!heads.is_one_block());
    }
}
