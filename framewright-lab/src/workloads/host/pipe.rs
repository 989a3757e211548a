//! Threads that hand things to one another.

use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
};

use crate::workloads::pipe::Pipe;

/// A way between two threads.
pub(super) struct HostPipe<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
    room: usize,
}

struct State<T> {
    things: VecDeque<T>,
    closed: bool,
}

impl<T> HostPipe<T> {
    /// With room for `room` things.
    pub(super) fn new(room: u16) -> Self {
        Self {
            state: Mutex::new(State { things: VecDeque::new(), closed: false }),
            changed: Condvar::new(),
            room: usize::from(room),
        }
    }

    /// Whoever panicked left the queue as it was: single calls change it.
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
    fn send(&self, thing: T) -> Result<(), T> {
        let mut state =
            self.wait(self.state(), |state| !state.closed && state.things.len() >= self.room);
        if state.closed {
            return Err(thing);
        }
        state.things.push_back(thing);
        self.changed.notify_all();
        Ok(())
    }

    fn receive(&self) -> Option<T> {
        let mut state = self.wait(self.state(), |state| !state.closed && state.things.is_empty());
        self.changed.notify_all();
        state.things.pop_front()
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
    fn things_arrive_in_order_and_wait_for_room() {
        let pipe = HostPipe::new(2);
        thread::scope(|scope| {
            scope.spawn(|| {
                (0..1000).for_each(|thing| pipe.send(thing).unwrap());
                pipe.close();
            });
            for expected in 0..1000 {
                assert_eq!(pipe.receive(), Some(expected));
                assert!(pipe.state().things.len() <= 2);
            }
            assert_eq!(pipe.receive(), None);
        });
    }

    #[test]
    fn whoever_sends_into_a_closed_pipe_gets_it_back() {
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
