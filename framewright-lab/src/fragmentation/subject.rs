//! The interface by which experiments use an allocator and its CPUs, and its implementation for threads.
//!
//! If there is more than one thread, all are pinned and run with real-time priority if possible, as in
//! [`alloc-micro`](crate::micro): otherwise, on a busy machine, the scheduler would determine the
//! tail of the latencies.

use framewright_peers::{Peer, Worker};
use std::{
    sync::{Barrier, mpsc::Receiver},
    thread,
    time::Duration,
};

use super::outcome::Latencies;
use crate::{
    Error,
    clock::{self, settle, thread_time},
    workloads::{Counts, LockCycles},
};

/// The work of one CPU.
pub(super) type Work<'w> = Box<dyn FnOnce() + Send + 'w>;

/// An allocator, and the CPUs that use it.
pub(super) trait Subject: Sync {
    /// The handle of one CPU.
    type Worker<'a>: Worker
    where
        Self: 'a;

    /// The handle of CPU `cpu`, for use by the work of that CPU.
    fn worker(&self, cpu: usize) -> Self::Worker<'_>;

    /// Empties all CPU lists. Returns whether the allocator has this operation.
    fn drain(&self) -> bool;

    /// Runs the work of all CPUs in parallel, the first on CPU 0, until all have ended.
    ///
    /// # Errors
    ///
    /// The simulated machine found a violation.
    fn run(&self, work: Vec<Work<'_>>) -> Result<(), Error>;

    /// Called before the exchange of a block with another CPU. On a simulated machine, CPUs with
    /// earlier clocks run first.
    fn before_exchange(&self);

    /// Lets other CPUs run for a while.
    fn pause(&self);

    /// The next block that another CPU sends; `None` if that CPU has ended and sends none.
    fn receive<B>(&self, inbox: &Receiver<B>) -> Option<B>;

    /// Makes a call of the allocator and counts it. Either all calls or a sample of them are timed.
    fn time<R>(&self, latencies: &mut Latencies, call: impl FnOnce() -> R) -> R;

    /// CPU time that this thread has used so far; zero on a simulated machine.
    fn cpu_time(&self) -> Duration;

    /// The costs of zone locks so far, if they are known: on simulated machines.
    fn locks(&self) -> Option<Locks>;
}

/// The costs of zone locks, and the allocator's counters.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Locks {
    pub(super) cycles: LockCycles,
    pub(super) counts: Counts,
}

impl Locks {
    /// The difference to an earlier reading.
    pub(super) fn since(self, before: &Self) -> Self {
        Self { cycles: self.cycles - before.cycles, counts: self.counts - before.counts }
    }
}

/// Threads of this process.
impl<P: Peer> Subject for P {
    type Worker<'a>
        = P::Worker<'a>
    where
        Self: 'a;

    fn worker(&self, cpu: usize) -> P::Worker<'_> {
        Peer::worker(self, cpu)
    }

    fn drain(&self) -> bool {
        Peer::drain(self)
    }

    fn run(&self, work: Vec<Work<'_>>) -> Result<(), Error> {
        let pinned = (work.len() > 1).then(|| clock::cpus(work.len())).flatten();
        let started = &Barrier::new(work.len());
        thread::scope(|scope| {
            let mut work = work.into_iter();
            let Some(cpus) = pinned else {
                let first = work.next();
                work.for_each(|work| _ = scope.spawn(work));
                return first.into_iter().for_each(|work| work());
            };
            // This thread keeps its priority and is not pinned. The others sleep until all are
            // pinned: with real-time priority, one of them could take the CPU from this thread
            // before it has started the next one.
            for (work, cpu) in work.zip(cpus) {
                scope.spawn(move || {
                    settle(cpu);
                    started.wait();
                    work();
                });
            }
        });
        Ok(())
    }

    fn before_exchange(&self) {}

    fn pause(&self) {
        thread::yield_now();
    }

    fn receive<B>(&self, inbox: &Receiver<B>) -> Option<B> {
        inbox.recv().ok()
    }

    #[inline(always)]
    fn time<R>(&self, latencies: &mut Latencies, call: impl FnOnce() -> R) -> R {
        latencies.time(call)
    }

    fn cpu_time(&self) -> Duration {
        thread_time()
    }

    fn locks(&self) -> Option<Locks> {
        None
    }
}
