//! Pools in the states that cells start from.

use super::calls::Blocks;
use framewright_peers::Peer;
use std::time::Duration;

/// CPUs that every allocator is built for.
pub(super) const CPUS: usize = 2;
/// Taken frames that the exhausted pool remembers to choose from.
const SAMPLE: usize = 1 << 20;
/// Building a state takes as long as it takes.
const NO_LIMIT: Duration = Duration::from_secs(600);

/// Pools that are built once per run, because building them takes longer than measuring: each
/// cell leaves them as it found them.
pub(super) struct Pools<P: Peer> {
    half: Option<P>,
    exhausted: Option<Exhausted<P>>,
}

/// A pool without a free frame.
pub(super) struct Exhausted<P> {
    pub(super) peer: P,
    /// Some of its taken frames.
    pub(super) taken: Blocks<0>,
}

impl<P: Peer> Pools<P> {
    pub(super) fn new() -> Self {
        Self { half: None, exhausted: None }
    }

    /// A pool that was filled, and then a random half of it freed.
    pub(super) fn half(&mut self, frames: u64, random: &mut fastrand::Rng) -> &P {
        self.half.get_or_insert_with(|| {
            let Exhausted { peer, mut taken } = exhaust::<P>(frames);
            let mut freed = taken.split_random(taken.len() / 2, random);
            freed.empty(&mut peer.worker(0), NO_LIMIT);
            peer
        })
    }

    /// A pool whose every frame was taken.
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
    // Stops when the allocator refuses, which is the point.
    let _ = taken.fill(&mut peer.worker(0), NO_LIMIT);
    Exhausted { peer, taken }
}
