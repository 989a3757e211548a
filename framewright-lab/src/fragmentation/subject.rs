//! The interface of the experiments to an allocator and the CPUs that use it; and threads as CPUs.

use framewright_peers::{Peer, Worker};
use std::{thread, time::Duration};

use super::outcome::Latencies;
use crate::{
    Error,
    clock::thread_time,
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

    /// Makes a call of the allocator and counts it, with its time or that of a sample.
    fn time<R>(&self, latencies: &mut Latencies, call: impl FnOnce() -> R) -> R;

    /// CPU time of this process for the work of the running CPU so far, if it is known.
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
        thread::scope(|scope| {
            let mut work = work.into_iter();
            let first = work.next();
            work.for_each(|work| _ = scope.spawn(work));
            if let Some(work) = first {
                work();
            }
        });
        Ok(())
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
