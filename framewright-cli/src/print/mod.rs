//! Reports as text.

mod fragmentation;
mod free_blocks;
mod high_alloc;
mod host_paging;
mod hunt;
mod large_memory;
mod machines;
mod micro;
mod paging;
mod prices;
mod record;
mod replay;
mod report;
mod reproduce;
mod tuning;
mod workload;

use anstyle::Style as TextStyle;
use framewright_lab::report::Style;

pub(crate) use fragmentation::{churn, replace, threads};
pub(crate) use high_alloc::{high_alloc, high_alloc_on_threads};
pub(crate) use host_paging::host_paging;
pub(crate) use hunt::{hunt, hunt_list};
pub(crate) use large_memory::large_memory;
pub(crate) use machines::{inheritance, machine, machines};
pub(crate) use micro::{instructions, micro};
pub(crate) use paging::paging;
pub(crate) use prices::prices;
pub(crate) use record::{lost, record};
pub(crate) use replay::replay;
pub(crate) use reproduce::reproduce;
pub(crate) use tuning::tuning;
pub(crate) use workload::{emulated, on_threads, scaled, simulated};

/// Bytes in a frame.
const FRAME_BYTES: u64 = 4096;

/// `text` as a heading.
fn bold(text: &str, style: Style) -> String {
    let bold = match style {
        Style::Plain => TextStyle::new(),
        Style::Coloured => TextStyle::new().bold(),
    };
    format!("{bold}{text}{bold:#}")
}

/// So many of a thing whose plural ends in an s, as in `1 CPU`.
fn several(number: u16, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

/// Characters of a line, where a result is much to read.
const WIDTH: usize = 120;

/// One paragraph, in lines that are no longer than that where words allow it; all but the first begin
/// with two blanks.
fn paragraph(text: &str) -> String {
    let mut lines = String::new();
    let mut width = 0;
    for word in text.split(' ') {
        let length = word.chars().count();
        if width > 0 && width + 1 + length > WIDTH {
            lines.push_str("\n  ");
            width = 2;
        } else if !lines.is_empty() {
            lines.push(' ');
            width += 1;
        }
        lines.push_str(word);
        width += length;
    }
    lines.push('\n');
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_keep_their_words_and_fit() {
        let text = format!("name  holds: {}", "some words ".repeat(40).trim_end());
        let wrapped = paragraph(&text);
        assert!(wrapped.lines().count() > 3 && wrapped.starts_with("name  holds: some"));
        assert!(wrapped.lines().all(|line| line.chars().count() <= WIDTH), "{wrapped}");
        assert!(
            wrapped
                .lines()
                .skip(1)
                .all(|line| line.starts_with("  some") || line.starts_with("  words"))
        );
        assert_eq!(wrapped.replace("\n  ", " ").trim_end(), text);
    }
}
