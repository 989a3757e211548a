//! Errors in TOML files, with file, line, key and value, and hints at the nearest name.

use std::{fmt, ops::Range};

use toml::{Spanned, de::DeValue};

/// Greatest number of characters of a value in an error.
const SHOWN: usize = 60;

/// An error in a TOML file, with its place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct TomlError {
    /// The file, or the name of a built-in text.
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

impl fmt::Display for TomlError {
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

impl TomlError {
    /// An error of `file` as a whole.
    #[must_use]
    pub fn about(file: &str, reason: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line: None, key: None, value: None, reason: reason.into() }
    }
}

/// The text of a file.
#[derive(Clone, Copy, Debug)]
pub struct Source<'t> {
    /// The name of the file.
    pub file: &'t str,
    /// Its text.
    pub text: &'t str,
}

/// An error at a place of the text.
#[derive(Clone, Debug)]
pub struct Fault {
    span: Option<Range<usize>>,
    /// The key with its section; empty if the error is about no key.
    key: String,
    value: Value,
    reason: String,
}

/// The value in an error.
#[derive(Clone, Debug)]
enum Value {
    /// The text at the place; of a table, only an inline one.
    Text { is_table: bool },
    /// This one.
    Given(String),
    /// None: the place is a key, or text that is not TOML.
    None,
}

impl Fault {
    /// An error about `value`.
    #[must_use]
    pub fn at(value: &Spanned<DeValue<'_>>, key: &str, reason: String) -> Self {
        let shown = Value::Text { is_table: value.get_ref().is_table() };
        Self { value: shown, ..Self::new(Some(value.span()), key, reason) }
    }

    /// An error about `value`, which the text at the place only implies.
    #[must_use]
    pub fn of_value(span: Range<usize>, key: &str, value: &str, reason: String) -> Self {
        Self { value: Value::Given(value.to_owned()), ..Self::new(Some(span), key, reason) }
    }

    /// An error that is not about a value.
    #[must_use]
    pub fn new(span: Option<Range<usize>>, key: &str, reason: String) -> Self {
        Self { span, key: key.to_owned(), value: Value::None, reason }
    }
}

impl Source<'_> {
    /// The error for `fault`.
    #[must_use]
    pub fn error(&self, fault: Fault) -> TomlError {
        let Fault { span, key, value, reason } = fault;
        let text = span.clone().and_then(|span| self.text.get(span));
        let value = match &value {
            Value::Text { is_table } => text.filter(|text| !is_table || text.starts_with('{')),
            Value::Given(value) => Some(value.as_str()),
            Value::None => None,
        };
        TomlError {
            file: self.file.to_owned(),
            line: span.map(|span| self.line(span.start)),
            key: Some(key).filter(|key| !key.is_empty()),
            value: value.map(shown),
            reason,
        }
    }

    fn line(&self, offset: usize) -> usize {
        let before = &self.text.as_bytes()[..offset.min(self.text.len())];
        before.iter().filter(|&&byte| byte == b'\n').count() + 1
    }
}

/// The nearest of `words` to `text`: one that begins with it, or else the one with the least edit
/// distance, if that is at most a third of the letters.
pub fn nearest<'w>(text: &str, words: impl Iterator<Item = &'w str>) -> Option<&'w str> {
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

/// A hint after an unknown `text`: "; the nearest is 'word'", or else "; valid: " and all words.
#[must_use]
pub fn hint<'w>(text: &str, words: impl Iterator<Item = &'w str> + Clone) -> String {
    match nearest(text, words.clone()) {
        Some(word) => format!("; the nearest is '{word}'"),
        None => format!("; valid: {}", words.collect::<Vec<_>>().join(", ")),
    }
}

/// The first line of a value, shortened.
fn shown(text: &str) -> String {
    let mut shown: String = text.lines().next().unwrap_or_default().chars().take(SHOWN).collect();
    if shown.len() < text.trim_end().len() {
        shown.push('…');
    }
    shown
}
