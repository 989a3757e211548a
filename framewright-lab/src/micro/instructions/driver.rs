//! Runs children under callgrind and reads what it collected.

use super::workload::{BURST, FreeOrder, Subject, Workload};
use crate::report::{Better, Metric, Run, Unit};
use std::{
    fs, io,
    process::{Command, Output},
};
use tempfile::TempDir;
use thiserror::Error;

/// Bursts of the shorter run: lists have reached their size by then.
const WARM: u32 = 4;
/// Bursts that count: those that the longer run has on top.
const COUNTED: u32 = 8;

/// Where the wrappers live that everybody is called through.
const WRAPPERS: [&str; 2] = ["*micro::calls::alloc*", "*micro::calls::free*"];

/// Instructions could not be counted.
#[derive(Debug, Error)]
pub enum InstructionsError {
    /// There is no valgrind.
    #[error("cannot run valgrind: {0} (instructions are counted by its tool callgrind)")]
    NoValgrind(io::Error),
    /// A file for its output could not be made or read.
    #[error("cannot use a temporary file for callgrind's output: {0}")]
    File(io::Error),
    /// The child failed.
    #[error("counting '{workload}' failed: {reason}")]
    Failed {
        /// What it ran.
        workload: Workload,
        /// Its last words.
        reason: String,
    },
}

/// Counts instructions per allocation and free of every subject. `child` says how to start the
/// program so that it runs a workload and prints what [`Workload::run`] returns.
///
/// # Errors
///
/// If valgrind is missing, or a child fails under it.
pub fn measure(child: &dyn Fn(Workload) -> Command) -> Result<Vec<Run>, InstructionsError> {
    let folder = tempfile::tempdir().map_err(InstructionsError::File)?;
    let counter = Counter { child, folder };
    Subject::ALL.into_iter().map(|subject| counter.subject(subject)).collect()
}

struct Counter<'c> {
    child: &'c dyn Fn(Workload) -> Command,
    folder: TempDir,
}

/// What one child came to.
struct Count {
    instructions: u64,
    frames_moved: u64,
}

impl Counter<'_> {
    fn subject(&self, subject: Subject) -> Result<Run, InstructionsError> {
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

    /// The difference between a long and a short run, collecting inside `functions`.
    fn steady(
        &self,
        subject: Subject,
        order: FreeOrder,
        functions: &[&str],
    ) -> Result<Count, InstructionsError> {
        let run = |cycles| self.count(Workload { subject, order, cycles }, functions);
        let (short, long) = (run(WARM)?, run(WARM + COUNTED)?);
        Ok(Count {
            instructions: long.instructions - short.instructions,
            frames_moved: long.frames_moved - short.frames_moved,
        })
    }

    fn count(&self, workload: Workload, functions: &[&str]) -> Result<Count, InstructionsError> {
        let failed = |reason: String| InstructionsError::Failed { workload, reason };
        let profile = self.folder.path().join("callgrind.out");
        let child = (self.child)(workload);
        let mut valgrind = Command::new("valgrind");
        valgrind
            .args(["--tool=callgrind", "--quiet", "--collect-atstart=no"])
            .args(functions.iter().map(|function| format!("--toggle-collect={function}")))
            .arg(format!("--callgrind-out-file={}", profile.display()))
            .arg(child.get_program())
            .args(child.get_args());
        let output = valgrind.output().map_err(InstructionsError::NoValgrind)?;
        if !output.status.success() {
            return Err(failed(last_words(&output)));
        }
        let text = fs::read_to_string(&profile).map_err(InstructionsError::File)?;
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

/// The sum in a callgrind profile.
fn collected(profile: &str) -> Option<u64> {
    let totals = profile.lines().rev().find_map(|line| line.strip_prefix("totals:"))?;
    totals.split_whitespace().next()?.parse().ok()
}

fn last_words(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    format!("{}: {last}", output.status)
}

#[cfg(test)]
mod tests {
    use super::*;

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
