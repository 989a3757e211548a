//! One pageblock: its free map, its map of allocated heads, and its header.
//!
//! The header repeats in condensed form what the map says (how many frames are free, the order
//! of the largest free block, per word and in all), so that lists and policies never look at
//! frames. `level` values are "0 for nothing free, otherwise 1 + order".

use super::word;
use crate::frame::{Order, PAGEBLOCK_FRAMES, PAGEBLOCK_ORDER};

/// Words in the map of a pageblock.
pub(crate) const WORDS: usize = PAGEBLOCK_FRAMES / 64;

/// No pageblock: the end of a list.
pub(super) const NIL: u32 = u32::MAX;

/// Not on any list.
pub(super) const UNLISTED: u8 = u8::MAX;

/// Metadata of 512 frames: three cache lines. Protected by the zone lock.
#[repr(C, align(64))]
pub(crate) struct Pageblock {
    /// One bit per frame: free.
    pub(super) map: [u64; WORDS],
    /// One bit per frame: the first frame of an allocated block. Only kept when hardening asks.
    pub(super) heads: [u64; WORDS],
    /// The level of each word of the map.
    levels: [u8; WORDS],
    /// Neighbours on the list of this pageblock's class.
    pub(super) previous: u32,
    pub(super) next: u32,
    /// Free frames.
    pub(super) free: u16,
    /// Allocated frames that were requested as movable. Exact while the pageblock holds frames
    /// of one kind, an estimate after kinds were mixed, exact again once it is empty.
    pub(super) movable: u16,
    /// Allocated frames that were requested as anything else; same precision.
    pub(super) pinned: u16,
    /// Frames of the zone in here; the others are holes.
    pub(super) present: u16,
    /// The level of the whole pageblock.
    level: u8,
    /// Which list it is on: 4 x order + quartile, or [`UNLISTED`].
    pub(super) class: u8,
    /// While isolated: the type to return to.
    pub(super) type_before_isolation: u8,
}

impl Pageblock {
    /// A pageblock of holes only.
    pub(crate) fn empty() -> Self {
        Self {
            map: [0; WORDS],
            heads: [0; WORDS],
            levels: [0; WORDS],
            previous: NIL,
            next: NIL,
            free: 0,
            movable: 0,
            pinned: 0,
            present: 0,
            level: 0,
            class: UNLISTED,
            type_before_isolation: 0,
        }
    }

    /// Order of the largest free block.
    #[inline(always)]
    pub(super) fn largest(&self) -> Option<Order> {
        Order::new(self.level.wrapping_sub(1))
    }

    /// Whether every frame of the pageblock is free.
    #[inline(always)]
    pub(super) fn is_free(&self) -> bool {
        self.level > PAGEBLOCK_ORDER
    }

    /// The list it belongs on by its map: pageblocks with a largest block of equal order and
    /// fullness of the same quartile (0: fullest).
    #[inline(always)]
    pub(super) fn proper_class(&self) -> u8 {
        if self.level == 0 {
            return UNLISTED;
        }
        (self.level - 1) * 4 + ((self.free - 1) >> (PAGEBLOCK_ORDER - 2)) as u8
    }

    /// Replaces word `i` of the map.
    #[inline(always)]
    pub(super) fn set_word(&mut self, i: usize, word: u64) {
        self.map[i] = word;
        let level = word::level(word);
        if self.levels[i] != level {
            self.levels[i] = level;
            self.level = whole_level(&self.levels);
        }
    }

    /// Replaces `count` words of the map, from word `first`, by all free or all taken.
    pub(super) fn set_words(&mut self, first: usize, count: usize, free: bool) {
        let (word, level) = if free { (!0, word::WORD_ORDER + 1) } else { (0, 0) };
        if count == WORDS {
            self.map = [word; WORDS];
            self.levels = [level; WORDS];
            self.level = if free { PAGEBLOCK_ORDER + 1 } else { 0 };
            return;
        }
        self.map[first..first + count].fill(word);
        self.levels[first..first + count].fill(level);
        self.level = whole_level(&self.levels);
    }

    /// Takes the whole pageblock, which is free and on no list any more, as one block.
    #[inline(always)]
    pub(super) fn take_whole(&mut self, movable: bool, checked: bool) {
        self.map = [0; WORDS];
        self.levels = [0; WORDS];
        self.level = 0;
        self.class = UNLISTED;
        if checked {
            self.heads[0] = 1;
        }
        self.book_taken(PAGEBLOCK_FRAMES as u16, movable);
    }

    /// Free frames in `count` words from word `first`.
    pub(super) fn free_in_words(&self, first: usize, count: usize) -> u16 {
        self.map[first..first + count].iter().map(|word| word.count_ones() as u16).sum()
    }

    /// The word that holds a free block of `order` (at most 6) and the least beyond it.
    pub(super) fn best_word(&self, order: u8) -> Option<usize> {
        (0..WORDS).filter(|&i| self.levels[i] > order).min_by_key(|&i| self.levels[i])
    }

    /// The first word at or behind `from` with a free block of `order` (at most 6).
    #[inline(always)]
    pub(super) fn next_word(&self, from: usize, order: u8) -> Option<usize> {
        (from..WORDS).find(|&i| self.levels[i] > order)
    }

    /// The first word of a free block of `order` (7 to 9), in as small a block as there is.
    pub(super) fn best_words(&self, order: u8) -> Option<usize> {
        let full = full_words(&self.levels);
        let blocks = |order: u8| {
            let words = 1 << (order - word::WORD_ORDER);
            let mask = if words == WORDS { u8::MAX } else { (1u8 << words) - 1 };
            (0..WORDS).step_by(words).filter(move |&i| full >> i & mask == mask)
        };
        let in_larger = |i: usize| {
            let words = 2 << (order - word::WORD_ORDER);
            order < PAGEBLOCK_ORDER && blocks(order + 1).any(|first| first == i & !(words - 1))
        };
        blocks(order).find(|&i| !in_larger(i)).or_else(|| blocks(order).next())
    }

    /// Books `frames` allocated frames requested as `movable` or not.
    #[inline(always)]
    pub(super) fn book_taken(&mut self, frames: u16, movable: bool) {
        self.free -= frames;
        if movable {
            self.movable += frames;
        } else {
            self.pinned += frames;
        }
    }

    /// Books `frames` frames as free again. Whose they were is not known any more in a mixed
    /// pageblock: there the kind of the pageblock (`movable`) is taken from first.
    #[inline(always)]
    pub(super) fn book_given(&mut self, frames: u16, movable: bool) {
        self.free += frames;
        let (first, second) = if movable {
            (&mut self.movable, &mut self.pinned)
        } else {
            (&mut self.pinned, &mut self.movable)
        };
        let from_first = frames.min(*first);
        *first -= from_first;
        *second = second.saturating_sub(frames - from_first);
    }

    /// Number of maximal free blocks of each order.
    pub(super) fn count_blocks(&self) -> [u32; Order::COUNT] {
        let mut counts = [0; Order::COUNT];
        if self.is_free() {
            counts[Order::PAGEBLOCK.get() as usize] = 1;
            return counts;
        }
        for &word in &self.map {
            for (order, count) in word::count_blocks(word).into_iter().enumerate() {
                counts[order] += count;
            }
        }
        let full = full_words(&self.levels);
        let pairs = full & full >> 1 & 0x55;
        let quads = pairs & pairs >> 2 & 0x11;
        counts[6] -= 2 * pairs.count_ones();
        counts[7] = pairs.count_ones() - 2 * quads.count_ones();
        counts[8] = quads.count_ones();
        counts
    }

    /// Whether header and map agree (invariant I2, the part inside one pageblock).
    pub(super) fn is_consistent(&self) -> bool {
        let free: u32 = self.map.iter().map(|word| word.count_ones()).sum();
        let levels = self.map.map(word::level);
        let no_free_heads = self.map.iter().zip(&self.heads).all(|(free, head)| free & head == 0);
        u32::from(self.free) == free
            && levels == self.levels
            && self.level == whole_level(&levels)
            && no_free_heads
            && self.free + self.movable + self.pinned == self.present
    }
}

/// Bit i: word i is free from end to end.
#[inline(always)]
fn full_words(levels: &[u8; WORDS]) -> u8 {
    let mut full = 0;
    for (i, &level) in levels.iter().enumerate() {
        full |= u8::from(level > word::WORD_ORDER) << i;
    }
    full
}

/// The level of a pageblock whose words have these levels.
#[inline(always)]
fn whole_level(levels: &[u8; WORDS]) -> u8 {
    let largest = levels.iter().copied().max().unwrap_or(0);
    if largest <= word::WORD_ORDER {
        return largest;
    }
    let full = full_words(levels);
    let pairs = full & full >> 1 & 0x55;
    let quads = pairs & pairs >> 2 & 0x11;
    match (full, quads, pairs) {
        (u8::MAX, _, _) => PAGEBLOCK_ORDER + 1,
        (_, 1.., _) => PAGEBLOCK_ORDER,
        (_, _, 1..) => PAGEBLOCK_ORDER - 1,
        _ => word::WORD_ORDER + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_full_words(full: u8) -> Pageblock {
        let mut block = Pageblock::empty();
        for i in (0..WORDS).filter(|i| full >> i & 1 == 1) {
            block.set_word(i, !0);
        }
        block
    }

    #[test]
    fn the_level_of_a_pageblock_follows_its_full_words() {
        for (full, order) in [
            (0b1, 6),
            (0b110, 6),
            (0b11, 7),
            (0b1111, 8),
            (0b1111_0000, 8),
            (0b11_1100, 7),
            (255, 9),
        ] {
            assert_eq!(with_full_words(full).largest(), Order::new(order), "{full:b}");
        }
        assert_eq!(Pageblock::empty().largest(), None);
    }

    #[test]
    fn large_blocks_are_taken_from_the_smallest_that_fits() {
        assert_eq!(with_full_words(0b1100_1111).best_words(7), Some(6));
        assert_eq!(with_full_words(0b0000_1111).best_words(7), Some(0));
        assert_eq!(with_full_words(0b1111_0011).best_words(8), Some(4));
        assert_eq!(with_full_words(0b0110_0110).best_words(7), None);
        assert_eq!(with_full_words(255).best_words(9), Some(0));
    }

    #[test]
    fn blocks_of_all_orders_are_counted_once() {
        for full in 0..=u8::MAX {
            let counts = with_full_words(full).count_blocks();
            let frames: u32 = counts.iter().enumerate().map(|(k, n)| n << k).sum();
            assert_eq!(frames, full.count_ones() * 64);
        }
    }

    #[test]
    fn a_mixed_pageblock_forgets_the_mix_when_it_empties() {
        let mut block = with_full_words(255);
        (block.free, block.present) = (512, 512);
        block.book_taken(100, true);
        block.book_taken(50, false);
        block.book_given(120, true);
        assert_eq!((block.movable, block.pinned), (0, 30));
        block.book_given(30, true);
        assert_eq!((block.free, block.movable, block.pinned), (512, 0, 0));
    }
}
