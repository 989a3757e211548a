//! Splits bytes into lines.

use std::{io, mem};

use super::error::TraceError;
use super::source::Source;

/// A line longer than this is not text of a recording.
const LONGEST: usize = 64 << 10;

/// A source of lines.
pub(super) struct Lines {
    source: Source,
    piece: Vec<u8>,
    /// Start of the part of the piece that is not yet returned.
    start: usize,
    /// The first zero byte in the piece: text has none.
    zero: Option<usize>,
    /// The line that the end of a piece has cut.
    cut: Vec<u8>,
    number: u64,
    at_end: bool,
    stream_is_cut: bool,
}

/// One line, without its end.
pub(super) struct TextLine<'t> {
    /// Counted from 1.
    pub(super) number: u64,
    /// Its text.
    pub(super) text: &'t [u8],
    /// Whether it ended in a newline; otherwise it is the last and may be cut.
    pub(super) whole: bool,
}

impl Lines {
    /// Splits `source` into lines.
    pub(super) fn new(source: Source) -> Self {
        Self {
            source,
            piece: Vec::new(),
            start: 0,
            zero: None,
            cut: Vec::new(),
            number: 0,
            at_end: false,
            stream_is_cut: false,
        }
    }

    /// The recording that the lines come from.
    pub(super) fn source(&self) -> &Source {
        &self.source
    }

    /// The next line, or `None` at the end.
    #[inline]
    pub(super) fn next(&mut self) -> Result<Option<TextLine<'_>>, TraceError> {
        self.number += 1;
        let Some(length) = memchr::memchr(b'\n', &self.piece[self.start..]) else {
            return self.next_of_pieces();
        };
        let text = self.start..self.start + length;
        self.start = text.end + 1;
        if self.zero.is_some_and(|zero| zero < self.start) {
            return Err(self.binary());
        }
        let text = &self.piece[text];
        Ok(Some(TextLine { number: self.number, text: trimmed(text), whole: true }))
    }

    /// As [`Lines::next`], for a line that continues in the next piece, or is the last.
    fn next_of_pieces(&mut self) -> Result<Option<TextLine<'_>>, TraceError> {
        self.cut.clear();
        let (mut has_zero, mut whole) = (false, false);
        while !whole && !self.at_end {
            has_zero |= self.zero.is_some();
            self.cut.extend_from_slice(&self.piece[self.start..]);
            self.fill()?;
            if let Some(length) = memchr::memchr(b'\n', &self.piece) {
                whole = true;
                self.start = length + 1;
                self.cut.extend_from_slice(&self.piece[..length]);
                has_zero |= self.zero.is_some_and(|zero| zero < length);
            }
            if self.cut.len() > LONGEST {
                return Err(self.unusable(format!(
                    "line {} is longer than {} KiB: not the text of a recording",
                    self.number,
                    LONGEST >> 10
                )));
            }
        }
        if self.cut.is_empty() && !whole {
            self.number -= 1;
            return Ok(None);
        }
        if has_zero {
            return Err(self.binary());
        }
        Ok(Some(TextLine { number: self.number, text: trimmed(&self.cut), whole }))
    }

    /// Whether the compressed stream was truncated. Known after [`Lines::next`] has returned
    /// `None`.
    pub(super) fn stream_is_cut(&self) -> bool {
        self.stream_is_cut
    }

    /// Replaces the piece by the next one.
    fn fill(&mut self) -> Result<(), TraceError> {
        let used = mem::take(&mut self.piece);
        self.start = 0;
        match self.source.next(used) {
            Ok(piece) => self.piece = piece,
            // The stream is truncated: the data before that is valid.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => self.stream_is_cut = true,
            Err(source) => {
                return Err(TraceError::Io { file: self.source.file().to_owned(), source });
            }
        }
        self.at_end = self.piece.is_empty();
        self.zero = memchr::memchr(0, &self.piece);
        Ok(())
    }

    #[cold]
    fn binary(&self) -> TraceError {
        self.unusable(format!("binary data in line {}: not the text of a recording", self.number))
    }

    #[cold]
    fn unusable(&self, reason: String) -> TraceError {
        TraceError::Unusable { file: self.source.file().to_owned(), reason }
    }
}

/// A line without the carriage return at its end.
#[inline]
fn trimmed(text: &[u8]) -> &[u8] {
    text.strip_suffix(b"\r").unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{ahead::PIECE, zstd};

    fn lines(bytes: Vec<u8>) -> Result<Lines, TraceError> {
        Source::new("t".into(), Box::new(io::Cursor::new(bytes)), None).map(Lines::new)
    }

    fn all(bytes: Vec<u8>) -> (Vec<(String, bool)>, bool) {
        let mut lines = lines(bytes).unwrap();
        let mut seen = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            assert_eq!(line.number, seen.len() as u64 + 1);
            seen.push((String::from_utf8_lossy(line.text).into_owned(), line.whole));
        }
        (seen, lines.stream_is_cut())
    }

    #[test]
    fn lines_end_in_newlines_and_the_last_may_not() {
        let expected = [("one", true), ("", true), ("two", true), ("thr", false)]
            .map(|(text, whole)| (text.to_owned(), whole));
        assert_eq!(all(b"one\n\ntwo\r\nthr".to_vec()), (expected.to_vec(), false));
    }

    #[test]
    fn zstd_is_recognised_by_content_and_may_be_cut() {
        let text: String = (0..100_000).map(|n| format!("line {}\n", n * 7919)).collect();
        let packed = zstd::compress(text.as_bytes());
        let (seen, cut) = all(packed.clone());
        assert_eq!((seen.len(), cut), (100_000, false));

        let (seen, cut) = all(packed[..packed.len() / 2].to_vec());
        assert!(cut && seen.len() > 10_000 && seen.len() < 90_000, "{}", seen.len());
    }

    #[test]
    fn a_large_compression_ratio_needs_little_memory() {
        let comment = "#".repeat(1023) + "\n";
        let packed = zstd::compress(comment.repeat(8 << 10).as_bytes());
        assert!(packed.len() < 128 << 10, "{}", packed.len());
        let mut lines = lines(packed).unwrap();
        while lines.next().unwrap().is_some() {
            assert!(lines.piece.len() + lines.cut.len() <= LONGEST + PIECE);
        }
        assert_eq!(lines.number, 8 << 10);
    }

    #[test]
    fn a_corrupt_stream_is_an_error() {
        let text: String = (0..10_000).map(|n| format!("line {}\n", n * 7919)).collect();
        let mut packed = zstd::compress(text.as_bytes());
        let middle = packed.len() / 2;
        packed[4..middle].fill(0xff);
        let mut lines = lines(packed).unwrap();
        assert!(matches!(lines.next(), Err(TraceError::Io { .. })));
    }

    #[test]
    fn binary_data_is_refused_with_its_kind() {
        for (bytes, word) in [
            (&b""[..], "empty"),
            (b"\x1f\x8b\x08\0\0", "gzip"),
            (b"PERFILE2....", "perf script -i"),
            (b"\x01\x02\x03", "0x01 at offset 0"),
            (b"text, then \0 zero", "0x00 at offset 11"),
        ] {
            let error = lines(bytes.to_vec()).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn binary_data_further_on_and_endless_lines_are_refused() {
        let mut bytes = b"fine\n".repeat(200);
        bytes.extend(b"not \0 fine\n");
        let mut source = lines(bytes).unwrap();
        let error = loop {
            match source.next() {
                Ok(line) => assert!(line.is_some()),
                Err(error) => break error.to_string(),
            }
        };
        assert!(error.contains("binary data in line 201"), "{error}");
        let error = lines(vec![b'x'; 1 << 20]).unwrap().next().map(|_| ()).unwrap_err();
        assert!(error.to_string().contains("longer than 64 KiB"), "{error}");
    }
}
