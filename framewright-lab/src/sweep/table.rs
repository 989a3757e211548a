//! The table: its columns and rows, as CSV, or as Parquet with the feature `parquet`.
//!
//! A row is a figure of a run. The first row of a run has the number of the others, as the figure `figures`: a table that
//! was cut between two lines, or edited, is noticed. A run that failed has one row, with the figure `failed`.

use std::{
    fs::File,
    io::{self, BufWriter, Read, Seek, SeekFrom},
    path::Path,
};

use csv::{StringRecord, Writer};

use super::{
    entry::Entry,
    parts::{Figure, Outcome},
    plan::Column,
};
use crate::Error;

/// The columns before those of options and settings.
pub(super) const BEFORE: [&str; 4] = ["run", "machine", "workload", "seed"];
/// The columns after them.
pub(super) const AFTER: [&str; 4] = ["figure", "unit", "better", "value"];
/// The figure of a run that failed.
pub(super) const FAILED: &str = "failed";
/// The number of the other figures of a run.
pub(super) const FIGURES: &str = "figures";

/// The format of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Comma-separated values, with a header.
    Csv,
    /// Apache Parquet.
    Parquet,
}

impl Format {
    /// The format of the file at `path`, by the end of its name.
    ///
    /// # Errors
    ///
    /// There is no such format, or this program was built without it.
    pub fn of(path: &Path) -> Result<Self, Error> {
        let extension = path.extension().and_then(|extension| extension.to_str());
        match extension {
            Some("csv") => Ok(Self::Csv),
            Some("parquet") if cfg!(feature = "parquet") => Ok(Self::Parquet),
            Some("parquet") => Err(Error::input(format_args!(
                "'{}': this program was built without Parquet; build it with `cargo build --release --features \
                 parquet`, or use a table in CSV, as in results.csv",
                path.display()
            ))),
            _ => Err(Error::input(format_args!(
                "'{}': a table is CSV or Parquet: its name ends with .csv or .parquet",
                path.display()
            ))),
        }
    }
}

/// A row of the table.
pub(super) struct Row<'r> {
    pub(super) run: &'r str,
    pub(super) machine: &'r str,
    pub(super) workload: &'r str,
    pub(super) seed: u64,
    /// Values of the options and settings.
    pub(super) cells: &'r [Option<&'r str>],
    pub(super) figure: &'r Figure,
}

/// A table that is being written.
pub(super) trait Sink {
    fn row(&mut self, row: &Row<'_>) -> io::Result<()>;
    fn finish(self: Box<Self>) -> io::Result<()>;
}

/// Opens a table with these columns of options and settings.
pub(super) fn sink(format: Format, file: File, columns: &[Column]) -> io::Result<Box<dyn Sink>> {
    match format {
        Format::Csv => Ok(Box::new(Csv::new(file, columns)?)),
        #[cfg(feature = "parquet")]
        Format::Parquet => Ok(Box::new(super::parquet::Table::new(file, columns)?)),
        #[cfg(not(feature = "parquet"))]
        Format::Parquet => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// Writes the rows of a run.
pub(super) fn write_run(
    sink: &mut dyn Sink,
    entry: &Entry<'_>,
    columns: &[Column],
    outcome: &Outcome,
) -> io::Result<()> {
    let (id, cells) = (id_text(entry.id()), entry.cells(columns));
    let count = |name: &str, better: &str, value| Figure {
        name: name.to_owned(),
        unit: "count".to_owned(),
        better: better.to_owned(),
        value,
    };
    let (first, figures) = match outcome {
        Outcome::Figures(figures) => (count(FIGURES, "", figures.len() as f64), &figures[..]),
        Outcome::Failed(_) => (count(FAILED, "lower", 1.0), &[][..]),
    };
    let (machine, workload, seed) = (entry.machine(), entry.workload(), entry.seed());
    [first].iter().chain(figures).try_for_each(|figure| {
        sink.row(&Row { run: &id, machine, workload, seed, cells: &cells, figure })
    })
}

/// The result of a run, from its figures in a table. An error if some are missing.
pub(super) fn outcome(mut figures: Vec<Figure>) -> Result<Outcome, String> {
    if let [Figure { name, .. }] = &figures[..]
        && name == FAILED
    {
        let reason = "the run failed when the table was written; its command repeats the error";
        return Ok(Outcome::Failed(reason.to_owned()));
    }
    let first = figures.remove(0);
    let reason = match figures.len() {
        _ if first.name != FIGURES => format!("does not begin with the figure '{FIGURES}'"),
        found if first.value == found as f64 => return Ok(Outcome::Figures(figures)),
        found => format!("has {found} of its {} figures", first.value),
    };
    Err(format!("{reason}: was the table cut or edited?"))
}

/// The identity of a run in tables.
pub(super) fn id_text(id: u64) -> String {
    format!("{id:016x}")
}

struct Csv {
    writer: Writer<BufWriter<File>>,
}

impl Csv {
    fn new(file: File, columns: &[Column]) -> io::Result<Self> {
        let mut writer = Writer::from_writer(BufWriter::new(file));
        let names = columns.iter().map(|column| column.name.as_str());
        writer.write_record(BEFORE.into_iter().chain(names).chain(AFTER))?;
        Ok(Self { writer })
    }
}

impl Sink for Csv {
    fn row(&mut self, row: &Row<'_>) -> io::Result<()> {
        let Figure { name, unit, better, value } = row.figure;
        let (seed, value) = (row.seed.to_string(), value.to_string());
        let before = [row.run, row.machine, row.workload, &seed];
        let cells = row.cells.iter().map(|cell| cell.unwrap_or_default());
        let after = [name, unit, better, value.as_str()];
        Ok(self.writer.write_record(before.into_iter().chain(cells).chain(after))?)
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.writer.flush()
    }
}

/// A row of a table that is read.
pub(super) type Each<'e> = &'e mut dyn FnMut(&Header, &StringRecord) -> Result<(), String>;

/// The names of the columns of a table.
#[derive(Clone, Debug)]
pub(super) struct Header {
    names: StringRecord,
    before: [usize; 4],
    after: [usize; 4],
}

impl Header {
    pub(super) fn of(names: StringRecord) -> Result<Self, String> {
        let at = |name: &str| names.iter().position(|it| it == name);
        let all = |wanted: [&str; 4]| -> Result<[usize; 4], String> {
            let mut found = [0; 4];
            for (place, name) in found.iter_mut().zip(wanted) {
                *place = at(name)
                    .ok_or_else(|| format!("is not a table of a sweep: no column '{name}'"))?;
            }
            Ok(found)
        };
        let (before, after) = (all(BEFORE)?, all(AFTER)?);
        Ok(Self { names, before, after })
    }

    /// All columns but the identity, the seed and the figure.
    pub(super) fn settings(&self) -> impl Iterator<Item = (usize, &str)> {
        let [run, _, _, seed] = self.before;
        let fixed = move |at: &usize| [run, seed].contains(at) || self.after.contains(at);
        self.names.iter().enumerate().filter(move |(at, _)| !fixed(at))
    }

    pub(super) fn run<'r>(&self, row: &'r StringRecord) -> &'r str {
        &row[self.before[0]]
    }

    /// The figure in a row.
    pub(super) fn figure(&self, row: &StringRecord) -> Result<Figure, String> {
        let [name, unit, better, value] = self.after.map(|at| row[at].to_owned());
        let number = value.parse().ok().filter(|number: &f64| number.is_finite());
        let value = number.ok_or_else(|| format!("'{value}' is not a finite number"))?;
        Ok(Figure { name, unit, better, value })
    }
}

/// The columns of the table at `path`.
pub(super) fn header(path: &Path) -> Result<Header, Error> {
    let mut header = None;
    // The first row ends the reading.
    let mut first = |found: &Header, _: &StringRecord| {
        header = Some(found.clone());
        Err(String::new())
    };
    let read = read(path, &mut first);
    header.ok_or_else(|| match read {
        Err(error) => error,
        Ok(()) => Error::input(format_args!("'{}': the table is empty", path.display())),
    })
}

/// Calls `each` for each row of the table at `path`. Fields of all formats are texts; an absent one is empty.
pub(super) fn read(path: &Path, each: Each<'_>) -> Result<(), Error> {
    let format = Format::of(path)?;
    let read = match format {
        Format::Csv => read_csv(path, each),
        #[cfg(feature = "parquet")]
        Format::Parquet => super::parquet::read(path, each),
        #[cfg(not(feature = "parquet"))]
        Format::Parquet => Err("is Parquet".to_owned()),
    };
    read.map_err(|reason| Error::input(format_args!("'{}': {reason}", path.display())))
}

fn read_csv(path: &Path, each: Each<'_>) -> Result<(), String> {
    // A part of a number is a number, too.
    if ends_within_a_line(path).map_err(|error| error.to_string())? {
        return Err("the last line is cut: was the file copied completely? Without the file, `framewright sweep` makes \
                    its runs again"
            .to_owned());
    }
    let mut reader = csv::Reader::from_path(path).map_err(|error| match error.into_kind() {
        csv::ErrorKind::Io(error) => error.to_string(),
        other => format!("{other:?}"),
    })?;
    let header = Header::of(reader.headers().map_err(|error| error.to_string())?.clone())?;
    let mut row = StringRecord::new();
    while reader.read_record(&mut row).map_err(|error| error.to_string())? {
        let line = row.position().map_or(0, csv::Position::line);
        each(&header, &row).map_err(|reason| format!("line {line}: {reason}"))?;
    }
    Ok(())
}

/// Whether the last byte of a file is no line break.
pub(super) fn ends_within_a_line(path: &Path) -> io::Result<bool> {
    let mut file = File::open(path)?;
    if file.metadata()?.len() == 0 {
        return Ok(false);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}
