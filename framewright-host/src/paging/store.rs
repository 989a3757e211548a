//! The storage of pages that are not in memory.

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

/// The storage of the pages of a file. The store defines the contents of pages that were never
/// written. Several threads may call it at once, but never for the same page.
///
/// Pages are locked while the store reads or writes them. So a store that uses these pages through the cache deadlocks.
/// Two files must not share storage, neither in one cache nor in two: each would overwrite the other's writes with old
/// contents.
///
/// A panic of a store affects only its caller: see [`PagerCpu::read`](super::PagerCpu::read) and
/// [`Pager::run`](super::Pager::run).
pub trait Store: Send + Sync {
    /// Reads consecutive pages into `into`, starting with `page`.
    ///
    /// # Errors
    ///
    /// The pages cannot be read. The store may leave anything in `into`.
    fn read(&self, page: u32, into: &mut [u8]) -> io::Result<()>;

    /// Writes page `page`.
    ///
    /// # Errors
    ///
    /// The page cannot be written. It stays dirty, and in memory.
    fn write(&self, page: u32, from: &[u8]) -> io::Result<()>;

    /// Makes all earlier writes durable, so that they survive a loss of power.
    /// [`PagerCpu::sync`](super::PagerCpu::sync) calls this last. If `write` is durable, this need not do anything.
    ///
    /// # Errors
    ///
    /// Earlier writes may be lost. Their pages are clean, and perhaps no longer in memory. So a store that can fail
    /// late should wait for durability in `write`.
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

/// A file as a store. If the file system allows it, reads and writes bypass the kernel's page cache, because that cache
/// would contain every page a second time. Otherwise every write waits for the device: the kernel could fail to write
/// cached data later, when the page is already clean.
#[derive(Debug)]
pub struct FileStore {
    file: File,
    direct: bool,
}

impl FileStore {
    /// Opens an existing file for reading and writing.
    ///
    /// # Errors
    ///
    /// The file cannot be opened.
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

    /// Opens an open file once more, as [`FileStore::open`] does. The file may be unlinked, so a program can use a
    /// temporary file that disappears at its end.
    ///
    /// # Errors
    ///
    /// The file cannot be opened once more for reading and writing.
    pub fn reopen(file: &File) -> io::Result<Self> {
        Self::open(Path::new(&format!("/proc/self/fd/{}", file.as_raw_fd())))
    }

    /// Whether accesses bypass the kernel's page cache.
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

    /// Needed even if data bypasses the kernel's cache: the data may still be in the cache of the device, and metadata
    /// of the file in the cache of the kernel.
    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

/// The error of a failed write, as reclaim defines it.
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
    fn full_and_broken_stores_have_different_errors() {
        let kind = |errno: rustix::io::Errno| write_error(&errno.into());
        assert_eq!(kind(rustix::io::Errno::NOSPC), WriteError::NoSpace);
        assert_eq!(kind(rustix::io::Errno::DQUOT), WriteError::NoSpace);
        assert_eq!(kind(rustix::io::Errno::IO), WriteError::Io);
    }
}
