//! Probes of two threads on two CPUs: lines and locks that change CPUs. Wall time.

use std::{
    sync::{
        Barrier,
        atomic::{
            AtomicBool, AtomicU64, AtomicUsize,
            Ordering::{AcqRel, Acquire, Relaxed, Release},
        },
    },
    thread,
    time::Instant,
};

use super::{
    Means,
    one::multiply,
    probe::{Probe, Quantity},
};
use crate::clock::{SpinWait, settle};

/// Round trips of a line in a round.
const TRIPS: u64 = 5_000;
/// Acquisitions of the first thread in a round.
const HOLDS: u64 = 3_000;
/// Multiplications under the lock: some hundred nanoseconds, in which the other thread queues again.
const WORK: u64 = 300;

const TRANSFER: [Quantity; 1] = [Quantity::nanos(
    "line_transfer_ns",
    "two cores of a socket store to one line in turn; half of a round trip",
)];
const REMOTE: [Quantity; 1] = [Quantity::nanos(
    "line_transfer_remote_ns",
    "cores of two sockets store to one line in turn; half of a round trip",
)];
const HANDOVER: [Quantity; 1] = [Quantity::nanos(
    "lock_handover_ns",
    "two threads always want a queued lock; time per hold, without the work under it",
)];

pub(super) fn probes(means: &Means) -> Vec<Probe<'_>> {
    let probe = |quantity, other: &Result<usize, String>, round: fn(usize) -> f64| match *other {
        Ok(other) => Probe::single(quantity, move || round(other)),
        Err(ref reason) => Probe::missing(quantity, reason.clone()),
    };
    vec![
        probe(&TRANSFER, &means.second, transfer),
        probe(&REMOTE, &means.remote, transfer),
        probe(&HANDOVER, &means.second, handover),
    ]
}

/// Runs `second` on CPU `cpu` until `first` has ended on this thread. `second` must end soon after
/// its flag is set. Returns the results of both.
pub(super) fn beside<R>(
    cpu: usize,
    second: impl Fn(&AtomicBool) -> u64 + Sync,
    first: impl FnOnce() -> R,
) -> (R, u64) {
    let (stop, ready) = (AtomicBool::new(false), Barrier::new(2));
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            settle(cpu);
            ready.wait();
            second(&stop)
        });
        // This thread sleeps here: with real-time priority, a thread that spins would keep the other
        // one, which starts on the same CPU, from running.
        ready.wait();
        let result = {
            let _stops = StopOnDrop(&stop);
            first()
        };
        (result, other.join().unwrap_or(0))
    })
}

/// Ends the second thread when the first has ended or panicked.
struct StopOnDrop<'s>(&'s AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// A value on a cache line of its own. Processors may fetch lines in pairs.
#[derive(Default)]
#[repr(align(128))]
pub(super) struct Line<T>(pub(super) T);

/// Nanoseconds in which a line moves to the other CPU.
fn transfer(other: usize) -> f64 {
    let word = Line(AtomicU64::new(0));
    let answer = |stop: &AtomicBool| {
        let mut turn = 1;
        while wait_for(&word.0, turn, stop) {
            word.0.store(turn + 1, Release);
            turn += 2;
        }
        0
    };
    let never = AtomicBool::new(false);
    let trips = |trips: u64, from: u64| {
        for trip in from..from + trips {
            word.0.store(2 * trip + 1, Release);
            wait_for(&word.0, 2 * trip + 2, &never);
        }
    };
    let (nanos, _) = beside(other, answer, || {
        trips(100, 0);
        let start = Instant::now();
        trips(TRIPS, 100);
        start.elapsed().as_nanos() as f64
    });
    nanos / (2 * TRIPS) as f64
}

/// Waits until `word` is `value`. Returns `false` if `stop` was set before.
fn wait_for(word: &AtomicU64, value: u64, stop: &AtomicBool) -> bool {
    let mut spin = SpinWait::new();
    while word.load(Acquire) != value {
        if stop.load(Relaxed) {
            return false;
        }
        spin.wait();
    }
    true
}

/// Nanoseconds from the end of one hold of a contended lock to the start of the next, on the other
/// CPU.
fn handover(other: usize) -> f64 {
    let lock = Queued::default();
    let work = || _ = multiply(WORK);
    let start = Instant::now();
    (0..HOLDS).for_each(|_| work());
    let alone = start.elapsed().as_nanos() as f64 / HOLDS as f64;
    let hold = |stop: &AtomicBool| {
        let mut holds = 0;
        while !stop.load(Relaxed) {
            lock.hold(1, work);
            holds += 1;
        }
        holds
    };
    let (nanos, others) = beside(other, hold, || {
        let start = Instant::now();
        (0..HOLDS).for_each(|_| lock.hold(0, work));
        start.elapsed().as_nanos() as f64
    });
    (nanos / (HOLDS + others) as f64 - alone).max(0.0)
}

/// A lock in order of arrival for two threads: each waits on a line of its own, as with the queued
/// spin locks of kernels.
#[derive(Default)]
struct Queued {
    /// The last thread in the queue plus one; 0 if the lock is free.
    tail: Line<AtomicUsize>,
    nodes: [Line<Node>; 2],
}

/// A thread's place in the queue.
#[derive(Default)]
struct Node {
    granted: AtomicBool,
    /// The next thread plus one; 0 if there is none yet.
    next: AtomicUsize,
}

impl Queued {
    /// Does `work` under the lock, for thread `me`.
    fn hold(&self, me: usize, work: impl FnOnce()) {
        let node = &self.nodes[me].0;
        node.next.store(0, Relaxed);
        node.granted.store(false, Relaxed);
        let before = self.tail.0.swap(me + 1, AcqRel);
        if let Some(before) = before.checked_sub(1) {
            self.nodes[before].0.next.store(me + 1, Release);
            let mut spin = SpinWait::new();
            while !node.granted.load(Acquire) {
                spin.wait();
            }
        }
        work();
        let alone = self.tail.0.compare_exchange(me + 1, 0, Release, Relaxed).is_ok();
        if alone {
            return;
        }
        let mut spin = SpinWait::new();
        loop {
            match node.next.load(Acquire).checked_sub(1) {
                Some(next) => return self.nodes[next].0.granted.store(true, Release),
                None => spin.wait(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queued_lock_excludes() {
        let (lock, sum) = (Queued::default(), AtomicU64::new(0));
        // Without exclusion, an addition in two steps loses some.
        let add = |sum: &AtomicU64| sum.store(sum.load(Relaxed) + 1, Relaxed);
        thread::scope(|scope| {
            for me in 0..2 {
                let (lock, sum) = (&lock, &sum);
                scope.spawn(move || (0..20_000).for_each(|_| lock.hold(me, || add(sum))));
            }
        });
        assert_eq!((sum.into_inner(), lock.tail.0.into_inner()), (40_000, 0));
    }
}
