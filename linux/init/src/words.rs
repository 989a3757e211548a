//! The kernel's command line: words, and words `key=value`.

use std::fs;

use crate::Failure;

/// What the machine was booted with.
pub(crate) struct Words(String);

impl Words {
    /// Those that this machine was booted with.
    pub(crate) fn of_this_machine() -> Result<Self, Failure> {
        Ok(Self(fs::read_to_string("/proc/cmdline")?))
    }

    /// The value of a key.
    pub(crate) fn value(&self, key: &str) -> Option<&str> {
        self.0.split_whitespace().find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
    }

    /// The number that a key has.
    pub(crate) fn number(&self, key: &str) -> Result<u64, Failure> {
        let value = self.value(key).ok_or_else(|| format!("{key}= is missing"))?;
        value.parse().map_err(|_| format!("{key}={value} is not a number").into())
    }

    /// Whether a word is there.
    pub(crate) fn has(&self, word: &str) -> bool {
        self.0.split_whitespace().any(|other| other == word)
    }
}
