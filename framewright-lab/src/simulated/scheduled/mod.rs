//! Writers and readers of `socket-pairs` as tasks, which simulated CPUs run in turn.
//!
//! Each CPU takes the first task of its run queue and runs it until the task blocks (a writer: its
//! socket is full; a reader: it is empty), has used its time slice while others wait, or ends. A
//! CPU without a task is idle until a task is placed there. [`Queues`] has the rule of placement.
//!
//! Assumptions, besides that rule: a time slice is 3 ms; a task gives way only between two calls; a
//! woken task does not preempt the one that runs; a blocked writer is woken as soon as there is
//! room for a write; switches and wake-ups cost no more than
//! [`cycles_per_call`](SocketPairs::cycles_per_call), and no idle CPU is slow to wake.
//!
//! When the time is over, writers end, and readers read what is left and end.

mod queues;

use std::cell::RefCell;

use framewright_sim::{
    engine::{Failure, Machine, WaitQueue},
    machine::Spec,
};

use super::world::{SimPipe, SimWorld};
use crate::workloads::{
    cpu::{Cpu, Stopped},
    socket_pairs::{SocketPairs, count_write},
    world::{Allocator, Frames, Message, Pipe},
};
use queues::Queues;

/// The time that a task runs at most while others wait for its CPU: an assumption.
const SLICE_NANOS: u64 = 3_000_000;

/// The scheduler of a run. Pair `n` has tasks `2 * n`, the writer, and `2 * n + 1`, the reader.
pub(super) struct Scheduler<'s, B> {
    work: &'s SocketPairs,
    /// The socket of each pair.
    sockets: &'s [SimPipe<'s, Message<B>>],
    tasks: Vec<RefCell<Task<B>>>,
    queues: RefCell<Queues>,
    /// Where each CPU waits while it is idle.
    idle: Vec<WaitQueue>,
    /// Per CPU, the socket of the machine that has it.
    package_of: Vec<u8>,
    /// Cycles of a time slice.
    slice: u64,
}

/// A task's state besides its socket.
enum Task<B> {
    Writer {
        random: fastrand::Rng,
        /// The value of the next write.
        value: u64,
        /// A message for which the socket had no room.
        filled: Option<Message<B>>,
        written: u64,
    },
    Reader {
        read: u64,
    },
}

/// The result of a step of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// A call.
    Called,
    /// Nothing: it waits for its partner.
    Blocked,
    /// It ended.
    Ended,
}

impl<'s, B: Frames> Scheduler<'s, B> {
    /// The tasks of `work`, all of which can run, with these sockets.
    pub(super) fn new(
        work: &'s SocketPairs,
        spec: &Spec,
        machine: &Machine,
        sockets: &'s [SimPipe<'s, Message<B>>],
    ) -> Self {
        let package_of: Vec<u8> = (0..spec.cpus()).map(|cpu| spec.socket_of(cpu)).collect();
        let pair = |pair| [Task::writer(work.seed, pair), Task::Reader { read: 0 }];
        Self {
            work,
            sockets,
            tasks: (0..sockets.len() as u64).flat_map(pair).map(RefCell::new).collect(),
            queues: Queues::new(2 * sockets.len(), package_of.clone(), work.seed).into(),
            idle: package_of.iter().map(|_| WaitQueue::default()).collect(),
            package_of,
            slice: machine.model().cycles_of_nanos(SLICE_NANOS),
        }
    }

    /// Runs tasks on a CPU until all tasks have ended.
    pub(super) fn run_cpu<A: Allocator<Block = B>>(
        &self,
        cpu: &mut Cpu<'_, A, SimWorld<'_>>,
    ) -> Result<(), Stopped> {
        while self.queues.borrow().is_alive() {
            let next = self.queues.borrow_mut().next(cpu.number);
            match next {
                Some(task) => self.run_task(task, cpu)?,
                None => self.be_idle(cpu),
            }
        }
        (0..self.idle.len()).for_each(|idle| self.interrupt(idle as u16, cpu));
        Ok(())
    }

    /// The failure if a task has not ended, or something was written and not read.
    pub(super) fn check(&self) -> Result<(), Failure> {
        for (pair, (tasks, socket)) in self.tasks.chunks(2).zip(self.sockets).enumerate() {
            let (written, read) = (tasks[0].borrow().calls(), tasks[1].borrow().calls());
            if written != read || !socket.is_empty() || self.queues.borrow().is_alive() {
                let what = format!("pair {pair} wrote {written} times and read {read} times");
                return Err(Failure::Invariant { what });
            }
        }
        Ok(())
    }

    /// Runs a task until another one is to run on its CPU.
    fn run_task<A: Allocator<Block = B>>(
        &self,
        task: usize,
        cpu: &mut Cpu<'_, A, SimWorld<'_>>,
    ) -> Result<(), Stopped> {
        let now = |cpu: &Cpu<'_, A, SimWorld<'_>>| cpu.world.cpu.map_or(0, |cpu| cpu.now());
        let mut until = now(cpu) + self.slice;
        loop {
            let step = self.step(task, cpu)?;
            if step == Step::Blocked {
                // No other CPU ran since the task looked at its socket.
                self.queues.borrow_mut().block(cpu.number);
                return Ok(());
            }
            self.wake_partner(task, cpu);
            let mut queues = self.queues.borrow_mut();
            if step == Step::Ended {
                queues.end(cpu.number);
                return Ok(());
            }
            if now(cpu) >= until {
                until = now(cpu) + self.slice;
                if queues.give_way(cpu.number) {
                    return Ok(());
                }
            }
        }
    }

    /// One call of a task.
    fn step<A: Allocator<Block = B>>(
        &self,
        task: usize,
        cpu: &mut Cpu<'_, A, SimWorld<'_>>,
    ) -> Result<Step, Stopped> {
        let socket = &self.sockets[task / 2];
        match &mut *self.tasks[task].borrow_mut() {
            Task::Writer { random, value, filled, written } => {
                let message = match filled.take() {
                    Some(message) => message,
                    None if cpu.continues() => {
                        *value += 1 << 16;
                        self.work.fill(cpu, random, *value)?
                    }
                    None => {
                        socket.close();
                        return Ok(Step::Ended);
                    }
                };
                let frames = message.frames();
                if let Err(refused) = socket.try_send(message) {
                    *filled = Some(refused);
                    return Ok(Step::Blocked);
                }
                *written += 1;
                count_write(cpu, frames);
                Ok(Step::Called)
            }
            Task::Reader { read } => {
                // A reader ends after its writer, so it does not look at the time.
                let Some(message) = socket.try_receive() else {
                    return Ok(if socket.is_closed() { Step::Ended } else { Step::Blocked });
                };
                *read += 1;
                self.count_read(message.written_on, cpu);
                self.work.empty(cpu, message)?;
                Ok(Step::Called)
            }
        }
    }

    /// Counts the read of a message that was written on CPU `from`.
    fn count_read<A>(&self, from: u16, cpu: &Cpu<'_, A, SimWorld<'_>>) {
        let package = |cpu: u16| self.package_of[usize::from(cpu)];
        cpu.counters.reads.add(1);
        cpu.counters.same_cpu.add((from == cpu.number).into());
        cpu.counters.same_socket.add((package(from) == package(cpu.number)).into());
    }

    /// Wakes the other task of a pair if it is blocked and need not be.
    fn wake_partner<A>(&self, task: usize, cpu: &Cpu<'_, A, SimWorld<'_>>) {
        if let Some(machine_cpu) = cpu.world.cpu {
            // CPUs with earlier clocks run first.
            machine_cpu.step();
        }
        let (partner, socket) = (task ^ 1, &self.sockets[task / 2]);
        let is_reader = partner % 2 == 1;
        let can_run =
            if is_reader { !socket.is_empty() || socket.is_closed() } else { socket.has_room() };
        let mut queues = self.queues.borrow_mut();
        if can_run && queues.is_blocked(partner) {
            let to = queues.wake(partner, cpu.number);
            self.interrupt(to, cpu);
        }
    }

    fn be_idle<A>(&self, cpu: &Cpu<'_, A, SimWorld<'_>>) {
        if let Some(machine_cpu) = cpu.world.cpu {
            machine_cpu.wait_on(&self.idle[usize::from(cpu.number)]);
        }
    }

    /// Ends the idle wait of CPU `idle`, if it is idle.
    fn interrupt<A>(&self, idle: u16, cpu: &Cpu<'_, A, SimWorld<'_>>) {
        if let Some(machine_cpu) = cpu.world.cpu {
            self.idle[usize::from(idle)].wake_all(machine_cpu);
        }
    }
}

impl<B> Task<B> {
    fn writer(seed: u64, pair: u64) -> Self {
        let random = fastrand::Rng::with_seed(seed ^ (pair << 32));
        Self::Writer { random, value: (pair + 1) << 48, filled: None, written: 0 }
    }

    /// Writes, or reads, so far.
    fn calls(&self) -> u64 {
        match self {
            Self::Writer { written: calls, .. } | Self::Reader { read: calls } => *calls,
        }
    }
}
