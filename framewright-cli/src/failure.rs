//! The outcome of a command, and its exit code.

use std::fmt;

use framewright_lab::Error;

/// The outcome of a command that did its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Every check passed.
    Fine,
    /// The work was done and a check failed.
    CheckFailed,
    /// The work was done, and the command that `record` ran ended with this code.
    CommandFailed(u8),
}

impl Outcome {
    /// The outcome of a command. `passed`: all its checks passed.
    pub(crate) fn of(passed: bool) -> Self {
        if passed { Self::Fine } else { Self::CheckFailed }
    }
}

/// The reason why a command could not finish its work, as a message for the user.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The input cannot be used.
    BadInput(String),
    /// The input is valid, and the library failed.
    Broken(String),
}

impl Failure {
    /// Bad input, with the message of `error`.
    pub(crate) fn bad_input(error: impl fmt::Display) -> Self {
        Self::BadInput(error.to_string())
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error.is_bad_input() {
            true => Self::bad_input(error),
            false => Self::Broken(error.to_string()),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadInput(message) | Self::Broken(message) => f.write_str(message),
        }
    }
}
