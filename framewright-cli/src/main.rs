//! The program `framewright`: experiments with the library, from the command line.
//!
//! | module     | job                                                                       |
//! |------------|---------------------------------------------------------------------------|
//! | `cli`      | the command line, and which command runs                                  |
//! | `args`     | values and options that several commands take, checked when they are read |
//! | `full`     | the commands that only a program with the feature `full` has                |
//! | `commands` | one file per command: its options, its work, its result as text           |
//! | `print`    | text that several commands have in common                                 |
//! | `output`   | writes the text to standard output and the report to a file; Ctrl-C       |
//! | `progress` | a progress bar on standard error                                          |
//! | `failure`  | the outcome of a command, and its exit code                               |
//!
//! Exit codes: 0 success, 1 a check or the library failed, 2 bad input, 130 Ctrl-C; `record` returns
//! the exit code of a command that failed. Standard output has results only; warnings, errors and
//! progress go to standard error.

mod args;
mod cli;
mod commands;
mod failure;
#[cfg(feature = "full")]
mod full;
mod output;
mod print;
mod progress;

use std::process::ExitCode;

use cli::{Args, Command};
use failure::{Failure, Outcome};

const CHECK_FAILED: u8 = 1;
const BAD_INPUT: u8 = 2;

fn main() -> ExitCode {
    let args = Args::read();
    // `record` handles signals itself, to keep an interrupted recording.
    if !matches!(args.command, Command::Record(_)) {
        output::install_interrupt();
    }
    match args.command.run() {
        Ok(Outcome::Fine) => ExitCode::SUCCESS,
        Ok(Outcome::CheckFailed) => ExitCode::from(CHECK_FAILED),
        Ok(Outcome::CommandFailed(code)) => ExitCode::from(code),
        Err(failure) => {
            anstream::eprintln!("error: {failure}");
            ExitCode::from(match failure {
                Failure::BadInput(_) => BAD_INPUT,
                Failure::Broken(_) => CHECK_FAILED,
            })
        }
    }
}
