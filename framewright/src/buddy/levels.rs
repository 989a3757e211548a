//! Arithmetic on a map of 512 bits, 1 = free: a summary of its free blocks.
//!
//! A *level* is 0 if nothing is free, otherwise 1 + the order of the largest free block. The levels
//! of each word and of the whole map are stored next to the map, so that a search reads 8 bytes
//! instead of 64. The same arithmetic is used for the frames of a pageblock and for the pageblocks
//! of a gigablock.

use super::word::{self, WORD_ORDER};
use crate::types::Order;

/// Number of words of a map.
pub(crate) const WORDS: usize = 8;

/// The order of a whole map: 2^9 bits.
pub(super) const MAP_ORDER: u8 = 9;

/// The levels of a map of 512 bits.
#[derive(Clone, Copy)]
pub(super) struct Levels {
    words: [u8; WORDS],
    whole: u8,
}

impl Levels {
    /// The levels of a map of zeroes.
    pub(super) const NOTHING_FREE: Levels = Levels { words: [0; WORDS], whole: 0 };

    const ALL_FREE: Levels = Levels { words: [WORD_ORDER + 1; WORDS], whole: MAP_ORDER + 1 };

    /// The levels of this map.
    pub(super) fn of(map: [u64; WORDS]) -> Self {
        let words = map.map(word::level);
        Self { words, whole: whole(&words) }
    }

    /// The level of the whole map.
    pub(super) fn whole(&self) -> u8 {
        self.whole
    }

    /// Updates the levels after word `i` of the map has become `word`.
    #[inline(never)]
    pub(super) fn set(&mut self, i: usize, word: u64) {
        let level = word::level(word);
        if let Some(old) = self.words.get_mut(i)
            && *old != level
        {
            *old = level;
            self.whole = whole(&self.words);
        }
    }

    /// Updates the levels after a block of `order` (at most 6) at frame `bit` of word `i` has become free; some of its frames
    /// may have been free before. The word is now `word`. Returns `false` if the level of the whole map may have changed.
    #[inline(always)]
    pub(super) fn add_block(&mut self, i: usize, word: u64, bit: u32, order: u8) -> bool {
        // No branch depends on whether the word had a free block of this size.
        let level = self.words[i].max(order + 1);
        if word::is_in_run(word, bit, level) {
            self.set(i, word);
            return false;
        }
        self.words[i] = level;
        let is_same = level <= self.whole;
        if !is_same {
            self.whole = level;
        }
        is_same
    }

    /// Updates the levels after `count` words of the map from word `first` on have become all ones or
    /// all zeroes.
    pub(super) fn fill(&mut self, first: usize, count: usize, free: bool) {
        let uniform = if free { Self::ALL_FREE } else { Self::NOTHING_FREE };
        if count == WORDS {
            *self = uniform;
            return;
        }
        self.words[first..first + count].copy_from_slice(&uniform.words[..count]);
        self.whole = whole(&self.words);
    }

    /// The best fit for a block of `order` (at most 5): of all words with such a free block, the one whose largest free
    /// block is smallest.
    #[inline(never)]
    pub(super) fn best_word(&self, order: u8) -> Option<usize> {
        let (mut best, mut least) = (None, u8::MAX);
        for (i, &level) in self.words.iter().enumerate() {
            if level > order && level < least {
                (best, least) = (Some(i), level);
            }
        }
        best
    }

    /// The first word at or after `from` with a free block of `order` (at most 6).
    pub(super) fn next_word(&self, from: usize, order: u8) -> Option<usize> {
        (from..WORDS).find(|&i| self.words[i] > order)
    }

    /// The words with free bits, in ascending order.
    #[inline(always)]
    pub(super) fn words_with_free(&self) -> impl Iterator<Item = usize> + use<> {
        // A byte for each word.
        let mut left = u64::from_le_bytes(self.words);
        core::iter::from_fn(move || {
            let i = (left != 0).then(|| left.trailing_zeros() as usize / 8)?;
            left &= !(0xff << (8 * i));
            Some(i)
        })
    }

    /// The first word of a free block of `order` (6 to 9), taken from the smallest block that
    /// suffices.
    pub(super) fn best_words(&self, order: u8) -> Option<usize> {
        let full = u64::from(full_words(&self.words));
        word::best_run(full, order - WORD_ORDER).map(|i| i as usize)
    }

    /// Whether these are the levels of `map`.
    pub(super) fn agree_with(&self, map: [u64; WORDS]) -> bool {
        let proper = Self::of(map);
        self.words == proper.words && self.whole == proper.whole
    }
}

/// Bit i: word i is wholly free.
fn full_words(levels: &[u8; WORDS]) -> u8 {
    let mut full = 0;
    for (i, &level) in levels.iter().enumerate() {
        full |= u8::from(level > WORD_ORDER) << i;
    }
    full
}

/// Adds the number of maximal blocks of each order in `map` to `counts`. The map has `free` ones, and this level.
pub(super) fn count_blocks(
    map: &[u64; WORDS],
    free: u32,
    level: u8,
    counts: &mut [u64; Order::COUNT],
) {
    // A run is an aligned block of ones, maximal or within a larger one. Two runs of each larger one are not maximal.
    let maximal = |runs: u32, larger: u32| u64::from(runs - 2 * larger);
    if level <= 1 {
        counts[0] += u64::from(free);
        return;
    }
    // A run of order k starts at a multiple of 2^k, so the starts in 2^k words fit into one word: the runs of a half of
    // the map are moved between those of the other half.
    let [a, b, c, d, e, f, g, h] = *map;
    let starts = [joined(a, e, 0), joined(b, f, 0), joined(c, g, 0), joined(d, h, 0)];
    let pairs = ones(&starts);
    counts[0] += maximal(free, pairs);
    let [a, b, c, d] = starts;
    let starts = [joined(a, c, 1), joined(b, d, 1)];
    let fours = ones(&starts);
    counts[1] += maximal(pairs, fours);
    let mut starts = joined(starts[0], starts[1], 2);
    let mut runs = ones(&[starts]);
    counts[2] += maximal(fours, runs);
    // A byte has now a bit for each word of the map. Those of neighbouring words are four bits apart, as they were moved
    // last.
    for (count, (distance, mask)) in counts[3..].iter_mut().zip(DISTANCES) {
        if runs == 0 {
            return;
        }
        starts &= starts >> distance & mask;
        let larger = ones(&[starts]);
        *count += maximal(runs, larger);
        runs = larger;
    }
}

/// The number of ones.
#[inline(always)]
fn ones(words: &[u64]) -> u32 {
    words.iter().map(|word| word.count_ones()).sum()
}

/// The starts of the runs of order `k` + 1 in two words, from the starts of those of order `k`.
#[inline(always)]
fn joined(low: u64, high: u64, k: usize) -> u64 {
    const STARTS: [u64; 3] = [0x5555_5555_5555_5555, 0x3333_3333_3333_3333, 0x0f0f_0f0f_0f0f_0f0f];
    let size = 1 << k;
    let join = |starts: u64| starts & starts >> size & STARTS[k];
    join(low) | join(high) << size
}

/// For the runs of order 4 to 9, the distance between the halves of a run, and the bits at which it may start. There are
/// none of order 10.
const DISTANCES: [(u32, u64); 7] = [
    (8, 0x00ff_00ff_00ff_00ff),
    (16, 0x0000_00ff_0000_00ff),
    (32, 0xff),
    (4, 0x0f),
    (2, 0x03),
    (1, 0x01),
    (0, 0),
];

/// The level of a map, from the levels of its words.
#[inline(never)]
fn whole(levels: &[u8; WORDS]) -> u8 {
    let largest = levels.iter().copied().max().unwrap_or(0);
    if largest <= WORD_ORDER {
        return largest;
    }
    let full = full_words(levels);
    let pairs = full & full >> 1 & 0x55;
    let quads = pairs & pairs >> 2 & 0x11;
    match (full, quads, pairs) {
        (u8::MAX, _, _) => MAP_ORDER + 1,
        (_, 1.., _) => MAP_ORDER,
        (_, _, 1..) => MAP_ORDER - 1,
        _ => WORD_ORDER + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A map in which these words are all ones and all others are zero.
    fn with_full_words(full: u8) -> [u64; WORDS] {
        core::array::from_fn(|i| u64::from(full >> i & 1).wrapping_neg())
    }

    #[test]
    fn the_whole_level_follows_the_full_words() {
        for (full, order) in [
            (0b1, 6),
            (0b110, 6),
            (0b11, 7),
            (0b1111, 8),
            (0b1111_0000, 8),
            (0b11_1100, 7),
            (255, 9),
        ] {
            assert_eq!(Levels::of(with_full_words(full)).whole(), 1 + order, "{full:b}");
        }
        assert_eq!(Levels::of([0; WORDS]).whole(), 0);
    }

    #[test]
    fn single_word_updates_give_the_same_levels() {
        for full in 0..=u8::MAX {
            let map = with_full_words(full);
            let mut levels = Levels::NOTHING_FREE;
            for (i, &word) in map.iter().enumerate() {
                levels.set(i, word);
            }
            assert!(levels.agree_with(map));
            levels.fill(2, 2, true);
            assert!(levels.agree_with(with_full_words(full | 0b1100)));
            levels.fill(0, WORDS, false);
            assert!(levels.agree_with([0; WORDS]));
        }
    }

    #[test]
    fn levels_rise_with_added_blocks_as_if_computed_anew() {
        let mut state = 1u64;
        for _ in 0..if cfg!(miri) { 2 } else { 200 } {
            let mut map = [0; WORDS];
            let mut levels = Levels::NOTHING_FREE;
            for _ in 0..if cfg!(miri) { 60 } else { 600 } {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let i = (state >> 61) as usize;
                let order = (state >> 32 & 31).trailing_zeros().min(u32::from(WORD_ORDER)) as u8;
                let bit = ((state >> 40) as u32 % 64) >> order << order;
                let frames = word::spread(1, order) << bit;
                map[i] |= frames;
                let before = levels.whole();
                let is_same = levels.add_block(i, map[i], bit, order);
                assert!(!is_same || levels.whole() == before, "{map:x?}");
                assert!(levels.agree_with(map), "{map:x?}");
            }
        }
    }

    #[test]
    fn large_blocks_are_found_in_the_smallest_that_fits() {
        let best = |full, order| Levels::of(with_full_words(full)).best_words(order);
        assert_eq!(best(0b1100_1111, 7), Some(6));
        assert_eq!(best(0b0000_1111, 7), Some(0));
        assert_eq!(best(0b1111_0011, 8), Some(4));
        assert_eq!(best(0b0110_0110, 7), None);
        assert_eq!(best(255, 9), Some(0));
        assert_eq!(best(0b1101_1111, 6), Some(4));
    }

    #[test]
    fn blocks_of_all_orders_are_counted_once() {
        for full in 0..=u8::MAX {
            let map = with_full_words(full);
            let mut counts = [0; Order::COUNT];
            count_blocks(&map, full.count_ones() * 64, Levels::of(map).whole(), &mut counts);
            let bits: u64 = counts.iter().enumerate().map(|(k, n)| n << k).sum();
            assert_eq!(bits, u64::from(full.count_ones()) * 64);
        }
    }

    #[test]
    fn blocks_are_counted_as_a_search_finds_them() {
        let mut state = 1u64;
        for round in 0..2000 {
            let map: [u64; WORDS] = core::array::from_fn(|_| {
                let mut random = || {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    state.rotate_left(32) ^ state
                };
                // Runs of all lengths.
                let spread = |word: u64, k| word | word << (1 << k) | word >> (1 << k);
                (0..round % 7).fold(random() & random() & random(), spread)
            });
            let mut expected = [0; Order::COUNT];
            let mut at = 0;
            while at < 512 {
                let is_free = |frame: usize| map[frame / 64] >> (frame % 64) & 1 == 1;
                let fits =
                    |&order: &usize| at % (1 << order) == 0 && (at..at + (1 << order)).all(is_free);
                let order = (0..10).rfind(fits);
                order.iter().for_each(|&order| expected[order] += 1);
                at += order.map_or(1, |order| 1 << order);
            }
            let mut counts = [0; Order::COUNT];
            let free = map.iter().map(|word| word.count_ones()).sum();
            count_blocks(&map, free, Levels::of(map).whole(), &mut counts);
            assert_eq!(counts, expected, "{map:x?}");
        }
    }
}
