//! Who goes next.

use std::{cmp::Reverse, collections::BinaryHeap};

/// How the next CPU is chosen.
#[derive(Clone, Debug, Default)]
pub enum Schedule {
    /// The CPU furthest behind: for measuring.
    #[default]
    Clock,
    /// Any, by a seed: for finding bugs.
    Random(u64),
}

/// A schedule at work.
pub(super) enum Scheduler {
    Clock(BinaryHeap<Reverse<(u64, u16)>>),
    Random(Vec<u16>, fastrand::Rng),
}

impl Scheduler {
    pub(super) fn new(schedule: Schedule, cpus: u16) -> Self {
        match schedule {
            Schedule::Clock => Self::Clock(BinaryHeap::with_capacity(usize::from(cpus))),
            Schedule::Random(seed) => Self::Random(Vec::new(), fastrand::Rng::with_seed(seed)),
        }
    }

    /// A CPU may run from now on.
    pub(super) fn ready(&mut self, cpu: u16, clock: u64) {
        match self {
            Self::Clock(heap) => heap.push(Reverse((clock, cpu))),
            Self::Random(ready, _) => ready.push(cpu),
        }
    }

    /// Takes the CPU that runs next.
    pub(super) fn next(&mut self) -> Option<u16> {
        match self {
            Self::Clock(heap) => heap.pop().map(|Reverse((_, cpu))| cpu),
            Self::Random(ready, _) if ready.is_empty() => None,
            Self::Random(ready, random) => Some(ready.swap_remove(random.usize(..ready.len()))),
        }
    }

    /// Whether the CPU that runs goes on.
    pub(super) fn stays(&mut self, cpu: u16, clock: u64) -> bool {
        match self {
            Self::Clock(heap) => heap.peek().is_none_or(|&Reverse(first)| (clock, cpu) <= first),
            Self::Random(ready, random) => random.usize(..=ready.len()) == 0,
        }
    }

    pub(super) fn clear(&mut self) {
        match self {
            Self::Clock(heap) => heap.clear(),
            Self::Random(ready, _) => ready.clear(),
        }
    }
}
