//! `mmap-read` on threads over real memory: the library reclaims pages of real files, and the kernel
//! interrupts for it.
//!
//! Every side of a comparison has a memory, a page cache and files of its own. Sides take turns, round
//! by round, so that whatever else the machine does falls on all of them; figures are medians of the
//! rounds. Before the first, each has read enough to fill its memory.
//!
//! Files are sparse, and read past the kernel's page cache where the file system allows it: what is
//! measured is not the disk. Interrupts are needed only where another thread of the process runs; with
//! one reader a *bystander* does, which uses no page.
//!
//! All readers are threads of this process, since no process can give up another's pages: `processes`
//! have a file and a region each, `threads` share one.
//!
//! | module    | job                                                 |
//! |-----------|-----------------------------------------------------|
//! | `side`    | a memory, a page cache, files; a round on them      |
//! | `figures` | what came of rounds, as metrics                     |

mod figures;
mod side;
#[cfg(test)]
mod tests;

use std::io;

use framewright::InitError;
use framewright_host::{HostError, available_memory, paging::PagingError};
use thiserror::Error;

use crate::{
    record::Shootdowns,
    report::{Check, Run, Sides},
    workloads::{Side, mmap_read::MmapRead},
};
use figures::Interval;
use side::Books;

/// What is run.
#[derive(Clone, Debug)]
pub struct HostPaging {
    /// Who reads, and how much in all.
    pub work: MmapRead,
    /// Threads that read.
    pub readers: u16,
    /// Frames of memory, for each side.
    pub frames: u64,
    /// Measured rounds of each side.
    pub rounds: u32,
}

/// What came out.
#[derive(Clone, Debug)]
pub struct HostPagingResult {
    /// One run per side, in their order.
    pub runs: Vec<Run>,
    /// Contents, and books.
    pub checks: Vec<Check>,
    /// How the kernel is told, and how interrupts are counted.
    pub notes: Vec<String>,
    /// Every round of every side.
    rounds: Vec<Vec<Interval>>,
}

impl HostPagingResult {
    /// A figure of two sides, round by round.
    pub(crate) fn sides(&self, before: usize, after: usize, metric: &str) -> Option<Sides> {
        figures::sides(self.rounds.get(before)?, self.rounds.get(after)?, metric)
    }
}

/// Why it could not run.
#[derive(Debug, Error)]
pub enum HostPagingError {
    /// The machine, or a cache, could not be had.
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
    /// A file could not be made.
    #[error("cannot make a sparse file of {} MiB: {reason}; set TMPDIR to where there is room", pages >> 8)]
    File {
        /// Its pages.
        pages: u32,
        /// What the system said.
        reason: io::Error,
    },
    /// A page could not be had.
    #[error(transparent)]
    Paging(#[from] PagingError),
    /// There is too little memory for what CPUs keep at hand.
    #[error(
        "{readers} readers need {} MiB, and there are {} MiB; give it --memory {}MiB",
        needed >> 8, frames >> 8, (4 * needed) >> 8
    )]
    TooSmall {
        /// Readers.
        readers: u16,
        /// Frames that they need.
        needed: u64,
        /// Frames that there are.
        frames: u64,
    },
    /// The system has less memory than that.
    #[error(
        "the memory of {sides} side{} would need {} MiB and the system has {} MiB available; give it a \
         smaller --memory",
        if *sides == 1 { "" } else { "s" }, needed >> 20, available >> 20
    )]
    TooLittleAvailable {
        /// Settings that are compared.
        sides: usize,
        /// Bytes for all of them.
        needed: u64,
        /// What the system says, in bytes.
        available: u64,
    },
    /// Files, or threads, would be too many.
    #[error("{readers} readers of {times} times {} MiB are more than files are made for", frames >> 8)]
    TooLarge {
        /// Readers.
        readers: u16,
        /// How often memory is read.
        times: u32,
        /// Frames of memory.
        frames: u64,
    },
}

impl HostPaging {
    /// Rounds of a measurement.
    pub const ROUNDS: u32 = 5;

    /// Runs every side. `progress` hears how much of how much is done.
    ///
    /// # Errors
    ///
    /// [`HostPagingError`].
    pub fn run(
        &self,
        sides: &[Side],
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<HostPagingResult, HostPagingError> {
        let each = self.pages_each()?;
        self.hold_against(available_memory(), sides.len())?;
        // Made first, so that all threads that are to come are counted.
        let shootdowns = Shootdowns::count();
        let mut books = Vec::new();
        for side in sides {
            books.push(Books::new(self, side, each)?);
        }
        let memories: Result<Vec<_>, _> = books.iter_mut().map(|books| books.open(self)).collect();
        let mut memories = memories?;
        let counter = shootdowns.as_ref().ok();
        let mut intervals: Vec<Vec<Interval>> = sides.iter().map(|_| Vec::new()).collect();
        let total = u64::from(self.rounds + 1) * sides.len() as u64;
        let mut done = 0;
        for round in 0..=self.rounds {
            for (memory, intervals) in memories.iter_mut().zip(&mut intervals) {
                let interval = memory.round(self, self.share(round, each), counter)?;
                if round > 0 {
                    intervals.push(interval);
                }
                done += 1;
                progress(done, total);
            }
        }
        let mut notes = self.notes(&shootdowns);
        notes.extend(memories.first().map(side::Open::note));
        let runs = sides.iter().zip(&intervals).map(|(side, all)| figures::run_of(side, all));
        let runs = runs.collect();
        let wrong = memories.iter_mut().find_map(|memory| memory.close().err());
        let found = memories.iter().map(side::Open::wrong_words).sum();
        let checks = checks(found, wrong);
        Ok(HostPagingResult { runs, checks, notes, rounds: intervals })
    }

    /// Pages of each reader.
    fn pages_each(&self) -> Result<u32, HostPagingError> {
        /// Lists, runs that are read, and watermarks: 4 MiB for each, and for who reclaims.
        const EACH: u64 = 1 << 10;
        let Self { work, readers, frames, .. } = self;
        let needed = EACH * (u64::from(*readers) + 1);
        if *frames < needed {
            return Err(HostPagingError::TooSmall { readers: *readers, needed, frames: *frames });
        }
        let pages = frames.saturating_mul(work.times.into()) / u64::from(*readers);
        // All of them in one file, with threads.
        match u32::try_from(pages.saturating_mul((*readers).into())) {
            Ok(_) => Ok(pages as u32),
            Err(_) => Err(HostPagingError::TooLarge {
                readers: *readers,
                times: work.times,
                frames: *frames,
            }),
        }
    }

    /// Refuses what would push other programs out, or be killed for it: all sides have their memory
    /// until the end, and of every page that could be in it something is known.
    fn hold_against(&self, available: Option<u64>, sides: usize) -> Result<(), HostPagingError> {
        const FRAME: u64 = 4096;
        const BOOKS_PER_PAGE: u64 = 16;
        let books = u64::from(self.work.times) * BOOKS_PER_PAGE;
        let needed = self.frames.saturating_mul((FRAME + books) * sides as u64);
        match available {
            Some(available) if needed > available => {
                Err(HostPagingError::TooLittleAvailable { sides, needed, available })
            }
            _ => Ok(()),
        }
    }

    /// Pages that each reader reads in a round: in the first as much as fills memory, then equal parts
    /// of the rest.
    fn share(&self, round: u32, each: u32) -> u32 {
        let first = each / self.work.times.max(1);
        if round == 0 { first } else { (each - first) / self.rounds.max(1) }
    }

    fn notes(&self, shootdowns: &Result<Shootdowns, crate::record::RecordError>) -> Vec<String> {
        let counted = match shootdowns {
            Ok(_) => "shootdowns are those that this process's threads received (event \
                      tlb:tlb_flush); ipis those of the whole system (/proc/interrupts)"
                .to_owned(),
            Err(why) => format!(
                "shootdowns and ipis are those of the whole system, other programs' too \
                 (/proc/interrupts): {why}"
            ),
        };
        let beside = match self.readers {
            1 => "a second thread runs all the time, and uses no page".to_owned(),
            readers => format!("{readers} readers"),
        };
        vec![counted, format!("{beside}; a thread in the background reclaims as well")]
    }
}

fn checks(wrong_words: u64, wrong: Option<String>) -> Vec<Check> {
    vec![
        Check {
            name: "contents".to_owned(),
            passed: wrong_words == 0,
            detail: match wrong_words {
                0 => "every word that was read is what its file holds".to_owned(),
                words => format!("{words} words were not what their file holds"),
            },
        },
        Check {
            name: "invariants".to_owned(),
            passed: wrong.is_none(),
            detail: wrong.unwrap_or_else(|| {
                "all frames came back, the books agree, and the kernel kept no page beyond them"
                    .to_owned()
            }),
        },
    ]
}
