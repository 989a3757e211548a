//! Benchmarks of a single thread, in CPU time of that thread.

use super::{
    calls::{Blocks, CPUS, Exhausted, pairs, per_operation},
    scale::Scale,
};
use crate::clock::thread_time;
use framewright_peers::Peer;

/// Passes over the huge blocks that are measured, after one that is not. The first pass takes some 20 us, half as much again
/// as the others, because the allocator's code is not in the caches. A reading of the clock takes nearly 1 us.
const HUGE_PASSES: u32 = 32;

/// Name and nanoseconds per operation.
pub(super) type Sample = (&'static str, f64);

pub(super) fn pair<const ORDER: u8, P: Peer>(frames: u64, scale: &Scale) -> Option<f64> {
    let peer = P::new(frames, CPUS);
    let mut worker = peer.worker(0);
    pairs::<ORDER, _>(&mut worker, scale.pair_time / 20)?;
    let start = thread_time();
    let done = pairs::<ORDER, _>(&mut worker, scale.pair_time)?;
    Some(per_operation(thread_time() - start, done))
}

pub(super) fn bulk<P: Peer>(
    frames: u64,
    scale: &Scale,
    random: &mut fastrand::Rng,
) -> Option<[Sample; 3]> {
    let peer = P::new(frames, CPUS);
    let mut worker = peer.worker(0);
    let mut blocks = Blocks::<0>::with_capacity(scale.bulk);
    let alloc = blocks.fill(&mut worker, scale.limit)?;
    let same = blocks.empty(&mut worker, scale.limit);
    blocks.fill(&mut worker, scale.limit)?;
    blocks.shuffle(random);
    let shuffled = blocks.empty(&mut worker, scale.limit);
    Some([
        ("bulk_alloc_1t_ns", alloc),
        ("bulk_free_same_1t_ns", same),
        ("bulk_free_random_1t_ns", shuffled),
    ])
}

pub(super) fn bulk_huge<P: Peer>(frames: u64, scale: &Scale) -> Option<[Sample; 2]> {
    let peer = P::new(frames, CPUS);
    let mut worker = peer.worker(0);
    let mut blocks = Blocks::<9>::with_capacity(scale.huge);
    let mut pass = || {
        let alloc = blocks.fill(&mut worker, scale.limit)?;
        Some([alloc, blocks.empty(&mut worker, scale.limit)])
    };
    pass()?;
    let mut means = [0.0; 2];
    for _ in 0..HUGE_PASSES {
        for (mean, nanos) in means.iter_mut().zip(pass()?) {
            *mean += nanos / f64::from(HUGE_PASSES);
        }
    }
    Some([("bulk_o9_alloc_1t_ns", means[0]), ("bulk_o9_free_1t_ns", means[1])])
}

/// Measures allocations and frees while half of the frames are allocated.
pub(super) fn half_full<P: Peer>(
    pool: &P,
    scale: &Scale,
    random: &mut fastrand::Rng,
) -> Option<[Sample; 2]> {
    let [alloc, free] = alloc_and_free_random(pool, scale.bulk, scale, random)?;
    Some([("half_alloc_1t_ns", alloc), ("half_free_random_1t_ns", free)])
}

/// Measures allocations and frees of more frames than the lists of a CPU may hold, in a fresh pool.
pub(super) fn bulk_large<P: Peer>(
    frames: u64,
    scale: &Scale,
    random: &mut fastrand::Rng,
) -> Option<[Sample; 2]> {
    let pool = P::new(frames, CPUS);
    let [alloc, free] = alloc_and_free_random(&pool, scale.bulk_large, scale, random)?;
    Some([("bulk_large_alloc_1t_ns", alloc), ("bulk_large_free_random_1t_ns", free)])
}

fn alloc_and_free_random<P: Peer>(
    pool: &P,
    count: usize,
    scale: &Scale,
    random: &mut fastrand::Rng,
) -> Option<[f64; 2]> {
    let mut worker = pool.worker(0);
    let mut blocks = Blocks::<0>::with_capacity(count);
    let alloc = blocks.fill(&mut worker, scale.limit)?;
    blocks.shuffle(random);
    Some([alloc, blocks.empty(&mut worker, scale.limit)])
}

pub(super) fn pressure<P: Peer>(
    pool: &mut Exhausted<P>,
    scale: &Scale,
    random: &mut fastrand::Rng,
) -> [Sample; 2] {
    let mut worker = pool.peer.worker(0);
    let mut victims = pool.taken.split_random(scale.bulk, random);
    let before = victims.len();
    let free = victims.empty(&mut worker, scale.limit);
    let freed = before - victims.len();
    pool.taken.absorb(&victims);
    let mut again = Blocks::<0>::with_capacity(freed);
    let start = thread_time();
    // An allocator may fail to find the last few frames: the frames that it found are measured.
    let _ = again.fill(&mut worker, scale.limit);
    let alloc = per_operation(thread_time() - start, again.len());
    pool.taken.absorb(&again);
    [("pressure_free_1t_ns", free), ("pressure_alloc_1t_ns", alloc)]
}
