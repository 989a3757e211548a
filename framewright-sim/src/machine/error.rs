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

/// Of `words`, the one that `text` is most like: one that begins so, or needs the fewest edits.
pub(super) fn nearest<'w>(text: &str, words: impl Iterator<Item = &'w str>) -> Option<&'w str> {
    let begins_so = |word: &str| !text.is_empty() && word.starts_with(text);
    words.min_by_key(|word| (!begins_so(word), strsim::damerau_levenshtein(text, word)))
}
