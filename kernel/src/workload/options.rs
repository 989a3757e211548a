//! The options of workloads on the command line.

use core::fmt;

use crate::{
    boot::{CommandLine, pair},
    exit::refuse,
};

/// A list of words, for messages.
struct OneOf<'w>(&'w [&'static str]);

impl fmt::Display for OneOf<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, word) in self.0.iter().enumerate() {
            let before = match at {
                0 => "",
                _ if at + 1 == self.0.len() => " or ",
                _ => ", ",
            };
            write!(f, "{before}{word}")?;
        }
        Ok(())
    }
}

/// Options of workloads.
pub(crate) struct Options<'c>(&'c CommandLine);

impl<'c> Options<'c> {
    /// The options of a command line.
    pub(crate) fn new(command_line: &'c CommandLine) -> Self {
        Self(command_line)
    }

    /// Refuses words that are not options of the workload. `keys` are the keys of its options.
    pub(crate) fn takes(&self, keys: &[&'static str]) {
        for word in self.0.words() {
            let key = pair(word).map(|(key, _)| key);
            let is_known = match key {
                None => word == "icount",
                Some(key) => matches!(key, "workload" | "set") || keys.contains(&key),
            };
            if is_known {
                continue;
            }
            if keys.is_empty() {
                refuse(format_args!("'{word}': this workload takes only set=KEY=VALUE"));
            }
            refuse(format_args!(
                "'{word}' is not an option of this workload; give KEY=VALUE, with the key {}",
                OneOf(keys)
            ));
        }
    }

    /// Whether the machine's clock counts instructions: QEMU runs with `-icount shift=0`, and the
    /// command line has `icount`.
    pub(crate) fn counts_instructions(&self) -> bool {
        self.0.has("icount")
    }

    /// The value of a key, or `default`.
    pub(crate) fn number(&self, key: &str, default: u64) -> u64 {
        match self.0.number(key) {
            Ok(number) => number.unwrap_or(default),
            Err(value) => refuse(format_args!("{key}={value} is not a number")),
        }
    }

    /// The value of a key among some words; the first word if the key is missing.
    pub(crate) fn choice<const N: usize>(
        &self,
        key: &str,
        words: [&'static str; N],
    ) -> &'static str {
        let Some(value) = self.0.value(key) else { return words[0] };
        match words.into_iter().find(|&word| word == value) {
            Some(word) => word,
            None => refuse(format_args!("{key}={value}: must be {}", OneOf(&words))),
        }
    }
}
