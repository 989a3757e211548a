//! Warm-up, alternating rounds, and the threads of a round.

use framewright::{Block, CpuId};
use framewright_host::Contention;
use std::{
    sync::{
        Barrier,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use super::{
    HostSpec, Limit, Rounds,
    memories::{self, End, HostMemory},
    world::{HostPipe, HostWorld, Pace},
};
use crate::Error;
use crate::report::Measured;
use crate::workloads::{
    Body, Counts, Side, Window, Workload, check_reserves,
    counts::{CpuCounters, Done},
    cpu::{Cpu, Stopped},
    figures::{self, Waits},
    heat::Heat,
    world::{Library, Message, Pipe},
};

/// Runs every side of a comparison. The sides alternate round by round.
pub(super) fn run(
    work: &Workload,
    spec: &HostSpec,
    sides: &[Side],
    rounds: Rounds,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Measured, Error> {
    check_arguments(work, spec, sides, rounds)?;
    check_reserves(sides, spec.frames)?;
    let buffers: Result<Vec<_>, _> =
        sides.iter().map(|side| memories::metadata(spec, side)).collect();
    let mut buffers = buffers?;
    let memories: Result<Vec<_>, _> = (sides.iter().zip(&mut buffers))
        .map(|(side, buffer)| memories::memory(work, spec, side, buffer))
        .collect();
    let memories = memories?;
    let side_runs: Result<Vec<_>, _> =
        memories.iter().map(|memory| SideRun::new(work, memory)).collect();
    let side_runs = side_runs?;
    let (windows, stopped) = run_all(&side_runs, rounds, progress)?;
    let run = |(side, windows): (&Side, &Vec<Window>)| {
        figures::run_of(&side.label, &side.settings, windows)
    };
    Ok(Measured {
        runs: sides.iter().zip(&windows).map(run).collect(),
        checks: memories::checks(&stopped, &memories),
        notes: memories::notes(&memories),
        ..Measured::default()
    })
}

fn check_arguments(
    work: &Workload,
    spec: &HostSpec,
    sides: &[Side],
    rounds: Rounds,
) -> Result<(), Error> {
    let lacks = work.lacks(spec.cpus);
    let lacks = lacks.or(work.is_scheduled().then_some("simulated machine for its scheduler"));
    let lacks = lacks.or((rounds.rounds == 0).then_some("round"));
    let lacks = lacks.or(sides.is_empty().then_some("side"));
    match lacks {
        Some(what) => Err(work.lacking(what)),
        None => Ok(()),
    }
}

/// Warms every side up, and then runs the rounds of all sides in turn.
fn run_all(
    side_runs: &[SideRun<'_, '_>],
    rounds: Rounds,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(Vec<Vec<Window>>, End), Error> {
    let mut windows: Vec<Vec<Window>> = side_runs.iter().map(|_| Vec::new()).collect();
    for side_run in side_runs {
        if let (_, Some(end)) = side_run.round(Limit::Cycles(rounds.warm_up))? {
            return Ok((windows, Some(end)));
        }
    }
    let total = u64::from(rounds.rounds) * side_runs.len() as u64;
    progress(0, total);
    for done in 0..total {
        let turn = (done % side_runs.len() as u64) as usize;
        let (window, end) = side_runs[turn].round(rounds.limit)?;
        windows[turn].push(window);
        if end.is_some() {
            return Ok((windows, end));
        }
        progress(done + 1, total);
    }
    Ok((windows, None))
}

/// One side, and the counters of its CPUs.
struct SideRun<'p, 'm> {
    work: &'p Workload,
    memory: &'p HostMemory<'m>,
    counters: Vec<CpuCounters>,
    /// `None` for `page-fault`: recording a touch costs as much as an operation of this workload.
    heat: Option<Heat>,
}

/// The counters at one moment.
struct Moment {
    done: Done,
    counts: Counts,
    contention: Contention,
}

/// One thread's part of a round.
struct Part {
    cpu: u16,
    started: Instant,
    ended: Instant,
    stopped: Option<Stopped>,
}

/// State shared by the threads of a round.
struct Shared<'m> {
    limit: Limit,
    start: Barrier,
    stop: AtomicBool,
    pipes: Vec<HostPipe<Message<Block<'m>>>>,
}

impl<'p, 'm> SideRun<'p, 'm> {
    fn new(work: &'p Workload, memory: &'p HostMemory<'m>) -> Result<Self, Error> {
        let cpus = memory.cpu_count();
        let watched = !matches!(work, Workload::PageFault(_));
        let heat = || Heat::new(&memories::caches(cpus), memory.managed());
        Ok(Self {
            work,
            memory,
            counters: (0..cpus).map(|_| CpuCounters::default()).collect(),
            heat: watched.then(heat).transpose()?,
        })
    }

    /// One round on all CPUs. If one of them stops with an error, all do.
    fn round(&self, limit: Limit) -> Result<(Window, End), Error> {
        let cpus = self.memory.cpu_count();
        let (pipes, capacity) = self.work.pipes(cpus);
        let shared = Shared {
            limit,
            start: Barrier::new(usize::from(cpus)),
            stop: AtomicBool::new(false),
            pipes: (0..pipes).map(|_| HostPipe::new(capacity)).collect(),
        };
        let before = self.moment();
        let parts: Result<Vec<Part>, Error> = thread::scope(|scope| {
            let spawn = |cpu| {
                let shared = &shared;
                scope.spawn(move || self.part(cpu, shared))
            };
            let threads: Vec<_> = (0..cpus).map(spawn).collect();
            let joined = threads.into_iter().map(thread::ScopedJoinHandle::join);
            joined
                .map(|part| part.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect()
        });
        let parts = parts?;
        let window = self.window(&before, &self.moment(), duration(&parts));
        let stopped = parts.into_iter().find_map(|part| Some((part.cpu, part.stopped?)));
        match stopped {
            Some((cpu, Stopped::OutOfMemory(reason))) => {
                Err(Error::input(format_args!("CPU {cpu} ran out of memory: {reason}")))
            }
            stopped => Ok((window, stopped)),
        }
    }

    /// One CPU's part of a round.
    fn part(&self, cpu: u16, shared: &Shared<'m>) -> Result<Part, Error> {
        let machine = self.memory.platform();
        let registered = machine.register_as(CpuId::new(cpu));
        // A thread that cannot register must not block the others at the barrier.
        shared.start.wait();
        let registered = registered?;
        let mut context = Cpu {
            number: cpu,
            of: self.memory.cpu_count(),
            allocator: Library(self.memory.cpu(registered.id())?),
            world: HostWorld::new(machine, Pace::new(shared.limit), &shared.stop),
            counters: &self.counters[usize::from(cpu)],
            heat: self.heat.as_ref().map(|heat| heat.of_cpu(cpu)),
        };
        let pipe = self.work.pipe_of(cpu, context.of).map(|pipe| &shared.pipes[pipe]);
        let pipe = pipe.map(|pipe| pipe as &dyn Pipe<_>);
        let mut body = Body::new(self.work, cpu, context.of);
        let worked = body.work(&mut context, pipe);
        if worked.is_err() {
            shared.stop.store(true, Relaxed);
        }
        let stopped = worked.and(body.free_all(&mut context, pipe)).err();
        Ok(Part { cpu, started: context.world.pace.started(), ended: Instant::now(), stopped })
    }

    fn moment(&self) -> Moment {
        Moment {
            done: Done::sum(&self.counters),
            counts: self.memory.stats().into(),
            contention: self.memory.platform().contention(),
        }
    }

    fn window(&self, before: &Moment, after: &Moment, duration: Duration) -> Window {
        Window {
            seconds: duration.as_secs_f64(),
            done: after.done.since(before.done),
            counts: after.counts - before.counts,
            waits: Some(Waits {
                times: after.contention.waits - before.contention.waits,
                nanos: after.contention.nanos - before.contention.nanos,
            }),
            cycles: None,
            held_percent: 100.0 * (self.memory.held_by_cpus() + self.memory.in_depots()) as f64
                / self.memory.managed().max(1) as f64,
            ..Window::default()
        }
    }
}

/// From the first start to the last end. Rates of single CPUs cannot be added: if CPUs share
/// processors, an early finisher had more than a fair share.
fn duration(parts: &[Part]) -> Duration {
    let first = parts.iter().map(|part| part.started).min();
    let last = parts.iter().map(|part| part.ended).max();
    let whole = first.zip(last).map(|(first, last)| last - first);
    whole.unwrap_or_default().max(Duration::from_nanos(1))
}
