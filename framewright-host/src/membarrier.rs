//! Barriers on other CPUs.
//!
//! `membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)` makes every thread of this process that is running execute a full
//! memory barrier before the call returns; other threads have executed one when they were switched out. The process
//! registers once. For a single thread that may migrate there is no cheaper call. So the target of a barrier is
//! ignored: every call reaches all threads.

use rustix::{
    io::Errno,
    thread::{MembarrierCommand, membarrier, membarrier_query},
};
use thiserror::Error;

/// The reason why a machine cannot run barriers on other CPUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum NoBarrier {
    /// The builder forbade it.
    #[error("membarrier was switched off")]
    SwitchedOff,
    /// The kernel has no private expedited membarrier (before Linux 4.14, or filtered out).
    #[error("this kernel has no private expedited membarrier")]
    Missing,
    /// The kernel has private expedited membarrier, but refused to register this process.
    #[error("the kernel refused to register for membarrier ({0})")]
    Refused(Errno),
}

/// Barriers on other CPUs, or the reason why there are none.
pub(crate) struct RemoteBarrier(Result<(), NoBarrier>);

impl RemoteBarrier {
    /// Registers with the kernel, if `allowed`.
    pub(crate) fn detect(allowed: bool) -> Self {
        Self(if allowed { register() } else { Err(NoBarrier::SwitchedOff) })
    }

    /// The reason why there are no remote barriers; `None` if there are.
    pub(crate) fn missing(&self) -> Option<NoBarrier> {
        self.0.err()
    }

    /// Runs a barrier on every thread of this process.
    ///
    /// # Panics
    ///
    /// If there are no remote barriers, or the kernel refuses one although the process is registered: a return without
    /// the barrier would let two threads use the same lists.
    pub(crate) fn run(&self) {
        let result = match self.0 {
            Ok(()) => membarrier(MembarrierCommand::PrivateExpedited),
            Err(_) => Err(Errno::NOSYS),
        };
        assert!(result.is_ok(), "no remote barrier on this machine: {result:?}");
    }
}

fn register() -> Result<(), NoBarrier> {
    if !membarrier_query().contains_command(MembarrierCommand::PrivateExpedited) {
        return Err(NoBarrier::Missing);
    }
    membarrier(MembarrierCommand::RegisterPrivateExpedited).map_err(NoBarrier::Refused)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::{Cpus, processors};
    use framewright::CpuId;
    use std::{
        hint::black_box,
        sync::atomic::{
            AtomicU32,
            Ordering::{Relaxed, SeqCst},
            compiler_fence,
        },
        thread,
    };

    const ROUNDS: u32 = 4000;

    /// A word on a cache line of its own.
    #[derive(Default)]
    #[repr(align(64))]
    struct Line(AtomicU32);

    struct Table {
        cpus: Cpus,
        words: [Line; 2],
        arrived: Line,
    }

    impl Table {
        /// Runs all rounds of one side. Returns for each round whether this side saw the other's
        /// store.
        fn run_side(&self, side: usize, fence: impl Fn()) -> Vec<bool> {
            let _pinned = self.cpus.register_as(CpuId::new(side as u16)).unwrap();
            let (mine, other) = (&self.words[side].0, &self.words[1 - side].0);
            let round = |round: u32| {
                // Both threads leave within nanoseconds of each other, at varying distances.
                self.meet(round);
                (0..(round >> (5 * side)) % 32).for_each(|turn| _ = black_box(turn));
                mine.store(round, Relaxed);
                fence();
                other.load(Relaxed) >= round
            };
            (1..=ROUNDS).map(round).collect()
        }

        fn meet(&self, round: u32) {
            self.arrived.0.fetch_add(1, SeqCst);
            let mut spins = 0;
            while self.arrived.0.load(SeqCst) < 2 * round {
                spins += 1;
                if spins % 1000 == 0 {
                    thread::yield_now();
                }
            }
        }
    }

    #[test]
    fn a_detected_barrier_runs() {
        let barrier = RemoteBarrier::detect(true);
        if barrier.missing().is_none() {
            barrier.run();
        }
    }

    /// Store buffering, the pattern that the owner protocol rests on: in each round each side
    /// stores the round's number to its word and loads the other's. At least one must see the
    /// other's store, though only one side has a barrier. (Without any barrier, neither side sees
    /// it in some percent of the rounds.)
    #[test]
    fn one_remote_barrier_orders_both_sides() {
        let barrier = RemoteBarrier::detect(true);
        if barrier.missing().is_some() {
            return;
        }
        let table = Table {
            // Each thread has its own processor, if there are two. On one processor they would only
            // take turns.
            cpus: Cpus::new(2, processors().unwrap()),
            words: Default::default(),
            arrived: Line::default(),
        };
        let (owner, drainer) = thread::scope(|scope| {
            let owner = scope.spawn(|| table.run_side(0, || compiler_fence(SeqCst)));
            let drainer = scope.spawn(|| table.run_side(1, || barrier.run()));
            (owner.join().unwrap(), drainer.join().unwrap())
        });
        let blind = owner.iter().zip(&drainer).filter(|(owner, drainer)| !**owner && !**drainer);
        assert_eq!(blind.count(), 0, "rounds in which neither side saw the other");
    }

    #[test]
    #[should_panic(expected = "no remote barrier")]
    fn running_a_missing_barrier_panics() {
        let barrier = RemoteBarrier::detect(false);
        assert_eq!(barrier.missing(), Some(NoBarrier::SwitchedOff));
        barrier.run();
    }
}
