//! How a command ends.

use std::fmt;

use framewright_lab::Error;

/// How a command that did its work ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Everything held.
    Fine,
    /// The work was done and a check did not hold.
    CheckFailed,
    /// The work was done, and the command that was given for it ended with this code.
    CommandFailed(u8),
}

impl Outcome {
    /// The outcome of checks that all `passed`, or not.
    pub(crate) fn of(passed: bool) -> Self {
        if passed { Self::Fine } else { Self::CheckFailed }
    }
}

/// Why a command could not finish its work, in words that name what was wrong.
#[derive(Debug)]
pub(crate) enum Failure {
    /// What it was given cannot be used.
    BadInput(String),
    /// What it was given is fine, and the library failed.
    Broken(String),
}

impl Failure {
    /// Bad input, in the words of `error`.
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
