//! The modelled machine: memory, a store buffer per thread, and the steps that are possible next.

use core::fmt;
use std::{
    collections::{HashMap, VecDeque},
    format,
    string::String,
    thread::Thread as OsThread,
    vec,
    vec::Vec,
};

use super::path::{Act, Choice, Location, Path, Step, ThreadId};

/// The threads, besides the caller, whose store buffers a remote barrier empties.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Barrier {
    /// One thread.
    Thread(ThreadId),
    /// All threads.
    All,
}

/// The operation that a thread is about to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Operation {
    Start,
    Load(Location),
    /// A store into the thread's own buffer. Other threads cannot see it yet, but a remote barrier
    /// empties the buffer.
    Store,
    /// Read-modify-writes, and stores that do not go through the buffer.
    Modify(Location),
    Fence,
    RemoteBarrier(Barrier),
    /// Waits until the location no longer holds the value.
    Yield(Location, u64),
    Join(ThreadId),
    /// Reads and writes a variable of the checker, bypassing all buffers.
    Section(Location),
    Exit,
}

/// An execution with more steps than this counts as a livelock.
const STEPS_MAX: usize = 20_000;

struct Thread {
    buffer: VecDeque<(Location, u64)>,
    next: Operation,
    finished: bool,
    /// The location and value that the thread read last.
    seen: Option<(Location, u64)>,
    os: OsThread,
}

/// State of one execution.
pub(super) struct Machine {
    memory: Vec<u64>,
    locations: HashMap<usize, Location>,
    threads: Vec<Thread>,
    steps: usize,
    log: Vec<String>,
    keep_log: bool,
    pub(super) path: Path,
    /// The thread that may run.
    pub(super) baton: ThreadId,
    /// All threads are to unwind: the execution has failed or is a repetition.
    pub(super) ending: bool,
    pub(super) failure: Option<String>,
}

impl Machine {
    pub(super) fn new(path: Path, keep_log: bool) -> Self {
        Self {
            memory: Vec::new(),
            locations: HashMap::new(),
            threads: Vec::new(),
            steps: 0,
            log: Vec::new(),
            keep_log,
            path,
            baton: 0,
            ending: false,
            failure: None,
        }
    }

    /// The log, a line per step; empty if no log was to be kept.
    pub(super) fn log(&self) -> &[String] {
        &self.log
    }

    pub(super) fn fail(&mut self, message: String) {
        self.failure.get_or_insert(message);
        self.end();
    }

    fn end(&mut self) {
        self.ending = true;
        self.threads.iter().for_each(|thread| thread.os.unpark());
    }

    // ---- threads ----------------------------------------------------------------------------

    pub(super) fn add_thread(&mut self, os: OsThread) -> ThreadId {
        self.threads.push(Thread {
            buffer: VecDeque::new(),
            next: Operation::Start,
            finished: false,
            seen: None,
            os,
        });
        self.threads.len() - 1
    }

    pub(super) fn set_os_thread(&mut self, thread: ThreadId, os: OsThread) {
        self.threads[thread].os = os;
    }

    /// Whether no thread but the first was ever created.
    pub(super) fn is_alone(&self) -> bool {
        self.threads.len() == 1
    }

    pub(super) fn finish(&mut self, thread: ThreadId) {
        self.threads[thread].finished = true;
    }

    /// Records the next `operation` of `thread`, and chooses the thread to continue.
    pub(super) fn request(&mut self, thread: ThreadId, operation: Operation) {
        self.threads[thread].next = operation;
        self.pass_on(thread);
    }

    /// The wait of a thread for a change of the value that it read last.
    pub(super) fn yielding(&self, thread: ThreadId) -> Operation {
        let seen = self.threads[thread].seen;
        seen.map_or(Operation::Start, |(location, value)| Operation::Yield(location, value))
    }

    /// Writes buffered stores to memory as chosen, and chooses the next thread to run, after
    /// `running` stopped.
    pub(super) fn pass_on(&mut self, running: ThreadId) {
        while !self.ending {
            let enabled = self.enabled(running);
            if enabled.is_empty() {
                if self.threads.iter().any(|t| !t.finished) {
                    self.fail("no thread can continue: a deadlock, or a lost wake-up".into());
                }
                return;
            }
            self.steps += 1;
            if self.steps > STEPS_MAX {
                self.fail(format!("no end after {STEPS_MAX} steps: a livelock"));
                return;
            }
            let this = &self.threads[running];
            let goes_on = !this.finished && !matches!(this.next, Operation::Yield(..));
            match self.path.choose(enabled, goes_on.then_some(running)) {
                Choice::Repetition => self.end(),
                Choice::Strayed => {
                    self.fail(
                        "the explored closure took a different path in this execution".into(),
                    );
                }
                Choice::Take(Step { act: Act::Flush, thread, .. }) => self.flush_oldest(thread),
                Choice::Take(Step { act: Act::Run, thread, .. }) => {
                    self.baton = thread;
                    self.threads[thread].os.unpark();
                    return;
                }
            }
        }
    }

    /// All steps that are possible next: first of `running`, then of the other threads, then of the
    /// buffers.
    fn enabled(&self, running: ThreadId) -> Vec<Step> {
        let others = (0..self.threads.len()).filter(|t| *t != running);
        let mut steps: Vec<Step> =
            [running].into_iter().chain(others).filter_map(|t| self.run_step(t)).collect();
        steps.extend(self.threads.iter().enumerate().filter_map(|(thread, t)| {
            let (location, _) = t.buffer.front()?;
            Some(Step {
                act: Act::Flush,
                thread,
                reads: None,
                writes: vec![*location],
                barrier: false,
            })
        }));
        steps
    }

    fn run_step(&self, thread: ThreadId) -> Option<Step> {
        let this = &self.threads[thread];
        let mut step =
            Step { act: Act::Run, thread, reads: None, writes: Vec::new(), barrier: false };
        let buffered = || this.buffer.iter().map(|(location, _)| *location);
        match this.next {
            _ if this.finished => return None,
            Operation::Start | Operation::Store => {}
            Operation::Load(location) => step.reads = Some(location),
            Operation::Section(location) => step.writes.push(location),
            Operation::Modify(location) => step.writes.extend(buffered().chain([location])),
            Operation::Fence | Operation::Exit => step.writes.extend(buffered()),
            Operation::RemoteBarrier(_) => step.barrier = true,
            Operation::Yield(location, value) if self.memory[location as usize] == value => {
                return None;
            }
            Operation::Yield(location, _) => step.reads = Some(location),
            Operation::Join(other) if !self.threads[other].finished => return None,
            Operation::Join(_) => {}
        }
        Some(step)
    }

    // ---- memory -----------------------------------------------------------------------------

    /// The location of the atomic at `address`, which held `initial` when first used.
    pub(super) fn locate(&mut self, address: usize, initial: u64) -> Location {
        *self.locations.entry(address).or_insert_with(|| {
            self.memory.push(initial);
            (self.memory.len() - 1) as Location
        })
    }

    /// Removes the atomic at `address`, which is dropped or used exclusively. Returns its value.
    pub(super) fn forget(&mut self, address: usize) -> Option<u64> {
        let location = self.locations.remove(&address)?;
        for thread in 0..self.threads.len() {
            while self.threads[thread].buffer.iter().any(|(l, _)| *l == location) {
                self.flush_oldest(thread);
            }
        }
        Some(self.memory[location as usize])
    }

    fn write(&mut self, location: Location, value: u64) {
        self.memory[location as usize] = value;
    }

    fn flush_oldest(&mut self, thread: ThreadId) {
        if let Some((location, value)) = self.threads[thread].buffer.pop_front() {
            self.note(thread, format_args!("  buffer: location {location} becomes {value}"));
            self.write(location, value);
        }
    }

    fn drain(&mut self, thread: ThreadId) {
        while !self.threads[thread].buffer.is_empty() {
            self.flush_oldest(thread);
        }
    }

    pub(super) fn load(&mut self, thread: ThreadId, location: Location) -> u64 {
        let buffer = &self.threads[thread].buffer;
        let own = buffer.iter().rev().find(|(l, _)| *l == location).map(|(_, value)| *value);
        let value = own.unwrap_or(self.memory[location as usize]);
        self.threads[thread].seen = Some((location, value));
        self.note(thread, format_args!("load of location {location} gives {value}"));
        value
    }

    pub(super) fn store(&mut self, thread: ThreadId, location: Location, value: u64) {
        self.note(thread, format_args!("store of {value} to location {location} is buffered"));
        self.threads[thread].buffer.push_back((location, value));
    }

    /// Empties the buffer, then replaces the value by the result of `change`, if there is one.
    /// Returns the old value.
    pub(super) fn modify(
        &mut self,
        thread: ThreadId,
        location: Location,
        change: impl FnOnce(u64) -> Option<u64>,
    ) -> u64 {
        self.drain(thread);
        let old = self.memory[location as usize];
        self.threads[thread].seen = Some((location, old));
        if let Some(new) = change(old) {
            self.note(thread, format_args!("location {location}: {old} becomes {new}"));
            self.write(location, new);
        } else {
            self.note(thread, format_args!("location {location} stays {old}"));
        }
        old
    }

    pub(super) fn fence(&mut self, thread: ThreadId) {
        self.note(thread, format_args!("fence"));
        self.drain(thread);
    }

    pub(super) fn remote_barrier(&mut self, thread: ThreadId, target: Barrier) {
        self.note(thread, format_args!("remote barrier, target {target:?}"));
        self.drain(thread);
        match target {
            Barrier::Thread(other) if other < self.threads.len() => self.drain(other),
            Barrier::Thread(_) => {}
            Barrier::All => (0..self.threads.len()).for_each(|other| self.drain(other)),
        }
    }

    pub(super) fn yielded(&mut self, thread: ThreadId) {
        self.note(thread, format_args!("continues after waiting"));
    }

    /// Changes a variable of the checker, bypassing all buffers and without waking a thread.
    pub(super) fn section(&mut self, thread: ThreadId, location: Location, value: u64) -> u64 {
        let what = if value == 0 { "leaves" } else { "enters" };
        self.note(thread, format_args!("{what} section {location}"));
        core::mem::replace(&mut self.memory[location as usize], value)
    }

    fn note(&mut self, thread: ThreadId, what: fmt::Arguments<'_>) {
        if self.keep_log {
            self.log.push(format!("thread {thread}: {what}"));
        }
    }
}
