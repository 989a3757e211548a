//! Instructions under the zone lock per frame that a refill takes, counted by callgrind.
//!
//! Callgrind collects only inside the function that runs under the lock, and only the difference
//! between a longer and a shorter run counts, so that starting and warming up drop out.

use std::{fs, path::Path, process::Command};

use super::builds::{Builds, Skipped};
use crate::reproduce::pairs::Steps;

/// Bursts of the shorter run, and of the longer.
const BURSTS: [u32; 2] = [1, 3];
/// The order in which frames are freed: so that batches are no neighbours.
const FREE_ORDER: &str = "random";
/// Steps that it reports.
pub(super) const STEPS: usize = 2 * Subject::ALL.len();
/// Where [`Counts::RECORDED`] comes from.
pub(super) const RECORDING: &str = "a recording (rustc 1.95, x86-64)";

/// Whose instructions are counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Subject {
    /// The classic design, which takes one by one.
    ListBuddy,
    /// The library, which takes a batch as a whole.
    Bulk,
    /// The library, told to take one by one.
    OneByOne,
}

/// Instructions per frame taken.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Count {
    pub(super) outlined: f64,
    pub(super) inlined: f64,
}

/// What was counted, in the order of [`Subject::ALL`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Counts([Count; Subject::ALL.len()]);

impl Subject {
    pub(super) const ALL: [Self; 3] = [Self::ListBuddy, Self::Bulk, Self::OneByOne];

    /// What rows call it.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::ListBuddy => "list-buddy",
            Self::Bulk | Self::OneByOne => "framewright",
        }
    }

    /// What the program calls it.
    fn argument(self) -> &'static str {
        match self {
            Self::ListBuddy => "list-buddy",
            Self::Bulk => "framewright",
            Self::OneByOne => "framewright-one-by-one",
        }
    }

    /// The function that takes a batch, from the acquisition of the lock to its release.
    fn under_lock(self) -> &'static str {
        match self {
            Self::ListBuddy => "*list_buddy::bulk::refill*",
            Self::Bulk => "*Buddy*take_ordinary*",
            Self::OneByOne => "*Buddy*take_one_by_one*",
        }
    }
}

impl Counts {
    /// What machines are told where nothing can be counted.
    pub(super) const RECORDED: Self = Self([
        Count { outlined: 152.6, inlined: 98.9 },
        Count { outlined: 16.8, inlined: 15.9 },
        Count { outlined: 485.2, inlined: 445.5 },
    ]);

    /// Counts them all.
    pub(super) fn of(builds: &Builds, steps: &mut Steps<'_, '_>) -> Result<Self, Skipped> {
        let mut counts = Self::RECORDED;
        for (subject, count) in Subject::ALL.into_iter().zip(&mut counts.0) {
            for (program, side) in
                [(builds.outlined(), &mut count.outlined), (builds.inlined(), &mut count.inlined)]
            {
                *side = per_frame(&program, subject, &builds.scratch())?;
                steps.step();
            }
        }
        Ok(counts)
    }

    pub(super) fn of_subject(&self, subject: Subject) -> Count {
        self.0[subject as usize]
    }
}

fn per_frame(program: &Path, subject: Subject, profile: &Path) -> Result<f64, Skipped> {
    let [short, long] = BURSTS.map(|bursts| count(program, subject, bursts, profile));
    let ((instructions, frames), (fewer, less)) = (long?, short?);
    Ok((instructions.saturating_sub(fewer)) as f64 / frames.saturating_sub(less).max(1) as f64)
}

/// Instructions under the lock, and frames taken.
fn count(
    program: &Path,
    subject: Subject,
    bursts: u32,
    profile: &Path,
) -> Result<(u64, u64), Skipped> {
    let mut valgrind = Command::new("valgrind");
    valgrind
        .args(["--tool=callgrind", "--quiet", "--collect-atstart=no"])
        .arg(format!("--toggle-collect={}", subject.under_lock()))
        .arg(format!("--callgrind-out-file={}", profile.display()))
        .arg(program)
        .args([subject.argument(), FREE_ORDER, &bursts.to_string()]);
    let output = valgrind.output().map_err(|error| {
        Skipped(format!("instructions are counted by valgrind, which cannot be started: {error}"))
    })?;
    let text = fs::read_to_string(profile).unwrap_or_default();
    let printed = String::from_utf8_lossy(&output.stdout);
    let frames = printed.trim().parse().ok().filter(|_| output.status.success());
    collected(&text).zip(frames).ok_or_else(|| {
        let words = String::from_utf8_lossy(&output.stderr);
        let last = words.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
        let inside = subject.under_lock();
        Skipped(format!("callgrind counted nothing inside {inside} ({}) {last}", output.status))
    })
}

/// The sum in a callgrind profile.
fn collected(profile: &str) -> Option<u64> {
    let totals = profile.lines().rev().find_map(|line| line.strip_prefix("totals:"))?;
    totals.split_whitespace().next()?.parse().ok().filter(|&count| count > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_read_from_a_profile() {
        assert_eq!(collected("events: Ir\n16 5\n\ntotals: 12345\n"), Some(12_345));
        assert_eq!(collected("events: Ir\ntotals: 0\n"), None);
        assert_eq!(collected(""), None);
    }

    #[test]
    fn subjects_are_numbered_in_their_order() {
        for (index, subject) in Subject::ALL.into_iter().enumerate() {
            assert_eq!(Counts::RECORDED.of_subject(subject), Counts::RECORDED.0[index]);
        }
    }

    #[test]
    fn a_program_that_is_not_there_is_skipped_with_a_reason() {
        let nowhere = Path::new("/nonexistent/program");
        let Err(Skipped(why)) = per_frame(nowhere, Subject::Bulk, nowhere) else {
            panic!("nothing was counted");
        };
        assert!(why.contains("valgrind") || why.contains("callgrind"), "{why}");
    }
}
