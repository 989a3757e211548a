//! The implementation of `World` for a simulated CPU: tasks cost cycles.

use framewright::CpuId;
use framewright_sim::{
    engine::{Access, Cpu, Family, Handler, Line, Machine, Miss, WaitQueue},
    machine::Costs,
};
use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    rc::Rc,
};

use super::stopwatch::Stopwatch;
use crate::workloads::world::{Frames, Overwritten, Pipe, Task, World};

/// Cache lines of a frame.
const FRAME_LINES: u32 = 64;

/// The world of one CPU.
pub(super) struct SimWorld<'s> {
    /// `None` before and after the run. No costs are charged then, and there is no end of the time.
    pub(super) cpu: Option<Cpu<'s>>,
    pub(super) watch: &'s Stopwatch<'s>,
    pub(super) costs: &'s Costs,
}

impl SimWorld<'_> {
    #[inline]
    fn charge(&self, cycles: u64) {
        if let Some(cpu) = self.cpu {
            cpu.work(cycles);
        }
    }

    /// Interrupts all other CPUs of `cpus`, each of which flushes its TLB.
    fn shoot_down(&self, cpus: u16) {
        let Some(cpu) = self.cpu else { return };
        let flush = self.costs.tlb.flush_all;
        let handler: Handler = Rc::new(move |target| target.work(flush));
        cpu.interrupt((0..cpus).map(CpuId::new).filter(|other| *other != cpu.id()), &handler);
    }

    /// Copies this number of frames, `hot` of which are in the cache.
    fn copy(&self, frames: u64, hot: u32) {
        let hot = u64::from(hot).min(frames);
        self.charge(hot * self.costs.fault.copy_hot + (frames - hot) * self.costs.fault.copy);
        if let Some(cpu) = self.cpu {
            // The program's copy passes through the cache, too.
            cpu.pollute(2 * FRAME_LINES * frames as u32);
        }
    }
}

impl<B: Frames> World<B> for SimWorld<'_> {
    fn continues(&mut self) -> bool {
        !World::<B>::is_over(self)
    }

    #[inline]
    fn is_over(&self) -> bool {
        self.cpu.is_some_and(|cpu| self.watch.tick(cpu.now()))
    }

    #[inline]
    fn now(&self) -> u64 {
        self.cpu.map_or(0, |cpu| cpu.model().nanos_of_cycles(cpu.now()))
    }

    #[inline]
    fn perform(&self, task: Task) {
        let fault = &self.costs.fault;
        self.charge(match task {
            Task::Fault => fault.service,
            Task::LruAdd(pages) => fault.lru_add * u64::from(pages),
            Task::Unmap(pages) => fault.unmap * u64::from(pages),
            Task::Shootdown { cpus } => {
                self.shoot_down(cpus);
                self.costs.tlb.flush_all
            }
            Task::Compute(cycles) => cycles,
        });
    }

    #[inline]
    fn is_cleared(&self, _block: &B) -> bool {
        true
    }

    #[inline]
    fn touch(&self, _block: &mut B, _value: u64) {}

    #[inline]
    fn verify(&self, _block: &B, _value: u64) -> Result<(), Overwritten> {
        Ok(())
    }

    fn copy_in(&self, block: &mut B, _value: u64, hot: u32) {
        self.copy(block.order().frames(), hot);
    }

    fn copy_out(&self, block: &B, _value: u64, hot: u32) -> Result<(), Overwritten> {
        self.copy(block.order().frames(), hot);
        Ok(())
    }
}

/// A pipe between two CPUs.
pub(super) struct SimPipe<'s, T> {
    machine: &'s Machine,
    /// The fill level is on a cache line of its own.
    line: Line,
    items: RefCell<VecDeque<T>>,
    capacity: usize,
    closed: Cell<bool>,
    changed: WaitQueue,
}

impl<'s, T> SimPipe<'s, T> {
    /// Pipe number `number` of `machine`, with capacity `capacity`.
    pub(super) fn new(machine: &'s Machine, number: u16, capacity: u16) -> Self {
        Self {
            machine,
            line: Line { family: Family::PROGRAM, member: 0, index: number.into() },
            items: RefCell::default(),
            capacity: usize::from(capacity),
            closed: Cell::new(false),
            changed: WaitQueue::default(),
        }
    }

    /// An access to the pipe. CPUs with earlier clocks run first.
    fn visit(&self) {
        if let Some(cpu) = self.machine.current() {
            cpu.step();
            cpu.touch(self.line, Access::Write, Miss::Dependent);
        }
    }

    /// Waits while `waits` returns true. Outside a run it does not wait.
    fn wait_while(&self, waits: impl Fn() -> bool) {
        while waits()
            && let Some(cpu) = self.machine.current()
        {
            cpu.wait_on(&self.changed);
        }
    }

    /// Sends `item` if there is room; otherwise returns it.
    pub(super) fn try_send(&self, item: T) -> Result<(), T> {
        self.visit();
        if !self.has_room() {
            return Err(item);
        }
        self.items.borrow_mut().push_back(item);
        Ok(())
    }

    /// The next item, if there is one.
    pub(super) fn try_receive(&self) -> Option<T> {
        self.visit();
        self.items.borrow_mut().pop_front()
    }

    pub(super) fn has_room(&self) -> bool {
        self.items.borrow().len() < self.capacity
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.borrow().is_empty()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.get()
    }

    fn wake_all(&self) {
        if let Some(cpu) = self.machine.current() {
            self.changed.wake_all(cpu);
        }
    }
}

impl<T> Pipe<T> for SimPipe<'_, T> {
    fn send(&self, item: T) -> Result<(), T> {
        self.visit();
        self.wait_while(|| !self.closed.get() && !self.has_room());
        if self.closed.get() {
            return Err(item);
        }
        self.items.borrow_mut().push_back(item);
        self.wake_all();
        Ok(())
    }

    fn receive(&self) -> Option<T> {
        self.visit();
        self.wait_while(|| !self.closed.get() && self.is_empty());
        let item = self.items.borrow_mut().pop_front();
        self.wake_all();
        item
    }

    fn close(&self) {
        self.closed.set(true);
        self.wake_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use framewright_sim::engine::{Options, Program};

    #[test]
    fn the_faster_side_waits() {
        let machine = Machine::new(2, Options::default());
        let pipe = SimPipe::new(&machine, 0, 3);
        let (sent, got) = (Cell::new(0), Cell::new(0));
        let writer: Program<'_> = Box::new(|cpu| {
            for item in 0..50 {
                cpu.work(if item < 25 { 10 } else { 1000 });
                pipe.send(item).unwrap();
                sent.set(sent.get() + 1);
                assert!(
                    sent.get() <= got.get() + 4,
                    "more than three items in the pipe and one in transit"
                );
            }
            pipe.close();
        });
        let reader: Program<'_> = Box::new(|cpu| {
            while let Some(item) = pipe.receive() {
                assert_eq!(item, got.get());
                got.set(got.get() + 1);
                cpu.work(100);
            }
        });
        machine.run(vec![writer, reader]).unwrap();
        assert_eq!((sent.get(), got.get()), (50, 50));
    }

    #[test]
    fn no_cpu_waits_for_a_closed_pipe() {
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
