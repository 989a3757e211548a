//! `inspect --try`: predicted and real numbers of huge pages.

use std::time::Duration;

use framewright_lab::{
    inspect::{Attempt, Bounds, End, HugePageSetting, MODES, Mode, Source, figures},
    report::{Metric, Run, Style, Table, Unit, decimal},
};

use super::{InspectArgs, files, name, tables};
use crate::failure::{Failure, Outcome};
use crate::output;
use crate::print::{bold, paragraph};

/// The most time of each mode, without `--for`.
const TIME: Duration = Duration::from_secs(5);

/// Shows the state of memory, and tries without and with compaction.
pub(super) fn attempt(args: &InspectArgs) -> Result<Outcome, Failure> {
    let bytes = args.at_most.frames() * crate::print::FRAME_BYTES;
    let look = Source::Running.read_with_pages()?;
    let setting = HugePageSetting::read().map_err(Failure::BadInput)?;
    let bounds = Bounds { bytes, time: args.time.map_or(TIME, |time| time.0) };
    let tried = MODES.map(|mode| (mode, Attempt::make(mode, bounds)));
    if let [(_, Err(first)), (_, Err(_))] = &tried {
        return Err(Failure::BadInput(format!("--try: {first}")));
    }
    let figures = figures(&look);
    files::save_rows(args, &figures)?;
    let style = output::style();
    let shown = tables::show(&name(&Source::Running), &look, None, style);
    let text = shown + &show(&setting, &tried, style);
    save(args, figures, &tried, files::notes(&look), &text)?;
    output::print(&text)?;
    Ok(Outcome::Fine)
}

/// The outcome of both modes.
type Tried = [(Mode, Result<Attempt, String>); 2];

fn show(setting: &HugePageSetting, tried: &Tried, style: Style) -> String {
    let HugePageSetting { enabled, defrag } = setting;
    let title = bold("huge pages allocated for a moment", style);
    let mut text =
        format!("\n{title}  (settings of this machine: enabled={enabled}, defrag={defrag})\n");
    let header = ["", "predicted", "found", "allocated", "requested", "became free", "time", "end"];
    let mut table = Table::new(header, style).left_aligned(7);
    for (mode, attempt) in tried {
        match attempt {
            Ok(attempt) => table.plain_row(row(attempt)),
            Err(reason) => text += &paragraph(&format!("{}: not tried: {reason}", words(*mode))),
        }
    }
    text += &table.to_string();
    for (mode, attempt) in tried {
        if let Ok(attempt) = attempt {
            text += &paragraph(&counted(*mode, attempt));
        }
    }
    text += &paragraph(
        "found: the most huge pages at a time; with compaction, without one for each 2 MiB that became free \
         meanwhile, by reclaim or because other programs freed more than they took. `at least`: a bound ended the \
         attempt before the limit was found.",
    );
    text
}

fn row(attempt: &Attempt) -> [String; 8] {
    let at_least = if attempt.end == End::NoMore { "" } else { "at least " };
    [
        words(attempt.mode).to_owned(),
        tables::range(attempt.expected()),
        format!("{at_least}{}", attempt.found),
        attempt.allocated.to_string(),
        attempt.requested.to_string(),
        format!("{} MiB", tables::mib(attempt.freed)),
        format!("{} s", decimal(attempt.time.as_secs_f64(), 2)),
        end(attempt.end).to_owned(),
    ]
}

fn end(end: End) -> &'static str {
    match end {
        End::NoMore => "no more came",
        End::Bytes => "--at-most",
        End::Time => "the time was over",
        End::Reserve => "memory that stays free",
        End::Reclaimed => "1 GiB was reclaimed",
    }
}

/// The counters of the kernel that grew.
fn counted(mode: Mode, attempt: &Attempt) -> String {
    let counters = attempt.counted.iter().filter(|counter| counter.name != "tlb_shootdowns");
    let counters: Vec<_> = counters.map(|it| format!("{} {}", it.name, it.value)).collect();
    format!("counted by the kernel {}: {}", words(mode), counters.join(", "))
}

fn words(mode: Mode) -> &'static str {
    match mode {
        Mode::Without => "without compaction",
        Mode::With => "with compaction",
    }
}

/// Writes the report: the figures of the machine, and a run for each attempt.
fn save(
    args: &InspectArgs,
    figures: Vec<framewright_lab::inspect::Figure>,
    tried: &Tried,
    mut notes: Vec<String>,
    text: &str,
) -> Result<(), Failure> {
    let mut runs = Vec::new();
    for (mode, attempt) in tried {
        match attempt {
            Ok(attempt) => runs.push(run(attempt)),
            Err(reason) => notes.push(format!("{}: not tried: {reason}", words(*mode))),
        }
    }
    files::save(args, &Source::Running, &[(0.0, figures)], runs, notes, text)
}

fn run(attempt: &Attempt) -> Run {
    let [least, most] = attempt.expected();
    let counts = [
        ("predicted_least", least),
        ("predicted_most", most),
        ("found", attempt.found),
        ("is_limit", u64::from(attempt.end == End::NoMore)),
        ("allocated", attempt.allocated),
        ("requested", attempt.requested),
        ("freed_frames", attempt.freed),
        ("reclaimed_frames", attempt.reclaimed),
    ];
    let counted = attempt.counted.iter().map(|counter| (counter.name, counter.value));
    let count = |(name, value): (&str, u64)| {
        (name.to_owned(), Metric::once(value as f64, Unit::Count, None))
    };
    let time = Metric::once(attempt.time.as_secs_f64(), Unit::Seconds, None);
    let metrics = counts.into_iter().chain(counted).map(count);
    Run {
        label: words(attempt.mode).to_owned(),
        metrics: metrics.chain([("time".to_owned(), time)]).collect(),
        ..Run::default()
    }
}
