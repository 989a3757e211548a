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

/// The storage of the pages of a file. The store decides the contents of a page that was never
/// written. Several threads may call it at once, but never for the same page.
///
/// Pages are locked while the store reads or writes them, so a store must not use these pages through the
/// cache: it would deadlock. Two files, of one cache or of two, must not have the same storage: each would
/// overwrite pages that the other has in memory.
///
/// A panic of a store affects only its caller: see [`PagerCpu::read`](super::PagerCpu::read) and
/// [`Pager::run`](super::Pager::run).
pub trait Store: Send + Sync {
    /// Reads pages from `page` on, until `into` is full.
    ///
    /// # Errors
    ///
    /// The pages cannot be read. The contents of `into` do not matter then.
    fn read(&self, page: u32, into: &mut [u8]) -> io::Result<()>;

    /// Writes page `page`.
    ///
    /// # Errors
    ///
    /// The page cannot be written. It stays dirty, and in memory.
    fn write(&self, page: u32, from: &[u8]) -> io::Result<()>;

    /// Makes all earlier writes durable, so that they survive a loss of power. It is the last step of
    /// [`PagerCpu::sync`](super::PagerCpu::sync). A store whose `write` is durable has nothing to do.
    ///
    /// # Errors
    ///
    /// Written pages may be lost. They are clean nevertheless, and perhaps no longer in memory, so `write`
    /// of a store with late failures should rather wait.
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

/// A file that is read and written without the kernel's page cache if the file system allows it; with
/// that cache every page would be in memory twice. If it does not, every write waits for the device:
/// the kernel could fail to write cached data later, when the page is clean already and the error would
/// not be seen.
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

    /// As [`FileStore::open`], for a file that is open already. The file need not have a name any more, so
    /// that no temporary file is left after the end of the program.
    ///
    /// # Errors
    ///
    /// The file cannot be opened once more for reading and writing.
    pub fn reopen(file: &File) -> io::Result<Self> {
        Self::open(Path::new(&format!("/proc/self/fd/{}", file.as_raw_fd())))
    }

    /// Whether the kernel's page cache is bypassed.
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

    /// Data that bypasses the kernel's cache may still be in the cache of the device, and the metadata of
    /// the file in that of the kernel.
    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

/// The error that reclaim gets for a page that could not be written.
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
