//! The error of every experiment.

use std::fmt;

use framewright::{CpuError, HotplugError, Violation};
use framewright_peers::list_buddy::OutOfMemory;
use framewright_sim::toml_file::TomlError;

use crate::trace::TraceError;

/// The reason why an experiment could not be run, as a message for the user.
#[derive(Debug)]
pub struct Error {
    kind: Kind,
    words: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// The arguments cannot be used.
    Input,
    /// The requested amount of memory cannot be used.
    Memory,
    /// The arguments are valid, and the library failed.
    Broken,
}

impl Error {
    /// The arguments cannot be used. `words` is the message.
    pub(crate) fn input(words: impl fmt::Display) -> Self {
        Self { kind: Kind::Input, words: words.to_string() }
    }

    /// The requested amount of memory cannot be used.
    pub(crate) fn memory(words: impl fmt::Display) -> Self {
        Self { kind: Kind::Memory, words: words.to_string() }
    }

    /// The library failed.
    pub(crate) fn broken(words: impl fmt::Display) -> Self {
        Self { kind: Kind::Broken, words: words.to_string() }
    }

    /// Whether the arguments caused the error; otherwise the library did.
    #[must_use]
    pub fn is_bad_input(&self) -> bool {
        self.kind != Kind::Broken
    }

    /// Whether the requested amount of memory caused the error.
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

#[cfg(feature = "host")]
from! {
    framewright_host::HostError: input,
    framewright_host::paging::PagingError: broken,
}

from! {
    CpuError: input,
    HotplugError: broken,
    OutOfMemory: memory,
    TomlError: input,
    TraceError: input,
}

impl From<Violation> for Error {
    fn from(violation: Violation) -> Self {
        Self::broken(format_args!("the metadata is inconsistent: {violation}"))
    }
}
