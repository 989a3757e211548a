//! Sets of CPUs.

use framewright::CpuId;

/// The greatest number of CPUs of a machine.
pub(super) const MOST_CPUS: u16 = 512;

/// A set of CPUs.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CpuSet([u64; MOST_CPUS as usize / 64]);

impl CpuSet {
    /// Inserts a CPU.
    ///
    /// # Panics
    ///
    /// If its number is 512 or more.
    #[inline]
    pub fn insert(&mut self, cpu: CpuId) {
        self.0[cpu.index() / 64] |= 1 << (cpu.index() % 64);
    }

    /// Removes a CPU.
    #[inline]
    pub fn remove(&mut self, cpu: CpuId) {
        self.0[cpu.index() / 64] &= !(1 << (cpu.index() % 64));
    }

    /// Whether a CPU is in the set.
    #[must_use]
    pub fn contains(&self, cpu: CpuId) -> bool {
        self.0[cpu.index() / 64] >> (cpu.index() % 64) & 1 == 1
    }

    /// Whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// CPUs 64 × i to 64 × i + 63 as the bits of word i.
    #[must_use]
    pub const fn words(&self) -> &[u64; MOST_CPUS as usize / 64] {
        &self.0
    }

    /// Inserts all CPUs of another set.
    pub fn extend(&mut self, other: &Self) {
        for (word, other) in self.0.iter_mut().zip(other.0) {
            *word |= other;
        }
    }

    /// The CPUs of the set, in ascending order.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = CpuId> + '_ {
        let words = (0u16..).zip(&self.0).filter(|&(_, &word)| word != 0);
        words.flat_map(|(number, &word)| {
            let bits = std::iter::successors(Some(word), |rest| Some(rest & rest.wrapping_sub(1)));
            let bits = bits.take_while(|&rest| rest != 0).map(u64::trailing_zeros);
            bits.map(move |bit| CpuId::new(number * 64 + bit as u16))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_iterates_its_cpus_in_order() {
        let mut set = CpuSet::default();
        for cpu in [511, 3, 64, 63, 0] {
            set.insert(CpuId::new(cpu));
        }
        set.remove(CpuId::new(3));
        set.insert(CpuId::new(64));
        assert_eq!(set.iter().map(CpuId::get).collect::<Vec<_>>(), [0, 63, 64, 511]);
        assert!(set.contains(CpuId::new(64)) && !set.contains(CpuId::new(3)));
        let mut other = CpuSet::default();
        other.insert(CpuId::new(7));
        other.extend(&set);
        assert_eq!(other.iter().count(), 5);
        assert!(!set.is_empty() && CpuSet::default().is_empty());
    }
}
