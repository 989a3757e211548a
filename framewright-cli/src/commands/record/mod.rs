//! `framewright record`: what the running kernel's page allocator does, into a file.

mod running;
mod signals;

use std::ops::ControlFlow;
use std::time::Duration;

use framewright_lab::record::{Capture, Destination, RecordError, Session, Summary, Tracefs};

use crate::args::{Buffer, RecordArgs};
use crate::failure::{Failure, Outcome};
use crate::{output, print, progress::Progress};
pub(crate) use running::Ended;
use running::Running;
use signals::Signals;

/// How often the progress line changes.
const TICK: Duration = Duration::from_millis(200);

/// Records, then writes the recording.
///
/// Signals never end the program in the middle. Each ends what is going on, and what comes next
/// begins: the first ends the recording; another, the wait for the command; another, the writing,
/// and then there is no recording.
pub(crate) fn record(args: &RecordArgs) -> Result<Outcome, Failure> {
    let signals = Signals::listen().map_err(Failure::bad_input)?;
    let destination = Destination::claim(&args.name, args.force).map_err(Failure::bad_input)?;
    let tracefs = Tracefs::find().map_err(Failure::bad_input)?;
    if tracefs.is_own_mount() {
        output::note("tracefs is not mounted here: using a mount that only this process has");
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
    let said = print::record(&files, &summary, command.as_ref(), output::style_of_errors());
    anstream::eprint!("{said}");
    if summary.lost.total() > 0 {
        anstream::eprintln!("check failed: lost events: {}", print::lost(&summary, buffer));
    }
    Ok(match command.as_ref().and_then(Ended::failure) {
        Some(code) => Outcome::CommandFailed(code),
        None => Outcome::of(summary.lost.total() == 0),
    })
}

/// Waits until the recording shall end: with the command, after the time, on a signal (which it
/// returns), or because the recording has failed.
fn watch(
    session: &Session,
    mut command: Option<&mut Running>,
    args: &RecordArgs,
    signals: &Signals,
) -> Option<i32> {
    let limit = args.limit.map(|limit| limit.0);
    // While a command runs, the terminal is the command's.
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
            line.say(&format!("recording{until}: {} events, {megabytes:.1} MB", tally.events));
        }
        if let Some(signal) = signals.wait(left.unwrap_or(TICK).min(TICK)) {
            return Some(signal);
        }
    }
}

/// Writes the recording; a signal gives it up.
fn write(
    capture: Capture,
    destination: Destination,
    signals: &Signals,
) -> Result<Summary, Failure> {
    let mut line = Progress::new("writing");
    let text = destination.files().text;
    // Whoever pressed Ctrl-C twice to end the recording wants it all the same.
    signals.forget();
    let written = capture.write(destination, &mut |done| {
        line.step(0, 1, done);
        match signals.wait(Duration::ZERO) {
            Some(_) => ControlFlow::Break(()),
            None => ControlFlow::Continue(()),
        }
    });
    written.map_err(|error| match error {
        RecordError::GivenUp => Failure::bad_input(format!(
            "interrupted while writing '{}': there is no recording",
            text.display()
        )),
        error => Failure::bad_input(error),
    })
}
