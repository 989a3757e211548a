//! A thread's side of the seam: when it is enough, and what is in real memory.

use framewright::Block;
use framewright_host::HostMachine;
use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    time::Instant,
};

use super::Limit;
use crate::workloads::world::{Overwritten, Task, World};

/// When a thread has done enough.
pub(crate) struct Pace {
    limit: Limit,
    started: Instant,
    cycles: u32,
}

impl Pace {
    /// From now on.
    pub(crate) fn new(limit: Limit) -> Self {
        Self { limit, started: Instant::now(), cycles: 0 }
    }

    /// When it began.
    pub(super) fn started(&self) -> Instant {
        self.started
    }

    /// Whether there is time for another cycle: always for the first.
    fn goes_on(&mut self) -> bool {
        let goes_on = match self.limit {
            Limit::Cycles(most) => self.cycles < most,
            Limit::Time(time) => self.cycles == 0 || self.started.elapsed() < time,
        };
        self.cycles += 1;
        goes_on
    }
}

/// The world of one thread.
pub(crate) struct HostWorld<'m> {
    machine: &'m HostMachine,
    pub(super) pace: Pace,
    /// Another thread has found something wrong.
    stop: &'m AtomicBool,
}

impl<'m> HostWorld<'m> {
    /// That of a thread of `machine`.
    pub(crate) fn new(machine: &'m HostMachine, pace: Pace, stop: &'m AtomicBool) -> Self {
        Self { machine, pace, stop }
    }
}

/// Pages are touched in their first and last word: what tells owners apart without measuring memory
/// bandwidth. Frames without memory behind them hold whatever is expected. Faults and computation
/// are not played: what is measured is the allocator.
impl<'m> World<Block<'m>> for HostWorld<'_> {
    fn goes_on(&mut self) -> bool {
        self.pace.goes_on() && !self.stop.load(Relaxed)
    }

    #[inline]
    fn is_over(&self) -> bool {
        self.stop.load(Relaxed)
    }

    #[inline(always)]
    fn does(&self, _task: Task) {}

    #[inline]
    fn is_cleared(&self, block: &Block<'m>) -> bool {
        ends(self.machine.words(block)).all(|word| word.load(Relaxed) == 0)
    }

    #[inline]
    fn touch(&self, block: &mut Block<'m>, value: u64) {
        ends(self.machine.words(block)).for_each(|word| word.store(value, Relaxed));
    }

    #[inline]
    fn verify(&self, block: &Block<'m>, value: u64) -> Result<(), Overwritten> {
        let found = ends(self.machine.words(block)).map(|word| word.load(Relaxed));
        match found.into_iter().find(|found| *found != value) {
            None => Ok(()),
            Some(found) => Err(Overwritten { pfn: block.pfn(), found, expected: value }),
        }
    }

    fn copy_in(&self, block: &mut Block<'m>, value: u64, _hot: u32) {
        self.machine.fill(block, value);
    }

    fn copy_out(&self, block: &Block<'m>, value: u64, _hot: u32) -> Result<(), Overwritten> {
        self.machine.verify(block, value).map_err(|mismatch| Overwritten {
            pfn: block.pfn(),
            found: mismatch.found,
            expected: mismatch.expected,
        })
    }
}

fn ends(words: &[AtomicU64]) -> impl Iterator<Item = &AtomicU64> {
    words.first().into_iter().chain(words.last())
}
