//! What was recorded, in a few lines for standard error: standard output is the command's.

use std::fmt::Write;
use std::os::unix::process::ExitStatusExt;

use framewright_lab::record::{Summary, WrittenFiles};
use framewright_lab::report::Style;

use super::bold;
use crate::args::Buffer;
use crate::commands::Ended;

/// The recording, and how the command ended.
pub(crate) fn record(
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
        "           {} events in {:.3} s on {} CPUs, {lost}",
        summary.events,
        summary.elapsed.as_secs_f64(),
        summary.cpus
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

/// How many events were lost and what to do about it.
pub(crate) fn lost(summary: &Summary, buffer: Buffer) -> String {
    let lost = summary.lost;
    let mut reasons = Vec::new();
    for (events, reason) in [
        (lost.overrun, "overwritten before they were read"),
        (lost.commit_overrun, "too many at once in interrupts"),
        (lost.dropped, "dropped for want of room"),
    ] {
        if events > 0 {
            reasons.push(format!("{events} {reason}"));
        }
    }
    format!(
        "{} of {} ({}); record again with a --buffer larger than {buffer}. The recording is kept, \
         and says where they are missing",
        lost.total(),
        summary.events + lost.total(),
        reasons.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use std::process::ExitStatus;
    use std::time::Duration;

    use framewright_lab::record::Lost;

    use super::*;

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
            record(&files, &summary(Lost::default()), Some(&command), Style::Plain)
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
            "10 of 1010 (8 overwritten before they were read, 2 dropped for want of room); \
             record again with a --buffer larger than 64KiB."
        ));
    }
}
