//! `framewright record`: records the page allocator of the running kernel into a file.

mod running;

use clap::Args as ArgGroup;
use framewright_lab::{
    record::{Capture, Destination, RecordError, Session, Summary, Tracefs, WrittenFiles},
    report::Style,
};
use parse_size::Config;
use std::{
    ffi::OsString,
    fmt::{self, Write},
    ops::ControlFlow,
    os::unix::process::ExitStatusExt,
    path::PathBuf,
    str::FromStr,
    time::Duration,
};

use crate::failure::{Failure, Outcome};
use crate::{
    output,
    print::{bold, several},
    progress::Progress,
};
use running::{Ended, Running, Signals};

pub(crate) const EXAMPLES: &str = "\
Records the events of the running kernel's page allocator, of all processes, while COMMAND runs, \
for a time, or until Ctrl-C. Needs root and tracefs. Ctrl-C ends the recording and keeps it.

Examples:
  framewright record -o compile -- cargo build --release
  framewright record -o idle --for 10s
  framewright replay compile.txt.zst

Exit codes: that of COMMAND if it failed (128 and the signal's number if a signal ended it); \
otherwise 0 success, 1 events were lost, 2 nothing could be recorded.";

#[derive(Debug, ArgGroup)]
pub(crate) struct RecordArgs {
    /// Name of the recording: writes NAME.txt.zst, NAME.before and NAME.after
    #[arg(short = 'o', long = "output", value_name = "NAME", default_value = "recording")]
    pub(crate) name: PathBuf,
    /// End the recording after this time, as in 10s or 1m30s; COMMAND continues to its end
    #[arg(long = "for", value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) limit: Option<Limit>,
    /// Memory of each CPU for events not read yet [default: 64MiB, less on small machines]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    pub(crate) buffer: Option<Buffer>,
    /// Replace a recording of that name
    #[arg(long)]
    pub(crate) force: bool,
    /// The command to run during the recording, with its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// The time to record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limit(pub(crate) Duration);

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match humantime::parse_duration(text) {
            Ok(Duration::ZERO) => Err("the time must not be zero, as in 10s".to_owned()),
            Ok(limit) => Ok(Self(limit)),
            Err(_) => Err("a time is a number and a unit, as in 10s, 500ms or 1m30s".to_owned()),
        }
    }
}

/// Bytes of a ring buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Buffer(pub(crate) u64);

impl Buffer {
    const LEAST: u64 = 64 << 10;
    const MOST: u64 = 16 << 30;
}

impl FromStr for Buffer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const AS_IN: &str = "a size is a number and a unit, as in 64MiB or 512K";
        let bytes = Config::new().with_binary().parse_size(text).map_err(|_| AS_IN.to_owned())?;
        match bytes {
            ..Self::LEAST => Err(format!("the minimum is {}; {AS_IN}", Self(Self::LEAST))),
            Self::LEAST..=Self::MOST => Ok(Self(bytes)),
            _ => Err(format!("the maximum is {}; {AS_IN}", Self(Self::MOST))),
        }
    }
}

impl fmt::Display for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
        match UNITS.iter().find(|(unit, _)| self.0.is_multiple_of(*unit)) {
            Some((unit, name)) => write!(f, "{}{name}", self.0 / unit),
            None => write!(f, "{}", self.0),
        }
    }
}

/// Interval between updates of the progress line.
const TICK: Duration = Duration::from_millis(200);

/// Records, then writes the recording.
///
/// Signals never end the program immediately. Each ends the current step, and the next step starts:
/// the first signal ends the recording, the second one ends the wait for the command, and the third
/// one aborts the writing. After the third one there is no recording.
pub(crate) fn record(args: &RecordArgs) -> Result<Outcome, Failure> {
    let signals = Signals::listen().map_err(Failure::bad_input)?;
    let destination = Destination::claim(&args.name, args.force).map_err(Failure::bad_input)?;
    let tracefs = Tracefs::find().map_err(Failure::bad_input)?;
    if tracefs.is_own_mount() {
        output::note("tracefs is not mounted here: using a private mount of this process");
    }
    for instance in tracefs.remove_stale() {
        output::note(format_args!("removed {instance}, left by a recording that was killed"));
    }
    let buffer = args.buffer.map(|buffer| buffer.0);
    let session = Session::start(&tracefs, &destination, buffer).map_err(Failure::bad_input)?;
    let buffer = Buffer(session.buffer());

    let mut command = Running::start(&args.command).map_err(Failure::BadInput)?;
    let signal = watch(&session, command.as_mut(), args, &signals);
    // The command is waited for even if the recording failed.
    let capture = session.stop();
    let command = command.map(|command| command.wait(signal, &signals));

    let capture = capture.map_err(Failure::bad_input)?;
    if let Some(leftover) = capture.leftover() {
        output::warn(format_args!("{leftover}; the next recording tries again"));
    }
    let files = destination.files();
    let summary = write(capture, destination, &signals)?;
    let text = show_record(&files, &summary, command.as_ref(), output::style_of_errors());
    anstream::eprint!("{text}");
    if summary.lost.total() > 0 {
        anstream::eprintln!("check failed: lost events: {}", lost(&summary, buffer));
    }
    Ok(match command.as_ref().and_then(Ended::failure) {
        Some(code) => Outcome::CommandFailed(code),
        None => Outcome::of(summary.lost.total() == 0),
    })
}

/// Waits until the recording is to end: with the command, after the time, on a signal (which is
/// returned), or because the recording has failed.
fn watch(
    session: &Session,
    mut command: Option<&mut Running>,
    args: &RecordArgs,
    signals: &Signals,
) -> Option<i32> {
    let limit = args.limit.map(|limit| limit.0);
    // While a command runs, only the command writes to the terminal.
    let line = command.is_none().then(|| Progress::spinner("recording"));
    let until = if limit.is_some() { "" } else { " until Ctrl-C" };
    loop {
        if session.tally().failed || command.as_mut().is_some_and(|command| command.has_ended()) {
            return None;
        }
        let left = limit.map(|limit| limit.saturating_sub(session.elapsed()));
        if left == Some(Duration::ZERO) {
            return None;
        }
        if let Some(line) = &line {
            let tally = session.tally();
            let megabytes = tally.bytes as f64 / 1e6;
            line.set_message(&format!(
                "recording{until}: {}, {megabytes:.1} MB",
                several(tally.events, "event")
            ));
        }
        if let Some(signal) = signals.wait(left.unwrap_or(TICK).min(TICK)) {
            return Some(signal);
        }
    }
}

/// Writes the recording. A signal aborts the writing.
fn write(
    capture: Capture,
    destination: Destination,
    signals: &Signals,
) -> Result<Summary, Failure> {
    let mut line = Progress::new("writing");
    let text = destination.files().text;
    // Signals that arrived until now ended the recording or the wait for the command. Only later
    // ones abort the writing.
    signals.forget();
    let written = capture.write(destination, &mut |done| {
        line.step(0, 1, done);
        match signals.wait(Duration::ZERO) {
            Some(_) => ControlFlow::Break(()),
            None => ControlFlow::Continue(()),
        }
    });
    written.map_err(|error| match error {
        RecordError::Aborted => Failure::bad_input(format!(
            "interrupted while writing '{}': there is no recording",
            text.display()
        )),
        error => Failure::bad_input(error),
    })
}

/// Describes the recording, and how the command ended.
pub(crate) fn show_record(
    files: &WrittenFiles,
    summary: &Summary,
    command: Option<&Ended>,
    style: Style,
) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "{}  {} ({:.1} MB), with {} and {}",
        bold("recording", style),
        files.text.display(),
        summary.bytes as f64 / 1e6,
        files.before.display(),
        files.after.display(),
    );
    let lost = match summary.lost.total() {
        0 => "none lost".to_owned(),
        lost => format!("{lost} LOST"),
    };
    let _ = writeln!(
        text,
        "           {} in {:.3} s on {}, {lost}",
        several(summary.events, "event"),
        summary.elapsed.as_secs_f64(),
        several(summary.cpus as u64, "CPU")
    );
    if let Some(command) = command {
        let _ = writeln!(text, "{}    {}: {}", bold("command", style), command.name, end(command));
    }
    text
}

fn end(command: &Ended) -> String {
    match command.status {
        None => "still runs".to_owned(),
        Some(status) => match (status.code(), status.signal()) {
            (Some(code), _) => format!("exit code {code}"),
            (_, Some(signal)) => format!("ended by signal {signal}"),
            _ => "ended".to_owned(),
        },
    }
}

/// The number of lost events, and how to avoid the loss.
pub(crate) fn lost(summary: &Summary, buffer: Buffer) -> String {
    let lost = summary.lost;
    let mut reasons = Vec::new();
    for (events, reason) in [
        (lost.overrun, "overwritten before they were read"),
        (lost.commit_overrun, "too many at once in interrupts"),
        (lost.dropped, "dropped because the buffer was full"),
    ] {
        if events > 0 {
            reasons.push(format!("{events} {reason}"));
        }
    }
    format!(
        "{} of {} ({}); record again with a --buffer larger than {buffer}. The recording is kept, \
         and marks the places where events are missing",
        lost.total(),
        summary.events + lost.total(),
        reasons.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use framewright_lab::record::Lost;
    use std::{process::ExitStatus, time::Duration};

    #[test]
    fn times_have_units() {
        for (text, millis) in
            [("10s", 10_000), ("500ms", 500), ("1m30s", 90_000), ("1m 30s", 90_000)]
        {
            assert_eq!(text.parse(), Ok(Limit(Duration::from_millis(millis))), "{text}");
        }
        for bad in ["", "10", "-1s", "0s", "soon", "9999999999999999999999s"] {
            assert!(bad.parse::<Limit>().unwrap_err().contains("as in 10s"), "{bad}");
        }
    }

    #[test]
    fn buffers_are_binary_and_bounded() {
        for (text, bytes, shown) in [
            ("64MiB", 64 << 20, "64MiB"),
            ("512K", 512 << 10, "512KiB"),
            ("100000", 100_000, "100000"),
        ] {
            let buffer: Buffer = text.parse().unwrap();
            assert_eq!((buffer.0, buffer.to_string().as_str()), (bytes, shown));
        }
        for (text, hint) in [
            ("63K", "the minimum is 64KiB"),
            ("17G", "the maximum is 16GiB"),
            ("-1", "as in 64MiB"),
            ("", "as in 64MiB"),
        ] {
            assert!(text.parse::<Buffer>().unwrap_err().contains(hint), "{text}");
        }
    }

    fn summary(lost: Lost) -> Summary {
        Summary {
            events: 1000,
            lost,
            elapsed: Duration::from_millis(1500),
            cpus: 2,
            bytes: 2_340_000,
        }
    }

    #[test]
    fn a_recording_in_a_few_lines() {
        let files = WrittenFiles {
            text: "a.txt.zst".into(),
            before: "a.before".into(),
            after: "a.after".into(),
        };
        let plain = |status: Option<i32>| {
            let command = Ended { name: "cargo".into(), status: status.map(ExitStatus::from_raw) };
            show_record(&files, &summary(Lost::default()), Some(&command), Style::Plain)
        };
        assert_eq!(
            plain(Some(3 << 8)),
            "recording  a.txt.zst (2.3 MB), with a.before and a.after\n           \
             1000 events in 1.500 s on 2 CPUs, none lost\n\
             command    cargo: exit code 3\n"
        );
        assert!(plain(Some(9)).ends_with("cargo: ended by signal 9\n"));
        assert!(plain(None).ends_with("cargo: still runs\n"));
    }

    #[test]
    fn losses_are_explained() {
        let lost = super::lost(
            &summary(Lost { overrun: 8, commit_overrun: 0, dropped: 2 }),
            Buffer(64 << 10),
        );
        assert!(lost.starts_with(
            "10 of 1010 (8 overwritten before they were read, 2 dropped because the buffer was full); \
             record again with a --buffer larger than 64KiB."
        ));
    }
}
