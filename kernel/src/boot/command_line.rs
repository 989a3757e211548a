//! The command line: words `key=value`, and words alone.

const BYTES: usize = 1024;

/// The key and the value of a word. Core's search for a character knows all of Unicode, and takes four times the
/// code of this.
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
    /// A copy of `text`, as far as there is room.
    pub(crate) fn new(text: &str) -> Self {
        let length = text.len().min(BYTES);
        let mut copy = [0; BYTES];
        copy[..length].copy_from_slice(&text.as_bytes()[..length]);
        Self { text: copy, length }
    }

    /// Its words.
    pub(crate) fn words(&self) -> impl Iterator<Item = &str> {
        core::str::from_utf8(&self.text[..self.length]).unwrap_or_default().split_ascii_whitespace()
    }

    /// The value of a key; of several the last.
    pub(crate) fn value(&self, key: &str) -> Option<&str> {
        self.values(key).last()
    }

    /// The values of a key.
    pub(crate) fn values(&self, key: &str) -> impl Iterator<Item = &str> {
        self.words().filter_map(move |word| word.strip_prefix(key)?.strip_prefix('='))
    }

    /// The number that a key has; `None` if it is not there.
    ///
    /// # Errors
    ///
    /// The value, if it is not a number.
    pub(crate) fn number(&self, key: &str) -> Result<Option<u64>, &str> {
        self.value(key).map(|value| value.parse().map_err(|_| value)).transpose()
    }

    /// Whether a word is there.
    pub(crate) fn has(&self, word: &str) -> bool {
        self.words().any(|other| other == word)
    }
}
