//! Sets of CPUs.

use framewright::CpuId;

/// CPUs that a set can have.
const CAPACITY: usize = 512;

/// A set of CPUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CpuSet([u64; CAPACITY / 64]);

impl CpuSet {
    /// Puts a CPU in.
    ///
    /// # Panics
    ///
    /// If its number is 512 or more.
    pub fn insert(&mut self, cpu: CpuId) {
        self.0[cpu.index() / 64] |= 1 << (cpu.index() % 64);
    }

    /// Takes a CPU out.
    pub fn remove(&mut self, cpu: CpuId) {
        self.0[cpu.index() / 64] &= !(1 << (cpu.index() % 64));
    }

    /// Whether a CPU is in it.
    #[must_use]
    pub fn contains(&self, cpu: CpuId) -> bool {
        self.0[cpu.index() / 64] >> (cpu.index() % 64) & 1 == 1
    }

    /// The CPUs in it, by number.
    pub fn iter(self) -> impl Iterator<Item = CpuId> {
        self.0.into_iter().zip(0u16..).flat_map(|(word, index)| {
            let bits = (0..64).filter(move |bit| word >> bit & 1 == 1);
            bits.map(move |bit| CpuId::new(64 * index + bit))
        })
    }

    /// Puts all CPUs of another set in.
    pub fn extend(&mut self, other: &Self) {
        for (word, other) in self.0.iter_mut().zip(other.0) {
            *word |= other;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_in_is_in() {
        let mut set = CpuSet::default();
        for cpu in [511, 0, 64, 3] {
            set.insert(CpuId::new(cpu));
        }
        set.remove(CpuId::new(3));
        assert_eq!(set.iter().map(CpuId::get).collect::<Vec<_>>(), [0, 64, 511]);
        assert!(set.contains(CpuId::new(64)) && !set.contains(CpuId::new(3)));
    }
}
