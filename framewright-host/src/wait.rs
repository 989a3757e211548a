//! Waiting for another thread.
//!
//! A waiter first spins a few times: a running thread may soon finish. But threads are preempted, most often if the
//! machine has more CPUs than the host has processors. A spinning waiter would then use processor time that the other
//! thread needs. So after the spins, a waiter yields, and then sleeps longer and longer.

use framewright::platform::Wait;
use rustix::thread::sched_yield;
use std::{thread::sleep, time::Duration};

/// Spins before the first yield: about the length of a short critical section.
const SPINS: u32 = 64;
/// Yields before the first sleep.
const YIELDS: u32 = 16;
/// The first sleep.
const FIRST_SLEEP: Duration = Duration::from_micros(20);
/// The binary logarithm of the longest sleep in units of the first: 1.3 ms.
const LONGEST: u32 = 6;

/// The way to wait in one turn of a waiting loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Spin,
    Yield,
    Sleep(Duration),
}

fn step(why: Wait, round: u32) -> Step {
    // Memory is not freed within a few spins.
    let round = if why == Wait::Memory { round.saturating_add(SPINS) } else { round };
    let Some(round) = round.checked_sub(SPINS) else {
        return Step::Spin;
    };
    let Some(round) = round.checked_sub(YIELDS) else {
        return Step::Yield;
    };
    Step::Sleep(FIRST_SLEEP * (1 << (round / 4).min(LONGEST)))
}

/// The body of a waiting loop, in its `round`-th turn.
pub(crate) fn wait(why: Wait, round: u32) {
    #[cfg(test)]
    if early::is_on() {
        return;
    }
    match step(why, round) {
        Step::Spin => std::hint::spin_loop(),
        Step::Yield => sched_yield(),
        Step::Sleep(duration) => sleep(duration),
    }
}

/// Waits that end at once, so that every waiting loop must check its condition again.
#[cfg(test)]
pub(crate) mod early {
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

    static TESTS: AtomicU32 = AtomicU32::new(0);

    /// While it lives, no thread of the process waits.
    pub(crate) struct Early(());

    impl Early {
        pub(crate) fn begin() -> Self {
            TESTS.fetch_add(1, SeqCst);
            Self(())
        }
    }

    impl Drop for Early {
        fn drop(&mut self) {
            TESTS.fetch_sub(1, SeqCst);
        }
    }

    pub(super) fn is_on() -> bool {
        TESTS.load(SeqCst) > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_become_longer() {
        assert_eq!(step(Wait::Owner, 0), Step::Spin);
        assert_eq!(step(Wait::Owner, SPINS), Step::Yield);
        assert_eq!(step(Wait::Owner, SPINS + YIELDS), Step::Sleep(FIRST_SLEEP));
        assert_eq!(step(Wait::Owner, u32::MAX), Step::Sleep(FIRST_SLEEP * 64));
    }

    #[test]
    fn a_wait_for_memory_does_not_spin() {
        assert_eq!(step(Wait::Memory, 0), Step::Yield);
    }
}
