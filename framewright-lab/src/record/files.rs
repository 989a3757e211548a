//! The few things that are done to the files of tracefs, behind a seam for tests.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;

/// Access to tracefs.
pub(super) trait Files: Send + Sync {
    /// Makes a folder. In `instances`, the kernel fills it.
    fn make_folder(&self, path: &Path) -> io::Result<()> {
        fs::create_dir(path)
    }

    /// Removes a folder. In `instances`, with all that the kernel put there; fails while anybody
    /// uses one of its files.
    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }

    /// Writes to a file that exists.
    fn write(&self, path: &Path, text: &str) -> io::Result<()> {
        OpenOptions::new().write(true).open(path)?.write_all(text.as_bytes())
    }

    /// Opens a file for reading, never waiting for data.
    fn open(&self, path: &Path) -> io::Result<File> {
        use std::os::unix::fs::OpenOptionsExt;
        OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)
    }
}

/// Reads a file in large pieces: some in tracefs give their beginning and nothing more to whoever
/// begins with a small one, as `std::fs::read_to_string` does.
pub(super) fn read(path: &Path) -> io::Result<String> {
    const PIECE: usize = 64 << 10;
    let mut file = File::open(path)?;
    let mut text = Vec::new();
    let mut end = 0;
    loop {
        text.resize(end + PIECE, 0);
        match file.read(&mut text[end..]) {
            Ok(0) => break,
            Ok(read) => end += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    text.truncate(end);
    String::from_utf8(text).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Whether `error` is what the kernel says of a CPU that was never started: it has no buffer.
pub(super) fn has_no_buffer(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENODEV)
}

/// The kernel's own tracefs.
pub(super) struct Kernel;

impl Files for Kernel {}
