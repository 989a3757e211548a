//! A file that is written in parts, and appears at its path only when it is complete.
//!
//! The parts go to a file without a name, which vanishes with the process. At the end they are copied to the path, in
//! one step if it is that of a regular file.

use std::{
    fs::File,
    io::{self, Seek, Write},
    path::{Path, PathBuf},
};

use super::file::{
    Destination, ReportError, folder_of, persist, temporary_beside, until_reader_leaves,
};

/// The parts of a file so far.
#[derive(Debug)]
pub(crate) struct Parts {
    path: PathBuf,
    file: io::BufWriter<File>,
}

impl Parts {
    /// No parts yet, for the file at `path`.
    ///
    /// # Errors
    ///
    /// The error names the file and the reason.
    pub(crate) fn new(path: &Path) -> Result<Self, ReportError> {
        let fail = |reason| ReportError { path: path.to_owned(), reason };
        let file = match Destination::of(path).map_err(fail)? {
            Destination::File(target) => tempfile::tempfile_in(folder_of(&target)),
            Destination::Output(_) | Destination::Stream => tempfile::tempfile(),
        };
        let file = io::BufWriter::new(file.map_err(fail)?);
        Ok(Self { path: path.to_owned(), file })
    }

    /// Appends a part. If that fails, [`Parts::finish`] fails, too.
    pub(crate) fn append(&mut self, part: &[u8]) -> io::Result<()> {
        self.file.write_all(part)
    }

    /// Copies the parts to the path.
    ///
    /// # Errors
    ///
    /// The error names the file and the reason. An existing regular file is unchanged.
    pub(crate) fn finish(self) -> Result<(), ReportError> {
        let Self { path, file } = self;
        let copied = file.into_inner().map_err(io::IntoInnerError::into_error);
        let copied = copied.and_then(|parts| copy(parts, &path));
        copied.map_err(|reason| ReportError { path, reason })
    }
}

fn copy(mut parts: File, path: &Path) -> io::Result<()> {
    parts.rewind()?;
    match Destination::of(path)? {
        Destination::File(target) => {
            let mut file = temporary_beside(&target)?;
            io::copy(&mut parts, &mut file)?;
            persist(file, &target)
        }
        Destination::Output(mut output) => {
            until_reader_leaves(io::copy(&mut parts, &mut output).map(drop))
        }
        Destination::Stream => {
            let mut stream = Destination::open_stream(path)?;
            until_reader_leaves(io::copy(&mut parts, &mut stream).map(drop))
        }
    }
}
