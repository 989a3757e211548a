//! The same on threads of this process, over real memory.
//!
//! Builders have so many threads, whoever asks has one, and the kernel's own work another: background
//! reclaim, background compaction and writing back. The load is that of the simulated machine, its code
//! too; what is real here are the threads, the memory, what pages hold, and how long requests take. Every
//! word of a page is looked at when it has moved, when it is read, and when its program ends.
//!
//! | module     | job                                            |
//! |------------|------------------------------------------------|
//! | `threads`  | threads as the world of the kernel             |
//! | `lock`     | who is inside the kernel                       |

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
    figures::{self, Outcome},
    kernel::{Kernel, State},
    leaves_enough,
    mover::Moves,
    owner::Owner,
    play::{Disk, Play},
    program::Program,
    relief::refuse_large,
    share::{self, Load, builders_for},
    world::{Inside, World},
};
use crate::{
    Error,
    report::{Check, Measured, each_run},
    workloads::Side,
};
use lock::Crew;
use threads::{Shared, Threads};

/// The workload on threads.
#[derive(Clone, Debug)]
pub struct HostHighAlloc {
    /// What requests may do.
    pub flags: Flags,
    /// Threads for builders.
    pub threads: u16,
    /// Frames of memory.
    pub frames: u64,
    /// A look: a fifth of the waiting.
    pub quick: bool,
}

/// What one run left: what came of it, and what is wrong, if anything is.
struct Ended {
    outcome: Outcome,
    looked: u64,
    moved: u64,
    wrong_words: u64,
    wrong: Option<String>,
}

impl HostHighAlloc {
    /// Memory where nobody says how much, in frames: 512 MiB.
    pub const DEFAULT_FRAMES: u64 = 512 << 8;
    /// The most threads that build: one more asks, and one does the kernel's own work.
    pub const MOST_THREADS: u16 = MAX_CPUS as u16 - 2;

    /// Threads that have something to build: there is a builder for each 400 MiB, and one more.
    pub fn building(&self) -> u16 {
        builders_for(self.frames).min(self.threads.into()) as u16
    }

    /// Runs every side with every seed, one after the other, sides in turn. `progress` hears how much of
    /// how much is done.
    ///
    /// # Errors
    ///
    /// [`Error`].
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
        refuse_large(sides, self.frames)?;
        self.hold_against(available_memory())?;
        let total = (sides.len() * seeds.len()) as u64 * share::PARTS;
        let mut ended: Vec<Vec<Ended>> = sides.iter().map(|_| Vec::new()).collect();
        progress(0, total);
        let progress = Mutex::new((0, progress));
        let tell = |parts| {
            let mut progress = progress.lock().expect("no other thread panicked");
            progress.0 += parts;
            let done = progress.0;
            (progress.1)(done, total);
        };
        for &seed in seeds {
            for (side, ended) in sides.iter().zip(&mut ended) {
                ended.push(self.run_once(side, seed, &tell)?);
            }
        }
        let checks = checks(sides, &ended, self.quick);
        let runs = sides.iter().zip(ended).map(|(side, ended)| {
            let outcomes: Vec<Outcome> = ended.into_iter().map(|ended| ended.outcome).collect();
            figures::run_of(side, &outcomes)
        });
        Ok(Measured { runs: runs.collect(), checks, ..Measured::default() })
    }

    /// Refuses what would push other programs out.
    fn hold_against(&self, available: Option<u64>) -> Result<(), Error> {
        const FRAME: u64 = 4096;
        /// What holds it, its value, and a page of the file that is as large.
        const BOOKS: u64 = 64;
        let needed = self.frames.saturating_mul(FRAME + BOOKS);
        match available {
            Some(available) if needed > available => Err(Error::input(format_args!(
                "{} MiB and what is known of them need {} MiB, and the system has {} MiB available; give it \
                 a smaller --memory",
                self.frames >> 8,
                needed >> 20,
                available >> 20
            ))),
            _ => Ok(()),
        }
    }

    /// One side, one seed.
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
        // All memory is there before it begins: what the system takes to find it is not the library's.
        let machine = HostMachine::builder().frames(self.frames).cpus(cpus).populate(true);
        let machine = machine.page_size(PageSize::Transparent).build()?;
        let map = [machine.frames().into()];
        let side_tables = SideTables::default().with_lru();
        let config = Config::new(&map, cpus).with_side_tables(side_tables).with_tuning(side.tuning);
        let layout = Layout::new::<HostMachine>(&config).map_err(init)?;
        let mut books = Metadata::for_layout(&layout)?;
        let memory = Memory::new(machine, &config, books.as_mut()).map_err(init)?;

        let disk = Disk::new(self.frames, seed);
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
        let run = || run_all(&play, &world, &shared.crew);
        // SAFETY: relief goes inside before it touches a cell of the kernel.
        let relief = unsafe { Inside::new(&kernel) };
        let ran = memory.platform().with_relief(&relief, run);
        ran.map_err(|reason| {
            Error::input(format_args!(
                "cannot have {cpus} threads, {} that build and two besides: {reason}; give it fewer, as in \
                 --machine host:2",
                cpus - 2
            ))
        })?;
        let contents = &shared.contents;
        Ok(Ended {
            wrong: lock::inside(|| play.wrong()),
            outcome: play.outcome.take(),
            looked: contents.looked.load(Relaxed),
            moved: contents.moved.load(Relaxed),
            wrong_words: contents.wrong.load(Relaxed),
        })
    }
}

/// Builders on the first threads, then who asks, then who does the kernel's own work.
fn run_all<'t>(
    play: &Play<'_, '_, '_, Threads<'t>>,
    world: &Threads<'t>,
    crew: &Crew,
) -> io::Result<()> {
    let builders = play.load.builders;
    // SAFETY: what CPUs do is begun inside, by `Threads::run`.
    let play = unsafe { Inside::new(play) };
    let run = |number| {
        let memory = play.kernel.memory;
        let id = CpuId::new(number);
        let _me = memory.platform().register_as(id).expect("nobody else is this CPU");
        let mut token = memory.cpu(id).expect("nobody else is this CPU");
        world.run(number, |cpu| match number.checked_sub(builders) {
            None => play.build(cpu, &mut token),
            Some(0) => play.ask(cpu, &mut token),
            Some(_) => play.serve(cpu, &mut token),
        });
    };
    crew.run(builders + 2, |_| Builder::new(), run)
}

/// What the runs of each side have shown.
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
                    "after {all} nothing is claimed or isolated, and all frames are where the kernel around \
                     the library thinks they are"
                )
            })),
        leaves_enough(least, quick, false),
    ]
}

/// Whether pages held what was stored; something has to have moved with every side that moves pages.
fn contents(sides: &[Side], ended: &[Vec<Ended>]) -> Check {
    let moved = |ended: &[Ended]| ended.iter().map(|it| it.moved).sum::<u64>();
    let all = || ended.iter().flatten();
    let words: u64 = all().map(|it| it.wrong_words).sum();
    let looked: u64 = all().map(|it| it.looked).sum();
    let moves = |side: &Side| side.tuning.compact.method != CompactMethod::Off;
    let mut unproved = sides.iter().zip(ended).filter(|(side, of)| moves(side) && moved(of) == 0);
    let unproved = unproved.next().map(|(side, _)| &side.label);
    let detail = match (words, unproved) {
        (0, Some(side)) => format!("with `{side}` nothing has moved, so nothing is proved"),
        (0, None) if sides.iter().any(moves) => format!(
            "every word was what it should be of {looked} pages that were looked at, {} of them because \
             they had moved",
            ended.iter().map(|of| moved(of)).sum::<u64>()
        ),
        (0, None) => format!(
            "every word was what it should be of {looked} pages that were looked at; without compaction \
             none moves"
        ),
        (words, _) => format!("{words} words of {looked} pages were not what was stored"),
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
            vec![Ended { outcome, looked: 9, moved, wrong_words, wrong: None }]
        };
        let sides = [CompactMethod::Off, CompactMethod::Scan, CompactMethod::Index].map(side);
        for (passed, moved, wrong_words, detail) in [
            (true, [0, 1, 2], 0, "of 27 pages that were looked at, 3 of them"),
            (false, [0, 0, 2], 0, "with `Scan` nothing has moved"),
            (false, [1, 1, 0], 0, "with `Index` nothing has moved"),
            (false, [0, 1, 2], 1, "3 words of 27 pages were not"),
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
