//! `framewright inspect`: the fragmentation of the running kernel's memory.

mod attempt;
mod files;
mod tables;
mod watch;

use std::{path::PathBuf, str::FromStr, time::Duration};

use clap::Args as ArgGroup;
use framewright_lab::inspect::{Look, Source, counters, figures};

use crate::args::{run::ReportArgs, values::Memory};
use crate::failure::{Failure, Outcome};
use crate::output;

pub(crate) const EXAMPLES: &str = "\
Reads the kernel's tables in /proc (zoneinfo, buddyinfo, pagetypeinfo, vmstat, interrupts) and shows the free \
memory of each zone: free blocks by order and migratetype, watermarks, and two indices for each order. The \
unusable free space index is the share of the free memory in smaller blocks: at 0, all of it can be used for \
a block of this order, at 1 nothing. The fragmentation index says why a request fails: towards 1 because of \
fragmentation, which compaction repairs, towards 0 because there is too little free memory; -1: it does not \
fail. Only root can read pagetypeinfo; without it the rest is shown.

`huge pages` is the number of huge pages that a program could get now. Without compaction it is counted: \
free blocks that are large enough, as far as the watermark min and the lowmem reserve permit. With compaction \
it is an interval, for requests that wait and are repeated, without what reclaim adds. As root, the \
library's compaction is simulated on the flags of all frames (/proc/kpageflags), which say what can be moved; otherwise, \
and with --watch, it is predicted from free blocks alone, and the interval is wider.

--try allocates huge pages for a moment and compares. Faults that fail are repeated until 256 in a row bring nothing. It \
leaves 128 MiB free above the watermarks and 512 MiB available, takes at most 4 GiB for at most 5 seconds in each mode \
(--at-most, --for), ends after 1 GiB was reclaimed, and gives everything back. As root, it changes the setting `defrag` \
of transparent huge pages meanwhile, and restores it in any case.

Examples:
  framewright inspect
      The state of this machine's memory now.
  framewright inspect --watch 1s
      The same again every second, with the increase of the counters, until Ctrl-C.
  framewright inspect --watch 10s --for 1h --csv memory.csv
      All figures of an hour, a row for each figure and time.
  framewright inspect --watch 1s --for 10m --html memory.html
      Ten minutes as charts, for a browser.
  framewright inspect --try --at-most 16GiB --for 1m
      The predicted number of huge pages, and the number that the kernel really gives.
  framewright inspect --from recordings/compile.before
      Saved tables: a file next to a recording, or a folder with copies of the files in /proc.

Exit codes: 0 success, 2 bad input.";

#[derive(Debug, ArgGroup)]
pub(crate) struct InspectArgs {
    /// Read saved tables: a folder with files named as in /proc, or NAME.before next to a recording
    #[arg(long, value_name = "PATH", conflicts_with_all = ["watch", "attempt"])]
    from: Option<PathBuf>,
    /// Look again after each interval, as in 1s or 500ms, until Ctrl-C or the end of --for
    #[arg(long, value_name = "SECONDS", conflicts_with = "attempt", group = "timed")]
    watch: Option<Interval>,
    /// End --watch, or each of both modes of --try, after this time, as in 10s or 1h [default of --try: 5s]
    #[arg(long = "for", value_name = "SECONDS", requires = "timed")]
    time: Option<Interval>,
    /// Really allocate huge pages for a moment, without and with compaction, and free them
    #[arg(long = "try", group = "timed")]
    attempt: bool,
    /// The most memory that --try may take, as in 1GiB
    #[arg(long, value_name = "SIZE", requires = "attempt", default_value = "4GiB")]
    at_most: Memory,
    /// Write all figures to this file, as CSV: a row for each figure and time
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write the result to this file, as JSON; with --watch, all figures over time, at the end of --for (Ctrl-C writes none)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the result to this file as a page for a browser: tables, and with --watch charts over time
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl InspectArgs {
    /// The files of a report.
    fn files(&self, csv: Option<PathBuf>) -> ReportArgs {
        ReportArgs { json: self.json.clone(), csv, html: self.html.clone() }
    }
}

/// The time between two looks, or of all looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Interval(Duration);

impl Interval {
    /// The kernel's tables take some milliseconds to read.
    const LEAST: Duration = Duration::from_millis(100);
    /// A year.
    const MOST: Duration = Duration::from_secs(365 * 24 * 3600);
}

impl FromStr for Interval {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let seconds = || humantime::parse_duration(&format!("{text}s"));
        let time = humantime::parse_duration(text).or_else(|_| seconds());
        match time {
            Ok(time) if (Self::LEAST..=Self::MOST).contains(&time) => Ok(Self(time)),
            Ok(_) => Err("a time is from 100ms to 365 days".to_owned()),
            Err(_) => {
                Err("a time is a number of seconds, or has a unit, as in 500ms or 1h".to_owned())
            }
        }
    }
}

/// `inspect`.
pub(crate) fn inspect(args: &InspectArgs) -> Result<Outcome, Failure> {
    check(args)?;
    match (args.watch, args.attempt) {
        (Some(interval), _) => watch::watch(args, interval.0),
        (None, true) => attempt::attempt(args),
        (None, false) => once(args),
    }
}

/// Refuses, before any work, what cannot be done.
fn check(args: &InspectArgs) -> Result<(), Failure> {
    let inputs: Vec<_> = args.from.as_deref().into_iter().collect();
    output::check_report(&args.files(args.csv.clone()), &inputs)?;
    let at_end = [("--json", args.json.is_some()), ("--html", args.html.is_some())];
    match at_end.iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) if args.watch.is_some() && args.time.is_none() => {
            Err(Failure::BadInput(format!(
                "{option} is written at the end: say with --for how long to --watch, as in --for 1m"
            )))
        }
        _ => Ok(()),
    }
}

/// One look.
fn once(args: &InspectArgs) -> Result<Outcome, Failure> {
    let source = args.from.clone().map_or(Source::Running, Source::Saved);
    let look = source.read_with_pages()?;
    let figures = figures(&look);
    files::save_rows(args, &figures)?;
    let text = tables::show(&name(&source), &look, None, output::style());
    files::save(args, &source, &[(0.0, figures)], Vec::new(), files::notes(&look), &text)?;
    output::print(&text)?;
    Ok(Outcome::Fine)
}

/// The machine, in headings and reports.
fn name(source: &Source) -> String {
    match source {
        Source::Running => "this machine".to_owned(),
        Source::Saved(path) => path.display().to_string(),
    }
}

/// The increase of a counter since the look before, if that has the counter.
fn increase(name: &str, value: u64, before: Option<&Look>) -> Option<u64> {
    let before = counters(&before?.tables);
    let old = before.iter().find(|old| old.name == name)?;
    value.checked_sub(old.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds_or_have_a_unit() {
        let time = |text: &str| text.parse::<Interval>().map(|it| it.0.as_millis());
        assert_eq!((time("2"), time("500ms"), time("1h")), (Ok(2000), Ok(500), Ok(3_600_000)));
        for (text, hint) in [
            ("0", "100ms"),
            ("50ms", "100ms"),
            ("2y", "365 days"),
            ("soon", "500ms"),
            ("", "500ms"),
            ("-1", "500ms"),
        ] {
            let error = time(text).unwrap_err();
            assert!(error.contains(hint), "{text}: {error}");
        }
    }
}
