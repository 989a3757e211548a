//! The CPUs of an experiment: the blocks of each, and its calls.
//!
//! A block comes from `alloc`, belongs to a CPU, and is freed once; every free is therefore valid.
//! A CPU is a thread. Two threads are pinned and run with real-time priority if possible, as in
//! [`alloc-micro`](crate::micro): on a busy machine, tails of latency would otherwise be those of
//! the scheduler. If another CPU frees the blocks, each thread sends its blocks to the next
//! thread, the last one to the first. A single thread acts for two CPUs instead, so the counts of
//! such a run repeat, too.

use framewright_peers::{Peer, Worker, list_buddy::MigrateType};
use std::{
    sync::{
        Barrier,
        mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    },
    thread,
    time::Duration,
};

use super::{
    FreeBy,
    outcome::{Latencies, Pageblocks},
};
use crate::clock::{settle, thread_time, two_cpus};

/// Limit of blocks in the queue of the CPU that frees them. As memory in use they are negligible.
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
}

/// A CPU during a piece of work.
pub(super) struct Cpu<'c, P: Peer + 'c> {
    held: &'c mut Held,
    worker: P::Worker<'c>,
    frees: Frees<P::Worker<'c>>,
    pageblocks: &'c Pageblocks,
}

/// The CPU that frees a block.
enum Frees<W> {
    /// The CPU itself.
    Itself,
    /// Another CPU, for which the same thread acts.
    Beside(W),
    /// The next thread; this one frees the blocks that it receives.
    Next { next: SyncSender<Block>, inbox: Receiver<Block> },
}

impl<P: Peer + 'static> Cpus<P> {
    /// CPUs without blocks: one for each thread, or two for a single thread whose blocks another
    /// CPU frees.
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
        Self { peer, held, free_by, pageblocks: Pageblocks::new(frames) }
    }

    /// Runs `work` on every CPU in parallel.
    pub(super) fn each(&mut self, work: impl Fn(&mut Cpu<'_, P>) + Sync) {
        let (peer, pageblocks, work) = (&self.peer, &self.pageblocks, &work);
        let routes = routes(self.held.len(), self.free_by);
        let pinned = if self.held.len() == 2 { two_cpus() } else { None };
        // A pinned thread sleeps until both are pinned: it must not take the CPU from the thread
        // that starts the other one.
        let started = &Barrier::new(if pinned.is_some() { 2 } else { 1 });
        let part = move |number: usize, held: &mut Held, route: Option<Route>| {
            if let Some(cpus) = pinned {
                settle(cpus[number]);
            }
            started.wait();
            let frees = match route {
                None => Frees::Itself,
                Some(Route::Beside(other)) => Frees::Beside(peer.worker(other)),
                Some(Route::Next { next, inbox }) => Frees::Next { next, inbox },
            };
            let mut cpu: Cpu<'_, P> = Cpu { held, worker: peer.worker(number), frees, pageblocks };
            let start = thread_time();
            work(&mut cpu);
            cpu.finish().calls.cpu_time += thread_time() - start;
        };
        thread::scope(|scope| {
            let mut parts = self.held.iter_mut().zip(routes).enumerate();
            // This thread keeps its priority.
            let first = if pinned.is_some() { None } else { parts.next() };
            for (number, (held, route)) in parts {
                scope.spawn(move || part(number, held, route));
            }
            if let Some((number, (held, route))) = first {
                part(number, held, route);
            }
        });
    }

    #[cfg(test)]
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

    /// Sets all counts of calls to zero.
    pub(super) fn clear_calls(&mut self) {
        self.held.iter_mut().for_each(|held| held.calls = Calls::default());
    }

    /// The calls of all CPUs together.
    pub(super) fn calls(&self) -> Calls {
        let mut all = Calls::default();
        self.held.iter().for_each(|held| all.absorb(&held.calls));
        all
    }

    /// Number of huge pages that the first CPU can allocate now, and the number after a drain of
    /// all CPU lists, if the allocator offers that. They are freed again.
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

    /// Frees everything. Returns the number of frames that can be allocated then.
    pub(super) fn free_all(mut self) -> u64 {
        self.each(|cpu| while cpu.free_random() {});
        capacity(&self.peer, self.held.len().max(2))
    }
}

/// Number of frames that the CPUs of an allocator can allocate. The allocator cannot be used
/// afterwards.
pub(super) fn capacity<P: Peer>(peer: &P, cpus: usize) -> u64 {
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

/// [`Frees`] before there are workers.
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

impl<'c, P: Peer> Cpu<'c, P> {
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
        match calls.allocs.time(|| alloc::<P>(worker, order, migratetype)) {
            Some(first) => {
                self.pageblocks.take(first, 1 << order);
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
                unsafe {
                    free_block::<P>(
                        &mut self.worker,
                        &block,
                        &mut self.held.calls,
                        self.pageblocks,
                    );
                };
            }
            Frees::Beside(other) => {
                other.resume();
                // SAFETY: as above.
                unsafe { free_block::<P>(other, &block, &mut self.held.calls, self.pageblocks) };
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
            match next.try_send(block) {
                Ok(()) => return,
                Err(TrySendError::Full(back)) => block = back,
                // The other thread has panicked, which ends the run.
                Err(TrySendError::Disconnected(_)) => return,
            }
            self.receive();
            thread::yield_now();
        }
    }

    /// Frees the blocks that the CPU before it has sent so far.
    fn receive(&mut self) {
        if let Frees::Next { inbox, .. } = &self.frees {
            for block in inbox.try_iter() {
                // SAFETY: the other CPU held the block until it sent it.
                unsafe {
                    free_block::<P>(
                        &mut self.worker,
                        &block,
                        &mut self.held.calls,
                        self.pageblocks,
                    );
                };
            }
        }
    }

    /// Frees the blocks that are still sent to it, until the CPU before it has finished.
    fn finish(self) -> &'c mut Held {
        let Self { held, mut worker, frees, pageblocks } = self;
        if let Frees::Next { next, inbox } = frees {
            drop(next);
            for block in inbox {
                // SAFETY: the other CPU held the block until it sent it.
                unsafe { free_block::<P>(&mut worker, &block, &mut held.calls, pageblocks) };
            }
        }
        held
    }
}

/// Frees a block, and times some of these calls.
///
/// # Safety
///
/// The block was allocated through a worker of the same peer and is not held any more.
unsafe fn free_block<P: Peer>(
    worker: &mut P::Worker<'_>,
    block: &Block,
    calls: &mut Calls,
    pageblocks: &Pageblocks,
) {
    let first = u64::from(block.first);
    pageblocks.give(first, block.frames());
    // SAFETY: the caller's promise.
    calls.frees.time(|| unsafe { free::<P>(worker, first, block.order) });
}

/// Never inlined: no allocator's code is optimised together with its caller.
#[inline(never)]
fn alloc<P: Peer>(worker: &mut P::Worker<'_>, order: u8, migratetype: MigrateType) -> Option<u64> {
    worker.alloc_typed(order, migratetype)
}

/// Never inlined, as [`alloc`].
///
/// # Safety
///
/// As [`Worker::free`].
#[inline(never)]
unsafe fn free<P: Peer>(worker: &mut P::Worker<'_>, first: u64, order: u8) {
    // SAFETY: the caller's promise, passed on.
    unsafe { worker.free(first, order) };
}
