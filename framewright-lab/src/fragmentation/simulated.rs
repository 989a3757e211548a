//! The experiments on a simulated machine: each of its CPUs takes the place of a thread.
//!
//! Only the allocator's work and the time between two operations advance the clocks. Before each
//! round, all CPUs wait for the CPU with the latest clock.

use framewright::CpuId;
use framewright_peers::{Worker, list_buddy};
use framewright_sim::{
    engine::{Machine, Options, Program, Shared},
    machine::Spec,
    platform::LentRelief,
};
use std::{
    sync::mpsc::{Receiver, TryRecvError},
    time::Duration,
};

use super::{
    Experiment, Refusal,
    cpu::Cpus,
    outcome::{Latencies, Outcome},
    setup::{Allocator, Column, Ended, FreeBy, Setup},
    subject::{Locks, Subject, Work},
};
use crate::{
    Error,
    invariants::all_free,
    micro::framewright_row::{Blocks, OurWorker},
    samples::{MemoryState, Watch, Watcher},
    simulated::{Lists, Zones, column::Nodes, lock_cycles, memory::on_memory},
    workloads::Counts,
};

/// Nanoseconds after which a CPU that waits for a block looks again.
const PAUSE: u64 = 1000;

/// The simulated machine of an experiment.
#[derive(Clone, Debug)]
pub struct SimulatedCpus {
    /// The machine. The experiment's memory is divided among the nodes in proportion to their memory in
    /// this spec.
    pub spec: Spec,
    /// Modelled nanoseconds between two operations of a CPU. `None`: the time in which the machine clears a page.
    pub think_ns: Option<u64>,
    /// Whether the memory of the runs with the first seed is sampled, for [`Section::samples`](super::Section::samples).
    pub samples_memory: bool,
}

impl SimulatedCpus {
    /// Refuses allocators without a model, frees by another CPU if there is none, and less than
    /// `least` frames for each CPU.
    pub(super) fn check(&self, setup: &Setup, least: u64) -> Result<(), Refusal> {
        let (cpus, name) = (u64::from(self.spec.cpus()), self.spec.name());
        if setup.frames < cpus * least {
            let (mib, least) = (setup.frames >> 8, (cpus * least) >> 8);
            let why = format_args!(
                "{mib} MiB for the {cpus} CPUs of {name}: choose at least {least} MiB"
            );
            return Err(("memory", Error::input(why)));
        }
        if setup.free_by == FreeBy::Other && cpus == 1 {
            let why =
                format_args!("{name} has no other CPU: choose 'same', or a machine with more CPUs");
            return Err(("free-by", Error::input(why)));
        }
        let has = |column: &&Column| {
            matches!(column.allocator, Allocator::Framewright(_) | Allocator::ListBuddy)
        };
        match setup.columns.iter().find(|column| !has(column)) {
            None => Ok(()),
            Some(Column { label, .. }) => {
                let why = format_args!("{label} has no model: choose framewright or list-buddy");
                Err(("contenders", Error::input(why)))
            }
        }
    }
}

/// An allocator on a simulated machine.
struct OnSimulator<'c, W> {
    machine: Shared,
    /// Cycles between two operations of a CPU.
    think: u64,
    /// The handle of a CPU.
    worker: &'c (dyn Fn(usize) -> W + Sync),
    /// Empties all CPU lists.
    drain: &'c (dyn Fn() + Sync),
    counts: &'c (dyn Fn() -> Counts + Sync),
}

impl<W> OnSimulator<'_, W> {
    /// The latest clock of all CPUs.
    fn now(&self) -> u64 {
        let machine = self.machine.get();
        let clocks = (0..machine.cpus()).map(|cpu| machine.clock(CpuId::new(cpu)));
        clocks.max().unwrap_or(0)
    }
}

impl<W: Worker> Subject for OnSimulator<'_, W> {
    type Worker<'a>
        = W
    where
        Self: 'a;

    fn worker(&self, cpu: usize) -> W {
        (self.worker)(cpu)
    }

    fn drain(&self) -> bool {
        (self.drain)();
        true
    }

    fn run(&self, work: Vec<Work<'_>>) -> Result<(), Error> {
        let start = self.now();
        let programs = work.into_iter().map(|work| -> Program<'_> {
            Box::new(move |cpu| {
                cpu.sleep_until(start);
                work();
            })
        });
        let programs = programs.collect();
        self.machine.get().run(programs).map_err(Error::broken)
    }

    fn before_exchange(&self) {
        if let Some(cpu) = self.machine.get().current() {
            cpu.step();
        }
    }

    fn pause(&self) {
        let machine = self.machine.get();
        if let Some(cpu) = machine.current() {
            cpu.sleep_until(cpu.now() + machine.model().cycles_of_nanos(PAUSE));
        }
    }

    /// All CPUs are on one thread, which must not block.
    fn receive<B>(&self, inbox: &Receiver<B>) -> Option<B> {
        loop {
            self.before_exchange();
            match inbox.try_recv() {
                Ok(block) => return Some(block),
                Err(TryRecvError::Empty) => self.pause(),
                Err(TryRecvError::Disconnected) => return None,
            }
        }
    }

    #[inline]
    fn time<R>(&self, latencies: &mut Latencies, call: impl FnOnce() -> R) -> R {
        let machine = self.machine.get();
        let Some(cpu) = machine.current() else { return call() };
        let start = cpu.now();
        let result = call();
        latencies.modelled((cpu.now() - start) * machine.model().nanos_per_1000_cycles);
        cpu.work(self.think);
        result
    }

    fn cpu_time(&self) -> Duration {
        Duration::ZERO
    }

    fn locks(&self) -> Option<Locks> {
        let cycles = lock_cycles(self.machine.get(), self.now());
        Some(Locks { cycles, counts: (self.counts)() })
    }
}

/// Runs the experiment once.
pub(super) fn play<E: Experiment>(
    column: &Column,
    machine: &SimulatedCpus,
    experiment: &E,
    setup: &Setup,
    share: u8,
    seed: u64,
    tell: &mut dyn FnMut(u64),
) -> Result<Ended, Error> {
    let SimulatedCpus { spec, think_ns, samples_memory } = machine;
    let think = |machine: &Machine| match think_ns {
        Some(nanos) => machine.model().cycles_of_nanos(*nanos),
        None => machine.model().clear,
    };
    let watch = Watch { trace: None, memory: *samples_memory }.of(seed, &setup.seeds);
    let nodes = Nodes::new(spec, setup.frames);
    // Each node has whole pageblocks, so there may be slightly more frames than requested.
    let setup = &Setup { frames: nodes.frames(), ..setup.clone() };
    let broken =
        |what: String| Error::broken(format_args!("{}, seed {seed}: {what}", column.label));
    let frames = setup.frames;
    let ended = |outcome, missing| Ended { outcome, capacity: frames, back: frames - missing };
    if let Allocator::Framewright(tuning) = column.allocator {
        let config = nodes.config(tuning);
        return on_memory(spec, &config, seed, &LentRelief::default(), |machine, memory| {
            let subject = OnSimulator {
                machine: Shared::new(machine),
                think: think(machine),
                worker: &|cpu| OurWorker::<_, Blocks>::of(memory, cpu),
                drain: &|| memory.drain_all(),
                counts: &|| memory.stats().into(),
            };
            let watcher = Watcher::start(watch, machine, &column.label);
            let mut tell = |step| {
                watcher.sample_now(|| Some(MemoryState::of(memory)));
                tell(step);
            };
            let outcome = run(subject, experiment, setup, share, seed, &mut tell)?;
            all_free(memory).map_err(broken)?;
            Ok(ended(Outcome { samples: watcher.samples(), ..outcome }, 0))
        });
    }
    let machine = Machine::modelled(spec.into(), Options { seed, ..Options::default() });
    let zones = Zones::new(spec, &nodes, &machine, &list_buddy::Tuning::default())?;
    let shared = Shared::new(&machine);
    let subject = OnSimulator {
        machine: Shared::new(&machine),
        think: think(&machine),
        worker: &|cpu| Lists::new(&zones, shared.get(), spec, cpu as u16),
        drain: &|| zones.drain(),
        counts: &|| zones.counts(),
    };
    let watcher = Watcher::start(watch, &machine, &column.label);
    let mut tell = |step| {
        watcher.sample_now(|| zones.state());
        tell(step);
    };
    let outcome = run(subject, experiment, setup, share, seed, &mut tell)?;
    Ok(ended(Outcome { samples: watcher.samples(), ..outcome }, zones.missing()))
}

/// Runs the experiment and frees everything.
fn run<E: Experiment>(
    subject: impl Subject,
    experiment: &E,
    setup: &Setup,
    share: u8,
    seed: u64,
    tell: &mut dyn FnMut(u64),
) -> Result<Outcome, Error> {
    let mut cpus = Cpus::new(subject, setup.frames, setup.threads, setup.free_by, seed);
    let outcome = experiment.play(setup, share, &mut cpus, tell)?;
    cpus.free_all()?;
    Ok(outcome)
}
