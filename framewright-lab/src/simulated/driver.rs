//! A run of any allocator: ageing of memory, warm-up, the measured window, checks at the end.

use framewright::{CpuId, Memory, Tuning};
use framewright_sim::{
    check,
    engine::{Cpu as SimCpu, Failure, Machine, Program},
    machine::Spec,
    platform::{LentRelief, Simulated},
};

use super::{
    Column, Plan, Simulation,
    column::Nodes,
    memory::on_memory,
    scheduled::Scheduler,
    stopwatch::Stopwatch,
    world::{SimPipe, SimWorld},
};
use crate::Error;
use crate::invariants::all_free;
use crate::perfetto::{self, Levels, levels};
use crate::samples::{MemoryState, Watch, Watcher};
use crate::workloads::{
    Body, Counts, SharedPipe, Window, Workload,
    counts::{CpuCounters, Done},
    cpu::{Cpu, Stopped},
    heat::{Caches, Heat},
    socket_pairs::SocketPairs,
    world::{Allocator, Library, Message},
};

/// Frames of a core's share of the last-level cache: 1.375 MiB on Skylake-SP.
const SHARE_OF_SOCKET_CACHE: u32 = 352;

/// The parameters of a run besides the allocator.
pub(super) struct Driver<'s> {
    pub(super) work: &'s Workload,
    pub(super) spec: &'s Spec,
    pub(super) machine: &'s Machine,
    pub(super) plan: Plan,
    /// The memory, a zone on each node.
    pub(super) nodes: &'s Nodes,
    /// The heat of its frames.
    pub(super) heat: &'s Heat,
    /// Watches the run.
    pub(super) watcher: &'s Watcher,
}

/// The driver's interface to an allocator.
pub(super) struct Subject<'c, A> {
    /// The allocator's handle of CPU `cpu`.
    pub(super) cpu_handle: &'c dyn Fn(u16) -> A,
    /// The counters.
    pub(super) counts: &'c dyn Fn() -> Counts,
    /// Frames on all CPUs' lists.
    pub(super) held: &'c dyn Fn() -> u64,
    /// Checks the invariants that hold at any time.
    pub(super) wrong: &'c dyn Fn() -> Result<(), String>,
    /// Amounts of frames for a trace, read without locks: names, units and values.
    pub(super) levels: &'c dyn Fn() -> Levels,
    /// The state of memory; `None` if it cannot be read now.
    pub(super) state: &'c dyn Fn() -> Option<MemoryState>,
}

/// The state of a run.
struct Run<'p, A: Allocator> {
    driver: &'p Driver<'p>,
    subject: &'p Subject<'p, A>,
    watch: &'p Stopwatch<'p>,
    counters: &'p [CpuCounters],
    heat: &'p Heat,
    pipes: &'p [SimPipe<'p, Message<A::Block>>],
}

impl Driver<'_> {
    /// Runs the workload with an allocator. Every frame is free at the end.
    pub(super) fn run<A: Allocator>(&self, subject: &Subject<'_, A>) -> Result<Window, Failure> {
        let cpus = self.spec.cpus();
        let counters: Vec<CpuCounters> = (0..cpus).map(|_| CpuCounters::default()).collect();
        let (pipes, capacity) = self.work.pipes(cpus);
        let pipes: Vec<_> =
            (0..pipes).map(|number| SimPipe::new(self.machine, number, capacity)).collect();
        let sample = || perfetto::Sample {
            levels: (subject.levels)(),
            counts: vec![("pages", Done::sum(&counters).pages)],
        };
        let sample_at = |now| self.watcher.look(now, sample, subject.state);
        let watch = Stopwatch::new(
            self.machine,
            &counters,
            subject.counts,
            subject.held,
            self.plan,
            self.work.cycle_pages(cpus),
        )
        .checking(subject.wrong)
        .sampling(&sample_at);
        let run = Run {
            driver: self,
            subject,
            watch: &watch,
            counters: &counters,
            heat: self.heat,
            pipes: &pipes,
        };
        let mut bodies: Vec<_> = (0..cpus).map(|cpu| Body::new(self.work, cpu, cpus)).collect();
        let aged = run.age(&mut bodies);
        let ran = aged.and_then(|()| match self.work {
            Workload::SocketPairs(work) if !work.is_pinned() => run.run_scheduled(work),
            _ => run.run(&mut bodies),
        });
        let samples = self.watcher.finish(sample, subject.state);
        let ended = run.free_all(&mut bodies);
        ran.and(ended)?;
        let unfinished =
            || Failure::Invariant { what: "no CPU reached the window's end".to_owned() };
        let window = watch.window(self.nodes).ok_or_else(unfinished)?;
        Ok(Window { samples, ..window })
    }
}

impl<'p, A: Allocator> Run<'p, A> {
    fn cpu(&self, number: u16, cpu: Option<SimCpu<'p>>) -> Cpu<'p, A, SimWorld<'p>> {
        Cpu {
            number,
            of: self.driver.spec.cpus(),
            allocator: (self.subject.cpu_handle)(number),
            world: SimWorld { cpu, watch: self.watch, costs: self.driver.spec.costs() },
            counters: &self.counters[usize::from(number)],
            heat: Some(self.heat.of_cpu(number)),
        }
    }

    fn pipe(&self, number: u16) -> SharedPipe<'p, A::Block> {
        let pipe = self.driver.work.pipe_of(number, self.driver.spec.cpus())?;
        Some(&self.pipes[pipe])
    }

    /// CPUs take turns until each has reached its initial state. No costs are charged.
    fn age(&self, bodies: &mut [Body<'_, A>]) -> Result<(), Failure> {
        let mut cpu_states: Vec<_> =
            (0..bodies.len() as u16).map(|cpu| self.cpu(cpu, None)).collect();
        let mut more = true;
        while more {
            more = false;
            for (body, cpu_handle) in bodies.iter_mut().zip(&mut cpu_states) {
                more |= body
                    .age(cpu_handle)
                    .map_err(|stopped| violation(cpu_handle.number, &stopped))?;
            }
        }
        Ok(())
    }

    /// Runs with the clock, until the window is over.
    fn run(&self, bodies: &mut [Body<'_, A>]) -> Result<(), Failure> {
        let programs = bodies.iter_mut().enumerate().map(|(number, body)| -> Program<'_> {
            let number = number as u16;
            Box::new(move |cpu| {
                // `cpu` lives only as long as this call, but `self.cpu` needs a handle that lives for
                // `'p`. The machine has one.
                let machine_cpu = self.driver.machine.current();
                let mut cpu_handle = self.cpu(number, machine_cpu);
                if let Err(stopped) = body.work(&mut cpu_handle, self.pipe(number)) {
                    cpu.fail(stopped.to_string());
                }
            })
        });
        self.driver.machine.run(programs.collect())
    }

    /// As `run`, with the pairs of `work` as tasks that CPUs share.
    fn run_scheduled(&self, work: &SocketPairs) -> Result<(), Failure> {
        let machine = self.driver.machine;
        let scheduler = Scheduler::new(work, self.driver.spec, machine, self.pipes);
        let programs = (0..self.driver.spec.cpus()).map(|number| -> Program<'_> {
            let scheduler = &scheduler;
            Box::new(move |cpu| {
                let mut cpu_handle = self.cpu(number, machine.current());
                if let Err(stopped) = scheduler.run_cpu(&mut cpu_handle) {
                    cpu.fail(stopped.to_string());
                }
            })
        });
        machine.run(programs.collect())?;
        scheduler.check()
    }

    /// Frees everything, without charging costs.
    fn free_all(&self, bodies: &mut [Body<'_, A>]) -> Result<(), Failure> {
        let mut result = Ok(());
        for (number, body) in bodies.iter_mut().enumerate() {
            let number = number as u16;
            let given = body.free_all(&mut self.cpu(number, None), self.pipe(number));
            result = result.and(given.map_err(|stopped| violation(number, &stopped)));
        }
        result
    }
}

fn violation(cpu: u16, stopped: &Stopped) -> Failure {
    Failure::Violation { cpu: framewright::CpuId::new(cpu), what: stopped.to_string() }
}

/// The heat of the frames of a machine, all of them cold.
pub(super) fn heat(spec: &Spec, nodes: &Nodes) -> Result<Heat, Error> {
    Heat::new(&caches(spec), nodes.frames())
}

/// The caches of a machine.
fn caches(spec: &Spec) -> Caches {
    let cpus = || 0..spec.cpus();
    let of_core = (spec.costs().l2_bytes() / 4096) as u32;
    let cores = spec.topology().cores_per_socket().iter().max().copied().unwrap_or(1);
    Caches {
        core_of: cpus().map(|cpu| spec.core_of(cpu)).collect(),
        socket_of: cpus().map(|cpu| spec.socket_of(cpu).into()).collect(),
        of_core,
        of_socket: SHARE_OF_SOCKET_CACHE * u32::from(cores),
    }
}

/// Runs one tuning with one seed.
pub(super) fn run(
    simulation: &Simulation,
    work: &Workload,
    column: &Column,
    seed: u64,
    tuning: Tuning,
    watch: Watch<'_>,
) -> Result<Window, Error> {
    let spec = &simulation.spec;
    let nodes = Nodes::new(spec, simulation.frames());
    let config = nodes.config(tuning);
    on_memory(spec, &config, seed, &LentRelief::default(), |machine, memory| {
        let plan = simulation.plan;
        let watcher = &Watcher::start(watch, machine, &column.title(seed));
        if let Some(recorder) = watcher.recorder() {
            recorder.name_zones(memory);
        }
        let heat = &heat(spec, &nodes)?;
        let driver = Driver { work, spec, machine, plan, nodes: &nodes, heat, watcher };
        run_library(&driver, column, seed, memory)
    })
}

/// Runs a workload on a memory.
fn run_library(
    driver: &Driver<'_>,
    column: &Column,
    seed: u64,
    memory: &Memory<'_, Simulated>,
) -> Result<Window, Error> {
    let window = driver.run(&Subject {
        cpu_handle: &|cpu| Library(memory.cpu(CpuId::new(cpu)).expect("a CPU of its own")),
        counts: &|| memory.stats().into(),
        held: &|| memory.held_by_cpus() + memory.in_depots(),
        // No workload makes requests that may use memory below the watermark.
        wrong: &|| check::above_min(memory, 0),
        levels: &|| levels(memory),
        state: &|| Some(MemoryState::of(memory)),
    });
    let window = window.map_err(|failure| column.broken(seed, failure))?;
    all_free(memory).map_err(|what| column.broken(seed, what))?;
    Ok(window)
}
