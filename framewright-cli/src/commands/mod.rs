//! The commands, one file each (options, work, result as text), and code that all of them need.

pub(crate) mod compare;
pub(crate) mod completions;
#[cfg(feature = "full")]
pub(crate) mod fragmentation;
pub(crate) mod high_alloc;
pub(crate) mod hunt;
pub(crate) mod inspect;
#[cfg(feature = "full")]
pub(crate) mod large_memory;
pub(crate) mod machines;
pub(crate) mod measure;
#[cfg(feature = "full")]
pub(crate) mod micro;
pub(crate) mod paging;
#[cfg(feature = "full")]
pub(crate) mod prices;
pub(crate) mod qemu;
pub(crate) mod record;
pub(crate) mod replay;
#[cfg(feature = "full")]
pub(crate) mod reproduce;
pub(crate) mod sweep;
#[cfg(feature = "full")]
pub(crate) mod validate;
pub(crate) mod workload;

use anstream::adapter::strip_str;
use framewright_lab::html::Details;
use framewright_lab::report::{Measured, Report, Verdict};
use std::env;

use crate::args::run::ReportArgs;
use crate::failure::{Failure, Outcome};
use crate::output;

/// The report of this command. `seed` is the first seed, `None` if nothing is random.
pub(crate) fn report(
    workload: &str,
    machine: String,
    seed: Option<u64>,
    measured: Measured,
) -> Report {
    Report {
        framewright: env!("CARGO_PKG_VERSION").to_owned(),
        command: command(env::args_os().skip(1).map(|arg| arg.to_string_lossy().into_owned())),
        workload: workload.to_owned(),
        machine,
        seed,
        seeds: 1,
        runs: measured.runs,
        published: Vec::new(),
        verdict: Verdict::of(measured.checks),
        notes: Vec::new(),
    }
}

/// Writes the report to its files and prints `text`. Returns whether all checks passed.
pub(crate) fn finish(report: &Report, files: &ReportArgs, text: &str) -> Result<Outcome, Failure> {
    finish_with(report, Details::default(), files, text)
}

/// As [`finish`], with more for the page of `--html`.
pub(crate) fn finish_with(
    report: &Report,
    details: Details,
    files: &ReportArgs,
    text: &str,
) -> Result<Outcome, Failure> {
    let text_of_page = files.html.as_ref().map(|_| strip_str(text).to_string());
    let details = Details { text: text_of_page.unwrap_or_default(), ..details };
    output::save_report(files, report, &details)?;
    output::print(text)?;
    Ok(output::outcome(&report.verdict))
}

/// The options that name output files.
const OUTPUTS: [&str; 8] =
    ["--json", "--csv", "--html", "--perfetto", "--picture", "--svg", "--output", "-o"];

/// The command as a user types it, without the output files: their names do not change the report.
fn command(args: impl Iterator<Item = String>) -> Vec<String> {
    let mut command = vec!["framewright".to_owned()];
    let mut args = args;
    while let Some(arg) = args.next() {
        let (option, value) = arg.split_once('=').map_or((&*arg, None), |(o, v)| (o, Some(v)));
        match (OUTPUTS.contains(&option), value) {
            (false, _) => command.push(arg),
            (true, None) => drop(args.next()),
            (true, Some(_)) => {}
        }
    }
    command
}

/// Refuses options that were given for a machine without support for them.
pub(crate) fn only_simulated(options: &[(&str, bool)]) -> Result<(), Failure> {
    let given = given(options);
    let (are, them) = match given[..] {
        [] => return Ok(()),
        [_] => ("is", "it"),
        _ => ("are", "them"),
    };
    Err(Failure::BadInput(format!(
        "{} {are} for simulated machines; leave {them} out, or simulate a machine, as in --machine uniform:4",
        given.join(" and ")
    )))
}

/// Refuses options that were given and need a kernel on an emulated machine.
pub(crate) fn only_on_qemu(options: &[(&str, bool)]) -> Result<(), Failure> {
    match options.iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some((name, _)) => Err(Failure::BadInput(format!(
            "{name} is for a kernel on an emulated machine: --machine qemu:4"
        ))),
    }
}

/// Refuses options that were given and have no effect on a kernel on an emulated machine.
pub(crate) fn not_on_qemu(options: &[(&str, bool)]) -> Result<(), Failure> {
    let given = given(options);
    let (have, them) = match given[..] {
        [] => return Ok(()),
        [_] => ("has", "it"),
        _ => ("have", "them"),
    };
    let memory = match given.contains(&"--memory") {
        true => "; memory is a part of the machine, as in --machine qemu:4,1GiB",
        false => "",
    };
    Err(Failure::BadInput(format!(
        "{} {have} no effect on a kernel on an emulated machine: leave {them} out{memory}",
        given.join(" and ")
    )))
}

/// Names of the options that were given.
fn given<'o>(options: &[(&'o str, bool)]) -> Vec<&'o str> {
    options.iter().filter(|(_, given)| *given).map(|(name, _)| *name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_the_report_is_not_part_of_the_command() {
        for line in [
            "replay x --json y --set a=b",
            "replay x --json=y --set a=b --csv z --html=h --perfetto t --picture=p",
        ] {
            let command = command(line.split(' ').map(str::to_owned));
            assert_eq!(command.join(" "), "framewright replay x --set a=b");
        }
    }

    #[test]
    fn options_that_were_not_given_are_not_named() {
        let refused = |given: [bool; 3]| {
            let names = ["--a", "--b", "--c"];
            let options: Vec<_> = names.into_iter().zip(given).collect();
            only_simulated(&options).map_err(|failure| failure.to_string())
        };
        assert!(refused([false; 3]).is_ok());
        assert!(refused([false, true, false]).unwrap_err().starts_with("--b is for simulated"));
        let error = refused([true, false, true]).unwrap_err();
        assert!(
            error.starts_with("--a and --c are for") && error.contains("leave them"),
            "{error}"
        );
    }
}
