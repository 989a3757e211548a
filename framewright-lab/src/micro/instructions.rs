//! Instructions per operation, counted by callgrind.
//!
//! Times depend on the machine, instruction counts hardly. The workload is that of a page fault
//! benchmark: bursts of 32,768 frames, allocated, then freed in the order in which they were mapped
//! or at random. The bursts do not fit into the per-CPU lists of the memory (1 GiB, 4 CPUs), so
//! refills and bulk frees are part of the figure.
//!
//! The program runs *itself* under valgrind: [`measure`] starts a child per subject and order,
//! which calls [`Workload::run`]. Callgrind counts only in the never-inlined wrappers, or only in
//! the functions that run under the zone lock. The result is the difference between a longer and a
//! shorter run, which excludes start-up and warm-up.

use framewright_peers::{ListBuddy, Peer};
use std::{
    fmt, fs, io,
    process::{Command, Output},
    str::FromStr,
    time::Duration,
};
use tempfile::TempDir;

use super::{calls::Blocks, framewright_row::Framewright};
use crate::Error;
use crate::report::{Better, Metric, Run, Unit};

/// Frames of the zone: 1 GiB.
const FRAMES: u64 = 1 << 18;
/// CPUs that share it.
const CPUS: usize = 4;
/// Frames of a burst: 128 MiB.
const BURST: usize = 32_768;
/// Under valgrind everything is slow, and nothing here is timed.
const NO_LIMIT: Duration = Duration::from_secs(3600);

/// The allocator whose instructions are counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Subject {
    /// The library.
    Framewright,
    /// The classic list design.
    ListBuddy,
}

impl Subject {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Framewright, Self::ListBuddy];

    /// Its label in tables.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Framewright => Framewright::NAME,
            Self::ListBuddy => ListBuddy::NAME,
        }
    }

    /// Patterns of the functions that run under the zone lock. No two patterns may have the same
    /// text before a star: callgrind would ignore one of them.
    fn under_lock(self) -> &'static [&'static str] {
        match self {
            Self::Framewright => &["*take_ordinary*", "*give_bundles*"],
            Self::ListBuddy => &["*list_buddy::bulk::refill*", "*list_buddy::bulk::release*"],
        }
    }
}

/// The order in which a burst is freed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FreeOrder {
    /// In the order of allocation.
    Mapping,
    /// At random, from a fixed seed.
    Random,
}

impl FreeOrder {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Mapping, Self::Random];
}

/// The work of a child process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Workload {
    /// The allocator.
    pub subject: Subject,
    /// The order of frees.
    pub order: FreeOrder,
    /// The number of bursts.
    pub cycles: u32,
}

impl Workload {
    /// Runs it. Returns the number of frames moved under the zone lock.
    #[must_use]
    pub fn run(self) -> u64 {
        match self.subject {
            Subject::Framewright => {
                let peer = Framewright::new(FRAMES, CPUS);
                self.bursts(&peer);
                peer.zone_lock_frames()
            }
            Subject::ListBuddy => {
                let peer = ListBuddy::new(FRAMES, CPUS);
                self.bursts(&peer);
                peer.stats().zone.lock_frames
            }
        }
    }

    fn bursts<P: Peer>(self, peer: &P) {
        let mut worker = peer.worker(0);
        let mut random = fastrand::Rng::with_seed(1);
        let mut blocks = Blocks::<0>::with_capacity(BURST);
        for _ in 0..self.cycles {
            // There is enough memory.
            let _ = blocks.fill(&mut worker, NO_LIMIT);
            if self.order == FreeOrder::Random {
                blocks.shuffle(&mut random);
            }
            blocks.empty(&mut worker, NO_LIMIT);
        }
    }
}

/// As one argument of a command line: `list-buddy/random/4`.
impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let order = match self.order {
            FreeOrder::Mapping => "mapping",
            FreeOrder::Random => "random",
        };
        write!(f, "{}/{order}/{}", self.subject.label(), self.cycles)
    }
}

impl FromStr for Workload {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unknown = || format!("'{text}' is no workload: expected SUBJECT/mapping|random/CYCLES");
        let mut parts = text.split('/');
        let mut next = || parts.next().ok_or_else(unknown);
        let (subject, order, cycles) = (next()?, next()?, next()?);
        let subject = Subject::ALL.into_iter().find(|known| known.label() == subject);
        let order = match order {
            "mapping" => FreeOrder::Mapping,
            "random" => FreeOrder::Random,
            _ => return Err(unknown()),
        };
        let cycles = cycles.parse().map_err(|_| unknown())?;
        Ok(Self { subject: subject.ok_or_else(unknown)?, order, cycles })
    }
}

/// Bursts of the shorter run: after these the lists have reached their final size.
const WARM: u32 = 4;
/// Bursts that are counted: the additional ones of the longer run.
const COUNTED: u32 = 8;

/// The wrappers around the calls of all allocators.
const WRAPPERS: [&str; 2] = ["*micro::calls::alloc*", "*micro::calls::free*"];

/// Counts instructions per allocation and free of every subject. `child` returns a command that
/// runs a workload and prints the result of [`Workload::run`].
///
/// # Errors
///
/// If valgrind is missing, or a child fails under it.
pub fn measure(child: &dyn Fn(Workload) -> Command) -> Result<Vec<Run>, Error> {
    let folder = tempfile::tempdir().map_err(|error| no_file(&error))?;
    let counter = Counter { child, folder };
    Subject::ALL.into_iter().map(|subject| counter.subject(subject)).collect()
}

struct Counter<'c> {
    child: &'c dyn Fn(Workload) -> Command,
    folder: TempDir,
}

/// The counts of one child.
struct Count {
    instructions: u64,
    frames_moved: u64,
}

impl Counter<'_> {
    fn subject(&self, subject: Subject) -> Result<Run, Error> {
        let mut run = Run { label: subject.label().to_owned(), ..Run::default() };
        let mut insert = |name: String, value: f64| {
            run.metrics.insert(name, Metric::once(value, Unit::Count, Some(Better::Lower)));
        };
        let pages = f64::from(COUNTED) * BURST as f64;
        for (order, name) in [(FreeOrder::Mapping, "mapping"), (FreeOrder::Random, "random")] {
            let all = self.steady(subject, order, &WRAPPERS)?;
            let locked = self.steady(subject, order, subject.under_lock())?;
            insert(format!("instructions_per_pair_{name}"), all.instructions as f64 / pages);
            insert(
                format!("locked_instructions_per_pair_{name}"),
                locked.instructions as f64 / pages,
            );
            insert(
                format!("locked_instructions_per_frame_moved_{name}"),
                locked.instructions as f64 / locked.frames_moved.max(1) as f64,
            );
        }
        Ok(run)
    }

    /// The difference between a long and a short run, counted in `functions`.
    fn steady(
        &self,
        subject: Subject,
        order: FreeOrder,
        functions: &[&str],
    ) -> Result<Count, Error> {
        let run = |cycles| self.count(Workload { subject, order, cycles }, functions);
        let (short, long) = (run(WARM)?, run(WARM + COUNTED)?);
        Ok(Count {
            instructions: long.instructions - short.instructions,
            frames_moved: long.frames_moved - short.frames_moved,
        })
    }

    fn count(&self, workload: Workload, functions: &[&str]) -> Result<Count, Error> {
        let failed =
            |reason: String| Error::input(format_args!("counting '{workload}' failed: {reason}"));
        let profile = self.folder.path().join("callgrind.out");
        let child = (self.child)(workload);
        let mut valgrind = Command::new("valgrind");
        valgrind
            .args(["--tool=callgrind", "--quiet", "--collect-atstart=no"])
            .args(functions.iter().map(|function| format!("--toggle-collect={function}")))
            .arg(format!("--callgrind-out-file={}", profile.display()))
            .arg(child.get_program())
            .args(child.get_args());
        let output = valgrind.output().map_err(|error| {
            Error::input(format_args!(
                "cannot run valgrind: {error} (instructions are counted by its tool callgrind)"
            ))
        })?;
        if !output.status.success() {
            return Err(failed(status_and_last_line(&output)));
        }
        let text = fs::read_to_string(&profile).map_err(|error| no_file(&error))?;
        let instructions = collected(&text).filter(|count| *count > 0);
        let printed = String::from_utf8_lossy(&output.stdout);
        Ok(Count {
            instructions: instructions.ok_or_else(|| {
                failed(format!("no instructions inside {}", functions.join(", ")))
            })?,
            frames_moved: printed
                .trim()
                .parse()
                .map_err(|_| failed(format!("it printed '{}'", printed.trim())))?,
        })
    }
}

fn no_file(error: &io::Error) -> Error {
    Error::input(format_args!("cannot use a temporary file for callgrind's output: {error}"))
}

/// The sum in a callgrind profile.
fn collected(profile: &str) -> Option<u64> {
    let totals = profile.lines().rev().find_map(|line| line.strip_prefix("totals:"))?;
    totals.split_whitespace().next()?.parse().ok()
}

fn status_and_last_line(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    format!("{}: {last}", output.status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workload_survives_the_command_line() {
        for subject in Subject::ALL {
            for order in FreeOrder::ALL {
                let workload = Workload { subject, order, cycles: 3 };
                assert_eq!(workload.to_string().parse(), Ok(workload));
            }
        }
        for bad in ["", "list-buddy", "list-buddy/mapping", "list-buddy/up/1", "x/mapping/1"] {
            assert!(bad.parse::<Workload>().unwrap_err().contains("expected"), "{bad}");
        }
    }

    #[test]
    fn bursts_cross_the_zone_lock() {
        for subject in Subject::ALL {
            let moved = Workload { subject, order: FreeOrder::Mapping, cycles: 2 }.run();
            assert!(moved > 2 * BURST as u64 / 2, "{subject:?}: {moved}");
        }
    }

    #[test]
    fn totals_are_read_from_a_profile() {
        assert_eq!(collected("events: Ir\nfn=(1) main\n16 5\n\ntotals: 12345\n"), Some(12_345));
        assert_eq!(collected("events: Ir\n"), None);
    }

    #[test]
    fn a_child_that_fails_is_an_error_that_names_the_workload() {
        let child = |_| Command::new("/nonexistent/program");
        let text = match measure(&child) {
            Ok(_) => panic!("nothing ran"),
            Err(error) => error.to_string(),
        };
        assert!(text.contains("list-buddy/mapping") || text.contains("valgrind"), "{text}");
    }
}
