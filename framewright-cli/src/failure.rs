//! How a command ends.

use std::fmt;

use framewright_lab::simulated::SimulationError;

use crate::args::Memory;

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

    /// Why a simulation could not be had, with the `memory` that was asked for if that is to blame.
    pub(crate) fn of_simulation(error: &SimulationError, memory: Option<Memory>) -> Self {
        use SimulationError::{Memory as Unfit, TooSmall};
        match (error, memory) {
            (Unfit { .. } | TooSmall { .. }, Some(memory)) => {
                Self::BadInput(format!("--memory {memory}: {error}"))
            }
            _ if error.is_bad_input() => Self::bad_input(error),
            _ => Self::Broken(error.to_string()),
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
