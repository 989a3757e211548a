//! A recording that can be read more than once: first surveyed, then replayed.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::trace::{TraceError, TraceReader, read_stream};

/// A recording, in a file or in memory.
#[derive(Clone, Debug)]
pub struct Recording(Source);

#[derive(Clone, Debug)]
enum Source {
    File(PathBuf),
    Bytes { name: String, bytes: Arc<[u8]> },
}

impl Recording {
    /// The default limit of bytes that are read from a pipe or a device.
    pub const STREAM_LIMIT: u64 = 1 << 30;

    /// The recording in a file. A pipe or a device can be read only once: at most `limit` bytes of
    /// it are read into memory.
    ///
    /// # Errors
    /// The file cannot be read; a pipe or a device holds more than `limit` bytes, is empty, or
    /// begins with neither text nor zstd.
    pub fn open(path: &Path, limit: u64) -> Result<Self, TraceError> {
        Ok(match read_stream(path, limit)? {
            None => Self(Source::File(path.to_path_buf())),
            Some(bytes) => Self::from_bytes(&path.display().to_string(), bytes),
        })
    }

    /// A recording in memory; messages call it `name`.
    #[must_use]
    pub fn from_bytes(name: &str, bytes: Vec<u8>) -> Self {
        Self(Source::Bytes { name: name.to_owned(), bytes: bytes.into() })
    }

    /// Begins a reading.
    pub(super) fn reader(&self) -> Result<TraceReader, TraceError> {
        match &self.0 {
            Source::File(path) => TraceReader::open(path),
            Source::Bytes { name, bytes } => {
                TraceReader::from_reader(name, io::Cursor::new(Arc::clone(bytes)))
            }
        }
    }
}
