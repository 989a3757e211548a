//! The cells of the table of `alloc-micro` that two threads measure, in wall time. Each thread is
//! pinned to a CPU.

use super::{
    calls::{Blocks, CPUS, alloc, free, limited, pairs, per_operation},
    scale::Scale,
};
use crate::clock::{SpinWait, settle, two_cpus};
use framewright_peers::Peer;
use std::{
    sync::{
        self,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

/// Slots of the ring between a thread that allocates and a thread that frees.
const RING: usize = 4096;
/// Frames in use in the tight pool, including those in the ring: 64 MiB.
const TIGHT_USED: usize = 1 << 14;
/// Frames of the tight pool: 1.25 times those in use.
const TIGHT_POOL: u64 = TIGHT_USED as u64 / 4 * 5;

/// Runs `work` on two threads, each on a CPU of its own.
fn both<R: Send>(work: impl Fn(usize) -> R + Sync) -> Option<[R; 2]> {
    let cpus = two_cpus()?;
    let started = sync::Barrier::new(2);
    std::thread::scope(|scope| {
        let threads = [0, 1].map(|side| {
            let (work, started) = (&work, &started);
            scope.spawn(move || {
                settle(cpus[side]);
                // The first thread sleeps here: with real-time priority, a thread that spins can
                // take the CPU from the thread that starts the second one.
                started.wait();
                work(side)
            })
        });
        let [first, second] = threads.map(|thread| thread.join().ok());
        Some([first?, second?])
    })
}

/// A barrier: both threads spin until both have arrived, for any number of laps.
struct Barrier(AtomicUsize);

/// One thread's use of the barrier. If the thread panics, the other does not wait for it.
struct Arrival<'l>(&'l Barrier);

impl Drop for Arrival<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.0.store(usize::MAX / 2, Ordering::Release);
        }
    }
}

impl Barrier {
    fn new() -> Self {
        Self(AtomicUsize::new(0))
    }

    fn place(&self) -> Arrival<'_> {
        Arrival(self)
    }
}

impl Arrival<'_> {
    fn wait(&self, lap: usize) {
        self.0.0.fetch_add(1, Ordering::AcqRel);
        let mut spin = SpinWait::new();
        while self.0.0.load(Ordering::Acquire) < 2 * lap {
            spin.wait();
        }
    }
}

/// Both threads make pairs for the same time. Returns the mean of their times per pair.
pub(super) fn pair<const ORDER: u8, P: Peer>(frames: u64, scale: &Scale) -> Option<f64> {
    let peer = P::new(frames, CPUS);
    let line = Barrier::new();
    let figures = both(|side| {
        let place = line.place();
        let mut worker = peer.worker(side);
        place.wait(1);
        pairs::<ORDER, _>(&mut worker, scale.pair_time / 20)?;
        let start = Instant::now();
        let done = pairs::<ORDER, _>(&mut worker, scale.pair_time)?;
        Some((start.elapsed(), done))
    })?;
    let [(first, pairs_first), (second, pairs_second)] = [figures[0]?, figures[1]?];
    Some(per_operation(first + second, pairs_first + pairs_second))
}

/// Both threads allocate `count` frames, wait for each other, and free in random order. Returns the
/// times of the slower thread per allocation and per free.
pub(super) fn bulk<P: Peer>(
    frames: u64,
    count: usize,
    scale: &Scale,
    seed: u64,
) -> Option<[f64; 2]> {
    let peer = P::new(frames, CPUS);
    let line = Barrier::new();
    let figures = both(|side| {
        let place = line.place();
        let mut random = fastrand::Rng::with_seed(seed + side as u64);
        let mut worker = peer.worker(side);
        let mut blocks = Blocks::<0>::with_capacity(count);
        place.wait(1);
        let (filled, alloc) = wall(|| blocks.fill(&mut worker, scale.limit));
        let allocated = blocks.len();
        blocks.shuffle(&mut random);
        place.wait(2);
        let ((), free) = wall(|| {
            blocks.empty(&mut worker, scale.limit);
        });
        filled?;
        let freed = allocated - blocks.len();
        Some([per_operation(alloc, allocated), per_operation(free, freed)])
    })?;
    let [first, second] = [figures[0]?, figures[1]?];
    Some([first[0].max(second[0]), first[1].max(second[1])])
}

fn wall<R>(work: impl FnOnce() -> R) -> (R, Duration) {
    let start = Instant::now();
    (work(), start.elapsed())
}

/// One thread allocates and puts frames into a ring, the other takes them out and frees them.
/// Returns the time until the last one is freed, per frame.
pub(super) fn cross<P: Peer>(frames: u64, scale: &Scale) -> Option<f64> {
    transfer::<P>(frames, 0, scale)
}

/// As [`cross`], in a pool with few more frames than are in use. For each new frame, a random one
/// of those in use is freed.
pub(super) fn tight_pool<P: Peer>(scale: &Scale) -> Option<f64> {
    transfer::<P>(TIGHT_POOL, TIGHT_USED - RING, scale)
}

/// As [`cross`]. The thread that allocates keeps `kept` frames: it sends a random one of them, and
/// the new frame takes its place. `None` if the allocator refused a request although other frames
/// were freed.
fn transfer<P: Peer>(frames: u64, kept: usize, scale: &Scale) -> Option<f64> {
    let peer = P::new(frames, CPUS);
    let line = Barrier::new();
    let ring = Ring::new();
    let figures = both(|side| {
        let place = line.place();
        let mut worker = peer.worker(side);
        let mut random = fastrand::Rng::with_seed(1);
        let mut in_use = Blocks::<0>::with_capacity(if side == 0 { kept } else { 0 });
        let filled = in_use.fill(&mut worker, scale.limit);
        place.wait(1);
        let _closes = CloseWhenDone(&ring);
        filled?;
        let start = Instant::now();
        let done = if side == 0 {
            let sent = limited(scale.cross, scale.limit, |index| {
                alloc::<0, _>(&mut worker)
                    .is_some_and(|frame| ring.put(index, in_use.replace_random(frame, &mut random)))
            });
            if sent.refused {
                return None;
            }
            sent.operations
        } else {
            let mut taken = 0;
            while let Some(frame) = ring.take(taken) {
                // SAFETY: the other side allocated it and sent it once, and the ring returns it
                // once.
                unsafe { free::<0, _>(&mut worker, frame) };
                taken += 1;
            }
            taken
        };
        Some((start.elapsed(), done))
    })?;
    let [(_, sent), (time, received)] = [figures[0]?, figures[1]?];
    debug_assert_eq!(sent, received);
    Some(per_operation(time, received))
}

/// A ring for one producer and one consumer. A slot holds a frame or [`EMPTY`].
struct Ring {
    slots: Vec<AtomicU64>,
    closed: AtomicBool,
}

const EMPTY: u64 = u64::MAX;

/// Closes the ring when one side ends or panics.
struct CloseWhenDone<'r>(&'r Ring);

impl Drop for CloseWhenDone<'_> {
    fn drop(&mut self) {
        self.0.closed.store(true, Ordering::Release);
    }
}

impl Ring {
    fn new() -> Self {
        Self {
            slots: (0..RING).map(|_| AtomicU64::new(EMPTY)).collect(),
            closed: AtomicBool::new(false),
        }
    }

    /// Puts frame number `index` into the ring, waiting for a free slot; `false` if the other side
    /// has ended.
    #[inline]
    fn put(&self, index: usize, frame: u64) -> bool {
        let slot = &self.slots[index % RING];
        let mut spin = SpinWait::new();
        while slot.load(Ordering::Acquire) != EMPTY {
            if self.closed.load(Ordering::Relaxed) {
                return false;
            }
            spin.wait();
        }
        slot.store(frame, Ordering::Release);
        true
    }

    /// Takes frame number `index` out of the ring; `None` if the other side ended before it.
    #[inline]
    fn take(&self, index: usize) -> Option<u64> {
        let slot = &self.slots[index % RING];
        let mut spin = SpinWait::new();
        loop {
            // This load precedes the load of the slot: frames from before the close are then
            // visible.
            let closed = self.closed.load(Ordering::Acquire);
            let frame = slot.load(Ordering::Acquire);
            if frame != EMPTY {
                slot.store(EMPTY, Ordering::Release);
                return Some(frame);
            }
            if closed {
                return None;
            }
            spin.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_panics_does_not_leave_the_other_waiting() {
        let line = Barrier::new();
        let outcome = both(|side| {
            let place = line.place();
            assert_eq!(side, 1, "this side ends before the barrier");
            place.wait(1);
            place.wait(2);
        });
        assert!(outcome.is_none());
        let ring = Ring::new();
        drop(CloseWhenDone(&ring));
        assert!((0..=RING).any(|index| !ring.put(index, 0)));
    }

    #[test]
    fn a_ring_returns_everything_in_order() {
        let ring = Ring::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _closes = CloseWhenDone(&ring);
                for frame in 0..3 * RING as u64 {
                    assert!(ring.put(frame as usize, frame));
                }
            });
            for expected in 0..3 * RING as u64 {
                assert_eq!(ring.take(expected as usize), Some(expected));
            }
            assert_eq!(ring.take(3 * RING), None);
        });
    }
}
