//! The report that every command ends in.

use std::env;

use framewright_lab::report::{Check, Report, Run, Verdict};

/// The report of this command.
pub(super) fn report(
    workload: &str,
    machine: String,
    seed: Option<u64>,
    runs: Vec<Run>,
    checks: Vec<Check>,
) -> Report {
    Report {
        framewright: env!("CARGO_PKG_VERSION").to_owned(),
        command: command(env::args_os().skip(1).map(|arg| arg.to_string_lossy().into_owned())),
        workload: workload.to_owned(),
        machine,
        seed,
        runs,
        published: Vec::new(),
        verdict: Verdict::of(checks),
        notes: Vec::new(),
    }
}

/// The command as a user would type it, without the files that the result goes to: the same
/// work gives the same report wherever those lie.
fn command(args: impl Iterator<Item = String>) -> Vec<String> {
    let mut command = vec!["framewright".to_owned()];
    let mut args = args;
    while let Some(arg) = args.next() {
        if ["--json", "--svg", "--picture"].contains(&&*arg) {
            args.next();
        } else if !["--json=", "--svg=", "--picture="].iter().any(|option| arg.starts_with(option))
        {
            command.push(arg);
        }
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_the_report_goes_is_not_part_of_the_command() {
        for line in
            ["replay x --json y --set a=b", "replay x --json=y --set a=b --svg z --picture p"]
        {
            let command = command(line.split(' ').map(str::to_owned));
            assert_eq!(command.join(" "), "framewright replay x --set a=b");
        }
    }
}
