//! A lock for threads that may be preempted while they hold it.
//!
//! Critical sections of a zone last about a microsecond, so a waiter spins for about that long. If
//! the lock is still held then, its holder was probably preempted. So the waiter sleeps in the
//! kernel (a futex), and the holder can use the processor.
//!
//! The word is 0 if the lock is free, 1 if it is held, 2 if it is held and threads may be asleep. A
//! thread that finds the lock free sets 1. A thread that has stopped spinning sets 2, even when it
//! takes the lock, because others may still sleep. Releasing a lock with value 2 wakes one thread.

#![allow(unsafe_code)]

use framewright::{platform::Wait, sync::RawLock};
use rustix::thread::futex;
use std::{
    sync::atomic::{
        AtomicU32, AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
    },
    time::Instant,
};

use crate::{HostMachine, wait::wait};

const OPEN: u32 = 0;
const HELD: u32 = 1;
const CONTENDED: u32 = 2;

/// Iterations of the spin loop before a waiter goes to sleep.
const SPINS: u32 = 60;

/// The library's lock on the host machine: of zones, LRU lists and deferred frees.
pub struct HostLock(AtomicU32);

// SAFETY: the word leaves OPEN only by a compare-exchange from OPEN or by a swap that returned
// OPEN, both with acquire ordering, and returns to it only in `unlock`, with release ordering; so
// holders exclude each other and synchronise.
unsafe impl RawLock<HostMachine> for HostLock {
    fn new() -> Self {
        Self(AtomicU32::new(OPEN))
    }

    #[inline]
    fn lock(&self, machine: &HostMachine) {
        if self.0.compare_exchange(OPEN, HELD, Acquire, Relaxed).is_err() {
            self.lock_contended(machine);
        }
    }

    #[inline]
    unsafe fn unlock(&self, _machine: &HostMachine) {
        if self.0.swap(OPEN, Release) == CONTENDED {
            // Waking one thread is enough: it takes the lock as CONTENDED, so its release wakes the next.
            let _ = futex::wake(&self.0, futex::Flags::PRIVATE, 1);
        }
    }

    #[inline]
    fn is_held(&self, _machine: &HostMachine) -> bool {
        self.0.load(Relaxed) != OPEN
    }
}

impl HostLock {
    #[cold]
    fn lock_contended(&self, machine: &HostMachine) {
        let started = Instant::now();
        if !self.spin() {
            while self.0.swap(CONTENDED, Acquire) != OPEN {
                // Returns at once if the word is no longer CONTENDED; a signal or a spurious return
                // costs one iteration.
                let _ = futex::wait(&self.0, futex::Flags::PRIVATE, CONTENDED, None);
            }
        }
        machine.lock_waits().count(started);
    }

    /// Tries to take the lock without sleeping.
    fn spin(&self) -> bool {
        for round in 0..SPINS {
            match self.0.load(Relaxed) {
                OPEN if self.0.compare_exchange(OPEN, HELD, Acquire, Relaxed).is_ok() => {
                    return true;
                }
                // Others sleep already, so spinning would not help.
                CONTENDED => return false,
                _ => wait(Wait::Lock, round),
            }
        }
        false
    }
}

/// The number and the duration of waits for the locks of a machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Contention {
    /// Acquisitions that found the lock held.
    pub waits: u64,
    /// The total time of the waits, in nanoseconds.
    pub nanos: u64,
}

/// The same counts as atomics.
#[derive(Default)]
pub(crate) struct LockWaits {
    waits: AtomicU64,
    nanos: AtomicU64,
}

impl LockWaits {
    fn count(&self, started: Instant) {
        self.waits.fetch_add(1, Relaxed);
        self.nanos.fetch_add(started.elapsed().as_nanos() as u64, Relaxed);
    }

    pub(crate) fn read(&self) -> Contention {
        Contention { waits: self.waits.load(Relaxed), nanos: self.nanos.load(Relaxed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{sync::Barrier, thread, time::Duration};

    fn machine() -> HostMachine {
        HostMachine::builder().frames(512).build().unwrap()
    }

    #[test]
    fn is_held_reports_the_state() {
        let machine = machine();
        let lock = <HostLock as RawLock<HostMachine>>::new();
        assert!(!lock.is_held(&machine));
        lock.lock(&machine);
        assert!(lock.is_held(&machine));
        // SAFETY: the lock was taken above.
        unsafe { lock.unlock(&machine) };
        assert!(!lock.is_held(&machine));
    }

    #[test]
    fn more_threads_than_processors_count_exactly() {
        const THREADS: u64 = 8;
        const TURNS: u64 = 20_000;
        let machine = machine();
        let lock = <HostLock as RawLock<HostMachine>>::new();
        let sum = AtomicU64::new(0);
        let start = Barrier::new(THREADS as usize);
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    start.wait();
                    for _ in 0..TURNS {
                        // Two steps: without mutual exclusion, increments would be lost.
                        lock.lock(&machine);
                        let old = sum.load(Relaxed);
                        std::hint::spin_loop();
                        sum.store(old + 1, Relaxed);
                        // SAFETY: it was taken above.
                        unsafe { lock.unlock(&machine) };
                    }
                });
            }
        });
        assert_eq!(sum.into_inner(), THREADS * TURNS);
    }

    /// Wakes sleeping waiters without a release, and ends all other waits at once.
    #[test]
    fn spurious_wake_ups_do_not_give_the_lock_to_two_threads() {
        const THREADS: u64 = 3;
        const TURNS: u64 = 2_000;
        let _early = crate::wait::early::Early::begin();
        let machine = machine();
        let lock = <HostLock as RawLock<HostMachine>>::new();
        let (inside, turns) = (AtomicU32::new(0), AtomicU64::new(0));
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for _ in 0..TURNS {
                        lock.lock(&machine);
                        assert_eq!(inside.fetch_add(1, Relaxed), 0, "two threads hold the lock");
                        thread::yield_now();
                        inside.fetch_sub(1, Relaxed);
                        turns.fetch_add(1, Relaxed);
                        // SAFETY: taken above.
                        unsafe { lock.unlock(&machine) };
                    }
                });
            }
            while turns.load(Relaxed) < THREADS * TURNS {
                let _ = futex::wake(&lock.0, futex::Flags::PRIVATE, u32::MAX >> 1);
                thread::yield_now();
            }
        });
        assert!(!lock.is_held(&machine));
    }

    #[test]
    fn a_sleeping_waiter_is_woken_and_counted() {
        let machine = machine();
        let lock = <HostLock as RawLock<HostMachine>>::new();
        lock.lock(&machine);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    lock.lock(&machine);
                    // SAFETY: taken in the line above.
                    unsafe { lock.unlock(&machine) };
                });
            }
            // Long enough for all three to have gone to sleep.
            thread::sleep(Duration::from_millis(50));
            // SAFETY: taken before the threads were started.
            unsafe { lock.unlock(&machine) };
        });
        let contention = machine.contention();
        assert_eq!(contention.waits, 3);
        assert!(contention.nanos > 3_000_000, "{contention:?}");
    }
}
