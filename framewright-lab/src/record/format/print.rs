//! The format string: converts values into text.

use std::{
    hash::{BuildHasher, RandomState},
    io::Write,
    sync::LazyLock,
};

use super::field::{Field, words};
use super::parse::{Expr, Parser, Value};

/// The text for an address.
const HIDDEN: &[u8] = b"(____ptrval____)";

/// The key with which the addresses of locks are hashed: another one in each process, so that a
/// recording does not tell where the kernel is in memory.
static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);
/// The kind of a conversion that prints the hash of an address; no kernel uses it.
const HASHED: u8 = b'h';

/// Maximum width of a column.
const WIDEST: usize = 1024;

/// A print format: pieces of text, each followed by a value.
#[derive(Debug)]
pub(super) struct Print {
    values: Vec<(String, Conversion, Expr)>,
    end: String,
}

/// `%-8s`, `%lx`…
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Conversion {
    left: bool,
    zeros: bool,
    /// `#`: hexadecimal numbers start with 0x.
    prefix: bool,
    width: usize,
    /// Bits of the number that are printed.
    bits: u32,
    kind: u8,
}

impl Print {
    /// Parses the text after `print fmt:`; `None` if any of it is not supported.
    pub(super) fn parse(text: &str, fields: &[Field]) -> Option<Self> {
        let tokens = words(text)?;
        let mut parser = Parser::new(&tokens, fields);
        let format = parser.text()?;
        let mut values = Vec::new();
        let mut piece = String::new();
        let mut rest = format.as_str();
        while let Some((before, after)) = rest.split_once('%') {
            piece.push_str(before);
            if let Some(after) = after.strip_prefix('%') {
                piece.push('%');
                rest = after;
                continue;
            }
            let (conversion, after) = Conversion::parse(after)?;
            parser.take(",")?;
            values.push((std::mem::take(&mut piece), conversion, parser.expression()?));
            rest = after;
        }
        piece.push_str(rest);
        parser.is_at_end().then_some(Self { values, end: piece })
    }

    /// The same with hashed addresses instead of hidden ones: equal addresses have equal hashes.
    pub(super) fn hashing(mut self) -> Self {
        let addresses = self.values.iter_mut().filter(|(_, conversion, _)| conversion.kind == b'p');
        addresses.for_each(|(_, conversion, _)| conversion.kind = HASHED);
        self
    }

    /// Appends the text of `event`.
    #[inline]
    pub(super) fn print(&self, event: &[u8], out: &mut Vec<u8>) {
        for (before, conversion, expression) in &self.values {
            out.extend_from_slice(before.as_bytes());
            conversion.print(expression.value(event), out);
        }
        out.extend_from_slice(self.end.as_bytes());
    }
}

impl Conversion {
    /// Parses the text after a `%`, and returns the rest.
    fn parse(text: &str) -> Option<(Self, &str)> {
        let flags = text.find(|c| !"-+ #0".contains(c))?;
        let (flags, text) = text.split_at(flags);
        let width = text.find(|c: char| !c.is_ascii_digit())?;
        let (width, text) = text.split_at(width);
        let width = if width.is_empty() { 0 } else { width.parse().ok()? };
        if width > WIDEST {
            return None;
        }
        let size = text.find(|c| !"hlz".contains(c))?;
        let (size, text) = text.split_at(size);
        let kind = *text.as_bytes().first()?;
        let after = match kind {
            b'd' | b'i' | b'u' | b'x' | b'X' | b's' | b'c' => &text[1..],
            // `%pS` and the like: a format for addresses.
            b'p' => text[1..].trim_start_matches(|c: char| c.is_ascii_alphanumeric()),
            _ => return None,
        };
        let bits = match size {
            "hh" => 8,
            "h" => 16,
            "" => 32,
            _ => 64,
        };
        let conversion = Self {
            left: flags.contains('-'),
            zeros: flags.contains('0'),
            prefix: flags.contains('#'),
            width,
            bits,
            kind,
        };
        Some((conversion, after))
    }

    #[inline]
    fn print(self, value: Value<'_>, out: &mut Vec<u8>) {
        let start = out.len();
        match (self.kind, value) {
            (HASHED, Value::Number(address)) => {
                // Writing to memory does not fail.
                let _ = write!(out, "{:016x}", KEY.hash_one(address) as u32);
            }
            (b'p', Value::Number(0)) => out.extend_from_slice(b"0000000000000000"),
            (b'p', _) | (_, Value::Hidden) => out.extend_from_slice(HIDDEN),
            (_, Value::Text(text)) => out.extend(text.iter().map(|&byte| printable(byte))),
            (_, Value::Flags(bits, between, names)) => flags(bits, between, names, out),
            (b'c', Value::Number(number)) => out.push(printable(number as u8)),
            (_, Value::Number(number)) => self.number(number, out),
        }
        let length = out.len() - start;
        if length < self.width {
            self.pad(start, self.width - length, out);
        }
    }

    #[inline]
    fn number(self, number: i64, out: &mut Vec<u8>) {
        let unused = 64 - self.bits;
        let unsigned = (number as u64) << unused >> unused;
        // Writing to memory does not fail.
        let _ = match (self.kind, self.prefix) {
            (b'x', false) => write!(out, "{unsigned:x}"),
            (b'x', true) => write!(out, "{unsigned:#x}"),
            (b'X', _) => write!(out, "{unsigned:X}"),
            (b'u', _) => write!(out, "{unsigned}"),
            _ => write!(out, "{}", number << unused >> unused),
        };
    }

    #[cold]
    fn pad(self, start: usize, missing: usize, out: &mut Vec<u8>) {
        let (at, byte) = match (self.left, self.zeros) {
            (true, _) => (out.len(), b' '),
            (false, true) => (start, b'0'),
            (false, false) => (start, b' '),
        };
        out.splice(at..at, std::iter::repeat_n(byte, missing));
    }
}

/// Appends the names of the set bits that have one, and the other set bits as a number.
#[inline]
fn flags(mut bits: i64, between: &str, names: &[(i64, String)], out: &mut Vec<u8>) {
    let start = out.len();
    for (mask, name) in names {
        if *mask != 0 && bits & mask == *mask {
            if out.len() > start {
                out.extend_from_slice(between.as_bytes());
            }
            out.extend_from_slice(name.as_bytes());
            bits &= !mask;
        }
    }
    if bits != 0 || names.is_empty() {
        if out.len() > start {
            out.extend_from_slice(between.as_bytes());
        }
        let _ = write!(out, "{bits:#x}");
    }
}

/// Replaces bytes that are not printable: names may contain any bytes, lines only text.
pub(in crate::record) fn printable(byte: u8) -> u8 {
    if byte.is_ascii_control() { b'?' } else { byte }
}
