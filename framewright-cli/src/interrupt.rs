//! Ctrl-C: the program ends at once, but never in the middle of writing a result.

use std::io::{IsTerminal, stderr};
use std::process::exit;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What shells report for a program that SIGINT ended.
const INTERRUPTED: i32 = 130;

/// Held while a result is being written.
static WRITING: Mutex<()> = Mutex::new(());

/// Makes Ctrl-C end the program with exit code 130.
pub(crate) fn install() {
    // Without a handler Ctrl-C still ends the program, only less tidily: no reason to fail.
    let _ = ctrlc::set_handler(|| {
        let _writing = hold();
        if stderr().is_terminal() {
            // Leaves the line that the progress bar is on.
            eprintln!();
        }
        exit(INTERRUPTED);
    });
}

/// Keeps Ctrl-C waiting until the guard is dropped.
pub(crate) fn hold() -> MutexGuard<'static, ()> {
    WRITING.lock().unwrap_or_else(PoisonError::into_inner)
}
