//! Reads tables in CSV side by side, run by run, if their runs are in the order of the plan, as
//! [`super::Sweep::write`] writes them. No run needs a file of its own then. Other tables, and tables with
//! errors, are left to [`super::Sweep::import`], which takes runs in any order and names the errors.

use std::{collections::HashMap, fs::File, path::Path};

use csv::{Reader, StringRecord};

use super::{
    parts::Outcome,
    table::{Format, Header, ends_within_a_line, outcome},
};

/// A table that is read run by run.
struct Table {
    reader: Reader<File>,
    header: Header,
    /// The first row of the next run, if there is one.
    row: StringRecord,
    has_row: bool,
}

impl Table {
    fn open(path: &Path) -> Option<Self> {
        if Format::of(path).ok()? != Format::Csv || ends_within_a_line(path).ok()? {
            return None;
        }
        let mut reader = Reader::from_path(path).ok()?;
        let header = Header::of(reader.headers().ok()?.clone()).ok()?;
        let mut row = StringRecord::new();
        let has_row = reader.read_record(&mut row).ok()?;
        Some(Self { reader, header, row, has_row })
    }

    /// The identity and the result of the next run, or nothing at the end. `None` if there is an error.
    fn next(&mut self) -> Option<Option<(u64, Outcome)>> {
        if !self.has_row {
            return Some(None);
        }
        let id = self.header.run(&self.row).to_owned();
        let mut figures = Vec::new();
        while self.has_row && self.header.run(&self.row) == id {
            figures.push(self.header.figure(&self.row).ok()?);
            self.has_row = self.reader.read_record(&mut self.row).ok()?;
        }
        let id = u64::from_str_radix(&id, 16).ok()?;
        Some(Some((id, outcome(figures).ok()?)))
    }
}

/// Tables that are read side by side.
pub(super) struct Tables {
    tables: Vec<Table>,
    /// The next run of each table, with the number of the table.
    next: HashMap<u64, Vec<(usize, Outcome)>>,
}

impl Tables {
    /// `None` if a table cannot be read in this way.
    pub(super) fn open(paths: &[&Path]) -> Option<Self> {
        let tables = paths.iter().map(|path| Table::open(path)).collect::<Option<_>>()?;
        let mut tables = Self { tables, next: HashMap::new() };
        (0..paths.len()).try_for_each(|at| tables.advance(at))?;
        Some(tables)
    }

    fn advance(&mut self, at: usize) -> Option<()> {
        if let Some((id, outcome)) = self.tables[at].next()? {
            self.next.entry(id).or_default().push((at, outcome));
        }
        Some(())
    }

    /// The result of a run. `None` if it is not the next run of any table, or if tables differ in it.
    pub(super) fn take(&mut self, id: u64) -> Option<Outcome> {
        let found = self.next.remove(&id)?;
        if found.windows(2).any(|pair| pair[0].1 != pair[1].1) {
            return None;
        }
        let tables: Vec<usize> = found.iter().map(|(at, _)| *at).collect();
        tables.into_iter().try_for_each(|at| self.advance(at))?;
        found.into_iter().next().map(|(_, outcome)| outcome)
    }

    /// Whether all runs of all tables have been taken.
    pub(super) fn are_taken(&self) -> bool {
        self.next.is_empty()
    }
}
