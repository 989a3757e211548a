//! `inspect --watch`: a look after each interval. Tables that are updated in place on a terminal, else a
//! line for each look.

use std::{
    fs::File,
    io::{ErrorKind, IsTerminal, Write, stdout},
    path::Path,
    thread,
    time::{Duration, Instant},
};

use framewright_lab::{
    inspect::{CSV_HEADER, HugePages, Look, Source, counters, figures},
    report::{Style, decimal, open_rows},
};

use super::{InspectArgs, files, increase, name, tables};
use crate::failure::{Failure, Outcome};
use crate::output;
use crate::print::FRAME_BYTES;

/// Moves to the upper left corner of a terminal, and clears it.
const CLEAR: &str = "\x1b[H\x1b[J";

/// Looks until the time is over, or for ever.
pub(super) fn watch(args: &InspectArgs, interval: Duration) -> Result<Outcome, Failure> {
    let source = Source::Running;
    let begun = Instant::now();
    let end = args.time.map(|time| begun + time.0);
    let mut before: Option<Look> = None;
    let mut csv = None;
    let mut kept = Vec::new();
    for turn in 0.. {
        let look = source.read()?;
        let seconds = begun.elapsed().as_secs_f64();
        let figures = figures(&look);
        if let Some(path) = args.csv.as_deref() {
            add_rows(&mut csv, path, &files::rows(&figures, seconds))?;
        }
        if args.json.is_some() || args.html.is_some() {
            kept.push((seconds, figures));
        }
        output::print(&text(&look, before.as_ref(), seconds))?;
        before = Some(look);
        let next = begun + interval * (turn + 1);
        if end.is_some_and(|end| next > end) {
            break;
        }
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    let notes = before.as_ref().map(files::notes).unwrap_or_default();
    let last = before.map(|look| tables::show(&name(&source), &look, None, Style::Plain));
    files::save(args, &source, &kept, Vec::new(), notes, &last.unwrap_or_default())?;
    Ok(Outcome::Fine)
}

/// Appends rows to the file, which is created with the first rows. Ctrl-C ends the program before or
/// after all of them.
fn add_rows(csv: &mut Option<File>, path: &Path, rows: &str) -> Result<(), Failure> {
    let fail = |error: std::io::Error| {
        Failure::BadInput(format!("cannot write '{}': {error}", path.display()))
    };
    let mut text = String::new();
    let file = match csv {
        Some(file) => file,
        None => {
            text = format!("{CSV_HEADER}\n");
            csv.insert(open_rows(path).map_err(Failure::bad_input)?)
        }
    };
    text += rows;
    let _uninterrupted = output::hold();
    match file.write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(fail(error)),
        _ => Ok(()),
    }
}

/// A look as text: all tables on a terminal, else a line.
fn text(look: &Look, before: Option<&Look>, seconds: f64) -> String {
    if stdout().is_terminal() {
        let shown = tables::show(&name(&Source::Running), look, before, output::style());
        return format!("{CLEAR}{shown}\n{} s; Ctrl-C ends\n", decimal(seconds, 0));
    }
    let header = if before.is_none() { header(look) } else { String::new() };
    header + &line(look, before, seconds)
}

/// The counters in a line, and their columns.
const COLUMNS: [(&str, &str); 5] = [
    ("thp_fault_alloc", "thp_alloc"),
    ("thp_fault_fallback", "thp_fallback"),
    ("compact_stall", "compact_stall"),
    ("allocstall", "allocstall"),
    ("tlb_shootdowns", "shootdowns"),
];

fn header(look: &Look) -> String {
    let notes: String = look.missing.iter().map(|note| format!("note     {note}\n")).collect();
    let counters: String = COLUMNS.iter().map(|(_, title)| format!("  {title:>13}")).collect();
    format!(
        "{notes}{:>9}  {:>9}  {:>9}  {:>15}{counters}\n",
        "seconds", "free_MiB", "huge", "with_compaction"
    )
}

/// The free memory, the huge pages without and with compaction, and the counters since the last look
/// (`-` in the first line).
fn line(look: &Look, before: Option<&Look>, seconds: f64) -> String {
    let free = (look.tables.free() * FRAME_BYTES) >> 20;
    let huge = HugePages::predict(look);
    let [least, most] = huge.with();
    let counters = counters(&look.tables);
    let counted = |name: &str| {
        let counter = counters.iter().find(|counter| counter.name == name)?;
        increase(name, counter.value, before)
    };
    let counted: String = COLUMNS
        .iter()
        .map(|(name, _)| counted(name).map_or_else(|| "-".to_owned(), |new| new.to_string()))
        .map(|new| format!("  {new:>13}"))
        .collect();
    let with = format!("{least}-{most}");
    format!("{seconds:>9.1}  {free:>9}  {:>9}  {with:>15}{counted}\n", huge.without())
}
