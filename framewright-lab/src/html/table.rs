//! A table with header cells, which the script of the page can sort.

use maud::{Markup, html};

use crate::report::Tone;

/// A table.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    header: Vec<String>,
    rows: Vec<Vec<Cell>>,
}

/// A cell.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cell {
    text: String,
    /// The number by which the column is sorted; without one, it is sorted by the text.
    number: Option<f64>,
    /// The change from the first column of figures.
    gain: Option<String>,
    tone: Tone,
    /// Further words, in small letters.
    note: Option<String>,
    /// The length of a bar, from 0 to 1, which is drawn instead of the text.
    bar: Option<f64>,
}

impl Cell {
    /// A text.
    pub(super) fn text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            number: None,
            gain: None,
            tone: Tone::Plain,
            note: None,
            bar: None,
        }
    }

    /// A number, written as `text`.
    pub(super) fn number(number: f64, text: impl Into<String>) -> Self {
        Self { number: Some(number), ..Self::text(text) }
    }

    /// A whole number.
    pub(super) fn count(count: u64) -> Self {
        Self::number(count as f64, count.to_string())
    }

    /// A bar with this share of the full length, for a number that another cell of its row has.
    pub(super) fn bar(share: f64) -> Self {
        Self { number: Some(share), bar: Some(share.clamp(0.0, 1.0)), ..Self::text("") }
    }

    /// This cell with a change, which is better or worse.
    pub(super) fn judged(self, gain: Option<String>, tone: Tone) -> Self {
        Self { gain, tone, ..self }
    }

    /// This cell with further words.
    pub(super) fn noted(self, note: Option<String>) -> Self {
        Self { note, ..self }
    }

    fn class(&self) -> Option<&'static str> {
        Some(match (self.tone, self.number) {
            _ if self.bar.is_some() => "bar",
            (Tone::Good, _) => "n good",
            (Tone::Bad, _) => "n bad",
            (Tone::Plain, Some(_)) => "n",
            (Tone::Plain, None) => return None,
        })
    }

    /// The mark and the word of a change. Colour is not the only sign.
    fn mark(&self) -> (&'static str, &'static str) {
        match self.tone {
            Tone::Good => ("\u{25b2}", "better than the first column"),
            Tone::Bad => ("\u{25bc}", "worse than the first column"),
            Tone::Plain => ("", ""),
        }
    }

    fn content(&self) -> Markup {
        let (mark, words) = self.mark();
        html! {
            @if let Some(share) = self.bar {
                @if share > 0.0 { i style=(format!("width:{:.1}%", share * 100.0)) {} }
            } @else {
                (self.text)
                @if let Some(gain) = &self.gain {
                    " " span.gain { (gain) " " span.mark title=(words) { (mark) } }
                }
                @if let Some(note) = &self.note { small { (note) } }
            }
        }
    }
}

impl Table {
    /// A table with this header.
    pub(super) fn new<H: Into<String>>(header: impl IntoIterator<Item = H>) -> Self {
        Self { header: header.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    /// Adds a row. The first cell is its header. Missing cells are empty.
    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let mut cells: Vec<Cell> = cells.into_iter().collect();
        cells.resize(self.header.len().max(cells.len()), Cell::text(""));
        self.rows.push(cells);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table as HTML, under a caption. Nothing if it has no rows.
    pub(super) fn render(&self, caption: &str) -> Markup {
        // A column of numbers has its header at the same edge.
        let is_number = |column: usize| {
            let mut cells =
                self.rows.iter().map(|row| &row[column]).filter(|cell| !cell.text.is_empty());
            column > 0 && cells.next().is_some_and(|cell| cell.number.is_some())
        };
        html! {
            @if !self.is_empty() {
                div.scroll {
                    table {
                        @if !caption.is_empty() { caption { (caption) } }
                        thead {
                            tr {
                                @for (nth, title) in self.header.iter().enumerate() {
                                    th scope="col" class=[is_number(nth).then_some("n")] { (title) }
                                }
                            }
                        }
                        tbody { @for row in &self.rows { (line(row)) } }
                    }
                }
            }
        }
    }
}

fn line(row: &[Cell]) -> Markup {
    html! {
        tr {
            @for (nth, cell) in row.iter().enumerate() {
                @if nth == 0 {
                    th scope="row" data-v=[cell.number] { (cell.content()) }
                } @else {
                    td class=[cell.class()] data-v=[cell.number] { (cell.content()) }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_has_its_number_and_a_mark_beside_its_colour() {
        let mut table = Table::new(["figure", "base", "vs"]);
        let worse = Cell::number(2.0, "2 <").judged(Some("-100%".into()), Tone::Bad);
        table.row([Cell::text("drains & more"), Cell::number(1.0, "1"), worse]);
        table.row([Cell::text("short")]);
        let text = table.render("t").into_string();
        for part in [
            "<th scope=\"row\">drains &amp; more</th>",
            "<td class=\"n\" data-v=\"1\">1</td>",
            "<td class=\"n bad\" data-v=\"2\">2 &lt; <span class=\"gain\">-100%",
            "title=\"worse than the first column\">\u{25bc}</span>",
            "<th scope=\"col\" class=\"n\">vs</th>",
        ] {
            assert!(text.contains(part), "{part} is missing in {text}");
        }
        assert_eq!(text.matches("<td").count(), 4);
        assert_eq!(Table::new(["a"]).render("t").into_string(), "");
    }
}
