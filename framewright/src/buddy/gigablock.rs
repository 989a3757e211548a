//! One gigablock: 512 pageblocks (1 GiB), with maps of the pageblocks that are wholly free or
//! allocated as one block.
//!
//! The map of a gigablock has a bit for each wholly free pageblock, as the map of a pageblock has
//! for each free frame. Blocks of orders 10 to 18 are aligned groups of such bits. Only pageblocks
//! of requestable types are in the map of free pageblocks. These merge even if their types differ,
//! so two free buddies of equal order are always one block.
//!
//! Allocated blocks of orders from 9 up are recorded only here, if they are
//! [folded](super::folded): one bit says that a pageblock belongs to such a block, another that it
//! continues the block of the pageblock before it.

use core::ops::Range;

use super::{
    levels::{Levels, MAP_ORDER, WORDS},
    word::{self, WORD_ORDER},
};

/// Pageblocks in a gigablock.
pub(crate) const PAGEBLOCKS: u32 = 64 * WORDS as u32;

/// The state of 64 neighbouring pageblocks: one bit each.
#[derive(Clone, Copy, Default)]
pub(super) struct Leaf {
    /// Free as a whole, and of a requestable type.
    pub(super) free: u64,
    /// Allocated, as one block or as part of a larger one.
    pub(super) folded: u64,
    /// Folded, and continues the block of the pageblock before it.
    pub(super) tails: u64,
    /// Free, and reported as free to the hypervisor.
    pub(super) reported: u64,
}

/// Metadata of 1 GiB of frames, beyond that of its pageblocks. Protected by the zone lock.
#[repr(C, align(64))]
pub(crate) struct Gigablock {
    pub(super) leaves: [Leaf; WORDS],
    /// The levels of the blocks that the free pageblocks form.
    levels: Levels,
}

impl Gigablock {
    /// A gigablock without free pageblocks.
    pub(crate) fn empty() -> Self {
        Self { leaves: [Leaf::default(); WORDS], levels: Levels::NOTHING_FREE }
    }

    /// 0 if no pageblock is free as a whole, otherwise 1 + k if the largest free block has 2^k
    /// pageblocks.
    #[inline(always)]
    pub(super) fn level(&self) -> u8 {
        self.levels.whole()
    }

    /// Updates the levels after the free pageblocks of leaf `i` changed.
    pub(super) fn refresh(&mut self, i: usize) {
        self.levels.set(i, self.leaves[i].free);
    }

    /// First pageblock of a free block of 2^`doublings` pageblocks, in the smallest sufficient free
    /// block.
    pub(super) fn best_block(&self, doublings: u8) -> Option<u32> {
        if doublings >= WORD_ORDER {
            return self.levels.best_words(doublings).map(|i| 64 * i as u32);
        }
        let i = self.levels.best_word(doublings)?;
        word::best_run(self.leaves[i].free, doublings).map(|bit| 64 * i as u32 + bit)
    }

    /// Whether the aligned 2^`doublings` pageblocks around pageblock `at` are all free.
    fn is_free_around(&self, at: u32, doublings: u8) -> bool {
        let first = at & !((1 << doublings) - 1);
        if doublings < WORD_ORDER {
            let mask = !(!0u64 << (1u32 << doublings)) << (first % 64);
            return self.leaves[first as usize / 64].free & mask == mask;
        }
        let leaves = first as usize / 64..(first as usize + (1 << doublings)) / 64;
        self.leaves[leaves].iter().all(|leaf| leaf.free == !0)
    }

    /// The binary logarithm of the number of pageblocks in the maximal free block around pageblock
    /// `at`; `None` if the pageblock is not free.
    pub(super) fn doublings_around(&self, at: u32) -> Option<u8> {
        (0..=MAP_ORDER).take_while(|&doublings| self.is_free_around(at, doublings)).last()
    }

    /// The binary logarithm of the number of pageblocks in the maximal free block whose first pageblock is `at`; `None`
    /// if no such block starts there.
    pub(super) fn doublings_from(&self, at: u32) -> Option<u8> {
        // No larger block than 2^trailing zeros starts here. If all of the next larger one around this pageblock is free,
        // the maximal block starts before. This is so for most pageblocks of large blocks.
        let beyond = at.trailing_zeros() as u8 + 1;
        if beyond <= MAP_ORDER && self.is_free_around(at, beyond) {
            return None;
        }
        self.doublings_around(at)
    }

    /// Number of pageblocks of the allocated block that starts with pageblock `at`.
    pub(super) fn allocated_from(&self, at: u32) -> u32 {
        let continues = |&at: &u32| self.leaves[at as usize / 64].tails >> (at % 64) & 1 == 1;
        1 + (at + 1..PAGEBLOCKS).take_while(continues).count() as u32
    }

    /// Whether the levels agree with the leaves, and folded pageblocks with one another.
    pub(super) fn is_consistent(&self) -> bool {
        let agree = self.levels.agree_with(self.leaves.map(|leaf| leaf.free));
        let exclusive = self.leaves.iter().all(|leaf| {
            leaf.free & leaf.folded == 0
                && leaf.tails & !leaf.folded == 0
                && leaf.reported & !leaf.free == 0
        });
        let is_set = |at: u32, pick: fn(&Leaf) -> u64| {
            pick(&self.leaves[at as usize / 64]) >> (at % 64) & 1 == 1
        };
        let heads = (0..PAGEBLOCKS)
            .filter(|&at| is_set(at, |leaf| leaf.folded) && !is_set(at, |leaf| leaf.tails));
        let tails: u32 = self.leaves.iter().map(|leaf| leaf.tails.count_ones()).sum();
        let mut followed = 0;
        let aligned = heads.into_iter().all(|at| {
            let pageblocks = self.allocated_from(at);
            followed += pageblocks - 1;
            pageblocks.is_power_of_two() && at.is_multiple_of(pageblocks)
        });
        agree && exclusive && aligned && followed == tails
    }
}

/// Splits `pageblocks` into leaves: the number of each leaf, and a mask.
pub(super) fn spans(pageblocks: Range<u32>) -> impl Iterator<Item = (u32, u64)> {
    let (start, end) = (pageblocks.start, pageblocks.end);
    (start / 64..end.div_ceil(64)).map(move |leaf| {
        let from = start.saturating_sub(64 * leaf);
        let to = (end - 64 * leaf).min(64);
        (leaf, !0 << from & !0 >> (64 - to))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn free(pageblocks: &[Range<u32>]) -> Gigablock {
        let mut gigablock = Gigablock::empty();
        for (leaf, mask) in pageblocks.iter().cloned().flat_map(spans) {
            gigablock.leaves[leaf as usize].free |= mask;
            gigablock.refresh(leaf as usize);
        }
        gigablock
    }

    #[test]
    fn spans_cover_a_range_once() {
        for (start, end) in [(0, 1), (3, 64), (63, 65), (10, 500), (0, 512), (64, 128)] {
            let mut covered = 0;
            for (leaf, mask) in spans(start..end) {
                for bit in (0..64).filter(|bit| mask >> bit & 1 == 1) {
                    assert!((start..end).contains(&(64 * leaf + bit)));
                    covered += 1;
                }
            }
            assert_eq!(covered, end - start);
        }
    }

    #[test]
    fn blocks_are_maximal_and_aligned() {
        let gigablock = free(&[3..8, 64..256, 511..512]);
        let block = |at| Some((at, gigablock.doublings_from(at)?));
        let blocks: std::vec::Vec<_> = (0..PAGEBLOCKS).filter_map(block).collect();
        assert_eq!(blocks, [(3, 0), (4, 2), (64, 6), (128, 7), (511, 0)]);
        assert_eq!(gigablock.level(), 8);
        assert!(gigablock.is_consistent());
    }

    #[test]
    fn a_block_is_taken_from_the_smallest_that_fits() {
        let gigablock = free(&[0..32, 80..84, 128..256, 448..512]);
        for (doublings, best) in [(1, 80), (2, 80), (3, 0), (5, 0), (6, 448), (7, 128)] {
            assert_eq!(gigablock.best_block(doublings), Some(best), "{doublings}");
        }
        assert_eq!(gigablock.best_block(8), None);
    }

    #[test]
    fn the_length_of_an_allocated_block_is_read_off_its_tails() {
        let mut gigablock = Gigablock::empty();
        for (leaf, mask) in spans(0..256) {
            gigablock.leaves[leaf as usize].folded = mask;
            gigablock.leaves[leaf as usize].tails = mask;
        }
        gigablock.leaves[0].tails ^= 0b10_0011;
        assert_eq!(gigablock.allocated_from(0), 1);
        assert!(!gigablock.is_consistent(), "a block of 4 pageblocks at pageblock 1 is misaligned");
        gigablock.leaves[0].tails = !1;
        assert_eq!(gigablock.allocated_from(0), 256);
        assert!(gigablock.is_consistent());
    }
}
