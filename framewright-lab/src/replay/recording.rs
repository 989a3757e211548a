//! A recording that can be read more than once: first surveyed, then replayed.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::trace::{TraceError, TraceReader};

/// A recording, in a file or in memory.
#[derive(Clone, Debug)]
pub struct Recording(Source);

#[derive(Clone, Debug)]
enum Source {
    File(PathBuf),
    Bytes { name: String, bytes: Arc<[u8]> },
}

impl Recording {
    /// The recording in a file. What can be read only once (a pipe) is read into memory.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        let name = path.display().to_string();
        let read = || {
            if fs::metadata(path)?.file_type().is_file() {
                return Ok(None);
            }
            let mut bytes = Vec::new();
            fs::File::open(path)?.read_to_end(&mut bytes)?;
            Ok(Some(bytes))
        };
        match read() {
            Ok(None) => Ok(Self(Source::File(path.to_path_buf()))),
            Ok(Some(bytes)) => Ok(Self::from_bytes(&name, bytes)),
            Err(source) => Err(TraceError::Io { file: name, source }),
        }
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
