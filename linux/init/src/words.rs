//! The kernel's command line: words, and words `key=value`.

use std::fs;

use crate::Failure;

/// The command line of the kernel.
pub(crate) struct Words(String);

impl Words {
    /// The command line of this machine.
    pub(crate) fn of_this_machine() -> Result<Self, Failure> {
        Ok(Self(fs::read_to_string("/proc/cmdline")?))
    }

    /// The value of a key.
    pub(crate) fn value(&self, key: &str) -> Option<&str> {
        self.0.split_whitespace().find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
    }

    /// The value of a key, as a number.
    pub(crate) fn number(&self, key: &str) -> Result<u64, Failure> {
        let value = self.value(key).ok_or_else(|| format!("{key}= is missing"))?;
        value.parse().map_err(|_| format!("{key}={value} is not a number").into())
    }

    /// Whether the line contains a word.
    pub(crate) fn has(&self, word: &str) -> bool {
        self.0.split_whitespace().any(|other| other == word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_by_their_whole_key() {
        let line = "console=ttyS0 workload=page-fault pages=12 rounds=x symbols pages-more=3\n";
        let words = Words(line.to_owned());
        assert_eq!(words.value("workload"), Some("page-fault"));
        assert_eq!((words.value("page"), words.value("symbols")), (None, None));
        assert!(words.has("symbols") && !words.has("pages") && !words.has("symbol"));
        assert_eq!(words.number("pages").unwrap(), 12);
    }

    #[test]
    fn a_value_that_is_not_a_number_is_named() {
        let words = Words("rounds=x".to_owned());
        let why = |key| words.number(key).unwrap_err().to_string();
        assert_eq!(why("rounds"), "rounds=x is not a number");
        assert_eq!(why("pages"), "pages= is missing");
    }
}
