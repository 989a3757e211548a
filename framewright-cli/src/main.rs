//! The program `framewright`: what the library does, from a terminal.
//!
//! | module      | job                                                                |
//! |-------------|--------------------------------------------------------------------|
//! | `args`      | the command line as types: everything wrong with it is found here  |
//! | `commands`  | one file per command: run it, make its report, say whether it held |
//! | `print`     | reports as text                                                    |
//! | `output`    | the text to standard output, the report to its file                |
//! | `progress`  | a progress bar on standard error                                   |
//! | `interrupt` | Ctrl-C                                                             |
//! | `failure`   | what ends the program early, and with which exit code              |
//!
//! Exit codes: 0 fine, 1 a check failed, 2 bad input; `record` passes on that of a command which
//! failed. Standard output carries results alone;
//! warnings, errors and progress go to standard error.

mod args;
mod commands;
mod failure;
mod interrupt;
mod output;
mod print;
mod progress;

use std::process::ExitCode;

use clap::Parser;

use args::{Args, Command, Run};
use failure::{Failure, Outcome};

const CHECK_FAILED: u8 = 1;
const BAD_INPUT: u8 = 2;

fn main() -> ExitCode {
    let args = Args::parse();
    // A recording that is interrupted ends in its own way.
    if !matches!(args.command, Command::Record(_)) {
        interrupt::install();
    }
    match run(args.command) {
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

fn run(command: Command) -> Result<Outcome, Failure> {
    match command {
        Command::Run(Run::PageFault(args)) => commands::page_fault(&args),
        Command::Run(Run::Kbuild(args)) => commands::kbuild(&args),
        Command::Run(Run::SocketPairs(args)) => commands::socket_pairs(&args),
        Command::Run(Run::MmapRead(args)) => commands::mmap_read(&args),
        Command::Run(Run::Cdn(args)) => commands::cdn(&args),
        Command::Run(Run::TlbProof(args)) => commands::tlb_proof(&args),
        Command::Run(Run::HighAlloc(args)) => commands::high_alloc(&args),
        Command::Run(Run::AllocMicro(args)) => commands::micro(&args),
        Command::Run(Run::Churn(args)) => commands::churn(&args),
        Command::Run(Run::Replace(args)) => commands::replace(&args),
        Command::Run(Run::LargeMemory(args)) => commands::large_memory(&args),
        Command::Replay(args) => commands::replay(&args),
        Command::Record(args) => commands::record(&args),
        Command::Reproduce(args) => commands::reproduce(&args),
        Command::Hunt(args) => commands::hunt(&args),
        Command::Tuning(args) => commands::tuning(&args),
        Command::Machines(args) => commands::machines(&args),
        Command::Prices(args) => commands::prices(&args),
    }
}
