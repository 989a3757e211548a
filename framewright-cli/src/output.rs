//! Output of results: text to standard output, the report to its file.

use anstream::{AutoStream, ColorChoice};
use framewright_lab::html::{Details, page};
use framewright_lab::perfetto::Trace;
use framewright_lab::report::{
    Report, Style, Verdict, check_destination, csv, replaces, write_json, write_text,
};
use signal_hook::{consts::SIGINT, iterator::Signals};
use std::{
    io::{ErrorKind, IsTerminal, Write, stderr, stdout},
    path::{Path, PathBuf},
    process::exit,
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
};

use crate::args::run::ReportArgs;
use crate::failure::{Failure, Outcome};

/// Colour on a terminal that can show it, unless `NO_COLOR` is set.
pub(crate) fn style() -> Style {
    match AutoStream::choice(&stdout()) {
        ColorChoice::Never => Style::Plain,
        _ => Style::Coloured,
    }
}

/// As [`style`], for standard error.
pub(crate) fn style_of_errors() -> Style {
    match AutoStream::choice(&stderr()) {
        ColorChoice::Never => Style::Plain,
        _ => Style::Coloured,
    }
}

/// Writes `text` to standard output. It is no error if the reader has closed the pipe (`| head`).
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::BadInput(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Checks, before any work, that the files of the report can be written, and that none overwrites another or one of
/// `inputs`.
pub(crate) fn check_report(files: &ReportArgs, inputs: &[&Path]) -> Result<(), Failure> {
    check(&files.all(), inputs)
}

/// As [`check_report`], with pictures or other files, each with its option.
pub(crate) fn check_outputs(
    files: &ReportArgs,
    others: &[(&str, Option<&Path>)],
    inputs: &[&Path],
) -> Result<(), Failure> {
    check(&[&files.all(), others].concat(), inputs)
}

fn check(outputs: &[(&str, Option<&Path>)], inputs: &[&Path]) -> Result<(), Failure> {
    let given: Vec<(&str, &Path)> =
        outputs.iter().filter_map(|(option, path)| Some((*option, (*path)?))).collect();
    for (nth, (option, path)) in given.iter().enumerate() {
        check_destination(path, inputs).map_err(Failure::bad_input)?;
        if let Some((other, path)) = given[..nth].iter().find(|(_, other)| is_same(other, path)) {
            return Err(Failure::BadInput(format!(
                "{other} and {option} both name '{}'",
                path.display()
            )));
        }
    }
    Ok(())
}

/// Whether two names refer to one regular file, existing or not.
fn is_same(a: &Path, b: &Path) -> bool {
    let is_stream = a.exists() && !a.is_file();
    !is_stream && real(a) == real(b)
}

/// The path of a file without symbolic links. If the file does not exist yet, only its folder is
/// resolved.
fn real(path: &Path) -> PathBuf {
    let future = || {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new(".")).canonicalize().ok()?;
        Some(folder.join(path.file_name()?))
    };
    path.canonicalize().ok().or_else(future).unwrap_or_else(|| path.to_owned())
}

/// Writes the report to its files. A page also shows `details`.
pub(crate) fn save_report(
    files: &ReportArgs,
    report: &Report,
    details: &Details,
) -> Result<(), Failure> {
    debug_assert_eq!(report.repeated_label(), None, "two runs have the same label");
    if let Some(path) = &files.json {
        let _uninterrupted = replaces(path).then(hold);
        write_json(path, report).map_err(Failure::bad_input)?;
    }
    save_text(files.csv.as_deref(), || csv(report))?;
    save_text(files.html.as_deref(), || page(report, details))
}

/// Writes a picture or another text to `path`, if there is one.
pub(crate) fn save_text(path: Option<&Path>, text: impl FnOnce() -> String) -> Result<(), Failure> {
    let Some(path) = path else { return Ok(()) };
    let _uninterrupted = replaces(path).then(hold);
    write_text(path, text().as_bytes()).map_err(Failure::bad_input)
}

/// Completes the trace, if there is one.
pub(crate) fn save_trace(trace: Option<Trace>) -> Result<(), Failure> {
    let Some(trace) = trace else { return Ok(()) };
    let _uninterrupted = hold();
    Ok(trace.finish()?)
}

/// Prints a warning on standard error, about a fact that the result does not contain.
pub(crate) fn warn(message: impl std::fmt::Display) {
    anstream::eprintln!("warning: {message}");
}

/// Prints a note on standard error. A note needs no action.
pub(crate) fn note(message: impl std::fmt::Display) {
    anstream::eprintln!("note: {message}");
}

/// The outcome of a command, with a message on standard error for every check that failed.
pub(crate) fn outcome(verdict: &Verdict) -> Outcome {
    for check in verdict.checks.iter().filter(|check| !check.passed) {
        anstream::eprintln!("check failed: {}: {}", check.name, check.detail);
    }
    Outcome::of(verdict.passed)
}

/// The exit code of shells for a program that SIGINT ended.
const INTERRUPTED: i32 = 130;

/// Held while a result is being written.
static WRITING: Mutex<()> = Mutex::new(());

/// Makes Ctrl-C end the program with exit code 130.
pub(crate) fn install_interrupt() {
    // Without a handler Ctrl-C still ends the program, but may leave partial output. That is no
    // reason to fail.
    let Ok(mut signals) = Signals::new([SIGINT]) else { return };
    thread::spawn(move || {
        signals.forever().next();
        let _writing = hold();
        if stderr().is_terminal() {
            // Moves past the line of the progress bar.
            eprintln!();
        }
        exit(INTERRUPTED);
    });
}

/// Delays the effect of Ctrl-C until the guard is dropped.
pub(crate) fn hold() -> MutexGuard<'static, ()> {
    WRITING.lock().unwrap_or_else(PoisonError::into_inner)
}
