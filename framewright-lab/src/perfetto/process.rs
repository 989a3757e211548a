//! The tracks of a run.

use std::{cell::RefCell, collections::HashMap, rc::Rc};

use super::{Flow, Shared, Track};

/// Numbers of processes and threads are unique in a trace: a run has one for itself, and one for each CPU.
const NUMBERS: u32 = 1_000;

/// Places of tracks below their process.
const COUNTERS: i32 = 0;
const EVENTS: i32 = 1_000;
const LOCKS: i32 = 2_000;

/// A track with slices, and the number of slices that have begun and not ended.
#[derive(Debug)]
struct Slices {
    track: Track,
    open: u32,
}

/// The tracks of a CPU.
#[derive(Debug)]
struct Cpu {
    /// The activity of its programs and its kernel.
    work: Slices,
    /// The handlers of interrupts. They are on a track of their own, because a handler runs at the time of the
    /// interrupt, which may be before the last event of the program.
    interrupts: Slices,
}

/// The tracks of a lock.
#[derive(Debug)]
struct Lock {
    holder: Slices,
    waiters: Track,
    waiting: u64,
}

/// The part of a CPU that an event belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    /// Its programs and kernel.
    Work,
    /// The handler of an interrupt.
    Handler,
}

/// The tracks of a run, as a process whose threads are its CPUs. Times are in nanoseconds.
#[derive(Debug)]
pub(crate) struct Process {
    shared: Rc<RefCell<Shared>>,
    number: u32,
    track: Track,
    cpus: Vec<Cpu>,
    locks: Vec<Lock>,
    counters: HashMap<String, Track>,
    events: Option<Slices>,
    /// The latest time so far.
    latest: u64,
}

impl Process {
    pub(super) fn new(shared: &Rc<RefCell<Shared>>, name: &str, cpus: u16) -> Self {
        let mut to = shared.borrow_mut();
        to.processes += 1;
        let (number, track) = (to.processes * NUMBERS, to.track());
        // There are far fewer runs than 2^31 / NUMBERS.
        let pid = number.cast_signed();
        to.file.process(track, pid, name);
        let cpu = |cpu: u16| {
            let (work, interrupts) = (to.track(), to.track());
            let tid = i64::from(number) + 1 + i64::from(cpu);
            to.file.thread(work, pid, tid, &format!("CPU {cpu}"));
            to.file.track(interrupts, work, 0, "interrupts");
            let slices = |track| Slices { track, open: 0 };
            Cpu { work: slices(work), interrupts: slices(interrupts) }
        };
        let cpus = (0..cpus).map(cpu).collect();
        drop(to);
        Self {
            shared: Rc::clone(shared),
            number,
            track,
            cpus,
            locks: Vec::new(),
            counters: HashMap::new(),
            events: None,
            latest: 0,
        }
    }

    /// A slice begins on a CPU. The arrow of the interrupt `from` ends there.
    pub(crate) fn begin(
        &mut self,
        nanos: u64,
        cpu: u16,
        part: Part,
        name: &str,
        from: Option<u64>,
    ) {
        self.latest = self.latest.max(nanos);
        let flow = from.map(|number| self.flow(number));
        let slices = self.slices(cpu, part);
        slices.open += 1;
        let track = slices.track;
        self.shared.borrow_mut().file.begin(nanos, track, name, flow);
    }

    /// The last slice that began on a CPU ends.
    pub(crate) fn end(&mut self, nanos: u64, cpu: u16, part: Part) {
        self.latest = self.latest.max(nanos);
        let slices = self.slices(cpu, part);
        if slices.open > 0 {
            slices.open -= 1;
            let track = slices.track;
            self.shared.borrow_mut().file.end(nanos, track);
        }
    }

    /// An event without duration on a CPU. The arrow of the interrupt `to` begins there.
    pub(crate) fn instant(
        &mut self,
        nanos: u64,
        cpu: u16,
        part: Part,
        name: &str,
        to: Option<u64>,
    ) {
        self.latest = self.latest.max(nanos);
        let flow = to.map(|number| self.flow(number));
        let track = self.slices(cpu, part).track;
        self.shared.borrow_mut().file.instant(nanos, track, name, flow);
    }

    /// Another lock, which nobody holds. Returns its number.
    pub(crate) fn lock(&mut self, name: &str) -> usize {
        let number = self.locks.len();
        let rank = LOCKS + 2 * number as i32;
        let mut to = self.shared.borrow_mut();
        let (holder, waiters) = (to.track(), to.track());
        to.file.track(holder, self.track, rank, name);
        to.file.counter(waiters, self.track, rank + 1, &format!("{name}: waiters"), "CPUs");
        self.locks.push(Lock { holder: Slices { track: holder, open: 0 }, waiters, waiting: 0 });
        number
    }

    /// A CPU holds a lock from now on.
    pub(crate) fn hold(&mut self, nanos: u64, lock: usize, holder: &str) {
        self.latest = self.latest.max(nanos);
        let slices = &mut self.locks[lock].holder;
        slices.open += 1;
        self.shared.borrow_mut().file.begin(nanos, slices.track, holder, None);
    }

    /// The holder of a lock has released it. One of the CPUs that wait for it, if any, waits no longer.
    pub(crate) fn release(&mut self, nanos: u64, lock: usize) {
        self.latest = self.latest.max(nanos);
        let slices = &mut self.locks[lock].holder;
        if slices.open > 0 {
            slices.open -= 1;
            self.shared.borrow_mut().file.end(nanos, slices.track);
        }
        if self.locks[lock].waiting > 0 {
            self.locks[lock].waiting -= 1;
            self.show_waiters(nanos, lock);
        }
    }

    /// Another CPU waits for a lock.
    pub(crate) fn wait(&mut self, nanos: u64, lock: usize) {
        self.latest = self.latest.max(nanos);
        self.locks[lock].waiting += 1;
        self.show_waiters(nanos, lock);
    }

    fn show_waiters(&self, nanos: u64, lock: usize) {
        let lock = &self.locks[lock];
        self.shared.borrow_mut().file.value(nanos, lock.waiters, lock.waiting);
    }

    /// A counter has this value from now on.
    pub(crate) fn value(&mut self, nanos: u64, name: &str, unit: &str, value: u64) {
        self.latest = self.latest.max(nanos);
        let mut to = self.shared.borrow_mut();
        let track = match self.counters.get(name) {
            Some(track) => *track,
            None => {
                let (track, rank) = (to.track(), COUNTERS + self.counters.len() as i32);
                to.file.counter(track, self.track, rank, name, unit);
                self.counters.insert(name.to_owned(), track);
                track
            }
        };
        to.file.value(nanos, track, value);
    }

    /// The only slice of the track `events` ends, and the next one begins. An instant, if `is_instant`.
    pub(crate) fn event(&mut self, nanos: u64, title: &str, name: &str, is_instant: bool) {
        self.latest = self.latest.max(nanos);
        let mut to = self.shared.borrow_mut();
        let events = self.events.get_or_insert_with(|| {
            let track = to.track();
            to.file.track(track, self.track, EVENTS, title);
            Slices { track, open: 0 }
        });
        if is_instant {
            return to.file.instant(nanos, events.track, name, None);
        }
        if std::mem::replace(&mut events.open, 1) > 0 {
            to.file.end(nanos, events.track);
        }
        to.file.begin(nanos, events.track, name, None);
    }

    /// Ends all slices.
    pub(crate) fn close(&mut self) {
        let (nanos, mut to) = (self.latest, self.shared.borrow_mut());
        let cpus = self.cpus.iter_mut().flat_map(|cpu| [&mut cpu.work, &mut cpu.interrupts]);
        let locks = self.locks.iter_mut().map(|lock| &mut lock.holder);
        for slices in cpus.chain(locks).chain(&mut self.events) {
            for _ in 0..std::mem::take(&mut slices.open) {
                to.file.end(nanos, slices.track);
            }
        }
    }

    /// The latest time so far.
    pub(crate) fn latest(&self) -> u64 {
        self.latest
    }

    fn slices(&mut self, cpu: u16, part: Part) -> &mut Slices {
        let cpu = &mut self.cpus[usize::from(cpu)];
        match part {
            Part::Work => &mut cpu.work,
            Part::Handler => &mut cpu.interrupts,
        }
    }

    /// The arrow of an interrupt of this run.
    fn flow(&self, interrupt: u64) -> Flow {
        Flow(u64::from(self.number) << 40 | interrupt)
    }
}
