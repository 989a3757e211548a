//! Events of a simulated machine as slices, arrows and counters.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    rc::Rc,
};

use framewright::{CpuId, Memory, Platform, platform::Section};
use framewright_sim::engine::{Activity, Event, LockClass, LockId, Machine, Observer, Waiting};

use super::{Counters, Process, Sample, Trace, process::Part};

/// The observer of a machine that writes its trace.
pub(crate) struct Recorder {
    machine: Machine,
    state: RefCell<State>,
    counters: RefCell<Counters>,
    /// The time, if it is the number of events: schedules that ignore clocks have no other.
    events: Option<Cell<u64>>,
}

/// Nanoseconds of an event in a schedule that ignores clocks.
const EVENT: u64 = 1_000;

struct State {
    process: Process,
    /// The name and the tracks of each lock that was taken at least once.
    locks: HashMap<LockId, Shown>,
    /// Names of zones, by number.
    zones: Vec<String>,
    /// Whether the trace has a track for each lock, not only for those of zones and nodes.
    all_locks: bool,
    /// By CPU: whether it runs the handler of an interrupt.
    in_handler: Vec<bool>,
    /// The acquisition of the last event, if the lock is not known.
    acquired: Option<Acquired>,
    /// Senders of interrupts whose handlers have not run.
    senders: HashMap<u64, u16>,
}

struct Acquired {
    nanos: u64,
    cpu: u16,
    lock: LockId,
    class: LockClass,
}

/// The name of a lock, and the number of its tracks.
struct Shown {
    name: String,
    /// `None` if the lock has no tracks.
    tracks: Option<usize>,
}

impl Recorder {
    /// Traces the further runs of `machine` as a process called `name`.
    pub(crate) fn start(trace: &Trace, machine: &Machine, name: &str) -> Rc<Self> {
        Self::new(trace, machine, name, false)
    }

    /// As [`Recorder::start`], in schedules that ignore clocks: a microsecond for each event, and a track for each lock.
    pub(crate) fn start_by_events(trace: &Trace, machine: &Machine, name: &str) -> Rc<Self> {
        Self::new(trace, machine, name, true)
    }

    fn new(trace: &Trace, machine: &Machine, name: &str, by_events: bool) -> Rc<Self> {
        let cpus = machine.cpus();
        let state = State {
            process: trace.process(name, cpus),
            locks: HashMap::new(),
            zones: Vec::new(),
            all_locks: by_events,
            in_handler: vec![false; cpus.into()],
            acquired: None,
            senders: HashMap::new(),
        };
        let recorder = Rc::new(Self {
            machine: machine.clone(),
            state: RefCell::new(state),
            counters: RefCell::default(),
            events: by_events.then(Cell::default),
        });
        let observer: Rc<dyn Observer> = Rc::<Self>::clone(&recorder);
        machine.set_observer(Some(observer));
        recorder
    }

    /// Gives the zones of a memory their names.
    pub(crate) fn name_zones<P: Platform>(&self, memory: &Memory<'_, P>) {
        let name = |zone: framewright::ZoneInfo| zone_name(zone.node.get(), zone.kind.name());
        self.state.borrow_mut().zones = memory.zones().map(name).collect();
    }

    /// Gives the zone locks that exist now these names, in the order of their creation.
    pub(crate) fn name_zone_locks(&self, names: impl IntoIterator<Item = String>) {
        let state = &mut *self.state.borrow_mut();
        for (lock, name) in self.machine.locks(LockClass::Zone).into_iter().zip(names) {
            state.show(lock, name, true);
        }
    }

    /// Writes a sample if one is due at `clock`, in cycles.
    pub(crate) fn sample(&self, clock: u64, sample: impl FnOnce() -> Sample) {
        let nanos = self.nanos(clock);
        if self.counters.borrow().is_due(nanos) {
            self.write(nanos, sample());
        }
    }

    /// Writes the last sample, ends all slices, and ends the trace of this run.
    pub(crate) fn finish(&self, last: Option<Sample>) {
        self.machine.set_observer(None);
        self.flush();
        if let Some(last) = last {
            let latest = self.state.borrow().process.latest();
            self.write(latest, last);
        }
        self.state.borrow_mut().process.close();
    }

    /// Writes the reason why a run without a clock failed, at its last event.
    pub(crate) fn fails(&self, what: &str) {
        self.flush();
        let state = &mut *self.state.borrow_mut();
        let latest = state.process.latest();
        state.process.event(latest, SCHEDULE, what, true);
    }

    fn write(&self, nanos: u64, mut sample: Sample) {
        let locks = self.machine.lock_stats_of(LockClass::Zone);
        sample.counts.push(("zone-lock acquisitions", locks.acquisitions));
        sample.counts.push(("zone-lock waits", locks.contended));
        sample.counts.push(("interrupts", self.machine.interrupts_sent()));
        let process = &mut self.state.borrow_mut().process;
        self.counters.borrow_mut().write(nanos, sample, process);
    }

    fn flush(&self) {
        let state = &mut *self.state.borrow_mut();
        if let Some(acquired) = state.acquired.take() {
            state.acquire(&acquired, None);
        }
    }

    /// The time of an event.
    fn nanos(&self, clock: u64) -> u64 {
        match &self.events {
            Some(events) => events.get() * EVENT,
            None => self.machine.model().nanos_of_cycles(clock),
        }
    }
}

/// The title of the track with the turns of CPUs.
const SCHEDULE: &str = "running";

/// The name of a zone.
pub(crate) fn zone_name(node: u8, kind: &str) -> String {
    format!("node {node} {kind}")
}

impl Observer for Recorder {
    fn observe(&self, cpu: CpuId, clock: u64, event: Event<'_>) {
        if let Some(events) = &self.events {
            events.set(events.get() + 1);
        }
        self.state.borrow_mut().observe(cpu.get(), self.nanos(clock), &event);
    }
}

impl State {
    fn observe(&mut self, cpu: u16, nanos: u64, event: &Event<'_>) {
        if let Some(acquired) = self.acquired.take() {
            let section = match event {
                Event::Protects(lock, section) if *lock == acquired.lock => Some(*section),
                _ => None,
            };
            self.acquire(&acquired, section);
        }
        let in_handler = &mut self.in_handler[usize::from(cpu)];
        let part = if *in_handler { Part::Handler } else { Part::Work };
        let to = &mut self.process;
        match *event {
            Event::Begin => to.begin(nanos, cpu, part, "program", None),
            Event::End | Event::Leave | Event::Continue => to.end(nanos, cpu, part),
            Event::Switch => to.event(nanos, SCHEDULE, &format!("CPU {cpu}"), false),
            Event::Wait(why) => self.wait(nanos, cpu, part, why),
            Event::Acquired(lock, class) => {
                let acquired = Acquired { nanos, cpu, lock, class };
                match self.locks.contains_key(&lock) {
                    true => self.acquire(&acquired, None),
                    false => self.acquired = Some(acquired),
                }
            }
            Event::Released(lock) => {
                if let Some(tracks) = self.tracks(lock) {
                    // The first waiter has the lock from now on. It ends its wait later, after the hand-over.
                    self.process.release(nanos, tracks);
                }
            }
            Event::Sent { interrupt, target } => {
                self.senders.insert(interrupt, cpu);
                let name = format!("interrupts CPU {}", target.get());
                to.instant(nanos, cpu, part, &name, Some(interrupt));
            }
            Event::Handling(interrupt) => {
                let sender = self.senders.remove(&interrupt).unwrap_or_default();
                *in_handler = true;
                let name = format!("interrupt from CPU {sender}");
                to.begin(nanos, cpu, Part::Handler, &name, Some(interrupt));
            }
            Event::Handled => {
                to.end(nanos, cpu, Part::Handler);
                *in_handler = false;
            }
            Event::Enter(activity) => to.begin(nanos, cpu, part, name_of(activity), None),
            Event::Point(site) => to.instant(nanos, cpu, part, &format!("{site:?}"), None),
            Event::Step(step) => to.instant(nanos, cpu, part, step, None),
            Event::Failed(failure) => {
                to.instant(nanos, cpu, part, &format!("fails: {failure}"), None);
            }
            // Used above.
            Event::Protects(..) => {}
        }
    }

    fn wait(&mut self, nanos: u64, cpu: u16, part: Part, why: Waiting) {
        let name = match why {
            Waiting::Lock(lock) => {
                if let Some(tracks) = self.tracks(lock) {
                    self.process.wait(nanos, tracks);
                }
                let name = self.locks.get(&lock).map_or("a lock", |shown| &shown.name);
                format!("waits for {name}")
            }
            Waiting::Acknowledgement => "waits for acknowledgements".to_owned(),
            Waiting::Word => "waits for a change of a word".to_owned(),
            Waiting::Program => "waits for a program".to_owned(),
            Waiting::Time => "sleeps".to_owned(),
            Waiting::Condition => "waits for a condition".to_owned(),
        };
        self.process.begin(nanos, cpu, part, &name, None);
    }

    /// Shows an acquisition. `section` is that of a lock that is taken for the first time.
    fn acquire(&mut self, acquired: &Acquired, section: Option<Section>) {
        let Acquired { nanos, cpu, lock, class } = *acquired;
        if !self.locks.contains_key(&lock) {
            let (name, is_shared) = self.describe(lock, class, section);
            self.show(lock, name, is_shared);
        }
        if let Some(tracks) = self.tracks(lock) {
            self.process.hold(nanos, tracks, &format!("CPU {cpu}"));
        }
    }

    fn show(&mut self, lock: LockId, name: String, is_shared: bool) {
        let tracks = (is_shared || self.all_locks).then(|| self.process.lock(&name));
        self.locks.insert(lock, Shown { name, tracks });
    }

    fn tracks(&self, lock: LockId) -> Option<usize> {
        self.locks.get(&lock).and_then(|shown| shown.tracks)
    }

    /// The name of a lock, and whether it is one of the few that all CPUs share.
    fn describe(&self, lock: LockId, class: LockClass, section: Option<Section>) -> (String, bool) {
        let number = lock.number();
        match section {
            Some(Section::Zone(zone)) => {
                let known = self.zones.get(zone.index()).cloned();
                (known.unwrap_or_else(|| format!("zone {}", zone.index())), true)
            }
            Some(Section::Lru(node)) => (format!("LRU lists of node {}", node.get()), true),
            Some(Section::DeferredFrees) => ("deferred frames".to_owned(), true),
            Some(Section::Lists(_, cpu)) => (format!("lists of CPU {}", cpu.get()), false),
            Some(Section::LruBatch(cpu)) => (format!("LRU batch of CPU {}", cpu.get()), false),
            Some(Section::DrainLog(_, cpu)) => (format!("drain log of CPU {}", cpu.get()), false),
            Some(other) => (format!("{other:?}"), false),
            None => match class {
                LockClass::Zone => (format!("zone lock {number}"), true),
                LockClass::Lru => (format!("LRU lock {number}"), true),
                LockClass::Cpu => (format!("lock {number} of a CPU's lists"), false),
                LockClass::Program => (format!("lock {number} of programs"), false),
            },
        }
    }
}

fn name_of(activity: Activity) -> &'static str {
    match activity {
        Activity::Tick => "tick",
        Activity::DirectReclaim => "direct reclaim",
        Activity::BackgroundReclaim => "background reclaim",
        Activity::DirectCompaction => "direct compaction",
        Activity::BackgroundCompaction => "background compaction",
    }
}
