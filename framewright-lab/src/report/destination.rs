//! Where a report goes.
//!
//! A regular file is replaced as a whole; anything else (a device, a pipe) must stay what it is and
//! is written to. A regular file that this process already writes its output to (`> out.txt` and
//! `/dev/stdout`) is such a stream too: replacing it would lose what else is said there.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// What a path stands for.
#[derive(Debug)]
pub(super) enum Destination {
    /// A regular file, or nothing yet: this name, which is no link, is to be given to a new file.
    File(PathBuf),
    /// An output of this process.
    Output(File),
    /// A device or a pipe.
    Stream,
}

impl Destination {
    /// Finds out what `path` stands for, through all links, without opening it.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let found = match fs::metadata(path) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Self::File(behind_links(path)?));
            }
            Err(error) => return Err(error),
        };
        if found.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        if let Some(output) = output_that_is(&found) {
            return Ok(Self::Output(output));
        }
        if found.is_file() { Ok(Self::File(fs::canonicalize(path)?)) } else { Ok(Self::Stream) }
    }

    /// Opens a stream for writing. A pipe makes this wait for a reader.
    pub(super) fn open_stream(path: &Path) -> io::Result<File> {
        OpenOptions::new().write(true).open(path)
    }
}

/// The name of the file that opening `path` would create, through links to what is not there.
fn behind_links(path: &Path) -> io::Result<PathBuf> {
    // More than this no system follows.
    const MOST_LINKS: usize = 40;
    let mut name = path.to_owned();
    for _ in 0..MOST_LINKS {
        match fs::read_link(&name) {
            Ok(link) => name = folder_of(&name).join(link),
            Err(_) => return Ok(name),
        }
    }
    Err(io::Error::other("too many symbolic links"))
}

/// The folder in which `path` is a name.
pub(super) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Whether `a` and `b` are one file, by whatever names. Terminals and other devices are not: one
/// may be read and written at the same time.
#[cfg(unix)]
pub(super) fn same_file(a: &Path, b: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    match (fs::metadata(a), fs::metadata(b)) {
        (Ok(a), Ok(b)) => !a.file_type().is_char_device() && same(&a, &b),
        _ => false,
    }
}

#[cfg(unix)]
fn same(a: &Metadata, b: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (a.dev(), a.ino()) == (b.dev(), b.ino())
}

/// The output of this process that `found` is. A second opening of the same file would write over
/// the first one's text; the copy shares its position.
#[cfg(unix)]
fn output_that_is(found: &Metadata) -> Option<File> {
    use std::os::fd::AsFd;
    let (stdout, stderr) = (io::stdout(), io::stderr());
    [stdout.as_fd(), stderr.as_fd()].into_iter().find_map(|output| {
        let file = File::from(output.try_clone_to_owned().ok()?);
        same(&file.metadata().ok()?, found).then_some(file)
    })
}

/// As above, by name alone: elsewhere files have no number that stable Rust tells.
#[cfg(not(unix))]
pub(super) fn same_file(a: &Path, b: &Path) -> bool {
    matches!((fs::canonicalize(a), fs::canonicalize(b)), (Ok(a), Ok(b)) if a == b)
}

#[cfg(not(unix))]
fn output_that_is(_: &Metadata) -> Option<File> {
    None
}
