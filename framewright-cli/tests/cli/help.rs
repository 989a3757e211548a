//! The help of every command, and the examples in it.

use predicates::prelude::*;

use crate::{framewright, stdout_of};

const COMMANDS: &[&[&str]] = &[
    &[],
    &["run"],
    &["run", "page-fault"],
    &["run", "kbuild"],
    &["run", "socket-pairs"],
    &["run", "mmap-read"],
    &["run", "cdn"],
    &["run", "high-alloc"],
    &["run", "tlb-proof"],
    #[cfg(feature = "full")]
    &["run", "alloc-micro"],
    #[cfg(feature = "full")]
    &["run", "churn"],
    #[cfg(feature = "full")]
    &["run", "replace"],
    #[cfg(feature = "full")]
    &["run", "large-memory"],
    &["replay"],
    &["record"],
    &["inspect"],
    #[cfg(feature = "full")]
    &["reproduce"],
    &["hunt"],
    &["tuning"],
    &["machines"],
    &["machines", "measure"],
    #[cfg(feature = "full")]
    &["prices"],
    &["completions"],
    &["sweep"],
    &["sweep", "merge"],
    &["compare"],
    #[cfg(feature = "full")]
    &["validate"],
];

fn help(command: &[&str]) -> String {
    stdout_of(&[command, &["--help"]].concat())
}

/// The help on a terminal of `columns` columns.
fn help_within(command: &[&str], columns: usize) -> String {
    let mut program = framewright(&[command, &["--help"]].concat());
    let output = program.env("COLUMNS", columns.to_string()).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn every_command_has_help() {
    for &command in COMMANDS {
        let text = help(command);
        assert!(text.contains("Usage: framewright"), "{command:?}: {text}");
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{command:?}: {text}");
    }
}

/// Paragraphs are wrapped to the width of the terminal: no line ends while the next word still
/// fits.
#[test]
fn paragraphs_are_wrapped_once() {
    let is_prose = |line: &str| line.starts_with(|first: char| first.is_ascii_alphabetic());
    for (&command, columns) in COMMANDS.iter().flat_map(|command| [(command, 100), (command, 80)]) {
        let text = help_within(command, columns);
        let lines: Vec<&str> = text.lines().collect();
        for pair in lines.windows(2) {
            let [line, next] = [pair[0], pair[1]];
            let first = next.split(' ').next().unwrap_or_default();
            let goes_on = is_prose(line) && is_prose(next) && !line.ends_with(':');
            let fits = line.chars().count() + 1 + first.chars().count() <= columns;
            assert!(!(goes_on && fits), "{command:?}: '{first}' fits on the line '{line}'");
        }
    }
}

#[test]
fn examples_are_of_the_command_itself() {
    for workload in
        ["page-fault", "kbuild", "socket-pairs", "mmap-read", "cdn", "high-alloc", "tlb-proof"]
    {
        let text = help(&["run", workload]);
        let examples: Vec<_> =
            text.lines().filter(|line| line.starts_with("  framewright")).collect();
        assert!(!examples.is_empty(), "{text}");
        let own = format!("  framewright run {workload} ");
        assert!(examples.iter().all(|example| example.starts_with(&own)), "{text}");
    }
}

#[test]
fn every_example_is_accepted() {
    let examples: Vec<String> = COMMANDS
        .iter()
        .flat_map(|command| help(command).lines().map(str::to_owned).collect::<Vec<_>>())
        .filter_map(|line| line.strip_prefix("  framewright ").map(str::to_owned))
        .collect();
    assert!(examples.len() >= 8, "{examples:?}");
    for example in examples {
        // An explanation is separated from the command by two blanks. With --help the arguments
        // before it are checked and nothing is run.
        let command = example.split("  ").next().unwrap_or_default();
        let mut args: Vec<&str> = command.split(' ').collect();
        // The words after `--` are for another program.
        let end = args.iter().position(|arg| *arg == "--").unwrap_or(args.len());
        args.insert(end, "--help");
        framewright(&args).assert().success();
    }
}

#[test]
fn files_in_examples_are_there() {
    let tree = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for command in [&["replay"][..], &["run", "high-alloc"], &["inspect"], &[]] {
        let text = help(command);
        let words = text.split_whitespace();
        let files: Vec<&str> = words.filter(|word| word.starts_with("recordings/")).collect();
        assert!(!files.is_empty(), "{text}");
        assert!(files.iter().all(|file| tree.join(file).is_file()), "{files:?}");
    }
}

#[test]
fn only_machines_that_the_command_accepts_are_named() {
    for (workload, is_there, is_not) in [
        ("mmap-read", &["host:N", "qemu:CPUS"][..], &[][..]),
        ("page-fault", &["host:N", "qemu:CPUS"], &[]),
        ("kbuild", &["host:N", "qemu:CPUS"], &[]),
        ("cdn", &["uniform:N"], &["host", "qemu"]),
        ("high-alloc", &["uniform:N", "host:N", "qemu:CPUS"], &[]),
    ] {
        let text = help(&["run", workload]);
        assert!(is_there.iter().all(|word| text.contains(word)), "{workload}: {text}");
        assert!(!is_not.iter().any(|word| text.contains(word)), "{workload}: {text}");
    }
}

#[test]
fn no_command_at_all_shows_the_help_and_is_bad_input() {
    framewright(&[])
        .assert()
        .code(2)
        .stdout("")
        .stderr(predicate::str::contains("Usage: framewright <COMMAND>"));
}

#[test]
fn the_version_is_that_of_the_package() {
    let version = format!("framewright {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(stdout_of(&["--version"]), version);
}
