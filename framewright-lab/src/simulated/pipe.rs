//! Simulated CPUs that hand things to one another, and wait without polling.

use framewright_sim::engine::{Access, Family, Line, Machine, Miss, WaitQueue};
use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
};

use crate::workloads::pipe::Pipe;

/// A way between two CPUs.
pub(super) struct SimPipe<'s, T> {
    machine: &'s Machine,
    /// What is inside, and how full it is, are on a cache line of its own.
    line: Line,
    things: RefCell<VecDeque<T>>,
    room: usize,
    closed: Cell<bool>,
    changed: WaitQueue,
}

impl<'s, T> SimPipe<'s, T> {
    /// Number `number` of `machine`, with room for `room` things.
    pub(super) fn new(machine: &'s Machine, number: u16, room: u16) -> Self {
        Self {
            machine,
            line: Line { family: Family::PROGRAM, member: 0, index: number.into() },
            things: RefCell::default(),
            room: usize::from(room),
            closed: Cell::new(false),
            changed: WaitQueue::default(),
        }
    }

    /// Somebody looks or changes something; CPUs that are behind go first.
    fn visit(&self) {
        if let Some(cpu) = self.machine.current() {
            cpu.step();
            cpu.touch(self.line, Access::Write, Miss::Dependent);
        }
    }

    /// Waits while `waits` holds. Outside a run nobody will come.
    fn wait_while(&self, waits: impl Fn() -> bool) {
        while waits()
            && let Some(cpu) = self.machine.current()
        {
            cpu.wait_on(&self.changed);
        }
    }

    fn tell(&self) {
        if let Some(cpu) = self.machine.current() {
            self.changed.wake_all(cpu);
        }
    }
}

impl<T> Pipe<T> for SimPipe<'_, T> {
    fn send(&self, thing: T) -> Result<(), T> {
        self.visit();
        self.wait_while(|| !self.closed.get() && self.things.borrow().len() >= self.room);
        if self.closed.get() {
            return Err(thing);
        }
        self.things.borrow_mut().push_back(thing);
        self.tell();
        Ok(())
    }

    fn receive(&self) -> Option<T> {
        self.visit();
        self.wait_while(|| !self.closed.get() && self.things.borrow().is_empty());
        let thing = self.things.borrow_mut().pop_front();
        self.tell();
        thing
    }

    fn close(&self) {
        self.closed.set(true);
        self.tell();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use framewright_sim::engine::{Options, Program};

    #[test]
    fn whoever_is_faster_waits() {
        let machine = Machine::new(2, Options::default());
        let pipe = SimPipe::new(&machine, 0, 3);
        let (sent, got) = (Cell::new(0), Cell::new(0));
        let writer: Program<'_> = Box::new(|cpu| {
            for thing in 0..50 {
                cpu.work(if thing < 25 { 10 } else { 1000 });
                pipe.send(thing).unwrap();
                sent.set(sent.get() + 1);
                assert!(sent.get() <= got.get() + 4, "three inside, one in hand");
            }
            pipe.close();
        });
        let reader: Program<'_> = Box::new(|cpu| {
            while let Some(thing) = pipe.receive() {
                assert_eq!(thing, got.get());
                got.set(got.get() + 1);
                cpu.work(100);
            }
        });
        machine.run(vec![writer, reader]).unwrap();
        assert_eq!((sent.get(), got.get()), (50, 50));
    }

    #[test]
    fn nobody_waits_for_a_closed_pipe() {
        let machine = Machine::new(2, Options::default());
        let pipe = SimPipe::new(&machine, 0, 1);
        let writer: Program<'_> = Box::new(|_| {
            pipe.send(1).unwrap();
            assert_eq!(pipe.send(2), Err(2));
        });
        let closer: Program<'_> = Box::new(|cpu| {
            cpu.work(1000);
            cpu.step();
            pipe.close();
        });
        machine.run(vec![writer, closer]).unwrap();
        assert_eq!((pipe.receive(), pipe.receive()), (Some(1), None));
    }
}
