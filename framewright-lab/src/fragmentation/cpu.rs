//! The CPUs of an experiment: the blocks of each, and its calls.
//!
//! A block comes from `alloc`, belongs to a CPU, and is freed once; every free is therefore valid.
//! A CPU is a thread or, on a simulated machine, a simulated CPU. If another CPU frees the blocks,
//! each CPU sends its blocks to the next one, the last CPU to the first. If there is only one
//! thread, it acts for two CPUs, so that every such run gives the same counts.

use framewright_peers::{Worker, list_buddy::MigrateType};
use std::{
    sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    time::Duration,
};

use super::{
    FreeBy,
    outcome::{Latencies, Pageblocks},
    subject::{Locks, Subject, Work},
};
use crate::Error;

/// Limit of blocks in the queue of the CPU that frees them: few, compared with all memory in use.
const IN_FLIGHT: usize = 256;
/// The order of a huge page.
pub(super) const HUGE: u8 = 9;

/// A block that is allocated.
struct Block {
    first: u32,
    order: u8,
}

impl Block {
    fn frames(&self) -> u32 {
        1 << self.order
    }
}

/// The blocks that a CPU holds, and its calls.
pub(super) struct Held {
    live: Vec<Block>,
    used: u64,
    random: fastrand::Rng,
    calls: Calls,
}

/// Calls and refusals.
#[derive(Clone, Debug, Default)]
pub(super) struct Calls {
    pub(super) allocs: Latencies,
    pub(super) frees: Latencies,
    /// CPU time of the threads.
    pub(super) cpu_time: Duration,
    /// Requests for huge pages that were refused.
    pub(super) refused_huge: u64,
    /// Smaller requests that were refused.
    pub(super) refused_small: u64,
}

impl Calls {
    /// Allocations and frees.
    pub(super) fn operations(&self) -> u64 {
        self.allocs.calls() + self.frees.calls()
    }

    fn absorb(&mut self, other: &Self) {
        self.allocs.absorb(&other.allocs);
        self.frees.absorb(&other.frees);
        self.cpu_time += other.cpu_time;
        self.refused_huge += other.refused_huge;
        self.refused_small += other.refused_small;
    }
}

/// All CPUs, and the allocator that they use.
pub(super) struct Cpus<P> {
    peer: P,
    held: Vec<Held>,
    free_by: FreeBy,
    pageblocks: Pageblocks,
    /// The costs of zone locks when the counts were set to zero.
    locks: Locks,
}

/// A CPU during a piece of work.
pub(super) struct Cpu<'c, P: Subject + 'c> {
    common: Common<'c, P>,
    held: &'c mut Held,
    worker: P::Worker<'c>,
    frees: Frees<P::Worker<'c>>,
}

/// The parts that all CPUs share.
struct Common<'c, P> {
    peer: &'c P,
    pageblocks: &'c Pageblocks,
}

/// The CPU that frees a block.
enum Frees<W> {
    /// The CPU itself.
    Itself,
    /// Another CPU, for which the same thread acts.
    Beside(W),
    /// The next CPU; this one frees the blocks that it receives.
    Next { next: SyncSender<Block>, inbox: Receiver<Block> },
}

impl<P: Subject> Cpus<P> {
    /// CPUs without blocks, one for each thread.
    pub(super) fn new(peer: P, frames: u64, threads: u16, free_by: FreeBy, seed: u64) -> Self {
        let held = |thread: u16| Held {
            live: Vec::new(),
            used: 0,
            random: fastrand::Rng::with_seed(
                seed.wrapping_mul(1 << 16).wrapping_add(thread.into()),
            ),
            calls: Calls::default(),
        };
        let held = (0..threads).map(held).collect();
        let pageblocks = Pageblocks::new(frames);
        Self { peer, held, free_by, pageblocks, locks: Locks::default() }
    }

    /// Runs `work` on every CPU in parallel.
    ///
    /// # Errors
    ///
    /// The simulated machine found a violation.
    pub(super) fn each<'c>(
        &'c mut self,
        work: impl Fn(&mut Cpu<'c, P>) + Sync,
    ) -> Result<(), Error> {
        let (peer, pageblocks, work) = (&self.peer, &self.pageblocks, &work);
        let routes = routes(self.held.len(), self.free_by);
        let part = move |number: usize, held: &'c mut Held, route: Option<Route>| {
            let frees = match route {
                None => Frees::Itself,
                Some(Route::Beside(other)) => Frees::Beside(peer.worker(other)),
                Some(Route::Next { next, inbox }) => Frees::Next { next, inbox },
            };
            let common = Common { peer, pageblocks };
            let mut cpu = Cpu { common, held, worker: peer.worker(number), frees };
            let start = peer.cpu_time();
            work(&mut cpu);
            cpu.finish().calls.cpu_time += peer.cpu_time() - start;
        };
        let parts = self.held.iter_mut().zip(routes).enumerate();
        let parts = parts.map(|(number, (held, route))| -> Work<'_> {
            Box::new(move || part(number, held, route))
        });
        peer.run(parts.collect())
    }

    /// The allocator.
    pub(super) fn peer(&self) -> &P {
        &self.peer
    }

    /// Pageblocks without allocated frames.
    pub(super) fn free_pageblocks(&self) -> u64 {
        self.pageblocks.free()
    }

    /// Frames that are allocated.
    pub(super) fn used(&self) -> u64 {
        self.held.iter().map(|held| held.used).sum()
    }

    /// Sets all counts of calls, and the costs of locks, to zero.
    pub(super) fn clear_calls(&mut self) {
        self.held.iter_mut().for_each(|held| held.calls = Calls::default());
        self.locks = self.peer.locks().unwrap_or_default();
    }

    /// The costs of zone locks since [`Cpus::clear_calls`], if they are known.
    pub(super) fn locks(&self) -> Option<Locks> {
        self.peer.locks().map(|locks| locks.since(&self.locks))
    }

    /// The calls of all CPUs together.
    pub(super) fn calls(&self) -> Calls {
        let mut all = Calls::default();
        self.held.iter().for_each(|held| all.absorb(&held.calls));
        all
    }

    /// Number of huge pages that the first CPU can allocate now, and the number after a drain of
    /// all CPU lists, if the allocator offers a drain. These huge pages are freed again.
    pub(super) fn allocatable(&self) -> (u64, Option<u64>) {
        let mut worker = self.peer.worker(0);
        let mut blocks = Vec::new();
        blocks.extend(std::iter::from_fn(|| worker.alloc(HUGE)));
        let as_it_is = blocks.len() as u64;
        let drained = self.peer.drain().then(|| {
            blocks.extend(std::iter::from_fn(|| worker.alloc(HUGE)));
            blocks.len() as u64
        });
        for first in blocks {
            // SAFETY: allocated above with this order, and freed once.
            unsafe { worker.free(first, HUGE) };
        }
        (as_it_is, drained)
    }

    /// Frees everything.
    ///
    /// # Errors
    ///
    /// As [`Cpus::each`].
    pub(super) fn free_all(&mut self) -> Result<(), Error> {
        self.each(|cpu| while cpu.free_random() {})
    }
}

/// Number of frames that the CPUs of an allocator can allocate. The allocator cannot be used
/// afterwards.
pub(super) fn capacity<P: Subject>(peer: &P, cpus: usize) -> u64 {
    peer.drain();
    let frames_of = |worker: &mut P::Worker<'_>, order| -> u64 {
        std::iter::from_fn(|| worker.alloc(order)).map(|_| 1 << order).sum()
    };
    (0..cpus)
        .map(|cpu| {
            let mut worker = peer.worker(cpu);
            (0..=HUGE).rev().map(|order| frames_of(&mut worker, order)).sum::<u64>()
        })
        .sum()
}

/// [`Frees`] before the workers are created.
enum Route {
    Beside(usize),
    Next { next: SyncSender<Block>, inbox: Receiver<Block> },
}

/// The route of each thread; `None` if CPUs free their own blocks.
fn routes(threads: usize, free_by: FreeBy) -> Vec<Option<Route>> {
    match (free_by, threads) {
        (FreeBy::Same, _) => (0..threads).map(|_| None).collect(),
        (FreeBy::Other, 1) => vec![Some(Route::Beside(1))],
        (FreeBy::Other, _) => {
            let (mut nexts, inboxes): (Vec<_>, Vec<_>) =
                (0..threads).map(|_| sync_channel(IN_FLIGHT)).unzip();
            nexts.rotate_left(1);
            let route = |(next, inbox)| Some(Route::Next { next, inbox });
            nexts.into_iter().zip(inboxes).map(route).collect()
        }
    }
}

impl<'c, P: Subject> Cpu<'c, P> {
    /// Number of frames that it has in use.
    pub(super) fn used(&self) -> u64 {
        self.held.used
    }

    /// Number of blocks that it has.
    pub(super) fn blocks(&self) -> usize {
        self.held.live.len()
    }

    /// Its random numbers.
    pub(super) fn random(&mut self) -> &mut fastrand::Rng {
        &mut self.held.random
    }

    /// Brings its blocks into random order.
    pub(super) fn shuffle(&mut self) {
        self.held.random.shuffle(&mut self.held.live);
    }

    /// Allocates a block, which becomes the last one; `false` if it was refused.
    pub(super) fn alloc(&mut self, order: u8, migratetype: MigrateType) -> bool {
        self.receive();
        self.worker.resume();
        let Held { live, used, calls, .. } = &mut *self.held;
        let worker = &mut self.worker;
        match self.common.peer.time(&mut calls.allocs, || alloc::<P>(worker, order, migratetype)) {
            Some(first) => {
                self.common.pageblocks.take(first, 1 << order);
                *used += 1 << order;
                let first = u32::try_from(first).expect("frame numbers below 2^32");
                live.push(Block { first, order });
                true
            }
            None => {
                let refused =
                    if order == HUGE { &mut calls.refused_huge } else { &mut calls.refused_small };
                *refused += 1;
                false
            }
        }
    }

    /// Frees block `index`; the last block takes its place.
    pub(super) fn free(&mut self, index: usize) {
        let block = self.held.live.swap_remove(index);
        self.held.used -= u64::from(block.frames());
        match &mut self.frees {
            Frees::Itself => {
                // SAFETY: the CPU held the block until now.
                unsafe { self.common.free(&mut self.worker, &block, &mut self.held.calls) };
            }
            Frees::Beside(other) => {
                other.resume();
                // SAFETY: as above.
                unsafe { self.common.free(other, &block, &mut self.held.calls) };
            }
            Frees::Next { .. } => self.send(block),
        }
    }

    /// Frees a random block; `false` if there is none.
    pub(super) fn free_random(&mut self) -> bool {
        let blocks = self.blocks();
        if blocks == 0 {
            return false;
        }
        let index = self.held.random.usize(..blocks);
        self.free(index);
        true
    }

    /// Sends a block to the next CPU. While that CPU's queue is full, this CPU frees the blocks in
    /// its own queue.
    fn send(&mut self, mut block: Block) {
        while let Frees::Next { next, .. } = &self.frees {
            self.common.peer.before_exchange();
            match next.try_send(block) {
                Ok(()) => return,
                Err(TrySendError::Full(back)) => block = back,
                // The other CPU has panicked, which ends the run.
                Err(TrySendError::Disconnected(_)) => return,
            }
            self.receive();
            self.common.peer.pause();
        }
    }

    /// Frees the blocks that the CPU before it has sent so far.
    fn receive(&mut self) {
        if let Frees::Next { inbox, .. } = &self.frees {
            self.common.peer.before_exchange();
            for block in inbox.try_iter() {
                // SAFETY: the other CPU held the block until it sent it.
                unsafe { self.common.free(&mut self.worker, &block, &mut self.held.calls) };
            }
        }
    }

    /// Frees the blocks that are still sent to it, until the CPU before it has finished.
    fn finish(self) -> &'c mut Held {
        let Self { common, held, mut worker, frees } = self;
        if let Frees::Next { next, inbox } = frees {
            drop(next);
            while let Some(block) = common.peer.receive(&inbox) {
                // SAFETY: the other CPU held the block until it sent it.
                unsafe { common.free(&mut worker, &block, &mut held.calls) };
            }
        }
        held
    }
}

impl<P: Subject> Common<'_, P> {
    /// Frees a block, and times the call or a sample of such calls.
    ///
    /// # Safety
    ///
    /// The block was allocated through a worker of the same peer and is not held any more.
    unsafe fn free(&self, worker: &mut P::Worker<'_>, block: &Block, calls: &mut Calls) {
        let first = u64::from(block.first);
        self.pageblocks.give(first, block.frames());
        // SAFETY: the caller's promise.
        self.peer.time(&mut calls.frees, || unsafe { free::<P>(worker, first, block.order) });
    }
}

/// Never inlined: no allocator's code is optimised together with its caller.
#[inline(never)]
fn alloc<P: Subject>(
    worker: &mut P::Worker<'_>,
    order: u8,
    migratetype: MigrateType,
) -> Option<u64> {
    worker.alloc_typed(order, migratetype)
}

/// Never inlined, as [`alloc`].
///
/// # Safety
///
/// As [`Worker::free`].
#[inline(never)]
unsafe fn free<P: Subject>(worker: &mut P::Worker<'_>, first: u64, order: u8) {
    // SAFETY: the caller's promise, passed on.
    unsafe { worker.free(first, order) };
}
