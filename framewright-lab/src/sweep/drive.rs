//! Workers that run what is left of a sweep, the import of tables, and the table at the end.

use std::{
    collections::HashSet,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
};

use super::{
    Entry, Figure, Format, Plan, Selection,
    choose::{Chosen, choose},
    merge::Tables,
    parts::{Outcome, Parts},
    table::{self, id_text, outcome},
};
use crate::{Error, report::replace_with};

/// Failed runs whose commands and reasons are kept for the user.
const SHOWN: usize = 10;

/// A sweep and its output. While it exists, no other process can work on the same output.
#[derive(Debug)]
pub struct Sweep<'p> {
    plan: &'p Plan,
    runs: Vec<Chosen>,
    out: PathBuf,
    format: Format,
    parts: Parts,
    /// Whether the table already has all runs.
    is_written: bool,
}

/// The result of a sweep.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Runs in the table.
    pub runs: u64,
    /// Runs that failed.
    pub failed: u64,
    /// Commands of the first failed runs, with the reasons.
    pub failures: Vec<(String, String)>,
}

impl<'p> Sweep<'p> {
    /// Opens the output of a sweep. If it was interrupted, its parts are found again. If `out` exists, the runs in it are
    /// not repeated.
    ///
    /// # Errors
    ///
    /// The output cannot be written, is in use by another process, or has runs that the sweep has not.
    pub fn open(plan: &'p Plan, selection: &Selection, out: &Path) -> Result<Self, Error> {
        let format = Format::of(out)?;
        let runs = choose(plan, selection)?;
        if out.exists() && !out.is_file() {
            return Err(Error::input(format_args!(
                "'{}' is not a file: choose another output",
                out.display()
            )));
        }
        let parts = Parts::open(out)?;
        let mut sweep = Self { plan, runs, out: out.to_owned(), format, parts, is_written: false };
        if out.exists() {
            let found = sweep.import(out)?;
            sweep.is_written = found == sweep.runs.len();
        }
        Ok(sweep)
    }

    /// Whether the table is complete, so that nothing is left to do but [`Sweep::write`].
    #[must_use]
    pub fn is_written(&self) -> bool {
        self.is_written
    }

    /// The number of runs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.runs.len()
    }

    /// Whether there are no runs. An open sweep has some.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Takes the runs of a table: that of a shard, or that of an earlier sweep. Returns their number.
    ///
    /// # Errors
    ///
    /// The table cannot be read, has a run that this sweep has not, or other figures of a run than another table.
    pub fn import(&mut self, path: &Path) -> Result<usize, Error> {
        let known: HashSet<String> = self.runs.iter().map(|run| id_text(run.id)).collect();
        let mut found = HashSet::new();
        let mut run = (String::new(), Vec::new());
        // An error about a whole run, of which the lines are known only at the next one.
        let mut of_run = None;
        let mut take = |(id, figures): (String, Vec<Figure>)| match figures.is_empty() {
            true => Ok(()),
            false => self.take(&id, figures).map_err(|error| of_run = Some(error)),
        };
        let read = table::read(path, &mut |header, row| {
            let id = header.run(row);
            if id != run.0 {
                take(std::mem::replace(&mut run, (id.to_owned(), Vec::new())))
                    .map_err(|()| String::new())?;
                if !known.contains(id) {
                    return Err(format!(
                        "run {id} is not in the plan: it comes from another plan or sample, or from another version of \
                         the program"
                    ));
                }
                if !found.insert(id.to_owned()) {
                    return Err(format!("run {id} is in the table twice"));
                }
            }
            run.1.push(header.figure(row)?);
            Ok(())
        });
        if read.is_ok() {
            let _ = take(run);
        }
        match of_run {
            Some(error) => Err(Error::input(format_args!("'{}': {error}", path.display()))),
            None => read.map(|()| found.len()),
        }
    }

    /// Keeps the figures of a run from a table as a part.
    fn take(&self, id: &str, figures: Vec<Figure>) -> Result<(), Error> {
        let outcome = outcome(figures).map_err(|reason| {
            Error::input(format_args!("run {id} {reason}; without the file, its runs are repeated"))
        })?;
        let id = u64::from_str_radix(id, 16).map_err(|_| Error::input("a run has no identity"))?;
        match self.parts.read(id) {
            None => self.parts.write(id, &outcome),
            Some(Outcome::Failed(_)) if matches!(outcome, Outcome::Failed(_)) => Ok(()),
            Some(other) if other == outcome => Ok(()),
            Some(_) => Err(Error::input(format_args!(
                "run {id:016x} has other figures in another table or in '{}': it comes from another build of the \
                 program",
                Parts::folder(&self.out).display()
            ))),
        }
    }

    /// The runs that have no part yet, in the order of their identities, which mixes the machines. In the
    /// order of the plan, the machines follow one another, and the first runs would not show how long the
    /// last ones take.
    fn left(&self) -> Vec<Chosen> {
        let is_left = |run: &&Chosen| self.parts.read(run.id).is_none();
        let mut left: Vec<Chosen> = self.runs.iter().filter(is_left).copied().collect();
        left.sort_unstable_by_key(|run| run.id);
        left
    }

    /// Runs what is left with `jobs` workers. `work` gives the figures of a run, or the reason why it failed; it is called
    /// on a thread of the worker. `progress` gets the number of finished runs and of all that were left.
    ///
    /// # Errors
    ///
    /// A part cannot be written. The parts that exist remain.
    pub fn measure(
        &self,
        jobs: usize,
        work: &(dyn Fn(&Entry<'_>) -> Result<Vec<Figure>, String> + Sync),
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<(), Error> {
        let left = self.left();
        let total = left.len() as u64;
        progress(0, total);
        let next = AtomicUsize::new(0);
        let (sender, receiver) = mpsc::channel();
        let worker = |sender: mpsc::Sender<Result<(), Error>>| {
            while let Some(run) = left.get(next.fetch_add(1, Ordering::Relaxed)) {
                let entry = self.plan.entry(run.index);
                // A panic ends one run, not the sweep.
                let outcome = match catch_unwind(AssertUnwindSafe(|| work(&entry))) {
                    Ok(Ok(figures)) => Outcome::Figures(figures),
                    Ok(Err(reason)) => Outcome::Failed(reason),
                    Err(_) => Outcome::Failed("the run panicked; its message is above".into()),
                };
                let written = self.parts.write(run.id, &outcome);
                let is_last = written.is_err();
                if sender.send(written).is_err() || is_last {
                    break;
                }
            }
        };
        thread::scope(|scope| {
            let worker = &worker;
            for _ in 0..jobs.clamp(1, left.len().max(1)) {
                let sender = sender.clone();
                scope.spawn(move || worker(sender));
            }
            drop(sender);
            let mut result = Ok(());
            for (done, written) in (1..).zip(receiver) {
                progress(done, total);
                if written.is_err() {
                    // No further run begins.
                    next.store(left.len(), Ordering::Relaxed);
                    result = result.and(written);
                }
            }
            result
        })
    }

    /// Writes the table, in one step, and removes the parts.
    ///
    /// # Errors
    ///
    /// A run is missing, or the table cannot be written. The parts remain.
    pub fn write(self) -> Result<Done, Error> {
        let counted = self.count()?;
        let mut part = |id| self.parts.read(id);
        let done = if self.is_written { counted } else { self.write_table(&mut part)? };
        self.parts.remove()?;
        Ok(done)
    }

    /// Takes the runs of `tables`, as [`Sweep::import`] does, and writes the table. Tables in CSV and in the order of the
    /// plan need no parts, if there is no table yet.
    ///
    /// # Errors
    ///
    /// As [`Sweep::import`] and [`Sweep::write`].
    pub fn merge(mut self, tables: &[&Path]) -> Result<Done, Error> {
        if !self.out.exists()
            && let Some(done) = self.join(tables)?
        {
            self.parts.remove()?;
            return Ok(done);
        }
        for table in tables {
            self.import(table)?;
        }
        self.write()
    }

    /// Writes the table from tables that are read side by side. `None`, and no table, if they do not have exactly the runs
    /// of the sweep in the order of the plan.
    pub(super) fn join(&self, tables: &[&Path]) -> Result<Option<Done>, Error> {
        let Some(mut tables) = Tables::open(tables) else { return Ok(None) };
        let (mut left, mut is_joined) = (self.runs.len(), true);
        let written = self.write_table(&mut |id| {
            left -= 1;
            let found = tables.take(id);
            is_joined &= found.is_some() && (left > 0 || tables.are_taken());
            found.filter(|_| is_joined)
        });
        if is_joined { written.map(Some) } else { Ok(None) }
    }

    /// Writes the table. `outcome` gives the results of the runs, in the order of the plan.
    fn write_table(&self, outcome: &mut dyn FnMut(u64) -> Option<Outcome>) -> Result<Done, Error> {
        let fail =
            |error| Error::input(format_args!("cannot write '{}': {error}", self.out.display()));
        let mut done = Done::default();
        let columns = self.plan.columns();
        replace_with(&self.out, |file| {
            let mut sink = table::sink(self.format, file, columns)?;
            for run in &self.runs {
                let entry = self.plan.entry(run.index);
                let outcome =
                    outcome(run.id).ok_or_else(|| std::io::Error::other("a part has vanished"))?;
                table::write_run(&mut *sink, &entry, columns, &outcome)?;
                done.add(&entry, &outcome);
            }
            sink.finish()
        })
        .map_err(fail)?;
        Ok(done)
    }

    /// Counts the runs, all of which must have a part.
    fn count(&self) -> Result<Done, Error> {
        let (mut done, mut missing) = (Done::default(), Vec::new());
        for run in &self.runs {
            match self.parts.read(run.id) {
                Some(outcome) => done.add(&self.plan.entry(run.index), &outcome),
                None => missing.push(run),
            }
        }
        match missing.first() {
            None => Ok(done),
            Some(first) => Err(Error::input(format_args!(
                "{} of {} runs are in no table; the first of them: {}",
                missing.len(),
                self.runs.len(),
                self.plan.entry(first.index).command()
            ))),
        }
    }
}

impl Done {
    fn add(&mut self, entry: &Entry<'_>, outcome: &Outcome) {
        self.runs += 1;
        if let Outcome::Failed(reason) = outcome {
            self.failed += 1;
            if self.failures.len() < SHOWN {
                self.failures.push((entry.command(), reason.clone()));
            }
        }
    }
}
