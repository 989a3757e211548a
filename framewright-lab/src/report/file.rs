//! Writes a report into a file: completely or not at all.
//!
//! The text is written to a temporary file next to the target of the path, flushed to the disk, and
//! renamed in one step. A reader of the file sees the old report or the new one, and a run that is
//! killed leaves the old one unchanged. Devices and pipes are written to directly, and so is a
//! regular file to which this process already writes its output (`> out.txt` and `/dev/stdout`): a
//! replacement would lose that output.

use std::{
    fs::{self, File, Metadata, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};
use tempfile::NamedTempFile;
use thiserror::Error;

use super::{Report, document::Document};

/// The kind of file that a path leads to.
#[derive(Debug)]
pub(super) enum Destination {
    /// The path of a regular file, which may not exist yet. The path is no symbolic link.
    File(PathBuf),
    /// An output of this process.
    Output(File),
    /// A device or a pipe.
    Stream,
}

impl Destination {
    /// Determines the kind of the file behind all links of `path`, without opening it.
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

    /// Opens a stream for writing. A pipe waits for a reader here.
    pub(super) fn open_stream(path: &Path) -> io::Result<File> {
        OpenOptions::new().write(true).open(path)
    }
}

/// The path of the file that `open` of `path` would create. Follows symbolic links whose targets do not exist.
fn behind_links(path: &Path) -> io::Result<PathBuf> {
    // No system follows more links.
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

/// The folder of `path`.
pub(super) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Whether `a` and `b` are one file, possibly by different names. `false` for terminals and other
/// character devices, which may be read and written at the same time.
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

/// The output of this process, if `found` is the same file. The duplicated descriptor shares
/// the file offset of the output; a second `open` of the file would overwrite the text from offset 0.
#[cfg(unix)]
fn output_that_is(found: &Metadata) -> Option<File> {
    use std::os::fd::AsFd;
    let (stdout, stderr) = (io::stdout(), io::stderr());
    [stdout.as_fd(), stderr.as_fd()].into_iter().find_map(|output| {
        let file = File::from(output.try_clone_to_owned().ok()?);
        same(&file.metadata().ok()?, found).then_some(file)
    })
}

/// Compares names only: stable Rust has no file numbers on other systems.
#[cfg(not(unix))]
pub(super) fn same_file(a: &Path, b: &Path) -> bool {
    matches!((fs::canonicalize(a), fs::canonicalize(b)), (Ok(a), Ok(b)) if a == b)
}

#[cfg(not(unix))]
fn output_that_is(_: &Metadata) -> Option<File> {
    None
}

/// A report that could not be written.
#[derive(Debug, Error)]
#[error("cannot write '{}': {reason}", .path.display())]
pub struct ReportError {
    pub(super) path: PathBuf,
    pub(super) reason: io::Error,
}

/// Checks before the work that [`write_json`] will be able to write `path`, and that it will not
/// overwrite one of `inputs`, which the work reads.
///
/// # Errors
///
/// The error names the file and the reason.
pub fn check_destination(path: &Path, inputs: &[&Path]) -> Result<(), ReportError> {
    let fail = |reason| ReportError { path: path.to_owned(), reason };
    if let Some(input) = inputs.iter().find(|input| same_file(path, input)) {
        let reason = format!(
            "it is '{}', which is read; choose another name for the report",
            input.display()
        );
        return Err(fail(io::Error::other(reason)));
    }
    match Destination::of(path).map_err(fail)? {
        Destination::File(target) => temporary_beside(&target).map(drop).map_err(fail),
        // Opening a pipe would already be visible to its reader.
        Destination::Output(_) | Destination::Stream => Ok(()),
    }
}

/// Whether [`write_json`] replaces the file at `path`, in one step that must not be interrupted.
/// If it returns `false`, the write may wait for the reader of a pipe.
pub fn replaces(path: &Path) -> bool {
    matches!(Destination::of(path), Ok(Destination::File(_)))
}

/// Writes `report` as indented JSON. It is no error if the reader has closed a pipe.
///
/// # Errors
///
/// The error names the file and the reason. An existing regular file is unchanged.
pub fn write_json(path: &Path, report: &Report) -> Result<(), ReportError> {
    let fail = |reason: io::Error| ReportError { path: path.to_owned(), reason };
    let mut text =
        serde_json::to_vec_pretty(&Document::of(report)).map_err(|error| fail(error.into()))?;
    text.push(b'\n');
    write_text(path, &text)
}

/// Writes `text`, a picture of a report for example, in the same way.
///
/// # Errors
///
/// The error names the file and the reason. An existing regular file is unchanged.
pub fn write_text(path: &Path, text: &[u8]) -> Result<(), ReportError> {
    let fail = |reason| ReportError { path: path.to_owned(), reason };
    let written = match Destination::of(path).map_err(fail)? {
        Destination::File(target) => replace(&target, text),
        Destination::Output(mut output) => until_reader_leaves(output.write_all(text)),
        Destination::Stream => until_reader_leaves(
            Destination::open_stream(path).and_then(|mut stream| stream.write_all(text)),
        ),
    };
    written.map_err(fail)
}

/// Opens `path` for text that is written in parts, over time. A regular file is created, or emptied. Each
/// part should be written as a whole, so that the file ends with a complete part at any time.
///
/// # Errors
///
/// The error names the file and the reason.
pub fn open_rows(path: &Path) -> Result<File, ReportError> {
    let opened = Destination::of(path).and_then(|destination| match destination {
        Destination::File(target) => File::create(target),
        Destination::Output(output) => Ok(output),
        Destination::Stream => Destination::open_stream(path),
    });
    opened.map_err(|reason| ReportError { path: path.to_owned(), reason })
}

fn replace(target: &Path, text: &[u8]) -> io::Result<()> {
    let mut file = temporary_beside(target)?;
    file.write_all(text)?;
    persist(file, target)
}

/// Replaces the regular file at `path`, or creates it, in one step: `write` writes a temporary file next to it.
pub(crate) fn replace_with(
    path: &Path,
    write: impl FnOnce(File) -> io::Result<()>,
) -> io::Result<()> {
    let Destination::File(target) = Destination::of(path)? else {
        return Err(io::Error::other("is not a regular file"));
    };
    let file = temporary_beside(&target)?;
    write(file.as_file().try_clone()?)?;
    persist(file, &target)
}

pub(super) fn persist(file: NamedTempFile, target: &Path) -> io::Result<()> {
    file.as_file().sync_all()?;
    file.persist(target).map_err(|error| error.error)?;
    Ok(())
}

pub(super) fn until_reader_leaves(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

pub(super) fn temporary_beside(target: &Path) -> io::Result<NamedTempFile> {
    // The file becomes the report, so other users may read it as far as the umask permits.
    let mut builder = tempfile::Builder::new();
    builder.prefix(".framewright-").suffix(".tmp");
    // Errors of `tempfile` contain the temporary name, which the user does not know. This returns
    // the system's error instead.
    let mut said = None;
    let made = builder.make_in(folder_of(target), |path| {
        let file = File::create_new(path);
        said = file.as_ref().err().and_then(io::Error::raw_os_error);
        file
    });
    made.map_err(|error| said.map_or(error.kind().into(), io::Error::from_raw_os_error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Verdict;
    use std::fs;

    fn report() -> Report {
        Report {
            framewright: "0.1.0".into(),
            command: Vec::new(),
            workload: "w".into(),
            machine: "m".into(),
            seed: Some(1),
            seeds: 1,
            runs: Vec::new(),
            published: Vec::new(),
            verdict: Verdict::of(Vec::new()),
            notes: Vec::new(),
        }
    }

    #[test]
    fn replaces_the_old_report_and_leaves_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("result.json");
        fs::write(&path, "old").unwrap();
        write_json(&path, &report()).unwrap();
        let read: Report = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        assert_eq!(read, report());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn errors_name_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("nowhere/result.json");
        for path in [missing.as_path(), folder.path()] {
            let early = check_destination(path, &[]).unwrap_err().to_string();
            let late = write_json(path, &report()).unwrap_err().to_string();
            assert_eq!(early, late);
            assert!(early.starts_with(&format!("cannot write '{}': ", path.display())), "{early}");
        }
        let early = check_destination(&missing, &[]).unwrap_err().to_string();
        assert!(early.ends_with(": No such file or directory (os error 2)"), "{early}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    #[cfg(unix)]
    fn a_link_stays_a_link_and_its_target_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("there")).unwrap();
        for target in ["there/old.json", "there/new.json"] {
            fs::write(folder.path().join("there/old.json"), "old").unwrap();
            let link = folder.path().join("link");
            let _ = fs::remove_file(&link);
            std::os::unix::fs::symlink(target, &link).unwrap();
            check_destination(&link, &[]).unwrap();
            write_json(&link, &report()).unwrap();
            assert!(fs::symlink_metadata(&link).unwrap().is_symlink(), "{target}");
            let text = fs::read(folder.path().join(target)).unwrap();
            assert_eq!(serde_json::from_slice::<Report>(&text).unwrap(), report());
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_device_is_written_to_and_says_when_it_is_full() {
        let full = Path::new("/dev/full");
        check_destination(full, &[]).unwrap();
        let error = write_json(full, &report()).unwrap_err().to_string();
        assert!(error.starts_with("cannot write '/dev/full': No space left"), "{error}");
        write_json(Path::new("/dev/null"), &report()).unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
        assert!(!replaces(full));
    }

    #[test]
    fn an_input_is_not_overwritten_by_any_name() {
        let folder = tempfile::tempdir().unwrap();
        let [input, hard, other] = ["input", "hard", "other"].map(|name| folder.path().join(name));
        fs::write(&input, "input").unwrap();
        fs::hard_link(&input, &hard).unwrap();
        let mut names = vec![input.clone(), folder.path().join("./input")];
        #[cfg(unix)]
        {
            let soft = folder.path().join("soft");
            std::os::unix::fs::symlink("input", &soft).unwrap();
            names.extend([hard, soft]);
        }
        for name in names {
            let error = check_destination(&name, &[&other, &input]).unwrap_err().to_string();
            assert!(error.contains(&format!("it is '{}'", input.display())), "{error}");
        }
        check_destination(&other, &[&input]).unwrap();
    }
}
