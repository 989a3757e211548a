//! Lock words.
//!
//! Each platform has its own type of lock word ([`RawLock`]): a queued spinlock on hardware, a modelled one in a
//! simulator. Two lock words are ready-made: [`TicketLock`] is fair, and [`SpinFlag`] suffices where locks are
//! rarely contended.

#![allow(unsafe_code)]

use super::{AtomicBool, AtomicU32, Ordering};

/// A machine that can wait for a lock. Each [`Platform`](crate::Platform) implements it.
pub trait LockWait {
    /// The body of a loop that waits for a lock; `spins` counts the calls of one loop, from 0.
    fn wait_for_lock(&self, spins: u32);
}

/// A lock word.
///
/// # Safety
///
/// The lock excludes: from a successful acquisition to the matching `unlock` no other acquisition
/// succeeds, and everything before `unlock` happens before the next acquisition.
pub unsafe trait RawLock<P>: Send + Sync {
    /// A lock that is not held.
    fn new() -> Self;
    /// Acquires the lock; waits through [`Platform::wait`](crate::Platform::wait).
    fn lock(&self, platform: &P);
    /// Releases the lock.
    ///
    /// # Safety
    ///
    /// The caller holds the lock.
    unsafe fn unlock(&self, platform: &P);
    /// Whether the lock is held at the moment: a hint, for work that is skipped instead of waiting
    /// for the lock. A lock that cannot tell returns `false`; on a machine of many CPUs, frees then
    /// wait more often.
    fn is_held(&self, _platform: &P) -> bool {
        false
    }
}

/// A test-and-test-and-set lock: one word, unfair, for locks that are rarely contended.
pub struct SpinFlag(AtomicBool);

// SAFETY: acquisition is a compare-exchange from free to held with acquire ordering, and release is a store with
// release ordering. So holders exclude each other and synchronise.
unsafe impl<P: LockWait> RawLock<P> for SpinFlag {
    fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    #[inline]
    fn lock(&self, platform: &P) {
        if !self.try_lock() {
            self.lock_slowly(platform);
        }
    }

    #[inline]
    unsafe fn unlock(&self, _platform: &P) {
        self.0.store(false, Ordering::Release);
    }

    #[inline]
    fn is_held(&self, _platform: &P) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl SpinFlag {
    #[inline]
    fn try_lock(&self) -> bool {
        self.0.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[cold]
    #[inline(never)]
    fn lock_slowly(&self, platform: &impl LockWait) {
        let mut spins = 0;
        while !self.try_lock() {
            while self.0.load(Ordering::Relaxed) {
                platform.wait_for_lock(spins);
                spins = spins.saturating_add(1);
            }
        }
    }
}

/// A ticket lock: callers get the lock in the order in which they asked for it.
///
/// All waiters read the same word. With more than some tens of contending CPUs, a queue lock, in which each waiter
/// reads its own word, is faster. If the host can preempt virtual CPUs, the next waiter in order may not be running.
pub struct TicketLock {
    /// The next ticket.
    next: AtomicU32,
    /// The ticket whose owner has the lock.
    serving: AtomicU32,
}

// SAFETY: tickets are unique among fewer than 2^32 waiting callers, and only the owner of the ticket that is served
// has the lock. The lock is passed on by a store with release ordering, which the next owner reads with acquire
// ordering.
unsafe impl<P: LockWait> RawLock<P> for TicketLock {
    fn new() -> Self {
        Self { next: AtomicU32::new(0), serving: AtomicU32::new(0) }
    }

    #[inline]
    fn lock(&self, platform: &P) {
        let ticket = self.next.fetch_add(1, Ordering::Relaxed);
        let mut spins = 0;
        while self.serving.load(Ordering::Acquire) != ticket {
            platform.wait_for_lock(spins);
            spins = spins.saturating_add(1);
        }
    }

    #[inline]
    unsafe fn unlock(&self, _platform: &P) {
        // Only the owner writes this word.
        let ticket = self.serving.load(Ordering::Relaxed);
        self.serving.store(ticket.wrapping_add(1), Ordering::Release);
    }

    #[inline]
    fn is_held(&self, _platform: &P) -> bool {
        self.next.load(Ordering::Relaxed) != self.serving.load(Ordering::Relaxed)
    }
}

#[cfg(all(test, not(any(framewright_loom, framewright_tso))))]
mod tests {
    use super::*;
    use std::{
        sync::{Mutex, atomic::AtomicU32 as Counter},
        thread,
        vec::Vec,
    };

    /// Counts the callers that wait.
    #[derive(Default)]
    struct Waiters(Counter);

    impl LockWait for Waiters {
        fn wait_for_lock(&self, spins: u32) {
            if spins == 0 {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
            thread::yield_now();
        }
    }

    #[test]
    fn a_ticket_lock_serves_in_order_of_arrival() {
        let waiters = Waiters::default();
        let lock = <TicketLock as RawLock<Waiters>>::new();
        let served = Mutex::new(Vec::new());
        lock.lock(&waiters);
        thread::scope(|scope| {
            for arrival in 0..4 {
                let (lock, waiters, served) = (&lock, &waiters, &served);
                scope.spawn(move || {
                    lock.lock(waiters);
                    served.lock().unwrap().push(arrival);
                    // SAFETY: taken above.
                    unsafe { lock.unlock(waiters) };
                });
                // The next thread starts when this one waits.
                let is_served = || served.lock().unwrap().len() as u32 > arrival;
                while waiters.0.load(Ordering::Relaxed) == arrival && !is_served() {
                    thread::yield_now();
                }
            }
            assert!(lock.is_held(&waiters));
            assert!(
                served.lock().unwrap().is_empty(),
                "a waiter was served although the lock is held here"
            );
            // SAFETY: taken above.
            unsafe { lock.unlock(&waiters) };
        });
        assert_eq!(*served.lock().unwrap(), [0, 1, 2, 3]);
        assert!(!lock.is_held(&waiters));
    }

    #[test]
    fn tickets_wrap() {
        let waiters = Waiters::default();
        let lock = TicketLock { next: AtomicU32::new(u32::MAX), serving: AtomicU32::new(u32::MAX) };
        for _ in 0..3 {
            lock.lock(&waiters);
            // SAFETY: taken above.
            unsafe { lock.unlock(&waiters) };
        }
        assert!(!lock.is_held(&waiters) && waiters.0.load(Ordering::Relaxed) == 0);
    }
}

#[cfg(all(test, framewright_loom))]
mod loom_tests {
    use loom::{model::Builder, sync::Arc, thread};

    use super::*;

    struct Yields;

    impl LockWait for Yields {
        fn wait_for_lock(&self, _: u32) {
            thread::yield_now();
        }
    }

    /// Two threads add 1 to a number under the lock, in two relaxed steps each.
    #[test]
    fn loom_a_ticket_lock_excludes_and_orders() {
        let mut builder = Builder::new();
        // With a bound of 3, the exploration does not end within minutes, because a waiter may read the
        // old ticket again and again.
        builder.preemption_bound = Some(2);
        builder.check(|| {
            let lock = <TicketLock as RawLock<Yields>>::new();
            let both = Arc::new((lock, AtomicU32::new(0)));
            let add = |(lock, number): &(TicketLock, AtomicU32)| {
                lock.lock(&Yields);
                number.store(number.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                // SAFETY: taken above.
                unsafe { lock.unlock(&Yields) };
            };
            let theirs = Arc::clone(&both);
            let other = thread::spawn(move || add(&theirs));
            add(&both);
            other.join().unwrap();
            both.0.lock(&Yields);
            assert_eq!(both.1.load(Ordering::Relaxed), 2, "an addition was lost");
        });
    }
}
