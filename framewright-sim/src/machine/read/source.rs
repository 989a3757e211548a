//! Errors, and their places in the text.

use std::ops::Range;

use toml::Spanned;
use toml::de::DeValue;

use super::MachineError;

/// Greatest number of characters of a value in an error.
const SHOWN: usize = 60;

/// The text of a description.
pub(super) struct Source<'t> {
    pub(super) file: &'t str,
    pub(super) text: &'t str,
}

/// An error at a place of the text.
pub(super) struct Fault {
    span: Option<Range<usize>>,
    /// The key with its section; empty if the error is about no key.
    key: String,
    place: Place,
    reason: String,
}

/// The kind of place.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// A value: the error shows it.
    Value,
    /// A table. The error shows an inline table, but not a section.
    Table,
    /// A key, or text that is not TOML.
    Other,
}

impl Fault {
    /// A fault of `value`.
    pub(super) fn at(value: &Spanned<DeValue<'_>>, key: &str, reason: String) -> Self {
        let place = if value.get_ref().is_table() { Place::Table } else { Place::Value };
        Self { span: Some(value.span()), key: key.to_owned(), place, reason }
    }

    /// An error that is not about a value.
    pub(super) fn new(span: Option<Range<usize>>, key: &str, reason: String) -> Self {
        Self { span, key: key.to_owned(), place: Place::Other, reason }
    }
}

impl Source<'_> {
    /// The error for `fault`.
    pub(super) fn error(&self, fault: Fault) -> MachineError {
        let Fault { span, key, place, reason } = fault;
        let text = span.clone().and_then(|span| self.text.get(span));
        let is_section = |text: &str| place == Place::Table && !text.starts_with('{');
        let value = text.filter(|text| place != Place::Other && !is_section(text));
        MachineError {
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

/// The first line of a value, shortened.
fn shown(text: &str) -> String {
    let mut shown: String = text.lines().next().unwrap_or_default().chars().take(SHOWN).collect();
    if shown.len() < text.trim_end().len() {
        shown.push('…');
    }
    shown
}
