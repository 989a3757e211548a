//! `OUT.parts/`: a file for each finished run, put there by rename.

use std::{
    fmt::Write as _,
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
};

use crate::{
    Error,
    report::{Better, Metric, Run},
};

/// A figure of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Its name.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// The better direction, `lower` or `higher`; empty if there is none.
    pub better: String,
    /// Its value.
    pub value: f64,
}

impl Figure {
    /// The figures of a run with one seed.
    #[must_use]
    pub fn of_run(run: &Run) -> Vec<Self> {
        let figure = |(name, metric): (&String, &Metric)| Self {
            name: name.clone(),
            unit: metric.unit.name().to_owned(),
            better: metric.better.map_or("", Better::name).to_owned(),
            value: metric.median,
        };
        run.metrics.iter().map(figure).collect()
    }
}

/// The result of a run: figures, or the reason of its failure.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Outcome {
    Figures(Vec<Figure>),
    Failed(String),
}

/// The last line of a part. A part that a crash of the machine truncated lacks it.
const END: &str = "end";
const FAILED: &str = "failed";
const LOCK: &str = "lock";

/// The parts of a sweep. No other process writes parts of the same output while this exists.
#[derive(Debug)]
pub(super) struct Parts {
    folder: PathBuf,
    _lock: File,
}

impl Parts {
    /// The folder of the parts of `out`.
    pub(super) fn folder(out: &Path) -> PathBuf {
        let mut name = out.as_os_str().to_owned();
        name.push(".parts");
        name.into()
    }

    /// Creates the folder, or opens it to continue.
    pub(super) fn open(out: &Path) -> Result<Self, Error> {
        let folder = Self::folder(out);
        let fail = |error: io::Error| {
            Error::input(format_args!("cannot write into '{}': {error}", folder.display()))
        };
        fs::create_dir_all(&folder).map_err(fail)?;
        let lock = File::create(folder.join(LOCK)).map_err(fail)?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => Error::input(format_args!(
                "another sweep works on '{}': wait for it, or choose another output",
                out.display()
            )),
            TryLockError::Error(error) => fail(error),
        })?;
        Ok(Self { folder, _lock: lock })
    }

    fn path(&self, id: u64) -> PathBuf {
        self.folder.join(format!("{id:016x}"))
    }

    /// Writes the part of a run, completely or not at all.
    pub(super) fn write(&self, id: u64, outcome: &Outcome) -> Result<(), Error> {
        let path = self.path(id);
        let temporary = path.with_extension("tmp");
        let written = fs::write(&temporary, text(outcome));
        written.and_then(|()| fs::rename(&temporary, &path)).map_err(|error| {
            Error::input(format_args!("cannot write '{}': {error}", path.display()))
        })
    }

    /// The part of a run; `None` if it does not exist or is not complete.
    pub(super) fn read(&self, id: u64) -> Option<Outcome> {
        outcome(&fs::read_to_string(self.path(id)).ok()?)
    }

    /// Removes all parts: the table has been written. Other files in the folder stay, and the folder with them.
    pub(super) fn remove(self) -> Result<(), Error> {
        let is_part = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let id = name.strip_suffix(".tmp").unwrap_or(name);
            id.len() == 16 && u64::from_str_radix(id, 16).is_ok()
        };
        let parts = fs::read_dir(&self.folder).and_then(|entries| {
            let paths = entries.map(|entry| entry.map(|entry| entry.path()));
            paths.collect::<io::Result<Vec<_>>>()
        });
        let removed =
            parts.and_then(|paths| paths.into_iter().filter(is_part).try_for_each(fs::remove_file));
        removed.map_err(|error| {
            Error::input(format_args!("cannot empty '{}': {error}", self.folder.display()))
        })
    }
}

impl Drop for Parts {
    /// Removes the folder if it has no parts.
    fn drop(&mut self) {
        // Without the folder there is nothing to remove; with parts in it, it stays.
        let _ = fs::remove_file(self.folder.join(LOCK));
        let _ = fs::remove_dir(&self.folder);
    }
}

fn text(outcome: &Outcome) -> String {
    let mut text = String::new();
    // Writing to a string does not fail. A value is written so that reading it gives the same bits.
    let _ = match outcome {
        Outcome::Failed(reason) => writeln!(text, "{FAILED}\t{}", one_line(reason)),
        Outcome::Figures(figures) => figures.iter().try_for_each(|figure| {
            let Figure { name, unit, better, value } = figure;
            writeln!(text, "{name}\t{unit}\t{better}\t{value}")
        }),
    };
    text.push_str(END);
    text.push('\n');
    text
}

/// The lines of a message, joined.
fn one_line(message: &str) -> String {
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn outcome(text: &str) -> Option<Outcome> {
    let lines = text.strip_suffix('\n')?.strip_suffix(END)?;
    if !lines.is_empty() && !lines.ends_with('\n') {
        return None;
    }
    if let Some(reason) = lines.strip_prefix(FAILED).and_then(|rest| rest.strip_prefix('\t')) {
        return Some(Outcome::Failed(reason.trim_end().to_owned()));
    }
    let figure = |line: &str| {
        let mut fields = line.split('\t').map(str::to_owned);
        let [name, unit, better] = [fields.next()?, fields.next()?, fields.next()?];
        Some(Figure { name, unit, better, value: fields.next()?.parse().ok()? })
    };
    lines.lines().map(figure).collect::<Option<_>>().map(Outcome::Figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_reads_back_as_the_same_outcome_and_a_truncated_one_not_at_all() {
        let figure = |value| Figure {
            name: "pages_per_s".into(),
            unit: "1/s".into(),
            better: "higher".into(),
            value,
        };
        let figures = [0.1 + 0.2, 1e300, -0.0, 5e-324, 3.0].map(figure).to_vec();
        for given in [Outcome::Figures(figures), Outcome::Failed("two\n lines to the end".into())] {
            let text = text(&given);
            let expected = match &given {
                Outcome::Failed(_) => Outcome::Failed("two lines to the end".into()),
                other => other.clone(),
            };
            assert_eq!(outcome(&text), Some(expected));
            for shorter in 0..text.len() {
                assert_eq!(outcome(&text[..shorter]), None, "{shorter}");
            }
        }
    }
}
