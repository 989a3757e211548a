//! One pageblock: its free map and its header.
//!
//! The header summarises the map, so that lists and policies need not read the map. It has the
//! number of free frames, and the order of the largest free block of each word and of the whole
//! map.

use super::{
    levels::{Levels, WORDS},
    word::{self, WORD_ORDER},
};
use crate::types::{MigrateType, Order, PAGEBLOCK_FRAMES, PAGEBLOCK_ORDER};

/// Frames in a pageblock, in the type of zone-relative frame numbers.
pub(super) const FRAMES: u32 = PAGEBLOCK_FRAMES as u32;

/// No pageblock: the end of a list.
pub(super) const NIL: u32 = u32::MAX;

/// Not on any list.
pub(super) const UNLISTED: u8 = u8::MAX;

/// A pageblock with at most this many free frames is of the fullest grade.
pub(super) const FULLEST: u16 = 16;

/// The grade of fullness of a pageblock with `free` free frames (at least one); 0 is the fullest.
///
/// After much work, most pageblocks in use have few free frames. So the bounds are not quarters of a pageblock:
/// those would not tell a pageblock with a hundred free frames from one with a single free frame.
#[inline(always)]
const fn grade(free: u16) -> u8 {
    const QUARTER: u16 = PAGEBLOCK_FRAMES as u16 / 4;
    (free > FULLEST) as u8 + (free > QUARTER) as u8 + (free > 3 * QUARTER) as u8
}

/// The emptiest grade with pageblocks that have fewer than `below` free frames.
pub(super) fn grade_below(below: u16) -> u8 {
    grade(below.saturating_sub(1).clamp(1, PAGEBLOCK_FRAMES as u16))
}

/// Metadata of 512 frames: two cache lines. Protected by the zone lock.
#[repr(C, align(64))]
pub(crate) struct Pageblock {
    /// One bit per frame: free.
    pub(super) map: [u64; WORDS],
    /// Neighbours on the list of this pageblock's class.
    pub(super) previous: u32,
    pub(super) next: u32,
    /// The pageblock that was put on a list some pageblocks before this one. Pageblocks are taken off a list in the
    /// opposite order, so it is probably used a little later than this one: to be prefetched.
    pub(super) soon: u32,
    /// Free frames.
    pub(super) free: u16,
    /// Allocated frames that were requested as movable. Exact while all allocated frames are of one
    /// kind, an estimate after kinds were mixed, and exact again when the pageblock is empty.
    pub(super) movable: u16,
    /// Allocated frames that were not requested as movable, as exact as `movable`.
    pub(super) unmovable: u16,
    /// Frames of the pageblock that belong to the zone; the others are holes.
    pub(super) present: u16,
    /// The orders of the largest free blocks: of each word of the map, and of the whole map.
    pub(super) levels: Levels,
    /// The class of the pageblock's list: 4 x order + grade, or [`UNLISTED`].
    pub(super) class: u8,
    /// The type that the pageblock returns to when its isolation ends.
    pub(super) type_before_isolation: u8,
}

impl Pageblock {
    /// A pageblock that consists of holes.
    pub(crate) fn empty() -> Self {
        Self {
            map: [0; WORDS],
            previous: NIL,
            next: NIL,
            soon: NIL,
            free: 0,
            movable: 0,
            unmovable: 0,
            present: 0,
            levels: Levels::NOTHING_FREE,
            class: UNLISTED,
            type_before_isolation: 0,
        }
    }

    /// Order of the largest free block.
    #[inline(always)]
    pub(super) fn largest(&self) -> Option<Order> {
        Order::new(self.levels.whole().wrapping_sub(1))
    }

    /// An upper bound of the length of a run of free frames inside the pageblock: a longer run
    /// would contain an aligned block larger than the largest free block.
    pub(super) fn longest_run(&self) -> u32 {
        (2 << self.levels.whole()) - 2
    }

    /// The first frame of the smallest free block of at least `order`, counted from the start of the pageblock.
    pub(super) fn best_block(&self, order: Order) -> Option<u32> {
        let order = order.get();
        if order >= WORD_ORDER {
            return self.levels.best_words(order).map(|i| 64 * i as u32);
        }
        let i = self.levels.best_word(order)?;
        word::best_run(self.map[i], order).map(|bit| 64 * i as u32 + bit)
    }

    /// Whether every frame of the pageblock is free.
    #[inline(always)]
    pub(super) fn is_free(&self) -> bool {
        self.levels.whole() > PAGEBLOCK_ORDER
    }

    /// The class of the list that the pageblock belongs on by its map. A class is one order of the
    /// largest free block and one grade of fullness (0: fullest).
    #[inline(always)]
    pub(super) fn proper_class(&self) -> u8 {
        let level = self.levels.whole();
        if level == 0 {
            return UNLISTED;
        }
        (level - 1) * 4 + grade(self.free)
    }

    /// Replaces word `i` of the map.
    pub(super) fn set_word(&mut self, i: usize, word: u64) {
        self.map[i] = word;
        self.levels.set(i, word);
    }

    /// Adds a free block of `order`, whose frames are `frames`, to word `i` of the map. Returns `false` if the largest free
    /// block may have changed.
    #[inline(always)]
    pub(super) fn add_block(&mut self, i: usize, frames: u64, order: u8) -> bool {
        let word = self.map[i] | frames;
        self.map[i] = word;
        self.levels.add_block(i, word, frames.trailing_zeros(), order)
    }

    /// Marks the frames of `count` words of the map, from word `first` on, as free or as allocated.
    pub(super) fn set_words(&mut self, first: usize, count: usize, free: bool) {
        self.map[first..first + count].fill(if free { !0 } else { 0 });
        self.levels.fill(first, count, free);
    }

    /// Takes the whole pageblock as one block. The pageblock is free, and was taken off its list.
    #[inline(always)]
    pub(super) fn take_whole(&mut self, movable: bool) {
        self.map = [0; WORDS];
        self.levels = Levels::NOTHING_FREE;
        self.class = UNLISTED;
        self.count_taken(PAGEBLOCK_FRAMES as u16, movable);
    }

    /// Number of free frames in `count` words from word `first`.
    pub(super) fn free_in_words(&self, first: usize, count: usize) -> u16 {
        self.map[first..first + count].iter().map(|word| word.count_ones() as u16).sum()
    }

    /// Counts `frames` more allocated frames, requested as `movable` or not.
    #[inline(always)]
    pub(super) fn count_taken(&mut self, frames: u16, movable: bool) {
        self.free -= frames;
        if movable {
            self.movable += frames;
        } else {
            self.unmovable += frames;
        }
    }

    /// Counts `frames` frames as free again. In a mixed pageblock their kind is unknown; frames of
    /// the pageblock's own kind (`movable`) are assumed to be freed first.
    #[inline(always)]
    pub(super) fn count_given(&mut self, frames: u16, movable: bool) {
        self.free += frames;
        let (first, second) = if movable {
            (&mut self.movable, &mut self.unmovable)
        } else {
            (&mut self.unmovable, &mut self.movable)
        };
        match first.checked_sub(frames) {
            Some(left) => *first = left,
            None => {
                *second = second.saturating_sub(frames - *first);
                *first = 0;
            }
        }
    }

    /// Whether header and map agree.
    pub(super) fn is_consistent(&self) -> bool {
        let free: u32 = self.map.iter().map(|word| word.count_ones()).sum();
        u32::from(self.free) == free
            && self.levels.agree_with(self.map)
            && self.free + self.movable + self.unmovable == self.present
    }
}

/// Contents of a pageblock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Contents {
    pub(crate) of: MigrateType,
    /// Free frames.
    pub(crate) free: u16,
    /// Allocated frames that were requested as movable.
    pub(crate) movable: u16,
    /// Allocated frames that were not requested as movable.
    pub(crate) unmovable: u16,
    /// Order of the largest free block.
    pub(crate) largest: Option<Order>,
    /// One bit per frame: set if it is allocated.
    pub(crate) used: [u64; WORDS],
    /// One bit per frame: set if it is free.
    pub(crate) map: [u64; WORDS],
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_a_mixed_pageblock_are_exact_again_when_it_is_empty() {
        let mut block = Pageblock::empty();
        block.set_words(0, WORDS, true);
        (block.free, block.present) = (512, 512);
        block.count_taken(100, true);
        block.count_taken(50, false);
        block.count_given(120, true);
        assert_eq!((block.movable, block.unmovable), (0, 30));
        block.count_given(30, true);
        assert_eq!((block.free, block.movable, block.unmovable), (512, 0, 0));
    }
}
