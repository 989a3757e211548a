//! The implementation of `World` for a thread: the end of the workload, and the contents of real
//! memory.

use framewright::Block;
use framewright_host::HostMachine;
use std::{
    collections::VecDeque,
    sync::{
        Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Instant,
};

use super::Limit;
use crate::workloads::world::{Overwritten, Pipe, Task, World};

/// The end of a thread's work.
pub(crate) struct Pace {
    limit: Limit,
    started: Instant,
    cycles: u32,
}

impl Pace {
    /// Starts now.
    pub(crate) fn new(limit: Limit) -> Self {
        Self { limit, started: Instant::now(), cycles: 0 }
    }

    /// The start.
    pub(super) fn started(&self) -> Instant {
        self.started
    }

    /// Whether there is time for another cycle, which is counted. Always `true` for the first.
    fn continues(&mut self) -> bool {
        let continues = match self.limit {
            Limit::Cycles(most) => self.cycles < most,
            Limit::Time(time) => self.cycles == 0 || self.started.elapsed() < time,
        };
        self.cycles += 1;
        continues
    }
}

/// The world of one thread.
pub(crate) struct HostWorld<'m> {
    machine: &'m HostMachine,
    pub(super) pace: Pace,
    /// Set if another thread has failed.
    stop: &'m AtomicBool,
}

impl<'m> HostWorld<'m> {
    /// The world of a thread of `machine`.
    pub(crate) fn new(machine: &'m HostMachine, pace: Pace, stop: &'m AtomicBool) -> Self {
        Self { machine, pace, stop }
    }
}

/// Only the first and the last word of a page are touched: these distinguish owners, and memory
/// bandwidth is not measured. Contents of frames without memory are always right. Faults and
/// computation cost nothing: only the allocator is measured.
impl<'m> World<Block<'m>> for HostWorld<'_> {
    fn continues(&mut self) -> bool {
        self.pace.continues() && !self.stop.load(Relaxed)
    }

    #[inline]
    fn is_over(&self) -> bool {
        self.stop.load(Relaxed)
    }

    #[inline(always)]
    fn perform(&self, _task: Task) {}

    #[inline]
    fn is_cleared(&self, block: &Block<'m>) -> bool {
        ends(self.machine.words(block)).all(|word| word.load(Relaxed) == 0)
    }

    #[inline]
    fn touch(&self, block: &mut Block<'m>, value: u64) {
        ends(self.machine.words(block)).for_each(|word| word.store(value, Relaxed));
    }

    #[inline]
    fn verify(&self, block: &Block<'m>, value: u64) -> Result<(), Overwritten> {
        let found = ends(self.machine.words(block)).map(|word| word.load(Relaxed));
        match found.into_iter().find(|found| *found != value) {
            None => Ok(()),
            Some(found) => Err(Overwritten { pfn: block.pfn(), found, expected: value }),
        }
    }

    fn copy_in(&self, block: &mut Block<'m>, value: u64, _hot: u32) {
        self.machine.fill(block, value);
    }

    fn copy_out(&self, block: &Block<'m>, value: u64, _hot: u32) -> Result<(), Overwritten> {
        self.machine.verify(block, value).map_err(|mismatch| Overwritten {
            pfn: block.pfn(),
            found: mismatch.found,
            expected: mismatch.expected,
        })
    }
}

fn ends(words: &[AtomicU64]) -> impl Iterator<Item = &AtomicU64> {
    words.first().into_iter().chain(words.last())
}

/// A pipe between two threads.
pub(super) struct HostPipe<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
    capacity: usize,
}

struct State<T> {
    items: VecDeque<T>,
    closed: bool,
}

impl<T> HostPipe<T> {
    /// A pipe with this capacity.
    pub(super) fn new(capacity: u16) -> Self {
        Self {
            state: Mutex::new(State { items: VecDeque::new(), closed: false }),
            changed: Condvar::new(),
            capacity: usize::from(capacity),
        }
    }

    /// The locked state. A panic of the other thread leaves the queue valid, because every change
    /// of it is a single call.
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'g>(
        &self,
        state: MutexGuard<'g, State<T>>,
        waits: impl Fn(&State<T>) -> bool,
    ) -> MutexGuard<'g, State<T>> {
        let waited = self.changed.wait_while(state, |state| waits(state));
        waited.unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Pipe<T> for HostPipe<T> {
    fn send(&self, item: T) -> Result<(), T> {
        let mut state =
            self.wait(self.state(), |state| !state.closed && state.items.len() >= self.capacity);
        if state.closed {
            return Err(item);
        }
        state.items.push_back(item);
        self.changed.notify_all();
        Ok(())
    }

    fn receive(&self) -> Option<T> {
        let mut state = self.wait(self.state(), |state| !state.closed && state.items.is_empty());
        self.changed.notify_all();
        state.items.pop_front()
    }

    fn close(&self) {
        self.state().closed = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn messages_arrive_in_order_and_wait_for_space() {
        let pipe = HostPipe::new(2);
        thread::scope(|scope| {
            scope.spawn(|| {
                (0..1000).for_each(|item| pipe.send(item).unwrap());
                pipe.close();
            });
            for expected in 0..1000 {
                assert_eq!(pipe.receive(), Some(expected));
                assert!(pipe.state().items.len() <= 2);
            }
            assert_eq!(pipe.receive(), None);
        });
    }

    #[test]
    fn a_message_to_a_closed_pipe_is_returned() {
        let pipe = HostPipe::new(1);
        pipe.send(1).unwrap();
        thread::scope(|scope| {
            let sender = scope.spawn(|| pipe.send(2));
            pipe.close();
            assert_eq!(sender.join().unwrap(), Err(2));
        });
        assert_eq!((pipe.receive(), pipe.receive()), (Some(1), None));
    }
}
