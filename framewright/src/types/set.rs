//! Sets of small numbers, as trees of bitmaps.
//!
//! A leaf word holds 64 numbers. In each level above, a bit tells whether a word of the level below
//! is not zero. So a search for the lowest number takes one step per level, and most insertions and
//! removals access one word. The buddy has such sets of completely free pageblocks, and the store
//! of a CPU has sets of occupied slots.

/// The number of levels: enough for 64^4 numbers, the pageblocks of 32 TiB.
const DEPTH: usize = 4;

/// A set of numbers below a fixed bound.
pub(crate) struct NumberSet<'m> {
    /// All levels, leaves first. The last level is one word.
    words: &'m mut [u64],
    /// The start of each level.
    starts: [usize; DEPTH],
    levels: usize,
}

impl<'m> NumberSet<'m> {
    /// Words that a set of numbers below `bound` needs.
    #[inline(never)]
    pub(crate) const fn words(bound: usize) -> usize {
        let mut words = 0;
        let mut level = bound;
        loop {
            level = level.div_ceil(64);
            words += level;
            if level <= 1 {
                return if words == 0 { 1 } else { words };
            }
        }
    }

    /// Makes all `sets` empty sets of numbers below `bound`. Each takes its words from the start of
    /// `words`, which are zeroes.
    #[inline(never)]
    pub(crate) fn fill(sets: &mut [Self], words: &mut &'m mut [u64], bound: usize) {
        for set in sets {
            *set = Self::new(words.split_off_mut(..Self::words(bound)).unwrap_or_default(), bound);
        }
    }

    /// A set without words, which can contain no number: the value before [`NumberSet::fill`].
    pub(crate) const fn none() -> Self {
        Self { words: &mut [], starts: [0; DEPTH], levels: 1 }
    }

    /// An empty set of numbers below `bound`. `words` are zeroes; [`NumberSet::words`] returns
    /// their number.
    #[inline(never)]
    pub(crate) fn new(words: &'m mut [u64], bound: usize) -> Self {
        let mut starts = [0; DEPTH];
        let mut levels = 1;
        let mut size = bound.div_ceil(64);
        while size > 1 && levels < DEPTH {
            starts[levels] = starts[levels - 1] + size;
            size = size.div_ceil(64);
            levels += 1;
        }
        Self { words, starts, levels }
    }

    #[inline(always)]
    pub(crate) fn insert(&mut self, number: u32) {
        self.insert_word(number / 64, 1 << (number % 64));
    }

    /// Inserts the numbers 64 x `leaf` + i for every bit i of `mask`, which is not zero.
    #[inline(always)]
    pub(crate) fn insert_word(&mut self, leaf: u32, mask: u64) {
        let at = leaf as usize;
        let before = self.words[at];
        self.words[at] |= mask;
        if before == 0 {
            self.insert_above(at);
        }
    }

    /// Sets the bits in the levels above word `at` of the leaves, which has become non-zero.
    #[inline(never)]
    fn insert_above(&mut self, mut at: usize) {
        for &start in &self.starts[1..self.levels] {
            let word = &mut self.words[start + at / 64];
            let before = *word;
            *word |= 1 << (at % 64);
            if before != 0 {
                return;
            }
            at /= 64;
        }
    }

    #[inline(always)]
    pub(crate) fn remove(&mut self, number: u32) {
        self.remove_word(number / 64, 1 << (number % 64));
    }

    /// Removes the numbers 64 x `leaf` + i for every bit i of `mask`.
    #[inline(always)]
    pub(crate) fn remove_word(&mut self, leaf: u32, mask: u64) {
        let at = leaf as usize;
        self.words[at] &= !mask;
        if self.words[at] == 0 {
            self.remove_above(at);
        }
    }

    /// Clears the bits in the levels above word `at` of the leaves, which has become zero.
    #[inline(never)]
    fn remove_above(&mut self, mut at: usize) {
        for &start in &self.starts[1..self.levels] {
            let word = &mut self.words[start + at / 64];
            *word &= !(1 << (at % 64));
            if *word != 0 {
                return;
            }
            at /= 64;
        }
    }

    /// Up to `count` (1 to 64) of the lowest numbers that share a word, as a leaf and a mask like those of
    /// [`NumberSet::insert_word`].
    #[inline(always)]
    pub(crate) fn lowest_word(&self, count: u32) -> Option<(u32, u64)> {
        let leaf = self.first()? / 64;
        let word = self.word(leaf);
        // They are often neighbours.
        let first = word & word.wrapping_neg();
        let run = (first.wrapping_shl(count - 1) << 1).wrapping_sub(first);
        Some((leaf, if word & run == run { run } else { lowest(word, count) }))
    }

    /// The numbers 64 x `leaf` + i, as bits i.
    #[inline(always)]
    pub(crate) fn word(&self, leaf: u32) -> u64 {
        self.words[leaf as usize]
    }

    /// The numbers that share a word with the lowest one from `from` on, or with the lowest of all if there is none: a leaf
    /// and a mask like those of [`NumberSet::insert_word`]. Numbers below `from` are not returned in the first case.
    pub(crate) fn word_after(&self, from: u32) -> Option<(u32, u64)> {
        self.word_from(from).or_else(|| self.word_from(0))
    }

    /// The numbers from `from` on that share a word with the lowest of them, as a leaf and a mask.
    #[inline(never)]
    fn word_from(&self, from: u32) -> Option<(u32, u64)> {
        let leaf = from / 64;
        let leaves = if self.levels > 1 { self.starts[1] } else { 1 };
        let rest = self.words.get(leaf as usize..leaves)?;
        let here = rest.first()? & !0 << (from % 64);
        if here != 0 {
            return Some((leaf, here));
        }
        let next = leaf + 1 + rest.iter().skip(1).position(|&word| word != 0)? as u32;
        Some((next, self.word(next)))
    }

    pub(crate) fn contains(&self, number: u32) -> bool {
        let at = number as usize;
        self.words.get(at / 64).is_some_and(|word| word >> (at % 64) & 1 == 1)
    }

    /// The lowest number in the set.
    #[inline(never)]
    pub(crate) fn first(&self) -> Option<u32> {
        let mut at = 0;
        for &start in self.starts[..self.levels].iter().rev() {
            let word = self.words[start + at];
            if word == 0 {
                return None;
            }
            at = at * 64 + word.trailing_zeros() as usize;
        }
        Some(at as u32)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.words[self.starts[self.levels - 1]] == 0
    }
}

/// The numbers of the set bits of `mask`, ascending.
#[inline(always)]
pub(crate) fn bits(mask: u64) -> impl Iterator<Item = u32> {
    let mut rest = mask;
    core::iter::from_fn(move || {
        let bit = (rest != 0).then(|| rest.trailing_zeros())?;
        rest &= rest - 1;
        Some(bit)
    })
}

/// The lowest `count` set bits of `mask`.
#[inline(always)]
pub(crate) fn lowest(mask: u64, count: u32) -> u64 {
    let mut rest = mask;
    for _ in 0..count {
        if rest == 0 {
            break;
        }
        rest &= rest - 1;
    }
    mask ^ rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{collections::BTreeSet, vec};

    #[test]
    fn a_set_behaves_like_a_set() {
        for bound in [1, 63, 64, 65, 4096, 4097, 300_000] {
            let mut words = vec![0; NumberSet::words(bound)];
            let mut set = NumberSet::new(&mut words, bound);
            let mut oracle = BTreeSet::new();
            let mut random = 12345u64;
            for _ in 0..if cfg!(miri) { 100 } else { 3000 } {
                random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let number = ((random >> 33) as usize % bound) as u32;
                if random >> 20 & 1 == 0 {
                    set.insert(number);
                    oracle.insert(number);
                } else {
                    set.remove(number);
                    oracle.remove(&number);
                }
                assert_eq!(set.first(), oracle.first().copied());
                assert_eq!(set.contains(number), oracle.contains(&number));
                assert_eq!(set.is_empty(), oracle.is_empty());
            }
        }
    }

    #[test]
    fn the_next_word_is_that_of_the_next_number_else_of_the_lowest() {
        let members = [3, 62, 63, 64, 130, 131, 132, 255];
        for bound in [256, 5000] {
            let mut words = vec![0; NumberSet::words(bound)];
            let mut set = NumberSet::new(&mut words, bound);
            assert_eq!(set.word_after(7), None);
            members.iter().for_each(|&number| set.insert(number));
            for from in (0..bound as u32).step_by(if cfg!(miri) { 61 } else { 1 }) {
                let above = members.iter().position(|&number| number >= from);
                let rest = &members[above.unwrap_or(0)..];
                let leaf = rest[0] / 64;
                let of_word = rest.iter().filter(|&&number| number / 64 == leaf);
                let mask = of_word.fold(0, |mask, number| mask | 1 << (number % 64));
                assert_eq!(set.word_after(from), Some((leaf, mask)), "from {from} of {bound}");
            }
        }
    }

    #[test]
    fn bits_are_numbered_from_the_lowest() {
        assert!(bits(1 << 63 | 0b101).eq([0, 2, 63]));
    }

    #[test]
    fn the_lowest_bits_are_the_lowest() {
        assert_eq!(lowest(0b1011_0100, 2), 0b1_0100);
        assert_eq!(lowest(!0, 64), !0);
        assert_eq!(lowest(0b1, 5), 0b1);
    }

    #[test]
    fn the_lowest_numbers_are_those_of_the_lowest_bits() {
        for word in [1, 0b1111_0110, !0, !0 << 60, !0 << 60 | 1] {
            for count in 1..=64 {
                let mut words = [word];
                let set = NumberSet::new(&mut words, 64);
                assert_eq!(
                    set.lowest_word(count),
                    Some((0, lowest(word, count))),
                    "{word:#x} {count}"
                );
            }
        }
    }
}
