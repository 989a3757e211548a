//! A recording is three files: `NAME.txt.zst` (the events), `NAME.before` and `NAME.after` (tables of
//! `/proc`). If `NAME.txt.zst` exists, all three are complete.
//!
//! The text is first written to `NAME.txt.zst.part`, which is locked until its writer ends. After
//! everything was written to the disk, the files are renamed, the text last. The `.part` file of a
//! killed program is unlocked; the next recording replaces that file.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use super::lost::RecordError;

/// Access to tracefs.
pub(super) trait Files: Send + Sync {
    /// Makes a folder. In `instances`, the kernel adds files to it.
    fn make_folder(&self, path: &Path) -> io::Result<()> {
        fs::create_dir(path)
    }

    /// Removes a folder. In `instances`, also the kernel's files in it; fails while one of them is
    /// open.
    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }

    /// Writes to a file that exists.
    fn write(&self, path: &Path, text: &str) -> io::Result<()> {
        OpenOptions::new().write(true).open(path)?.write_all(text.as_bytes())
    }

    /// Opens a file for non-blocking reads.
    fn open(&self, path: &Path) -> io::Result<File> {
        use std::os::unix::fs::OpenOptionsExt;
        OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)
    }
}

/// Reads a file in large pieces: some files in tracefs return only their beginning if the first
/// read is small, as with `std::fs::read_to_string`.
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

/// Whether `error` means that a CPU has no buffer, because it was never started.
pub(super) fn has_no_buffer(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENODEV)
}

/// The kernel's own tracefs.
pub(super) struct Kernel;

impl Files for Kernel {}

const TEXT: &str = ".txt.zst";
const BEFORE: &str = ".before";
const AFTER: &str = ".after";

/// A name for a recording, claimed until the recording is written or dropped.
#[derive(Debug)]
pub struct Destination {
    name: PathBuf,
    part: File,
    finished: bool,
}

/// The files of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenFiles {
    /// The events.
    pub text: PathBuf,
    /// The text of the kernel's `/proc/zoneinfo` at the start, and of `buddyinfo`, `pagetypeinfo` and
    /// `vmstat` as far as they are readable.
    pub before: PathBuf,
    /// The text of the same files at the end.
    pub after: PathBuf,
}

impl Destination {
    /// Claims `NAME.txt.zst`, `NAME.before` and `NAME.after`. `name` may already end in `.txt.zst`.
    ///
    /// # Errors
    /// One of the files exists and `force` is false, or it cannot be replaced; another recording is
    /// being written there; or the folder is not writable.
    pub fn claim(name: &Path, force: bool) -> Result<Self, RecordError> {
        let name = stem(name)?;
        for ending in [TEXT, BEFORE, AFTER] {
            may_replace(&with(&name, ending), force)?;
        }
        let path = with(&name, &format!("{TEXT}.part"));
        let part = lock_part(&path)?;
        Ok(Self { name, part, finished: false })
    }

    /// The files of the complete recording.
    #[must_use]
    pub fn files(&self) -> WrittenFiles {
        let [text, before, after] = [TEXT, BEFORE, AFTER].map(|ending| with(&self.name, ending));
        WrittenFiles { text, before, after }
    }

    /// The folder of the files.
    pub(super) fn folder(&self) -> &Path {
        match self.name.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        }
    }

    /// The partial file for the text.
    pub(super) fn part(&mut self) -> &mut File {
        &mut self.part
    }

    /// Writes the tables, and renames all files to their final names.
    pub(super) fn finish(mut self, before: &str, after: &str) -> Result<(), RecordError> {
        let part = self.part_path();
        let fail = |reason| RecordError::output(&part, &reason);
        self.part.sync_all().map_err(fail)?;
        let files = self.files();
        let before = self.table(BEFORE, before)?;
        let after = self.table(AFTER, after)?;
        for (file, path) in [(before, files.before), (after, files.after)] {
            file.persist(&path).map_err(|error| RecordError::output(&path, &error.error))?;
        }
        let text = files.text;
        fs::rename(&part, &text).map_err(|reason| RecordError::output(&text, &reason))?;
        self.finished = true;
        // The names should survive a crash, too. If the folder cannot be flushed, no data is lost.
        let _ = File::open(self.folder()).and_then(|folder| folder.sync_all());
        Ok(())
    }

    fn table(&self, ending: &str, text: &str) -> Result<tempfile::NamedTempFile, RecordError> {
        use std::{fs::Permissions, os::unix::fs::PermissionsExt};
        let written = tempfile::Builder::new()
            .prefix(".framewright-")
            .suffix(ending)
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(self.folder())
            .and_then(|mut file| {
                file.write_all(text.as_bytes())?;
                file.as_file().sync_all()?;
                Ok(file)
            });
        written.map_err(|reason| RecordError::output(&with(&self.name, ending), &reason.kind()))
    }

    fn part_path(&self) -> PathBuf {
        with(&self.name, &format!("{TEXT}.part"))
    }
}

impl Drop for Destination {
    fn drop(&mut self) {
        if !self.finished {
            // This process holds the lock of the file, so no other process uses it.
            let _ = fs::remove_file(self.part_path());
        }
    }
}

/// `name` without the endings of recordings.
fn stem(name: &Path) -> Result<PathBuf, RecordError> {
    let refuse = |reason: &str| Err(RecordError::output(name, reason));
    let is_folder = name.as_os_str().as_encoded_bytes().ends_with(b"/");
    let Some(file) = name.file_name().filter(|_| !is_folder) else {
        return refuse("it names a folder; give the recording the name of a file in it");
    };
    match fs::metadata(name) {
        Ok(found) if found.is_dir() => {
            return refuse("it is a folder; give the recording the name of a file in it");
        }
        Ok(found) if !found.is_file() => {
            return refuse("it is a device or a pipe; a recording needs a file");
        }
        _ => {}
    }
    let mut stem = Path::new(file).to_owned();
    for ending in ["zst", "txt"] {
        if stem.extension() == Some(OsStr::new(ending)) {
            stem.set_extension("");
        }
    }
    Ok(name.with_file_name(stem))
}

fn with(name: &Path, ending: &str) -> PathBuf {
    let mut file: OsString = name.as_os_str().to_owned();
    file.push(ending);
    file.into()
}

fn may_replace(path: &Path, force: bool) -> Result<(), RecordError> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(RecordError::output(path, &error)),
        Ok(found) if found.is_symlink() => Err(RecordError::output(
            path,
            "it is a symbolic link; give -o the name of its target, or another name",
        )),
        Ok(found) if !found.is_file() => Err(RecordError::output(
            path,
            "it exists and is no regular file; choose another name with -o",
        )),
        Ok(_) if !force => Err(RecordError::output(
            path,
            "it exists; choose another name with -o, or replace it with --force",
        )),
        Ok(_) => Ok(()),
    }
}

/// Creates and locks the partial file.
///
/// It never writes to an existing file, because the name could be a link to another user's file.
fn lock_part(path: &Path) -> Result<File, RecordError> {
    let fail = |reason| RecordError::output(path, &reason);
    loop {
        let file = match File::create_new(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                remove_abandoned(path)?;
                continue;
            }
            result => result.map_err(fail)?,
        };
        // Another recording may have removed the new file as abandoned before it was locked.
        lock(&file, path)?;
        if is_at(&file, path).map_err(fail)? {
            return Ok(file);
        }
    }
}

/// Removes the partial file at `path` if its recording has ended.
fn remove_abandoned(path: &Path) -> Result<(), RecordError> {
    let fail = |reason| RecordError::output(path, &reason);
    let refuse = |what: &str| {
        let reason = format!("it is {what}; remove it, or choose another name with -o");
        Err(RecordError::output(path, &reason))
    };
    let opened =
        OpenOptions::new().write(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path);
    let file = match opened {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) => {
            return refuse("a symbolic link");
        }
        result => result.map_err(fail)?,
    };
    let about = file.metadata().map_err(fail)?;
    if !about.is_file() {
        return refuse("no regular file");
    }
    if about.nlink() > 1 {
        return refuse("a file that has another name, too");
    }
    lock(&file, path)?;
    // Its writer may have finished since the file was opened; then it is a complete recording.
    if is_at(&file, path).map_err(fail)? { fs::remove_file(path).map_err(fail) } else { Ok(()) }
}

/// Locks a partial file. Only its writer holds this lock.
fn lock(file: &File, path: &Path) -> Result<(), RecordError> {
    file.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => RecordError::output(
            path,
            "another recording is being written there; choose another name with -o",
        ),
        TryLockError::Error(reason) => RecordError::output(path, &reason),
    })
}

/// Whether `path` names the open `file`.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let opened = file.metadata()?;
    Ok(fs::symlink_metadata(path)
        .is_ok_and(|there| (there.dev(), there.ino()) == (opened.dev(), opened.ino())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn refused(name: &Path, force: bool) -> String {
        Destination::claim(name, force).unwrap_err().to_string()
    }

    #[test]
    fn all_three_files_or_none() {
        let folder = tempfile::tempdir().unwrap();
        let name = folder.path().join("a.txt.zst");
        let mut given_up = Destination::claim(&name, false).unwrap();
        given_up.part().write_all(b"text").unwrap();
        assert_eq!(names(folder.path()), ["a.txt.zst.part"]);
        drop(given_up);
        assert_eq!(names(folder.path()), [""; 0]);

        let mut kept = Destination::claim(&folder.path().join("a"), false).unwrap();
        kept.part().write_all(b"text").unwrap();
        kept.finish("b", "c").unwrap();
        assert_eq!(names(folder.path()), ["a.after", "a.before", "a.txt.zst"]);
        assert_eq!(fs::read(&name).unwrap(), b"text");
    }

    #[test]
    fn existing_files_stay_until_a_forced_recording_is_complete() {
        let folder = tempfile::tempdir().unwrap();
        let name = folder.path().join("a");
        for ending in [TEXT, BEFORE, AFTER] {
            let file = with(&name, ending);
            fs::write(&file, "old").unwrap();
            assert!(refused(&name, false).contains("it exists; choose another name with -o"));
            let mut new = Destination::claim(&name, true).unwrap();
            new.part().write_all(b"new").unwrap();
            assert_eq!(fs::read(&file).unwrap(), b"old");
            new.finish("b", "c").unwrap();
            assert_ne!(fs::read(&file).unwrap(), b"old");
            for ending in [TEXT, BEFORE, AFTER] {
                fs::remove_file(with(&name, ending)).unwrap();
            }
        }
    }

    #[test]
    fn there_is_one_writer_at_a_time_and_killed_ones_do_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let name = folder.path().join("a");
        let first = Destination::claim(&name, false).unwrap();
        assert!(refused(&name, true).contains("another recording is being written"));
        drop(first);
        fs::write(folder.path().join("a.txt.zst.part"), "left by somebody").unwrap();
        let mut second = Destination::claim(&name, false).unwrap();
        assert_eq!(second.part().metadata().unwrap().len(), 0);
    }

    /// As root, `record` may write to any file, so it must not follow a link that has the name of
    /// its partial file.
    #[test]
    fn the_target_of_a_link_is_never_written() {
        let folder = tempfile::tempdir().unwrap();
        let precious = folder.path().join("precious");
        fs::write(&precious, "precious").unwrap();
        let part = folder.path().join("a.txt.zst.part");
        let name = folder.path().join("a");
        let try_both = |hint: &str| {
            for force in [false, true] {
                let error = refused(&name, force);
                assert!(error.contains("a.txt.zst.part") && error.contains(hint), "{error}");
            }
            assert_eq!(fs::read(&precious).unwrap(), b"precious");
            assert!(fs::symlink_metadata(&part).is_ok(), "the partial file was removed");
            fs::remove_file(&part).unwrap();
        };
        fs::hard_link(&precious, &part).unwrap();
        try_both("a file that has another name, too; remove it");
        std::os::unix::fs::symlink(&precious, &part).unwrap();
        try_both("a symbolic link; remove it");
        std::os::unix::fs::symlink("nowhere", &part).unwrap();
        try_both("a symbolic link; remove it");
        assert!(!folder.path().join("nowhere").exists());
    }

    /// A reader that has an abandoned partial file open does not see the data of the next
    /// recording.
    #[test]
    fn an_abandoned_part_is_replaced_and_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let part = folder.path().join("a.txt.zst.part");
        fs::write(&part, "abandoned").unwrap();
        let mut abandoned = File::open(&part).unwrap();
        let mut next = Destination::claim(&folder.path().join("a"), false).unwrap();
        next.part().write_all(b"next").unwrap();
        let mut text = String::new();
        io::Read::read_to_string(&mut abandoned, &mut text).unwrap();
        assert_eq!((text.as_str(), fs::read(&part).unwrap()), ("abandoned", b"next".to_vec()));
    }

    #[test]
    fn folders_devices_and_links_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("a.before");
        std::os::unix::fs::symlink("elsewhere", &link).unwrap();
        fs::create_dir(folder.path().join("b.txt.zst")).unwrap();
        for (name, hint) in [
            (folder.path().to_owned(), "it is a folder"),
            (folder.path().join("new/"), "it names a folder"),
            ("/dev/null".into(), "it is a device"),
            ("".into(), "it names a folder"),
            (folder.path().join("a"), "symbolic link"),
            (folder.path().join("b"), "no regular file"),
            (folder.path().join("nowhere/a"), "No such file"),
        ] {
            let error = refused(&name, true);
            assert!(error.contains(hint), "{name:?}: {error}");
            assert!(error.starts_with("cannot write '"), "{error}");
        }
        assert_eq!(names(folder.path()), ["a.before", "b.txt.zst"]);
    }
}
