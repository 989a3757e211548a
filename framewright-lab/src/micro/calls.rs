//! The wrapper around every allocator, and the loops that time it.

use framewright_peers::{Peer, Worker};
use std::{
    mem,
    time::{Duration, Instant},
};

use crate::clock::thread_time;

/// Operations between two readings of the clock: so many that the 30 ns of a reading are
/// negligible.
const STRIDE: usize = 1024;

/// Allocates through `worker`. The compiler knows the order, as in most callers. Never inlined: no
/// allocator's calls are optimised together with the loop around them.
#[inline(never)]
pub(super) fn alloc<const ORDER: u8, W: Worker>(worker: &mut W) -> Option<u64> {
    worker.alloc(ORDER)
}

/// Frees through `worker`. Never inlined, as [`alloc`].
///
/// # Safety
///
/// As [`Worker::free`].
#[inline(never)]
pub(super) unsafe fn free<const ORDER: u8, W: Worker>(worker: &mut W, frame: u64) {
    // SAFETY: the caller's promise, passed on.
    unsafe { worker.free(frame, ORDER) };
}

/// Blocks that were allocated through a worker and are not freed yet.
///
/// Every block that is freed through this type was allocated through it, or handed to it
/// ([`Blocks::replace_random`]), and is freed once.
pub(super) struct Blocks<const ORDER: u8> {
    frames: Vec<u64>,
    /// Blocks at the front of `frames` that are allocated.
    len: usize,
}

impl<const ORDER: u8> Blocks<ORDER> {
    /// Capacity for `capacity` blocks, with its memory already touched.
    pub(super) fn with_capacity(capacity: usize) -> Self {
        Self { frames: vec![u64::MAX; capacity], len: 0 }
    }

    /// Allocates until the capacity is reached or `limit` has passed. Returns CPU time per
    /// allocation; `None` if a request failed, or nothing was allocated within `limit`.
    pub(super) fn fill<W: Worker>(&mut self, worker: &mut W, limit: Duration) -> Option<f64> {
        let slots = &mut self.frames[self.len..];
        let start = thread_time();
        let done = limited(slots.len(), limit, |index| match alloc::<ORDER, W>(worker) {
            Some(frame) => {
                slots[index] = frame;
                true
            }
            None => false,
        });
        let spent = thread_time() - start;
        self.len += done.operations;
        (!done.refused).then(|| per_operation(spent, done.operations))
    }

    /// Frees the blocks, front to back, until `limit` has passed. Returns CPU time per free.
    pub(super) fn empty<W: Worker>(&mut self, worker: &mut W, limit: Duration) -> f64 {
        let frames = &self.frames[..self.len];
        let start = thread_time();
        let done = limited(frames.len(), limit, |index| {
            // SAFETY: it came from `alloc` in `fill`, and each is freed once: freed blocks are
            // removed below.
            unsafe { free::<ORDER, W>(worker, frames[index]) };
            true
        });
        let spent = thread_time() - start;
        self.frames.copy_within(done.operations..self.len, 0);
        self.len -= done.operations;
        per_operation(spent, done.operations)
    }

    /// Brings them into random order.
    pub(super) fn shuffle(&mut self, random: &mut fastrand::Rng) {
        random.shuffle(&mut self.frames[..self.len]);
    }

    /// Moves `count` random blocks to a collection of their own.
    pub(super) fn split_random(&mut self, count: usize, random: &mut fastrand::Rng) -> Self {
        let count = count.min(self.len);
        for index in self.len - count..self.len {
            self.frames.swap(index, random.usize(..=index));
        }
        self.len -= count;
        let frames = self.frames[self.len..self.len + count].to_vec();
        Self { frames, len: count }
    }

    /// Replaces a random block by the allocated block `frame`, and returns the random block.
    /// Without any blocks, `frame` itself is returned.
    #[inline]
    pub(super) fn replace_random(&mut self, frame: u64, random: &mut fastrand::Rng) -> u64 {
        match self.len {
            0 => frame,
            len => mem::replace(&mut self.frames[random.usize(..len)], frame),
        }
    }

    /// Adds the blocks of `other`.
    pub(super) fn absorb(&mut self, other: &Self) {
        self.frames.truncate(self.len);
        self.frames.extend_from_slice(&other.frames[..other.len]);
        self.len = self.frames.len();
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }
}

/// The result of a limited loop.
pub(super) struct Done {
    pub(super) operations: usize,
    /// An operation was refused, which ended the loop.
    pub(super) refused: bool,
}

/// Calls `operation` with 0, 1, 2… up to `count` times, until it refuses or the time has passed.
#[inline(always)]
pub(super) fn limited(
    count: usize,
    limit: Duration,
    mut operation: impl FnMut(usize) -> bool,
) -> Done {
    let deadline = Instant::now() + limit;
    let mut index = 0;
    while index < count {
        let stop = count.min(index + STRIDE);
        while index < stop {
            if !operation(index) {
                return Done { operations: index, refused: true };
            }
            index += 1;
        }
        if Instant::now() >= deadline {
            break;
        }
    }
    Done { operations: index, refused: false }
}

/// Allocates and frees a block repeatedly for `time`. Returns the number of pairs, or `None` if an
/// allocation failed.
pub(super) fn pairs<const ORDER: u8, W: Worker>(worker: &mut W, time: Duration) -> Option<usize> {
    let done = limited(usize::MAX, time, |_| match alloc::<ORDER, W>(worker) {
        Some(frame) => {
            // SAFETY: allocated in this iteration.
            unsafe { free::<ORDER, W>(worker, frame) };
            true
        }
        None => false,
    });
    (!done.refused).then_some(done.operations)
}

pub(super) fn per_operation(spent: Duration, operations: usize) -> f64 {
    spent.as_nanos() as f64 / operations.max(1) as f64
}

/// CPUs that every allocator is built for.
pub(super) const CPUS: usize = 2;
/// Number of allocated frames of the exhausted pool that are stored for the cells.
const SAMPLE: usize = 1 << 20;
/// The time for building a state is not limited.
const NO_LIMIT: Duration = Duration::from_secs(600);

/// Pools that are built once per run, because that takes longer than the measurement. Each cell
/// restores them.
pub(super) struct Pools<P: Peer> {
    half: Option<P>,
    exhausted: Option<Exhausted<P>>,
}

/// A pool without a free frame.
pub(super) struct Exhausted<P> {
    pub(super) peer: P,
    /// Some of its allocated frames.
    pub(super) taken: Blocks<0>,
}

impl<P: Peer> Pools<P> {
    pub(super) fn new() -> Self {
        Self { half: None, exhausted: None }
    }

    /// A pool of which a random half is allocated.
    pub(super) fn half(&mut self, frames: u64, random: &mut fastrand::Rng) -> &P {
        self.half.get_or_insert_with(|| {
            let Exhausted { peer, mut taken } = exhaust::<P>(frames);
            let mut freed = taken.split_random(taken.len() / 2, random);
            freed.empty(&mut peer.worker(0), NO_LIMIT);
            peer
        })
    }

    /// A pool whose every frame is allocated.
    pub(super) fn exhausted(
        &mut self,
        frames: u64,
        random: &mut fastrand::Rng,
    ) -> &mut Exhausted<P> {
        self.exhausted.get_or_insert_with(|| {
            let mut pool = exhaust::<P>(frames);
            pool.taken = pool.taken.split_random(SAMPLE, random);
            pool
        })
    }
}

fn exhaust<P: Peer>(frames: u64) -> Exhausted<P> {
    let peer = P::new(frames, CPUS);
    let mut taken = Blocks::<0>::with_capacity(frames as usize);
    // Stops when the allocator refuses, as intended.
    let _ = taken.fill(&mut peer.worker(0), NO_LIMIT);
    Exhausted { peer, taken }
}

#[cfg(test)]
mod tests {
    use super::*;
    use framewright_peers::Floor;

    #[test]
    fn a_new_block_takes_the_place_of_a_random_one() {
        let peer = Floor::new(8, 1);
        let mut worker = peer.worker(0);
        let random = &mut fastrand::Rng::with_seed(1);
        let mut blocks = Blocks::<0>::with_capacity(3);
        assert_eq!(blocks.replace_random(7, random), 7);
        blocks.fill(&mut worker, NO_LIMIT).unwrap();
        let mut seen = blocks.frames.clone();
        seen.push(100);
        let gone = blocks.replace_random(100, random);
        assert!(gone < 8 && blocks.len() == 3);
        let mut now = [blocks.frames.clone(), vec![gone]].concat();
        now.sort_unstable();
        seen.sort_unstable();
        assert_eq!(now, seen);
    }
}
