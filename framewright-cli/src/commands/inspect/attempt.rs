//! `inspect --try`: predicted and real numbers of huge pages.

use std::time::Duration;

use framewright_lab::{
    inspect::{Attempt, Bounds, CSV_HEADER, HugePageSetting, MODES, Mode, Source, figures},
    report::{Metric, Run, Style, Table, Unit, decimal},
};

use super::{InspectArgs, name, rows, tables};
use crate::failure::{Failure, Outcome};
use crate::output;
use crate::print::{bold, paragraph};

/// The most memory, in bytes, and the most time that huge pages are held.
const MOST: u64 = 4 << 30;
const TIME: Duration = Duration::from_secs(5);

/// Shows the state of memory, and tries without and with compaction.
pub(super) fn attempt(args: &InspectArgs) -> Result<Outcome, Failure> {
    let bytes = args.at_most.frames() * crate::print::FRAME_BYTES;
    if bytes > MOST {
        return Err(Failure::BadInput(format!("--at-most {}: the maximum is 4GiB", args.at_most)));
    }
    let look = Source::Running.read()?;
    let setting = HugePageSetting::read().map_err(Failure::BadInput)?;
    let bounds = Bounds { bytes, time: TIME };
    let tried = MODES.map(|mode| (mode, Attempt::make(mode, bounds)));
    if let [(_, Err(first)), (_, Err(_))] = &tried {
        return Err(Failure::BadInput(format!("--try: {first}")));
    }
    let figures = figures(&look);
    output::save_text(args.csv.as_deref(), || format!("{CSV_HEADER}\n{}", rows(&figures, 0.0)))?;
    save(args, figures, &tried, &look.missing)?;
    let style = output::style();
    let text = tables::show(&name(&Source::Running), &look, None, style);
    output::print(&(text + &show(&setting, &tried, style)))?;
    Ok(Outcome::Fine)
}

/// The outcome of both modes.
type Tried = [(Mode, Result<Attempt, String>); 2];

fn show(setting: &HugePageSetting, tried: &Tried, style: Style) -> String {
    let HugePageSetting { enabled, defrag } = setting;
    let title = bold("huge pages allocated for a moment", style);
    let mut text =
        format!("\n{title}  (settings of this machine: enabled={enabled}, defrag={defrag})\n");
    let header =
        ["", "requested", "predicted", "allocated", "time", "counted by the kernel meanwhile"];
    let mut table = Table::new(header, style).left_aligned(5);
    for (mode, attempt) in tried {
        match attempt {
            Ok(attempt) => table.plain_row(row(attempt)),
            Err(reason) => text += &paragraph(&format!("{}: not tried: {reason}", words(*mode))),
        }
    }
    text += &table.to_string();
    text += &paragraph(
        "A prediction is limited to the number of requests. With compaction, the kernel may also reclaim \
         (pgsteal_direct).",
    );
    text
}

fn row(attempt: &Attempt) -> [String; 6] {
    let counted = attempt.counted.iter().filter(|counter| counter.name != "tlb_shootdowns");
    let counted: Vec<_> = counted.map(|it| format!("{} {}", it.name, it.value)).collect();
    [
        words(attempt.mode).to_owned(),
        attempt.requested.to_string(),
        tables::range(attempt.expected()),
        attempt.allocated.to_string(),
        format!("{} s", decimal(attempt.time.as_secs_f64(), 2)),
        counted.join(", "),
    ]
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
    missing: &[String],
) -> Result<(), Failure> {
    let mut notes = missing.to_vec();
    let mut runs = Vec::new();
    for (mode, attempt) in tried {
        match attempt {
            Ok(attempt) => runs.push(run(attempt)),
            Err(reason) => notes.push(format!("{}: not tried: {reason}", words(*mode))),
        }
    }
    super::save(args, &Source::Running, &[(0.0, figures)], runs, notes)
}

fn run(attempt: &Attempt) -> Run {
    let [least, most] = attempt.expected();
    let [possible_least, possible_most] = attempt.possible();
    let counts = [
        ("possible_least", possible_least),
        ("possible_most", possible_most),
        ("requested", attempt.requested),
        ("predicted_least", least),
        ("predicted_most", most),
        ("allocated", attempt.allocated),
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
