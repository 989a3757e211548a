//! Tables, plain or coloured.

use comfy_table::{Cell, CellAlignment, ColumnConstraint, presets};
use std::fmt;

/// Whether a table may use colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Text only: for files, pipes, and on request.
    Plain,
    /// Text with terminal colours.
    Coloured,
}

impl Style {
    /// A cell with this text. If there is a mark and colour is allowed, each word is between it and its end: the cell
    /// may be wrapped between words.
    fn cell(self, text: &str, mark: Option<char>) -> Cell {
        let Some(mark) = mark.filter(|_| self == Self::Coloured) else { return Cell::new(text) };
        let words = text.split(' ').map(|word| match word {
            "" => String::new(),
            word => format!("{mark}{word}{END}"),
        });
        let words: Vec<String> = words.collect();
        Cell::new(words.join(" "))
    }
}

/// The meaning of a cell, in addition to its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// Nothing.
    Plain,
    /// Better than the baseline.
    Good,
    /// Worse than the baseline.
    Bad,
}

impl Tone {
    /// The mark before a cell of this meaning.
    fn mark(self) -> Option<char> {
        match self {
            Self::Plain => None,
            Self::Good => Some(GREEN),
            Self::Bad => Some(RED),
        }
    }
}

// Marks around the text of a cell. They have no width, so columns stay aligned; `Display` puts escape sequences in their
// place. (The package of tables would build five others for colours.)
const GREEN: char = '\u{2061}';
const RED: char = '\u{2062}';
const BOLD: char = '\u{2063}';
const END: char = '\u{2064}';

/// The escape sequence of each mark.
const SEQUENCES: [(char, &str); 4] =
    [(GREEN, "\x1b[32m"), (RED, "\x1b[31m"), (BOLD, "\x1b[1m"), (END, "\x1b[0m")];

/// A table: a header and rows; the first column is left-aligned, the others are right-aligned.
#[derive(Clone, Debug)]
pub struct Table {
    inner: comfy_table::Table,
    style: Style,
}

impl Table {
    /// An empty table with this header.
    pub fn new<'h>(header: impl IntoIterator<Item = &'h str>, style: Style) -> Self {
        let mut inner = comfy_table::Table::new();
        inner.load_style(presets::NOTHING);
        // Only the contents determine widths: the output does not depend on the terminal.
        inner.set_content_arrangement(comfy_table::ContentArrangement::Disabled);
        inner.set_header(header.into_iter().map(|text| style.cell(text, Some(BOLD))));
        for (index, column) in inner.column_iter_mut().enumerate() {
            if index == 0 {
                column.set_padding((0, 1));
            } else {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        Self { inner, style }
    }

    /// Limits lines to `width` characters, if that is possible by wrapping cells of the columns
    /// `words`.
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

    /// Left-aligns column number `column`; the first always is.
    #[must_use]
    pub fn left_aligned(mut self, column: usize) -> Self {
        if let Some(column) = self.inner.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Left);
        }
        self
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = (String, Tone)>) {
        let style = self.style;
        self.inner.add_row(cells.into_iter().map(|(text, tone)| style.cell(&text, tone.mark())));
    }

    /// Adds a row of plain text.
    pub fn plain_row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.row(cells.into_iter().map(|text| (text, Tone::Plain)));
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in self.inner.lines() {
            let mut line = line.trim_end().to_owned();
            if self.style == Style::Coloured {
                for (mark, sequence) in SEQUENCES {
                    line = line.replace(mark, sequence);
                }
            }
            writeln!(f, "{line}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(style: Style) -> String {
        let mut table = Table::new(["", "base", "vs"], style);
        let cells = [("faults", Tone::Plain), ("10", Tone::Good), ("12345", Tone::Bad)];
        table.row(cells.map(|(text, tone)| (text.to_owned(), tone)));
        table.to_string()
    }

    #[test]
    fn colours_do_not_move_columns() {
        let plain = table(Style::Plain);
        assert_eq!(plain, "        base     vs\nfaults    10  12345\n");
        let coloured = table(Style::Coloured);
        assert!(coloured.contains("\x1b[32m10\x1b[0m  \x1b[31m12345\x1b[0m"), "{coloured:?}");
        let without =
            SEQUENCES.iter().fold(coloured, |text, (_, sequence)| text.replace(sequence, ""));
        assert_eq!(without, plain);
    }

    #[test]
    fn a_wrapped_header_is_bold_in_each_line() {
        let mut table = Table::new(["", "list hits"], Style::Coloured);
        table.plain_row(["zone".to_owned(), "7".to_owned()]);
        let text = table.within(12, &[1]).to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].ends_with("\x1b[1mlist\x1b[0m"), "{text:?}");
        assert!(lines[1].ends_with("\x1b[1mhits\x1b[0m"), "{text:?}");
    }
}
