//! Errors in the description of a machine.

use std::fmt;

/// An error with its place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct MachineError {
    /// The file, or the name of a built-in description.
    pub file: String,
    /// The line, counted from 1, if the error is in a line.
    pub line: Option<usize>,
    /// The key, with its section.
    pub key: Option<String>,
    /// The value of the key, shortened if it is long.
    pub value: Option<String>,
    /// The reason, and what is allowed.
    pub reason: String,
}

impl fmt::Display for MachineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if let Some(key) = &self.key {
            write!(f, ": {key}")?;
        }
        if let Some(value) = &self.value {
            write!(f, " = {value}")?;
        }
        write!(f, ": {}", self.reason)
    }
}

impl MachineError {
    /// An error of `file` as a whole.
    pub(super) fn about(file: &str, reason: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line: None, key: None, value: None, reason: reason.into() }
    }
}

/// The nearest of `words` to `text`: one that begins with it, or else the one with the least edit
/// distance, if that is at most a third of the letters.
pub(super) fn nearest<'w>(text: &str, words: impl Iterator<Item = &'w str>) -> Option<&'w str> {
    let text = text.to_ascii_lowercase();
    let rank = |word: &'w str| {
        let plain = word.to_ascii_lowercase();
        let is_prefix = !text.is_empty() && plain.starts_with(&text);
        let edits = strsim::damerau_levenshtein(&text, &plain);
        let is_near = is_prefix || 3 * edits <= text.len().max(plain.len());
        is_near.then_some(((!is_prefix, edits), word))
    };
    words.filter_map(rank).min_by_key(|(rank, _)| *rank).map(|(_, word)| word)
}

/// A hint for an unknown `text`: "; the nearest is 'word'", or else "; valid: " and all words.
pub(super) fn hint<'w>(text: &str, words: impl Iterator<Item = &'w str> + Clone) -> String {
    match nearest(text, words.clone()) {
        Some(word) => format!("; the nearest is '{word}'"),
        None => format!("; valid: {}", words.collect::<Vec<_>>().join(", ")),
    }
}
