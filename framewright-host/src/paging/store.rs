//! Where pages come from and go to.

use framewright::{frame::FRAME_SIZE, reclaim::WriteError};
use std::{
    fs::{File, OpenOptions},
    io,
    os::{
        fd::AsRawFd,
        unix::fs::{FileExt, OpenOptionsExt},
    },
    path::Path,
};

/// Keeps pages while they are not in memory. A page that was never written is whatever the store
/// says it is. Called from many threads at once, but never for one page.
///
/// Pages are locked while the store reads or writes them, so a store must not use these pages through the
/// cache: it would deadlock. Two files, of one cache or of two, must not have the same storage: each would
/// overwrite pages that the other has in memory.
///
/// A store that panics harms nobody but who called: see [`Seat::read`](super::Seat::read) and
/// [`Pager::run`](super::Pager::run).
pub trait Store: Send + Sync {
    /// Reads pages from `page` on: as many as `into` has room for.
    ///
    /// # Errors
    ///
    /// They cannot be read. What `into` holds then does not matter.
    fn read(&self, page: u32, into: &mut [u8]) -> io::Result<()>;

    /// Writes page `page`.
    ///
    /// # Errors
    ///
    /// It cannot be written: the page stays dirty, and in memory.
    fn write(&self, page: u32, from: &[u8]) -> io::Result<()>;

    /// Sees to it that what was written so far survives a loss of power: [`Seat::sync`](super::Seat::sync)
    /// ends with it. A store that keeps a page for good as soon as `write` returns has nothing to do.
    ///
    /// # Errors
    ///
    /// Something that was written may be lost. The pages are clean all the same, and perhaps no longer
    /// in memory, so a store whose failures come late should rather have `write` wait.
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

/// A file, read and written past the kernel's own page cache where the file system allows it: else
/// every page would be in memory twice. Where it does not, every write waits for the device: what the
/// kernel only notes it may fail to write later, when the page is clean already and nobody asks.
#[derive(Debug)]
pub struct FileStore {
    file: File,
    direct: bool,
}

impl FileStore {
    /// Opens a file that exists, for reading and writing.
    ///
    /// # Errors
    ///
    /// It cannot be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        use rustix::fs::OFlags;
        let opened = |flags: OFlags| {
            OpenOptions::new().read(true).write(true).custom_flags(flags.bits() as i32).open(path)
        };
        match opened(OFlags::DIRECT) {
            Ok(file) => Ok(Self { file, direct: true }),
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                Ok(Self { file: opened(OFlags::DSYNC)?, direct: false })
            }
            Err(error) => Err(error),
        }
    }

    /// The same of a file that is open, and need not have a name any more: nothing is left of a temporary
    /// one then, however the program ends.
    ///
    /// # Errors
    ///
    /// It cannot be opened once more, for reading and writing.
    pub fn reopen(file: &File) -> io::Result<Self> {
        Self::open(Path::new(&format!("/proc/self/fd/{}", file.as_raw_fd())))
    }

    /// Whether the kernel's page cache is left out.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.direct
    }
}

fn offset(page: u32) -> u64 {
    u64::from(page) * FRAME_SIZE as u64
}

impl Store for FileStore {
    fn read(&self, page: u32, into: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(into, offset(page))
    }

    fn write(&self, page: u32, from: &[u8]) -> io::Result<()> {
        self.file.write_all_at(from, offset(page))
    }

    /// Past the kernel's cache is not yet past the device's, nor is the file's length or where its
    /// blocks are.
    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

/// What reclaim is told of a page that could not be written.
pub(super) fn write_error(error: &io::Error) -> WriteError {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    match error.kind() {
        StorageFull | QuotaExceeded | FileTooLarge => WriteError::NoSpace,
        _ => WriteError::Io,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_store_is_told_from_a_broken_one() {
        let told = |errno: rustix::io::Errno| write_error(&errno.into());
        assert_eq!(told(rustix::io::Errno::NOSPC), WriteError::NoSpace);
        assert_eq!(told(rustix::io::Errno::DQUOT), WriteError::NoSpace);
        assert_eq!(told(rustix::io::Errno::IO), WriteError::Io);
    }
}
