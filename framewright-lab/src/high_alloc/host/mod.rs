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
//! | `crew`     | that all of them begin, and end                |
//! | `lock`     | who is inside the kernel                       |
//! | `contents` | what pages hold                                |
//! | `checks`   | what runs have shown                           |

mod checks;
mod contents;
mod crew;
mod lock;
mod threads;

use std::{
    io,
    sync::{Mutex, atomic::Ordering::Relaxed},
    thread::Builder,
};

use framewright::{
    Config, CpuId, InitError, Layout, Memory, SideTables, reclaim::Reclaim, tlb::MAX_CPUS,
};
use framewright_host::{HostError, HostMachine, Metadata, PageSize, available_memory};
use framewright_sim::file::FileCosts;
use thiserror::Error;

use super::{
    Flags, HighAllocResult,
    course::{Course, builders_for},
    figures,
    kernel::{Kernel, State},
    mover::Moves,
    outcome::Outcome,
    owner::Owner,
    play::{Disk, Play},
    program::Program,
    reserve::{ReserveTooLarge, refuse_large},
    share,
    world::{Inside, World},
};
use crate::workloads::Side;
use checks::checks;
use crew::Crew;
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

/// Why it could not run.
#[derive(Debug, Error)]
pub enum HostHighAllocError {
    /// The machine could not be had.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The library does not take the memory.
    #[error("cannot set up a memory of {frames} frames: {reason}")]
    Init {
        /// Frames asked for.
        frames: u64,
        /// What the library said.
        reason: InitError,
    },
    /// What is to stay free leaves too little.
    #[error(transparent)]
    Reserve(#[from] ReserveTooLarge),
    /// The library does not take as many CPUs.
    #[error("host:{threads}: high-alloc takes at most {most} threads", most = HostHighAlloc::MOST_THREADS)]
    TooManyThreads {
        /// That build.
        threads: u16,
    },
    /// The system does not give as many threads.
    #[error(
        "cannot have {threads} threads, {} that build and two besides: {reason}; give it fewer, as in \
         --machine host:2",
        threads - 2
    )]
    Threads {
        /// All that were asked for.
        threads: u16,
        /// What the system said.
        reason: io::Error,
    },
    /// The system has less memory than that.
    #[error(
        "{} MiB and what is known of them need {} MiB, and the system has {} MiB available; give it a \
         smaller --memory",
        frames >> 8, needed >> 20, available >> 20
    )]
    TooLittleAvailable {
        /// Frames asked for.
        frames: u64,
        /// Bytes for all of it.
        needed: u64,
        /// What the system says, in bytes.
        available: u64,
    },
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
    /// [`HostHighAllocError`].
    pub fn run(
        &self,
        sides: &[Side],
        seeds: &[u64],
        progress: &mut (dyn FnMut(u64, u64) + Send),
    ) -> Result<HighAllocResult, HostHighAllocError> {
        if self.threads > Self::MOST_THREADS {
            return Err(HostHighAllocError::TooManyThreads { threads: self.threads });
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
        Ok(HighAllocResult { runs: runs.collect(), checks, picture: None })
    }

    /// Refuses what would push other programs out.
    fn hold_against(&self, available: Option<u64>) -> Result<(), HostHighAllocError> {
        const FRAME: u64 = 4096;
        /// What holds it, its value, and a page of the file that is as large.
        const BOOKS: u64 = 64;
        let needed = self.frames.saturating_mul(FRAME + BOOKS);
        match available {
            Some(available) if needed > available => Err(HostHighAllocError::TooLittleAvailable {
                frames: self.frames,
                needed,
                available,
            }),
            _ => Ok(()),
        }
    }

    /// One side, one seed.
    fn run_once(
        &self,
        side: &Side,
        seed: u64,
        tell: &(dyn Fn(u64) + Sync),
    ) -> Result<Ended, HostHighAllocError> {
        let cpus = self.threads + 2;
        let init = |reason| HostHighAllocError::Init { frames: self.frames, reason };
        // All memory is there before it begins: what the system takes to find it is not the library's.
        let machine = HostMachine::builder().frames(self.frames).cpus(cpus).populate(true);
        let machine = machine.page_size(PageSize::Transparent).build()?;
        let map = [machine.frames().into()];
        let side_tables = SideTables { lru: true, ..SideTables::default() };
        let config = Config { side_tables, tuning: side.tuning, ..Config::new(&map, cpus) };
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
        let course = Course { flags, quick, watched: false, builders, shares: false, seed };
        let play = Play::new(course, &kernel, &trees, flush, None, tell);
        let run = || run_all(&play, &world, &shared.crew);
        // SAFETY: relief goes inside before it touches a cell of the kernel.
        let relief = unsafe { Inside::new(&kernel) };
        let ran = memory.platform().with_relief(&relief, run);
        ran.map_err(|reason| HostHighAllocError::Threads { threads: cpus, reason })?;
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
    let builders = play.course.builders;
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
