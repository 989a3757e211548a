//! Sets of CPUs.

use crate::types::CpuId;

/// The maximum number of CPUs of a memory: the capacity of a [`CpuMask`].
pub const MAX_CPUS: usize = 1024;

/// Words of a [`CpuMask`].
pub(super) const WORDS: usize = MAX_CPUS / 64;

/// A set of CPUs, numbered 0 to [`MAX_CPUS`] - 1.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CpuMask([u64; WORDS]);

impl CpuMask {
    /// The empty set.
    pub const EMPTY: Self = Self([0; WORDS]);

    /// Adds a CPU.
    ///
    /// # Panics
    ///
    /// If the CPU's number is [`MAX_CPUS`] or more: no memory has such a CPU.
    pub fn insert(&mut self, cpu: CpuId) {
        self.0[cpu.index() / 64] |= 1 << (cpu.index() % 64);
    }

    /// Removes a CPU.
    pub fn remove(&mut self, cpu: CpuId) {
        if let Some(word) = self.0.get_mut(cpu.index() / 64) {
            *word &= !(1 << (cpu.index() % 64));
        }
    }

    /// Whether the set contains a CPU.
    #[must_use]
    pub fn contains(&self, cpu: CpuId) -> bool {
        self.0.get(cpu.index() / 64).is_some_and(|word| word >> (cpu.index() % 64) & 1 == 1)
    }

    /// Whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::EMPTY
    }

    /// The number of CPUs in the set.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// Adds all CPUs of another set.
    pub fn extend(&mut self, other: &Self) {
        for (word, other) in self.0.iter_mut().zip(other.0) {
            *word |= other;
        }
    }

    /// The CPUs of the set in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = CpuId> + use<'_> {
        let words = (0u16..).zip(&self.0).filter(|&(_, &word)| word != 0);
        words.flat_map(|(at, &word)| {
            crate::types::set::bits(word).map(move |bit| CpuId::new(at * 64 + bit as u16))
        })
    }

    /// The set as words: CPU 64 x n + i is bit i of word n.
    #[must_use]
    pub const fn words(&self) -> &[u64; WORDS] {
        &self.0
    }

    /// Makes a set from its first [words](CpuMask::words). The other words are 0.
    ///
    /// # Panics
    ///
    /// If `words` is longer than a set.
    #[must_use]
    pub fn from_words(words: &[u64]) -> Self {
        let mut mask = Self::EMPTY;
        mask.0[..words.len()].copy_from_slice(words);
        mask
    }
}

impl FromIterator<CpuId> for CpuMask {
    fn from_iter<I: IntoIterator<Item = CpuId>>(cpus: I) -> Self {
        let mut mask = Self::EMPTY;
        cpus.into_iter().for_each(|cpu| mask.insert(cpu));
        mask
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn a_mask_iterates_its_cpus_in_order() {
        let mut mask: CpuMask = [511, 3, 64, 63, 0].map(CpuId::new).into_iter().collect();
        mask.remove(CpuId::new(3));
        mask.insert(CpuId::new(64));
        assert_eq!(mask.iter().map(CpuId::get).collect::<Vec<_>>(), [0, 63, 64, 511]);
        assert!(mask.contains(CpuId::new(64)) && !mask.contains(CpuId::new(3)));
        assert!(!mask.contains(CpuId::new(9999)));
        let mut other = CpuMask::EMPTY;
        other.insert(CpuId::new(7));
        other.extend(&mask);
        assert_eq!((other.count(), mask.is_empty(), CpuMask::EMPTY.is_empty()), (5, false, true));
    }
}
