//! Tables, plain or coloured.

use std::fmt;

use comfy_table::{Attribute, Cell, CellAlignment, Color, ColumnConstraint, presets};

/// Whether a table may use colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Text alone: for files, pipes, and people who asked for it.
    Plain,
    /// Text with terminal colours.
    Coloured,
}

/// What a cell says beside its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// Nothing.
    Plain,
    /// Better than the baseline.
    Good,
    /// Worse than the baseline.
    Bad,
}

/// A table: a header, rows, the first column to the left and the others to the right.
#[derive(Clone, Debug)]
pub struct Table {
    inner: comfy_table::Table,
}

impl Table {
    /// An empty table with this header.
    pub fn new<'h>(header: impl IntoIterator<Item = &'h str>, style: Style) -> Self {
        let mut inner = comfy_table::Table::new();
        inner.load_style(presets::NOTHING);
        // Widths come from the contents alone, so that output does not depend on the terminal.
        inner.set_content_arrangement(comfy_table::ContentArrangement::Disabled);
        match style {
            Style::Plain => inner.force_no_tty(),
            Style::Coloured => inner.enforce_styling(),
        };
        let header = header.into_iter().map(|text| Cell::new(text).add_attribute(Attribute::Bold));
        inner.set_header(header);
        for (index, column) in inner.column_iter_mut().enumerate() {
            if index == 0 {
                column.set_padding((0, 1));
            } else {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        Self { inner }
    }

    /// Has no line longer than `width`, as long as that can be had by having cells of these columns go
    /// on below.
    #[must_use]
    pub fn within(mut self, width: usize, words: &[usize]) -> Self {
        let width = u16::try_from(width).unwrap_or(u16::MAX);
        for (index, column) in self.inner.column_iter_mut().enumerate() {
            if !words.contains(&index) {
                column.set_constraint(ColumnConstraint::ContentWidth);
            }
        }
        self.inner
            .set_content_arrangement(comfy_table::ContentArrangement::Dynamic)
            .set_width(width);
        self
    }

    /// Has the words in column number `column` begin at its left; those of the first do anyway.
    #[must_use]
    pub fn left_aligned(mut self, column: usize) -> Self {
        if let Some(column) = self.inner.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Left);
        }
        self
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = (String, Tone)>) {
        self.inner.add_row(cells.into_iter().map(|(text, tone)| {
            let cell = Cell::new(text);
            match tone {
                Tone::Plain => cell,
                Tone::Good => cell.fg(Color::Green),
                Tone::Bad => cell.fg(Color::Red),
            }
        }));
    }

    /// Adds a row of plain text.
    pub fn plain_row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.row(cells.into_iter().map(|text| (text, Tone::Plain)));
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in self.inner.lines() {
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}
