//! A tournament tree that finds the CPU with the earliest clock among those that may run.
//!
//! In contrast to a heap, each CPU has a fixed leaf: no CPU is in the tree twice. An update is a
//! walk of at most nine steps with predictable branches.

/// The sort key of a CPU: its clock, then its number. Clocks stay below 2^48 cycles, which is about
/// a day of machine time.
pub(super) fn key(clock: u64, cpu: u16) -> u64 {
    clock << 16 | u64::from(cpu)
}

/// The time of a key.
pub(super) fn time(key: u64) -> u64 {
    key >> 16
}

/// The CPU of a key.
pub(super) fn cpu(key: u64) -> u16 {
    key as u16
}

/// The key of a CPU that does not wait to run.
const NONE: u64 = u64::MAX;

/// The keys of the CPUs that wait to run.
pub(super) struct Clocks {
    /// A complete binary tree, its root at 1: every node holds the least key below it.
    nodes: Vec<u64>,
    leaves: usize,
}

impl Clocks {
    pub(super) fn new(cpus: u16) -> Self {
        let leaves = usize::from(cpus).next_power_of_two();
        Self { nodes: vec![NONE; 2 * leaves], leaves }
    }

    /// The least key; `NONE` if no CPU waits.
    pub(super) fn least(&self) -> u64 {
        self.nodes[1]
    }

    /// Adds `cpu`, which may run from `clock` on. If it waits already, the earlier time counts.
    pub(super) fn insert(&mut self, cpu: u16, clock: u64) {
        let waits_for = self.nodes[self.leaves + usize::from(cpu)];
        self.set(cpu, key(clock, cpu).min(waits_for));
    }

    /// Removes and returns the least key.
    pub(super) fn take(&mut self) -> Option<u64> {
        let least = self.least();
        if least == NONE {
            return None;
        }
        self.set(cpu(least), NONE);
        Some(least)
    }

    pub(super) fn clear(&mut self) {
        self.nodes.fill(NONE);
    }

    fn set(&mut self, cpu: u16, key: u64) {
        let mut node = self.leaves + usize::from(cpu);
        self.nodes[node] = key;
        while node > 1 {
            let least = self.nodes[node].min(self.nodes[node ^ 1]);
            node /= 2;
            self.nodes[node] = least;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_comes_first_and_ties_go_by_number() {
        let mut clocks = Clocks::new(5);
        for (cpu, clock) in [(4, 7), (0, 9), (3, 7), (1, 8), (2, 5), (2, 6)] {
            clocks.insert(cpu, clock);
        }
        let taken: Vec<_> = std::iter::from_fn(|| clocks.take()).collect();
        let taken: Vec<_> = taken.into_iter().map(|key| (time(key), cpu(key))).collect();
        assert_eq!(taken, [(5, 2), (7, 3), (7, 4), (8, 1), (9, 0)]);
        assert_eq!(clocks.least(), NONE);
    }

    #[test]
    fn one_cpu_has_a_tree_of_one_leaf() {
        let mut clocks = Clocks::new(1);
        clocks.insert(0, 3);
        assert_eq!((clocks.take(), clocks.take()), (Some(key(3, 0)), None));
    }
}
