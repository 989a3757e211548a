//! Sets of CPUs.

/// CPUs a machine may have.
pub(super) const MOST_CPUS: u16 = 512;

/// A set of CPUs.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct CpuSet([u64; MOST_CPUS as usize / 64]);

impl CpuSet {
    pub(super) fn insert(&mut self, cpu: u16) {
        self.0[usize::from(cpu / 64)] |= 1 << (cpu % 64);
    }

    pub(super) fn remove(&mut self, cpu: u16) {
        self.0[usize::from(cpu / 64)] &= !(1 << (cpu % 64));
    }

    pub(super) fn len(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    pub(super) fn clear(&mut self) {
        self.0 = [0; 8];
    }

    /// Its CPUs, ascending.
    pub(super) fn iter(&self) -> impl Iterator<Item = u16> + Clone {
        (0..).zip(self.0).flat_map(|(number, word)| {
            let rest = std::iter::successors(Some(word), |rest| Some(rest & rest.wrapping_sub(1)));
            let bits = rest.take_while(|&rest| rest != 0);
            bits.map(move |rest| number * 64 + rest.trailing_zeros() as u16)
        })
    }

    /// The `nth` of them, from 0.
    pub(super) fn nth(&self, nth: u32) -> u16 {
        self.iter().nth(nth as usize).expect("the set has that many")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_come_in_order() {
        let mut set = CpuSet::default();
        for cpu in [511, 3, 64, 63, 0] {
            set.insert(cpu);
        }
        set.remove(3);
        set.insert(64);
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 63, 64, 511]);
        assert_eq!((set.len(), set.nth(2)), (4, 64));
        set.clear();
        assert_eq!(set.len(), 0);
    }
}
