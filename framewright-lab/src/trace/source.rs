//! Opens a recording, recognises its format, and decompresses it.
//!
//! The format is recognised by content, not by name.

use std::fs::{File, Metadata};
use std::io::{self, BufReader, Chain, Cursor, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::ahead::{self, Ahead};
use super::error::TraceError;
use super::zstd::{Decoder, MAGIC};

/// Number of bytes at the start from which the format is recognised.
const SNIFF: usize = 512;

/// Prefixes of foreign formats, with a remedy.
const FOREIGN: &[(&[u8], &str)] = &[
    (b"\x1f\x8b", "gzip data: unpack it, or compress it with zstd"),
    (b"\xfd7zXZ\0", "xz data: unpack it, or compress it with zstd"),
    (b"BZh", "bzip2 data: unpack it, or compress it with zstd"),
    (b"PERFILE2", "perf's binary data: convert it with `perf script -i FILE`"),
    (b"\x17\x08\x44tracing", "trace-cmd's binary data: convert it with `trace-cmd report`"),
    (b"\x7fELF", "a program, not a recording"),
];

/// An open recording.
pub(super) struct Source {
    file: String,
    input: Input,
    /// Bytes of the file that were read, for progress.
    consumed: Arc<AtomicU64>,
    size: Option<u64>,
}

enum Input {
    Plain(Box<dyn Read + Send>),
    Ahead(Ahead),
}

impl Source {
    /// Opens a file.
    pub(super) fn open(path: &Path) -> Result<Self, TraceError> {
        let (input, about) = open(path)?;
        // A pipe has no size, so there is no progress.
        Self::new(
            path.display().to_string(),
            Box::new(input),
            about.is_file().then_some(about.len()),
        )
    }

    /// Reads from `input`, which messages name `file`. `size` is that of the input, if known.
    pub(super) fn new(
        file: String,
        input: Box<dyn Read + Send>,
        size: Option<u64>,
    ) -> Result<Self, TraceError> {
        let consumed = Arc::new(AtomicU64::new(0));
        let mut input = Counted { input, count: Arc::clone(&consumed) };
        let mut beginning = Vec::with_capacity(SNIFF);
        if let Err(source) = input.by_ref().take(SNIFF as u64).read_to_end(&mut beginning) {
            return Err(TraceError::Io { file, source });
        }
        if let Err(reason) = recognise(&beginning) {
            return Err(TraceError::Unusable { file, reason });
        }
        let compressed = beginning.starts_with(MAGIC);
        let whole = Cursor::new(beginning).chain(input);
        let input = if compressed {
            match decompress(whole) {
                Ok(input) => input,
                Err(source) => return Err(TraceError::Io { file, source }),
            }
        } else {
            Input::Plain(Box::new(whole))
        };
        Ok(Self { file, input, consumed, size })
    }

    /// The next piece of plain bytes; empty at the end. `UnexpectedEof`: the compressed stream is truncated. The piece
    /// before it, which is used up, is filled again.
    pub(super) fn next(&mut self, used: Vec<u8>) -> io::Result<Vec<u8>> {
        match &mut self.input {
            Input::Plain(input) => ahead::fill(input, used),
            Input::Ahead(input) => input.next(used),
        }
    }

    /// The file's name in messages.
    pub(super) fn file(&self) -> &str {
        &self.file
    }

    /// The finished part of the file, from 0 to 1, if its size is known.
    pub(super) fn fraction(&self) -> Option<f64> {
        let size = self.size.filter(|&size| size > 0)?;
        Some((self.consumed.load(Ordering::Relaxed) as f64 / size as f64).min(1.0))
    }
}

/// Decompresses ahead of the reader. A fuzzer runs one thread: its leak check takes what an ending thread has
/// not freed yet for a leak.
fn decompress(input: Chain<Cursor<Vec<u8>>, Counted>) -> io::Result<Input> {
    let input = Decoder::new(BufReader::new(input));
    Ok(if cfg!(fuzzing) { Input::Plain(Box::new(input)) } else { Input::Ahead(Ahead::new(input)?) })
}

/// Opens a file; a directory is an error.
fn open(path: &Path) -> Result<(File, Metadata), TraceError> {
    let file = path.display().to_string();
    let opened = File::open(path).and_then(|f| f.metadata().map(|about| (f, about)));
    match opened {
        Err(source) => Err(TraceError::Io { file, source }),
        Ok((_, about)) if about.is_dir() => {
            let reason = "a folder, not a recording".into();
            Err(TraceError::Unusable { file, reason })
        }
        Ok(opened) => Ok(opened),
    }
}

/// Reads all of a pipe or a device into memory, at most `limit` bytes; `None` for a regular file,
/// which can be read more than once.
pub(crate) fn read_stream(path: &Path, limit: u64) -> Result<Option<Vec<u8>>, TraceError> {
    let (input, about) = open(path)?;
    if about.is_file() {
        return Ok(None);
    }
    let file = path.display().to_string();
    let mut bytes = Vec::new();
    let read = |most: u64, bytes: &mut Vec<u8>| {
        let done = (&input).take(most).read_to_end(bytes);
        done.map_err(|source| TraceError::Io { file: file.clone(), source })
    };
    let unusable = |reason| TraceError::Unusable { file: file.clone(), reason };
    read(SNIFF as u64, &mut bytes)?;
    recognise(&bytes).map_err(unusable)?;
    read(limit.saturating_add(1).saturating_sub(bytes.len() as u64), &mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(unusable(format!(
            "more than {limit} bytes of a pipe or a device, which are kept in memory: save them \
             as a file and replay that, or allow more with --limit"
        )));
    }
    Ok(Some(bytes))
}

/// The error for a file that is neither text nor zstd, with its format.
fn recognise(beginning: &[u8]) -> Result<(), String> {
    if beginning.is_empty() {
        return Err("the file is empty".into());
    }
    for (magic, what) in FOREIGN {
        if beginning.starts_with(magic) {
            return Err((*what).into());
        }
    }
    let text = |byte: &u8| !byte.is_ascii_control() || b"\t\r\n".contains(byte);
    match beginning.iter().position(|byte| !text(byte)) {
        Some(at) if !beginning.starts_with(MAGIC) => {
            let line = 1 + beginning[..at].iter().filter(|&&byte| byte == b'\n').count();
            Err(format!(
                "binary data in line {line} (byte 0x{:02x} at offset {at}): expected text of \
                 ftrace or perf script, plain or zstd",
                beginning[at]
            ))
        }
        _ => Ok(()),
    }
}

/// Counts the bytes that are read, before decompression, for progress. Its type does not depend on the input, so that
/// the decoder is compiled once.
struct Counted {
    input: Box<dyn Read + Send>,
    count: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.count.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}
