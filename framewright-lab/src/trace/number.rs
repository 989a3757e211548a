//! Numbers within their limits, and the `key=value` pairs of an event's body.
//!
//! A recording is untrusted input: every number is checked against the limits of a machine before a
//! size is computed from it.
//!
//! Pairs are searched by key, so a kernel may add or move one.

use super::error::LineProblem;

/// CPU numbers in a recording are below this: half of what Linux can be built for.
pub const MAX_CPUS: u64 = 4096;
/// The largest block order a recording may name: arm64 with 64 KiB pages has 13, x86-64 has 10.
pub const MAX_ORDER: u8 = 13;
/// Frame numbers are below this: 52 bits of physical address in 4 KiB frames.
pub const MAX_PFN: u64 = 1 << 40;
/// Migratetypes are at most this: with CMA, `Isolate` is 5.
pub(crate) const MAX_MIGRATETYPE: u8 = 5;

const DECIMAL: &str = "a decimal number that fits in 64 bits";

/// A decimal number: digits only, at least one, no overflow.
#[inline]
pub(super) fn decimal(text: &[u8]) -> Option<u64> {
    // Numbers of up to 19 digits cannot overflow, and no number of a valid recording is longer.
    if text.is_empty() {
        return None;
    }
    let mut value = 0u64;
    if text.len() <= 19 {
        for &byte in text {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                return None;
            }
            value = value * 10 + u64::from(digit);
        }
        return Some(value);
    }
    for &byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    Some(value)
}

/// A hexadecimal number without its `0x`.
#[inline]
fn hexadecimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    let mut value = 0u64;
    for &byte in text {
        let digit = HEX_DIGITS[usize::from(byte)];
        if digit > 15 || value >> 60 != 0 {
            return None;
        }
        value = value << 4 | u64::from(digit);
    }
    Some(value)
}

/// The value of each hexadecimal digit, and 255 for other bytes.
const HEX_DIGITS: [u8; 256] = {
    let mut digits = [255; 256];
    let mut value = 0;
    while value < 16 {
        digits[b"0123456789abcdef"[value as usize] as usize] = value;
        digits[b"0123456789ABCDEF"[value as usize] as usize] = value;
        value += 1;
    }
    digits
};

/// A decimal number; the error names its field.
pub(super) fn number(field: &'static str, text: &[u8]) -> Result<u64, LineProblem> {
    decimal(text).ok_or_else(|| LineProblem::new(field, text, DECIMAL))
}

/// A frame number: `0x` and hexadecimal as in ftrace, or decimal as in some versions of `perf`.
#[inline]
pub(super) fn pfn(text: &[u8]) -> Result<u64, LineProblem> {
    let value = match text.strip_prefix(b"0x") {
        Some(digits) => hexadecimal(digits),
        None => decimal(text),
    };
    value.filter(|&v| v < MAX_PFN).ok_or_else(|| {
        LineProblem::new("pfn", text, "a frame number below 2^40, as 0x… or decimal")
    })
}

/// A block order.
#[inline]
pub(super) fn order(field: &'static str, text: &[u8]) -> Result<u8, LineProblem> {
    small(text, u64::from(MAX_ORDER))
        .ok_or_else(|| LineProblem::new(field, text, "an order from 0 to 13"))
}

/// A migratetype, in the kernel's numbering.
#[inline]
pub(super) fn migratetype(field: &'static str, text: &[u8]) -> Result<u8, LineProblem> {
    small(text, MAX_MIGRATETYPE.into())
        .ok_or_else(|| LineProblem::new(field, text, "a migratetype from 0 to 5"))
}

/// A truth value, as 0 or 1.
#[inline]
pub(super) fn flag(field: &'static str, text: &[u8]) -> Result<bool, LineProblem> {
    small(text, 1).map(|v| v == 1).ok_or_else(|| LineProblem::new(field, text, "0 or 1"))
}

/// A CPU number.
#[inline]
pub(super) fn cpu(text: &[u8]) -> Result<u16, LineProblem> {
    decimal(text)
        .filter(|&v| v < MAX_CPUS)
        .and_then(|v| u16::try_from(v).ok())
        .ok_or_else(|| LineProblem::new("CPU", text, "a number below 4096"))
}

/// A decimal number of at most `limit`.
#[inline]
fn small(text: &[u8], limit: u64) -> Option<u8> {
    decimal(text).filter(|&v| v <= limit).and_then(|v| u8::try_from(v).ok())
}

/// The position of the first `byte`. Words are short, so eight bytes at a time are faster than a call of `memchr`.
#[inline]
pub(super) fn position(byte: u8, text: &[u8]) -> Option<usize> {
    const ONES: u64 = u64::MAX / 255;
    let (chunks, rest) = text.as_chunks();
    let wanted = ONES * u64::from(byte);
    for (at, chunk) in (0..).step_by(8).zip(chunks) {
        let differs = u64::from_le_bytes(*chunk) ^ wanted;
        // The lowest bit set is that of the first byte that does not differ.
        let same = differs.wrapping_sub(ONES) & !differs & ONES << 7;
        if same != 0 {
            return Some(at + same.trailing_zeros() as usize / 8);
        }
    }
    let in_rest = rest.iter().position(|&other| other == byte);
    in_rest.map(|at| text.len() - rest.len() + at)
}

/// The length of the word at the start: up to the first blank.
#[inline]
pub(super) fn word(text: &[u8]) -> usize {
    position(b' ', text).unwrap_or(text.len())
}

/// Text that is read from its start in one pass. Each method returns `None` if the text does not begin as expected.
pub(super) struct Cursor<'t>(pub(super) &'t [u8]);

impl<'t> Cursor<'t> {
    #[inline(always)]
    pub(super) fn text<const N: usize>(&mut self, text: &[u8; N]) -> Option<()> {
        let (start, rest) = self.0.split_first_chunk()?;
        (start == text).then(|| self.0 = rest)
    }

    /// Exactly this number of bytes.
    #[inline(always)]
    pub(super) fn bytes<const N: usize>(&mut self) -> Option<&'t [u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(bytes)
    }

    /// A decimal number of up to 19 digits.
    #[inline(always)]
    pub(super) fn decimal(&mut self) -> Option<u64> {
        let (mut value, mut digits) = (0u64, 0);
        for &byte in self.0.iter().take(19) {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                break;
            }
            (value, digits) = (value * 10 + u64::from(digit), digits + 1);
        }
        self.0 = &self.0[digits..];
        (digits > 0).then_some(value)
    }

    /// A decimal number of one digit, or of two.
    #[inline(always)]
    pub(super) fn up_to(&mut self, most: u8) -> Option<u8> {
        let (&byte, mut rest) = self.0.split_first()?;
        let mut number = byte.wrapping_sub(b'0');
        if number > 9 {
            return None;
        }
        if let Some((&byte @ b'0'..=b'9', after)) = rest.split_first() {
            (number, rest) = (number * 10 + (byte - b'0'), after);
        }
        self.0 = rest;
        (number <= most).then_some(number)
    }

    /// A hexadecimal number of up to 15 digits.
    #[inline(always)]
    pub(super) fn hexadecimal(&mut self) -> Option<u64> {
        let (mut value, mut digits) = (0, 0);
        for &byte in self.0.iter().take(15) {
            let digit = HEX_DIGITS[usize::from(byte)];
            if digit > 15 {
                break;
            }
            (value, digits) = (value << 4 | u64::from(digit), digits + 1);
        }
        self.0 = &self.0[digits..];
        (digits > 0).then_some(value)
    }
}

/// The values of the keys of frequent events; empty if the body lacks them.
#[derive(Default)]
pub(super) struct Fields<'b> {
    pub(super) pfn: &'b [u8],
    pub(super) order: &'b [u8],
    pub(super) migratetype: &'b [u8],
    pub(super) gfp_flags: &'b [u8],
    pub(super) percpu_refill: &'b [u8],
}

impl<'b> Fields<'b> {
    /// Reads the body in one pass.
    #[inline]
    pub(super) fn read(body: &'b [u8]) -> Result<Self, LineProblem> {
        let mut fields = Self::default();
        let mut rest = body;
        while !rest.is_empty() {
            let (word, after) = rest.split_at(word(rest));
            rest = after.get(1..).unwrap_or_default();
            match word {
                [b'p', b'a', b'g', b'e', b'=', ..] | [] => {}
                [b'p', b'f', b'n', b'=', value @ ..] => fields.pfn = value,
                [b'o', b'r', b'd', b'e', b'r', b'=', value @ ..] => fields.order = value,
                _ => fields.add(word)?,
            }
        }
        Ok(fields)
    }

    /// Adds a word that is not in every body.
    fn add(&mut self, word: &'b [u8]) -> Result<(), LineProblem> {
        if let Some(value) = word.strip_prefix(b"migratetype=") {
            self.migratetype = value;
        } else if let Some(value) = word.strip_prefix(b"gfp_flags=") {
            self.gfp_flags = value;
        } else if let Some(value) = word.strip_prefix(b"percpu_refill=") {
            self.percpu_refill = value;
        } else if !word.contains(&b'=') {
            return Err(LineProblem::new("field", word, "key=value"));
        }
        Ok(())
    }

    #[inline]
    pub(super) fn pfn(&self) -> Result<u64, LineProblem> {
        pfn(self.pfn)
    }

    #[inline]
    pub(super) fn order(&self) -> Result<u8, LineProblem> {
        order("order", self.order)
    }

    #[inline]
    pub(super) fn migratetype(&self) -> Result<u8, LineProblem> {
        migratetype("migratetype", self.migratetype)
    }
}

/// The value of `key`; empty if the body lacks it.
pub(super) fn find<'b>(body: &'b [u8], key: &str) -> &'b [u8] {
    body.split(|&byte| byte == b' ')
        .find_map(|word| word.strip_prefix(key.as_bytes())?.strip_prefix(b"="))
        .unwrap_or_default()
}

pub(super) fn required<'b>(key: &'static str, value: &'b [u8]) -> Result<&'b [u8], LineProblem> {
    if value.is_empty() {
        return Err(LineProblem::new(key, value, "a value"));
    }
    Ok(value)
}

/// A block of the buddy system is aligned to its size.
#[inline]
pub(super) fn aligned(pfn: u64, order: u8, text: &[u8]) -> Result<u64, LineProblem> {
    if pfn & ((1 << order) - 1) != 0 {
        return Err(LineProblem::new("pfn", text, "a multiple of the block's size, 2^order"));
    }
    Ok(pfn)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_end_where_64_bits_end() {
        assert_eq!(decimal(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(decimal(b"18446744073709551616"), None);
        assert_eq!(decimal(b"9999999999999999999"), Some(9_999_999_999_999_999_999));
        assert_eq!(decimal(b"00000000000000000000000007"), Some(7));
        for bad in [&b""[..], b"-1", b"+1", b"1 ", b"0x1", b"99999999999999999999999"] {
            assert_eq!(decimal(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn frame_numbers_are_hexadecimal_or_decimal() {
        assert_eq!(pfn(b"0x12e0f3"), Ok(0x12e0f3));
        assert_eq!(pfn(b"0x12E0F3"), Ok(0x12e0f3));
        assert_eq!(pfn(b"1234"), Ok(1234));
        assert_eq!(pfn(b"0xffffffffff"), Ok(MAX_PFN - 1));
        for bad in [&b"0x"[..], b"12e0f3", b"0x10000000000", b"0x12345678123456781", b"-1"] {
            assert!(pfn(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_word_ends_at_the_first_blank() {
        for length in 0..40 {
            let text = b"\x1f!=\xa0\x00".repeat(8)[..length].to_vec();
            assert_eq!(word(&text), length);
            assert_eq!(word(&[&text[..], b" x \xa0 and more words"].concat()), length);
        }
    }

    #[test]
    fn limits_are_checked() {
        assert_eq!(order("order", b"13"), Ok(13));
        assert!(order("order", b"14").is_err());
        assert_eq!(migratetype("migratetype", b"5"), Ok(5));
        assert!(migratetype("migratetype", b"6").is_err());
        assert_eq!(cpu(b"4095"), Ok(4095));
        assert!(cpu(b"4096").is_err());
        assert_eq!(flag("fragmenting", b"1"), Ok(true));
        assert!(flag("fragmenting", b"2").is_err());
    }
}
