//! The command line: words `key=value`, and single words.

const BYTES: usize = 1024;

/// The key and the value of a word. Searches for a byte, because the search for a `char` in `core`
/// handles all of Unicode, and takes four times as much code.
pub(crate) fn pair(word: &str) -> Option<(&str, &str)> {
    let at = word.bytes().position(|byte| byte == b'=')?;
    Some((word.get(..at)?, word.get(at + 1..)?))
}

/// The command line, copied.
#[derive(Clone)]
pub(crate) struct CommandLine {
    text: [u8; BYTES],
    length: usize,
}

impl CommandLine {
    /// A copy of `text`, cut off after 1024 bytes.
    pub(crate) fn new(text: &str) -> Self {
        let length = text.len().min(BYTES);
        let mut copy = [0; BYTES];
        copy[..length].copy_from_slice(&text.as_bytes()[..length]);
        Self { text: copy, length }
    }

    /// The words.
    pub(crate) fn words(&self) -> impl Iterator<Item = &str> {
        core::str::from_utf8(&self.text[..self.length]).unwrap_or_default().split_ascii_whitespace()
    }

    /// The last value of a key.
    pub(crate) fn value(&self, key: &str) -> Option<&str> {
        self.values(key).last()
    }

    /// All values of a key.
    pub(crate) fn values(&self, key: &str) -> impl Iterator<Item = &str> {
        self.words().filter_map(move |word| word.strip_prefix(key)?.strip_prefix('='))
    }

    /// The value of a key as a number; `None` if the key is missing.
    ///
    /// # Errors
    ///
    /// The value, if it is not a number.
    pub(crate) fn number(&self, key: &str) -> Result<Option<u64>, &str> {
        self.value(key).map(|value| value.parse().map_err(|_| value)).transpose()
    }

    /// Whether the line contains a word.
    pub(crate) fn has(&self, word: &str) -> bool {
        self.words().any(|other| other == word)
    }
}
