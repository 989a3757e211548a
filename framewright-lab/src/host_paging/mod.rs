//! `mmap-read` on threads over real memory: the library reclaims pages of real files, and the
//! running kernel sends the shootdown interrupts.
//!
//! Every side of a comparison has its own memory, page cache and files. Sides alternate round by
//! round, so other load of the machine affects all of them. Figures are medians of the rounds.
//! Before the first round each side fills its memory.
//!
//! Files are sparse, and are read without the kernel's page cache if the file system allows it: the
//! disk is not measured. Interrupts are needed only if another thread of the process runs. With one
//! reader, a *bystander* thread therefore runs, which uses no page.
//!
//! All readers are threads of this process, because no process can evict the pages of another:
//! `processes` have a file and a region each, `threads` share one.
//!
//! | module    | job                                                 |
//! |-----------|-----------------------------------------------------|
//! | `side`    | a memory, a page cache, files; a round on them      |
//! | `figures` | results of rounds as metrics                        |

mod figures;
mod side;
#[cfg(test)]
mod tests;

use framewright_host::available_memory;

use crate::Error;
use crate::{
    record::Shootdowns,
    report::{Check, Measured, Sides, several},
    workloads::{Side, mmap_read::MmapRead},
};
use figures::Interval;
use side::SideParts;

/// The workload on threads.
#[derive(Clone, Debug)]
pub struct HostPaging {
    /// The readers, and the amount to read.
    pub work: MmapRead,
    /// Threads of readers.
    pub readers: u16,
    /// Frames of memory, for each side.
    pub frames: u64,
    /// Measured rounds of each side.
    pub rounds: u32,
}

/// The result.
#[derive(Clone, Debug)]
pub struct HostPagingResult {
    /// A run per side, checks of contents and metadata, and a note on the count of interrupts.
    pub measured: Measured,
    /// Every round of every side.
    rounds: Vec<Vec<Interval>>,
}

impl HostPagingResult {
    /// A figure of two sides, round by round.
    pub(crate) fn sides(&self, before: usize, after: usize, metric: &str) -> Option<Sides> {
        figures::sides(self.rounds.get(before)?, self.rounds.get(after)?, metric)
    }
}

impl HostPaging {
    /// Rounds of a measurement.
    pub const ROUNDS: u32 = 5;

    /// Runs every side. `progress` gets the finished and the total number of rounds.
    ///
    /// # Errors
    ///
    /// If the arguments cannot be used, the system lacks memory, or the library failed.
    pub fn run(
        &self,
        sides: &[Side],
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<HostPagingResult, Error> {
        let each = self.pages_each()?;
        self.check_available(available_memory(), sides.len())?;
        // The counter is created before the other threads, and so counts all of them.
        let shootdowns = Shootdowns::count();
        let mut metadata = Vec::new();
        for side in sides {
            metadata.push(SideParts::new(self, side, each)?);
        }
        let memories: Result<Vec<_>, _> =
            metadata.iter_mut().map(|metadata| metadata.open(self)).collect();
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
        let measured = Measured { runs, checks, notes, ..Measured::default() };
        Ok(HostPagingResult { measured, rounds: intervals })
    }

    /// Pages of each reader.
    fn pages_each(&self) -> Result<u32, Error> {
        /// Lists, read-ahead runs and watermarks: 4 MiB for each reader, and for background
        /// reclaim.
        const EACH: u64 = 1 << 10;
        let Self { work, readers, frames, .. } = self;
        let needed = EACH * (u64::from(*readers) + 1);
        if *frames < needed {
            return Err(Error::input(format_args!(
                "{readers} readers need {} MiB, and memory has {} MiB; choose --memory {}MiB",
                needed >> 8,
                frames >> 8,
                (4 * needed) >> 8
            )));
        }
        let pages = frames.saturating_mul(work.times.into()) / u64::from(*readers);
        // Threads read one file with all pages.
        match u32::try_from(pages.saturating_mul((*readers).into())) {
            Ok(_) => Ok(pages as u32),
            Err(_) => Err(Error::input(format_args!(
                "{readers} readers of {} times {} MiB are more than the largest file",
                work.times,
                frames >> 8
            ))),
        }
    }

    /// Refuses sizes that would push other programs out of memory. All sides keep their memory
    /// until the end, and every page of a file has metadata.
    fn check_available(&self, available: Option<u64>, sides: usize) -> Result<(), Error> {
        const FRAME: u64 = 4096;
        const METADATA_PER_PAGE: u64 = 16;
        let metadata = u64::from(self.work.times) * METADATA_PER_PAGE;
        let needed = self.frames.saturating_mul((FRAME + metadata) * sides as u64);
        match available {
            Some(available) if needed > available => Err(Error::input(format_args!(
                "the memory of {} would need {} MiB and the system has {} MiB available; choose a smaller --memory",
                several(sides as u64, "side"),
                needed >> 20,
                available >> 20
            ))),
            _ => Ok(()),
        }
    }

    /// Pages that each reader reads in a round: the first round fills memory, later rounds read
    /// equal parts of the rest.
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
        Check::new(
            "contents",
            wrong_words == 0,
            match wrong_words {
                0 => "every word that was read equals the file's".to_owned(),
                words => format!("{words} words differed from the file's"),
            },
        ),
        Check::new(
            "invariants",
            wrong.is_none(),
            wrong.unwrap_or_else(|| {
                "all frames are free, the metadata is consistent, and the kernel kept no further page"
                    .to_owned()
            }),
        ),
    ]
}
