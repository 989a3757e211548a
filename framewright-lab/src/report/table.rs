//! Tables, plain or coloured.

use comfy_table::{Cell, CellAlignment, ColumnConstraint, presets};
use std::fmt;

use super::Point;

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

const STEPS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Draws `series` in at most `width` characters, from `low` (an empty step) to `high` (a full one).
/// Time is linear. A character shows the mean of its points; an interval without points repeats the
/// last value.
pub fn sparkline(series: &[Point], low: f64, high: f64, width: usize) -> String {
    let (Some(&Point(start, first)), Some(&Point(end, _))) = (series.first(), series.last()) else {
        return String::new();
    };
    let width = width.min(series.len()).max(1);
    let span = end - start;
    let mut line = String::with_capacity(width * 3);
    let mut points = series.iter().peekable();
    let mut value = first;
    for column in 0..width {
        let until = start + span * (column + 1) as f64 / width as f64;
        let last_column = column + 1 == width;
        let (mut sum, mut n) = (0.0, 0_u32);
        while let Some(point) = points.next_if(|point| last_column || point.0 < until) {
            sum += point.1;
            n += 1;
        }
        if n > 0 {
            value = sum / f64::from(n);
        }
        line.push(step(value, low, high));
    }
    line
}

fn step(value: f64, low: f64, high: f64) -> char {
    let top = STEPS.len() - 1;
    if high <= low {
        return STEPS[0];
    }
    let level = ((value - low) / (high - low) * top as f64).round();
    STEPS[(level.max(0.0) as usize).min(top)]
}

/// A number with `decimals` digits behind the point. A number that rounds to zero has no sign.
pub fn decimal(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    match text.strip_prefix('-') {
        Some(rest) if rest.bytes().all(|byte| matches!(byte, b'0' | b'.')) => rest.to_owned(),
        _ => text,
    }
}

/// A time of `nanos` nanoseconds with three significant digits, in the largest unit that gives at
/// least one.
pub fn scaled_nanos(nanos: f64) -> String {
    let (value, unit) = scaled(nanos, &TIMES);
    format!("{value} {unit}")
}

/// The units of time, in nanoseconds.
const TIMES: [(f64, &str); 4] = [(1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")];

/// Prefixes of large numbers.
pub(super) const COUNTS: [(f64, &str); 4] = [(1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")];

/// The units of sizes, in bytes.
pub(super) const BYTES: [(f64, &str); 5] = [
    (1_099_511_627_776.0, "TiB"),
    (1_073_741_824.0, "GiB"),
    (1_048_576.0, "MiB"),
    (1024.0, "KiB"),
    (1.0, "bytes"),
];

/// `value` with three significant digits in the largest of `units` that gives at least one, and the
/// name of that unit.
pub fn scaled<'u>(value: f64, units: &[(f64, &'u str)]) -> (String, &'u str) {
    let fits = units.iter().find(|(unit, _)| value.abs() >= *unit).or(units.last());
    let &(unit, name) = fits.unwrap_or(&(1.0, ""));
    let value = value / unit;
    let decimals = match value.abs() {
        100.0.. => 0,
        10.0.. => 1,
        _ => 2,
    };
    (decimal(value, decimals), name)
}

/// "the run", or "each of 3 runs".
pub fn each_run(runs: u64) -> String {
    if runs == 1 { "the run".to_owned() } else { format!("each of {runs} runs") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(values: &[f64]) -> Vec<Point> {
        values.iter().enumerate().map(|(t, v)| Point(t as f64, *v)).collect()
    }

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

    #[test]
    fn low_is_low_and_high_is_high() {
        assert_eq!(sparkline(&series(&[0.0, 4.0, 7.0, 99.0, -1.0]), 0.0, 7.0, 80), "▁▅██▁");
        assert_eq!(sparkline(&series(&[5.0, 5.0]), 5.0, 5.0, 80), "▁▁");
        assert_eq!(sparkline(&[], 0.0, 1.0, 80), "");
    }

    #[test]
    fn many_points_share_a_character() {
        let line = sparkline(&series(&[0.0, 0.0, 0.0, 7.0, 7.0, 7.0]), 0.0, 7.0, 2);
        assert_eq!(line, "▁█");
    }

    #[test]
    fn a_gap_repeats_the_last_value() {
        let gap = [Point(0.0, 7.0), Point(0.1, 7.0), Point(0.2, 7.0), Point(10.0, 0.0)];
        assert_eq!(sparkline(&gap, 0.0, 7.0, 4), "███▁");
    }

    #[test]
    fn times_have_three_digits_and_a_unit() {
        for (nanos, text) in [
            (0.25, "0.25 ns"),
            (-34.56, "-34.6 ns"),
            (2_000.0, "2.00 µs"),
            (5_200_000.0, "5.20 ms"),
            (1.5e9, "1.50 s"),
        ] {
            assert_eq!(scaled_nanos(nanos), text);
        }
    }

    #[test]
    fn decimals_are_rounded_and_zero_has_no_sign() {
        assert_eq!(decimal(1234.567, 2), "1234.57");
        assert_eq!(decimal(-1234.5, 1), "-1234.5");
        assert_eq!(decimal(-0.001, 2), "0.00");
        assert_eq!(decimal(41.0, 0), "41");
    }
}
