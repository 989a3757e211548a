//! Text for C: cut off where it does not fit, and always ended by a zero byte.

use core::{ffi::c_char, fmt};

/// Text of up to `N` - 1 bytes.
pub(crate) struct Text<const N: usize> {
    bytes: [u8; N],
    used: usize,
}

impl<const N: usize> Text<N> {
    pub(crate) fn new() -> Self {
        Self { bytes: [0; N], used: 0 }
    }

    pub(crate) fn as_ptr(&self) -> *const c_char {
        self.bytes.as_ptr().cast()
    }
}

impl<const N: usize> fmt::Write for Text<N> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        append(&mut self.bytes, &mut self.used, text);
        Ok(())
    }
}

/// A buffer of C.
pub(crate) struct Buffer<'c> {
    bytes: &'c mut [u8],
    used: usize,
    /// The length of the whole text.
    length: usize,
}

impl<'c> Buffer<'c> {
    /// A buffer with an empty text.
    pub(crate) fn new(bytes: &'c mut [u8]) -> Self {
        if let Some(first) = bytes.first_mut() {
            *first = 0;
        }
        Self { bytes, used: 0, length: 0 }
    }

    /// The length of the text, even if it does not fit.
    pub(crate) fn length(&self) -> usize {
        self.length
    }
}

impl fmt::Write for Buffer<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.length += text.len();
        append(self.bytes, &mut self.used, text);
        Ok(())
    }
}

/// Appends as much of `text` as fits before the last byte, and a zero byte.
fn append(bytes: &mut [u8], used: &mut usize, text: &str) {
    let space = bytes.len().saturating_sub(*used + 1);
    let fitting = &text.as_bytes()[..text.len().min(space)];
    if let Some(place) = bytes.get_mut(*used..*used + fitting.len()) {
        place.copy_from_slice(fitting);
        *used += fitting.len();
    }
    if let Some(end) = bytes.get_mut(*used) {
        *end = 0;
    }
}

#[cfg(test)]
mod tests {
    use core::fmt::Write;

    use super::*;

    #[test]
    fn text_is_cut_off_and_ended() {
        let mut bytes = [b'x'; 6];
        let mut buffer = Buffer::new(&mut bytes);
        write!(buffer, "abc{}", 4567).unwrap();
        assert_eq!(buffer.length(), 7);
        assert_eq!(&bytes, b"abc45\0");
        let mut none = Buffer::new(&mut []);
        write!(none, "abc").unwrap();
        assert_eq!(none.length(), 3);
        let mut text = Text::<4>::new();
        write!(text, "{}", 123_456).unwrap();
        assert_eq!(&text.bytes, b"123\0");
    }
}
