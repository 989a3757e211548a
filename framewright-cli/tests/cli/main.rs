//! The program as its users run it: arguments in; text, files and exit codes out.

mod bad_input;
#[cfg(feature = "full")]
mod benchmarks;
mod completions;
mod help;
mod high_alloc;
mod html;
mod hunt;
mod inspect;
mod machines;
mod measure;
mod output;
mod paging;
mod perfetto;
mod record;
mod replay;
mod run;
mod simulated;
mod sweep;
mod tuning;
#[cfg(feature = "full")]
mod validate;

use assert_cmd::Command;

/// The program with arguments, and without colours.
fn framewright(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_framewright"));
    command.args(args).env_remove("CLICOLOR_FORCE");
    command
}

/// The standard output of the program, which must succeed.
fn stdout_of(args: &[&str]) -> String {
    let output = framewright(args).assert().success().get_output().stdout.clone();
    String::from_utf8(output).expect("text")
}
