//! The driver for threads.

use framewright::{Config, FrameRange, InitError, Layout, Memory, MemoryRange, Pfn, ZoneId};
use framewright_host::{HostBuilder, HostError, HostMachine, Metadata, PageSize};
use std::{
    sync::{
        Barrier,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use super::{
    HostSpec, Limit, PageFault, PageFaultError, PageFaultResult,
    burst::{Bursts, Stopped},
    figures::{self, Counters, Round},
};
use crate::{report::Check, workloads::Side};

type HostMemory<'m> = Memory<'m, HostMachine>;

/// Runs every side of a comparison, their rounds alternating.
pub(super) fn run(
    work: &PageFault,
    spec: &HostSpec,
    sides: &[Side],
    progress: &mut dyn FnMut(u64, u64),
) -> Result<PageFaultResult, PageFaultError> {
    refuse_nothing(work, sides)?;
    let buffers: Result<Vec<_>, _> = sides.iter().map(|side| metadata(spec, side)).collect();
    let mut buffers = buffers?;
    let memories: Result<Vec<_>, _> = (sides.iter().zip(&mut buffers))
        .map(|(side, buffer)| memory(work, spec, side, buffer))
        .collect();
    let memories = memories?;
    let (rounds, stopped) = play_all(work, &memories, progress)?;
    Ok(PageFaultResult {
        runs: sides.iter().zip(&rounds).map(|(side, rounds)| figures::run(side, rounds)).collect(),
        checks: checks(stopped, &memories),
        notes: notes(&memories),
    })
}

/// The first CPU that was stopped, and by what.
type End = Option<(u16, Stopped)>;

/// Warms every side up, then plays their rounds in turn.
fn play_all(
    work: &PageFault,
    memories: &[HostMemory<'_>],
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(Vec<Vec<Round>>, End), PageFaultError> {
    let mut rounds: Vec<Vec<Round>> = memories.iter().map(|_| Vec::new()).collect();
    for memory in memories {
        if let (_, Some(end)) = play(work, memory, Limit::Cycles(work.warm_up))? {
            return Ok((rounds, Some(end)));
        }
    }
    let total = u64::from(work.rounds) * memories.len() as u64;
    progress(0, total);
    for done in 0..total {
        let turn = (done % memories.len() as u64) as usize;
        let (round, end) = play(work, &memories[turn], work.limit)?;
        rounds[turn].push(round);
        if end.is_some() {
            return Ok((rounds, end));
        }
        progress(done + 1, total);
    }
    Ok((rounds, None))
}

fn refuse_nothing(work: &PageFault, sides: &[Side]) -> Result<(), PageFaultError> {
    let lacking = [
        ("frame to touch", work.frames == 0),
        ("frame per page table", work.frames_per_table == 0),
        ("frame to free at once", work.gather == 0),
        ("round", work.rounds == 0),
        ("side", sides.is_empty()),
    ];
    match lacking.into_iter().find(|(_, lacks)| *lacks) {
        Some((what, _)) => Err(PageFaultError::Nothing(what)),
        None => Ok(()),
    }
}

/// Memory that is there before the first touch, on huge pages where the system has them: what is
/// measured is this allocator, not the faults of the kernel's below it.
fn machine(spec: &HostSpec) -> Result<HostMachine, HostError> {
    let builder = || -> HostBuilder {
        HostMachine::builder().frames(spec.frames).cpus(spec.cpus).pin(spec.pin).populate(true)
    };
    match builder().page_size(PageSize::Transparent).build() {
        Err(HostError::NoTransparentHugePages { .. }) => builder().build(),
        built => built,
    }
}

/// The buffer that the memory of a side keeps its books in.
fn metadata(spec: &HostSpec, side: &Side) -> Result<Metadata, PageFaultError> {
    let map: Vec<MemoryRange> = FrameRange::new(Pfn::new(0), Pfn::new(spec.frames))
        .into_iter()
        .map(MemoryRange::from)
        .collect();
    let layout = Layout::new::<HostMachine>(&config(&map, spec, side))
        .map_err(|reason| refused(spec, reason))?;
    Ok(Metadata::for_layout(&layout)?)
}

/// The memory of a side, large enough for the work.
fn memory<'m>(
    work: &PageFault,
    spec: &HostSpec,
    side: &Side,
    metadata: &'m mut Metadata,
) -> Result<HostMemory<'m>, PageFaultError> {
    let machine = machine(spec)?;
    let map = [machine.frames().into()];
    let memory = Memory::new(machine, &config(&map, spec, side), metadata.as_mut())
        .map_err(|reason| refused(spec, reason))?;
    refuse_too_small(work, spec, &memory)?;
    Ok(memory)
}

fn config<'c>(map: &'c [MemoryRange], spec: &HostSpec, side: &Side) -> Config<'c> {
    Config { tuning: side.tuning, ..Config::new(map, spec.cpus) }
}

fn refused(spec: &HostSpec, reason: InitError) -> PageFaultError {
    PageFaultError::Init { frames: spec.frames, cpus: spec.cpus, reason }
}

fn refuse_too_small(
    work: &PageFault,
    spec: &HostSpec,
    memory: &HostMemory<'_>,
) -> Result<(), PageFaultError> {
    let zone = memory.zone(ZoneId::default()).unwrap();
    let (needed, usable) = (work.live_frames(spec.cpus), zone.managed.saturating_sub(zone.high));
    if needed <= usable {
        return Ok(());
    }
    let ample = work.ample_frames(spec.cpus);
    Err(PageFaultError::TooSmall { cpus: spec.cpus, needed, usable, frames: spec.frames, ample })
}

/// What one CPU did in a round.
struct Share {
    cpu: u16,
    pages: u64,
    started: Instant,
    ended: Instant,
    stopped: Option<Stopped>,
}

/// One round of one side: all CPUs at once. If one of them is stopped, all are.
fn play(
    work: &PageFault,
    memory: &HostMemory<'_>,
    limit: Limit,
) -> Result<(Round, End), PageFaultError> {
    let cpus = memory.cpu_count();
    let (start, stop) = (Barrier::new(usize::from(cpus)), AtomicBool::new(false));
    let before = counters(memory);
    let shares: Result<Vec<Share>, PageFaultError> = thread::scope(|scope| {
        let spawn = |_| scope.spawn(|| share(work, memory, limit, &start, &stop));
        let threads: Vec<_> = (0..cpus).map(spawn).collect();
        let joined = threads.into_iter().map(thread::ScopedJoinHandle::join);
        joined.map(|share| share.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    let shares = shares?;
    let pages = shares.iter().map(|share| share.pages).sum();
    let round = Round {
        pages,
        pages_per_second: pages as f64 / duration(&shares).as_secs_f64(),
        before,
        after: counters(memory),
    };
    let stopped = shares.iter().find_map(|share| Some((share.cpu, share.stopped?)));
    match stopped {
        Some((cpu, Stopped::OutOfMemory(reason))) => {
            Err(PageFaultError::OutOfMemory { cpu, reason })
        }
        stopped => Ok((round, stopped)),
    }
}

/// One CPU's part of a round.
fn share(
    work: &PageFault,
    memory: &HostMemory<'_>,
    limit: Limit,
    start: &Barrier,
    stop: &AtomicBool,
) -> Result<Share, PageFaultError> {
    let registered = memory.platform().register();
    // Whoever cannot register must not keep the others waiting.
    start.wait();
    let registered = registered?;
    let mut cpu = memory.cpu(registered.id())?;
    let mut bursts = Bursts::new(work, cpu.cpu().get());
    let (mut pages, mut cycles, mut stopped) = (0, 0, None);
    let started = Instant::now();
    let goes_on = |cycles| match limit {
        Limit::Cycles(most) => cycles < most,
        Limit::Time(time) => cycles == 0 || started.elapsed() < time,
    };
    while goes_on(cycles) && !stop.load(Relaxed) {
        match bursts.cycle(&mut cpu) {
            Ok(touched) => pages += touched,
            Err(why) => {
                stopped = Some(why);
                stop.store(true, Relaxed);
            }
        }
        cycles += 1;
    }
    Ok(Share { cpu: cpu.cpu().get(), pages, started, ended: Instant::now(), stopped })
}

/// From the first start to the last end. Rates of single CPUs do not add up where they share
/// processors: who is done early has had more than a fair part.
fn duration(shares: &[Share]) -> Duration {
    let first = shares.iter().map(|share| share.started).min();
    let last = shares.iter().map(|share| share.ended).max();
    let whole = first.zip(last).map(|(first, last)| last - first);
    whole.unwrap_or_default().max(Duration::from_nanos(1))
}

fn counters(memory: &HostMemory<'_>) -> Counters {
    Counters { stats: memory.stats(), contention: memory.platform().contention() }
}

/// Contents during the run, books at its end.
fn checks(stopped: End, memories: &[HostMemory<'_>]) -> Vec<Check> {
    let contents = match stopped {
        None => "every frame was cleared, and held what its owner wrote".to_owned(),
        Some((cpu, why)) => format!("CPU {cpu}: {why}"),
    };
    let wrong = memories.iter().find_map(|memory| {
        memory.drain_all();
        let zone = memory.zone(ZoneId::default()).unwrap();
        match (memory.check(), memory.platform().first_corruption()) {
            (Err(violation), _) => Some(violation.to_string()),
            (_, Some(corruption)) => Some(corruption.to_string()),
            _ if zone.free != zone.managed => {
                Some(format!("{} of {} frames came back", zone.free, zone.managed))
            }
            _ => None,
        }
    });
    vec![
        Check { name: "contents".to_owned(), passed: stopped.is_none(), detail: contents },
        Check {
            name: "invariants".to_owned(),
            passed: wrong.is_none(),
            detail: wrong.unwrap_or_else(|| "all frames are free, and the books agree".to_owned()),
        },
    ]
}

fn notes(memories: &[HostMemory<'_>]) -> Vec<String> {
    let missing = memories.first().and_then(|memory| memory.platform().no_remote_barrier());
    missing.map(|why| format!("owner lock: trylock, because {why}")).into_iter().collect()
}
