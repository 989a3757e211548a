//! The workload on threads of this process, over real memory.
//!
//! Builders run on several threads, requests on one, and the kernel's background work on another
//! (background reclaim and compaction, write-back). The load and its code are the same as on a
//! simulated machine. Threads, memory, the contents of pages and the latency of requests are real.
//! Every word of a page is verified after a move, on a read, and at the end of its program.
//!
//! | module     | job                                            |
//! |------------|------------------------------------------------|
//! | `threads`  | threads as the world of the kernel             |
//! | `lock`     | the lock of the kernel, and the worker threads |

mod lock;
mod threads;

use framewright::{
    Config, CpuId, InitError, Layout, Memory, SideTables, reclaim::Reclaim, tlb::MAX_CPUS,
    tuning::CompactMethod,
};
use framewright_host::{HostMachine, Metadata, PageSize, available_memory};
use framewright_sim::file::FileCosts;
use std::{
    io,
    sync::{Mutex, atomic::Ordering::Relaxed},
    thread::Builder,
};

use super::{
    Flags,
    builder::FILES,
    figures::{self, Outcome},
    kernel::{CpuContext, Kernel, State},
    leaves_enough,
    mover::Moves,
    owner::Owner,
    play::{Disk, Play},
    program::Program,
    share::{self, Load, builders_for},
    world::{Locked, World},
};
use crate::{
    Error,
    report::{Check, Measured, each_run},
    workloads::{Side, check_reserves, run_sides},
};
use lock::Workers;
use threads::{Shared, Threads};

/// The workload on threads.
#[derive(Clone, Debug)]
pub struct HostHighAlloc {
    /// The work that requests may do.
    pub flags: Flags,
    /// Threads of builders.
    pub threads: u16,
    /// Frames of memory.
    pub frames: u64,
    /// Short run: a fifth of the waiting.
    pub quick: bool,
}

/// The result of one run, and the error that it found, if any.
struct Ended {
    outcome: Outcome,
    verified: u64,
    moved: u64,
    wrong_words: u64,
    wrong: Option<String>,
}

impl HostHighAlloc {
    /// Default memory in frames: 512 MiB.
    pub const DEFAULT_FRAMES: u64 = 512 << 8;
    /// Maximum number of builder threads: one more thread makes the requests, and one does the
    /// background work.
    pub const MOST_THREADS: u16 = MAX_CPUS as u16 - 2;

    /// Threads with a builder to run: one builder for each 400 MiB, and one more.
    pub fn building(&self) -> u16 {
        builders_for(self.frames).min(self.threads.into()) as u16
    }

    /// Runs every side with every seed; sides alternate. `progress` gets the finished and the total
    /// amount of work.
    ///
    /// # Errors
    ///
    /// If the arguments cannot be used, the system lacks memory or threads, or the library failed.
    pub fn run(
        &self,
        sides: &[Side],
        seeds: &[u64],
        progress: &mut (dyn FnMut(u64, u64) + Send),
    ) -> Result<Measured, Error> {
        if self.threads > Self::MOST_THREADS {
            return Err(Error::input(format_args!(
                "host:{}: high-alloc takes at most {} threads",
                self.threads,
                Self::MOST_THREADS
            )));
        }
        check_reserves(sides, self.frames)?;
        self.check_available(available_memory())?;
        let total = (sides.len() * seeds.len()) as u64 * share::PARTS;
        progress(0, total);
        let progress = Mutex::new((0, progress));
        let tell = |parts| {
            let mut progress = progress.lock().expect("no other thread panicked");
            progress.0 += parts;
            let done = progress.0;
            (progress.1)(done, total);
        };
        let ended = run_sides(sides, seeds, |side, seed, _| self.run_once(side, seed, &tell))?;
        let checks = checks(sides, &ended, self.quick);
        let runs = sides.iter().zip(ended).map(|(side, ended)| {
            let outcomes: Vec<Outcome> = ended.into_iter().map(|ended| ended.outcome).collect();
            figures::run_of(side, &outcomes)
        });
        Ok(Measured { runs: runs.collect(), checks, ..Measured::default() })
    }

    /// Refuses a size that would push other programs out of memory.
    fn check_available(&self, available: Option<u64>) -> Result<(), Error> {
        const FRAME: u64 = 4096;
        /// The state of a frame: its use, its value, and its share of the metadata.
        const STATE_BYTES: u64 = 64;
        let needed = self.frames.saturating_mul(FRAME + STATE_BYTES);
        match available {
            Some(available) if needed > available => Err(Error::input(format_args!(
                "{} MiB with their metadata need {} MiB, and the system has {} MiB available; choose \
                 a smaller --memory",
                self.frames >> 8,
                needed >> 20,
                available >> 20
            ))),
            _ => Ok(()),
        }
    }

    /// Runs one side with one seed.
    fn run_once(
        &self,
        side: &Side,
        seed: u64,
        tell: &(dyn Fn(u64) + Sync),
    ) -> Result<Ended, Error> {
        let cpus = self.threads + 2;
        let init = |reason: InitError| {
            Error::input(format_args!("cannot set up a memory of {} frames: {reason}", self.frames))
        };
        // All memory is populated before the run: page faults of the host are not the library's
        // cost.
        let machine = HostMachine::builder().frames(self.frames).cpus(cpus).populate(true);
        let machine = machine.page_size(PageSize::Transparent).build()?;
        let map = [machine.frames().into()];
        let side_tables = SideTables::default().with_lru();
        let config = Config::new(&map, cpus).with_side_tables(side_tables).with_tuning(side.tuning);
        let layout = Layout::new::<HostMachine>(&config).map_err(init)?;
        let mut metadata = Metadata::for_layout(&layout)?;
        let memory = Memory::new(machine, &config, metadata.as_mut()).map_err(init)?;

        let disk = Disk::new(self.frames, FILES, seed);
        let programs = (0..=disk.builders()).map(|_| Program::new(()));
        let programs = programs.collect();
        let Disk { files, trees, flush, random } = disk;
        let state = State::new(self.frames, files, programs, FileCosts::FREE, random);
        let shared = Shared::new(memory.platform());
        let world = Threads::new(&shared);
        let owner = Owner::new(&state, &world);
        // SAFETY: the workload has its frames from this memory, and maps them only in its world.
        #[allow(unsafe_code)]
        let reclaim =
            unsafe { Reclaim::new(&memory, &owner, world.shootdown()) }.expect("LRU lists");
        let moves = Moves::new(&state, reclaim.lru(), &world);
        let kernel = Kernel::new(&world, &memory, &state, reclaim, &moves);
        let Self { flags, quick, threads: builders, .. } = *self;
        let load = Load { flags, quick, watched: false, builders, shares: false, seed };
        let play = Play::new(load, &kernel, &trees, flush, None, tell);
        let run = || run_all(&play, &world, &shared.workers);
        // SAFETY: relief takes the lock before it accesses a cell of the kernel.
        let relief = unsafe { Locked::new(&kernel) };
        let ran = memory.platform().with_relief(&relief, run);
        ran.map_err(|reason| {
            Error::input(format_args!(
                "cannot create {cpus} threads, {} builders and two more: {reason}; choose fewer, as in \
                 --machine host:2",
                cpus - 2
            ))
        })?;
        let contents = &shared.contents;
        Ok(Ended {
            wrong: lock::with_lock(|| play.check_end_state().err()),
            outcome: play.outcome.take(),
            verified: contents.verified.load(Relaxed),
            moved: contents.moved.load(Relaxed),
            wrong_words: contents.wrong.load(Relaxed),
        })
    }
}

/// Builders run on the first threads, then the requests, then the background work.
fn run_all<'t>(
    play: &Play<'_, '_, '_, Threads<'t>>,
    world: &Threads<'t>,
    workers: &Workers,
) -> io::Result<()> {
    let builders = play.load.builders;
    // SAFETY: `Threads::run` takes the lock before the work of a CPU starts.
    let play = unsafe { Locked::new(play) };
    let run = |number| {
        let memory = play.kernel.memory;
        let id = CpuId::new(number);
        let _me = memory.platform().register_as(id).expect("each CPU is registered once");
        world.run(number, |cpu| {
            let mut on = CpuContext::new(play.kernel, cpu);
            match number.checked_sub(builders) {
                None => play.build(&mut on),
                Some(0) => play.ask(&mut on),
                Some(_) => play.serve(&mut on),
            }
        });
    };
    workers.run(builders + 2, |_| Builder::new(), run)
}

/// The checks over all runs of each side.
fn checks(sides: &[Side], of_sides: &[Vec<Ended>], quick: bool) -> Vec<Check> {
    let ended: Vec<&Ended> = of_sides.iter().flatten().collect();
    let wrong = ended.iter().find_map(|ended| ended.wrong.clone());
    let phases = ended.iter().flat_map(|ended| &ended.outcome.phases);
    let least = phases.map(|phase| phase.achievable_pct()).fold(100.0, f64::min);
    let all = each_run(ended.len() as u64);
    vec![
        contents(sides, of_sides),
        Check::new("invariants", wrong.is_none(), wrong.unwrap_or_else(|| {
                format!(
                    "after {all} nothing is claimed or isolated, and the state of all frames is consistent"
                )
            })),
        leaves_enough(least, quick, false),
    ]
}

/// Checks the contents of pages. On each side that moves pages, some must have moved.
fn contents(sides: &[Side], ended: &[Vec<Ended>]) -> Check {
    let moved = |ended: &[Ended]| ended.iter().map(|it| it.moved).sum::<u64>();
    let all = || ended.iter().flatten();
    let words: u64 = all().map(|it| it.wrong_words).sum();
    let verified: u64 = all().map(|it| it.verified).sum();
    let moves = |side: &Side| side.tuning.compact.method != CompactMethod::Off;
    let mut unproved = sides.iter().zip(ended).filter(|(side, of)| moves(side) && moved(of) == 0);
    let unproved = unproved.next().map(|(side, _)| &side.label);
    let detail = match (words, unproved) {
        (0, Some(side)) => format!("with `{side}` no page has moved, so nothing was verified"),
        (0, None) if sides.iter().any(moves) => format!(
            "{verified} pages were verified word by word, {} of them after a move",
            ended.iter().map(|of| moved(of)).sum::<u64>()
        ),
        (0, None) => {
            format!("{verified} pages were verified word by word; without compaction none moves")
        }
        (words, _) => format!("{words} words of {verified} verified pages were wrong"),
    };
    Check { name: "contents".to_owned(), passed: words == 0 && unproved.is_none(), detail }
}

#[cfg(test)]
mod tests {
    use super::{Outcome, *};

    #[test]
    fn pages_have_to_move_with_every_side_that_moves_any() {
        let side = |method| {
            let mut side = Side::new(format!("{method:?}"));
            side.tuning.compact.method = method;
            side
        };
        let ended = |moved, wrong_words| {
            let outcome = Outcome::default();
            vec![Ended { outcome, verified: 9, moved, wrong_words, wrong: None }]
        };
        let sides = [CompactMethod::Off, CompactMethod::Scan, CompactMethod::Index].map(side);
        for (passed, moved, wrong_words, detail) in [
            (true, [0, 1, 2], 0, "27 pages were verified word by word, 3 of them"),
            (false, [0, 0, 2], 0, "with `Scan` no page has moved"),
            (false, [1, 1, 0], 0, "with `Index` no page has moved"),
            (false, [0, 1, 2], 1, "3 words of 27 verified pages were wrong"),
        ] {
            let check = contents(&sides, &moved.map(|moved| ended(moved, wrong_words)));
            assert!(check.passed == passed && check.detail.contains(detail), "{check:?}");
        }
        let check = contents(&sides[..1], &[ended(0, 0)]);
        assert!(
            check.passed && check.detail.contains("without compaction none moves"),
            "{check:?}"
        );
    }
}
