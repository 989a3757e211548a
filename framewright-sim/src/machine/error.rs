//! What is wrong with the description of a machine.

use std::fmt;

/// What is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct MachineError {
    /// The file, or what stands for one.
    pub file: String,
    /// The line, counted from 1, if the fault is in one.
    pub line: Option<usize>,
    /// The key, with its section.
    pub key: Option<String>,
    /// What stands behind the key, shortened if it is long.
    pub value: Option<String>,
    /// What is wrong, and what would do.
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
    /// An error about `file` as a whole.
    pub(super) fn about(file: &str, reason: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line: None, key: None, value: None, reason: reason.into() }
    }
}

/// Of `words`, the one that `text` was probably meant to be: one that begins so, or else the one that
/// needs the fewest edits, if those are no more than one in three letters.
pub(super) fn nearest<'w>(text: &str, words: impl Iterator<Item = &'w str>) -> Option<&'w str> {
    let text = text.to_ascii_lowercase();
    let rank = |word: &'w str| {
        let plain = word.to_ascii_lowercase();
        let begins_so = !text.is_empty() && plain.starts_with(&text);
        let edits = strsim::damerau_levenshtein(&text, &plain);
        let is_near = begins_so || 3 * edits <= text.len().max(plain.len());
        is_near.then_some(((!begins_so, edits), word))
    };
    words.filter_map(rank).min_by_key(|(rank, _)| *rank).map(|(_, word)| word)
}

/// "; the nearest there is: 'word'" of what `text` was probably meant to be, or else "; there is: "
/// and all that there is.
pub(super) fn hint<'w>(text: &str, words: impl Iterator<Item = &'w str> + Clone) -> String {
    match nearest(text, words.clone()) {
        Some(word) => format!("; the nearest there is: '{word}'"),
        None => format!("; there is: {}", words.collect::<Vec<_>>().join(", ")),
    }
}
