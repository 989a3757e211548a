//! Errors of recordings and snapshots, and warnings.
//!
//! The message of an error names the file. If the error is in a line, it also names the line, the offending
//! text and the expected text.

use std::{fmt, io};

use crate::report::several;

/// The maximum number of bytes that a message quotes.
const QUOTED: usize = 60;

/// The reason why a recording or a snapshot cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file could not be opened or read, or its compressed stream is corrupt.
    #[error("{file}: cannot read: {source}")]
    Io {
        /// The file, as the caller named it.
        file: String,
        /// The error of the system or the decompressor.
        source: io::Error,
    },
    /// The whole file is unusable: empty, binary, or without events.
    #[error("{file}: {reason}")]
    Unusable {
        /// The file, as the caller named it.
        file: String,
        /// The reason, and a remedy.
        reason: String,
    },
    /// One line is malformed or impossible.
    #[error("{file}:{line}: {problem}")]
    Line {
        /// The file, as the caller named it.
        file: String,
        /// The line, counted from 1.
        line: u64,
        /// The fault.
        problem: LineProblem,
    },
}

/// The fault of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineProblem {
    /// The field or part of the line, by its usual name (`order`, `CPU`, `timestamp`).
    pub field: &'static str,
    /// The offending text, shortened to a quotable length.
    pub value: String,
    /// The expected text.
    pub expected: &'static str,
}

impl LineProblem {
    /// Describes `value`, found in place of `field`. Not inlined: errors are rare, lines are not.
    #[cold]
    pub(super) fn new(field: &'static str, value: &[u8], expected: &'static str) -> Self {
        let shown = &value[..value.len().min(QUOTED)];
        let dots = if shown.len() < value.len() { "…" } else { "" };
        let text: String = String::from_utf8_lossy(shown)
            .chars()
            .map(|c| if c.is_control() { '\u{fffd}' } else { c })
            .collect();
        Self { field, value: text + dots, expected }
    }
}

impl fmt::Display for LineProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.value.is_empty() {
            write!(f, "{} is missing: expected {}", self.field, self.expected)
        } else {
            write!(f, "{} `{}`: expected {}", self.field, self.value, self.expected)
        }
    }
}

/// A problem of a recording that can be used nevertheless: a missing part, or lines out of order.
/// The caller prints it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// The header announces more events than the file has.
    Shortened {
        /// Events that the header announces.
        announced: u64,
        /// Events in the file.
        found: u64,
    },
    /// The kernel's ring buffer overran before the recording was saved.
    Overrun {
        /// Events written by the kernel.
        written: u64,
        /// Events still in the buffer when it was saved.
        kept: u64,
    },
    /// The last line has no end, so the recording was probably cut there.
    CutLine {
        /// The line, counted from 1.
        line: u64,
        /// It is well-formed and was used; otherwise it was omitted.
        used: bool,
    },
    /// The compressed stream is truncated; everything before was used.
    CutStream,
    /// The kernel dropped events while recording.
    Lost {
        /// Events lost, over all such notes; notes without a number count as one.
        events: u64,
        /// Notes of lost events in the file.
        notes: u64,
        /// The line of the first note.
        line: u64,
    },
    /// Some lines have an earlier time than the line before them. All lines were used in file order.
    OutOfOrder {
        /// Lines that go back in time.
        lines: u64,
        /// The first such line.
        line: u64,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shortened { announced, found } => write!(
                f,
                "the header announces {}, the file has {found}: it was cut",
                several(*announced, "event")
            ),
            Self::Overrun { written, kept } => write!(
                f,
                "the kernel wrote {} and kept {kept}: the first {} are lost; record with a larger buffer",
                several(*written, "event"),
                written.saturating_sub(*kept)
            ),
            Self::CutLine { line, used: false } => {
                write!(f, "line {line}, the last, is cut: it was left out")
            }
            Self::CutLine { line, used: true } => {
                write!(f, "line {line}, the last, has no end and may be cut: it was used")
            }
            Self::CutStream => {
                f.write_str("the compressed file is cut: the part before the cut is used")
            }
            Self::Lost { events, notes, line } => write!(
                f,
                "the kernel lost {} in {}, first at line {line}",
                several(*events, "event"),
                several(*notes, "place")
            ),
            Self::OutOfOrder { lines, line } => write!(
                f,
                "{} with an earlier time than the line before, first line {line}: used in file order",
                several(*lines, "line")
            ),
        }
    }
}
