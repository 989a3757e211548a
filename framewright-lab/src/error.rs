//! Why an experiment did not come to its end, the same for all of them.

use std::fmt;

use framewright::{CpuError, HotplugError, Violation};
use framewright_host::{HostError, paging::PagingError};
use framewright_sim::machine::MachineError;

use crate::trace::TraceError;

/// Why an experiment could not be run, in words that name what was wrong and what to do.
#[derive(Debug)]
pub struct Error {
    kind: Kind,
    words: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// What it was given cannot be used.
    Input,
    /// The amount of memory that was asked for cannot be used.
    Memory,
    /// What it was given is fine, and the library failed.
    Broken,
}

impl Error {
    /// What was asked for cannot be used, in these words.
    pub(crate) fn input(words: impl fmt::Display) -> Self {
        Self { kind: Kind::Input, words: words.to_string() }
    }

    /// The amount of memory that was asked for cannot be used.
    pub(crate) fn memory(words: impl fmt::Display) -> Self {
        Self { kind: Kind::Memory, words: words.to_string() }
    }

    /// The library failed.
    pub(crate) fn broken(words: impl fmt::Display) -> Self {
        Self { kind: Kind::Broken, words: words.to_string() }
    }

    /// Whether what was asked for is to blame; otherwise the library is.
    #[must_use]
    pub fn is_bad_input(&self) -> bool {
        self.kind != Kind::Broken
    }

    /// Whether the amount of memory that was asked for is to blame.
    #[must_use]
    pub fn is_about_memory(&self) -> bool {
        self.kind == Kind::Memory
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

impl std::error::Error for Error {}

/// Errors of other crates, each with its kind.
macro_rules! from {
    ($($error:ty: $kind:ident),* $(,)?) => {
        $(impl From<$error> for Error {
            fn from(error: $error) -> Self {
                Self::$kind(error)
            }
        })*
    };
}

from! {
    CpuError: input,
    HostError: input,
    HotplugError: broken,
    MachineError: input,
    PagingError: broken,
    TraceError: input,
}

impl From<Violation> for Error {
    fn from(violation: Violation) -> Self {
        Self::broken(format_args!("the books do not add up: {violation}"))
    }
}
