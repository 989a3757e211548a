//! A report into a file: whole or not at all.
//!
//! The text goes to a temporary file in the same folder, is flushed to the disk, and then takes
//! the name in one step. Whoever reads the file sees the old report or the new one, and a run that
//! dies leaves the old one as it was.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;
use thiserror::Error;

use super::Report;

/// A report that could not be written.
#[derive(Debug, Error)]
#[error("cannot write '{}': {reason}", .path.display())]
pub struct ReportError {
    path: PathBuf,
    reason: io::Error,
}

/// Says now what would keep [`write_json`] from writing `path` later, after hours of work.
///
/// # Errors
///
/// Names the file and the reason.
pub fn check_destination(path: &Path) -> Result<(), ReportError> {
    temporary_beside(path).map(drop)
}

/// Writes `report` as indented JSON.
///
/// # Errors
///
/// Names the file and the reason. What was in the file is untouched.
pub fn write_json(path: &Path, report: &Report) -> Result<(), ReportError> {
    let fail = |reason| ReportError { path: path.to_owned(), reason };
    let mut text = serde_json::to_vec_pretty(report).map_err(|error| fail(error.into()))?;
    text.push(b'\n');
    let mut file = temporary_beside(path)?;
    file.write_all(&text).map_err(fail)?;
    file.as_file().sync_all().map_err(fail)?;
    file.persist(path).map_err(|error| fail(error.error))?;
    Ok(())
}

fn temporary_beside(path: &Path) -> Result<NamedTempFile, ReportError> {
    let fail = |reason| ReportError { path: path.to_owned(), reason };
    if path.is_dir() {
        return Err(fail(io::Error::from(io::ErrorKind::IsADirectory)));
    }
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    // Reports are for others to read, unlike what temporary files usually hold.
    let mut builder = tempfile::Builder::new();
    builder.prefix(".framewright-").suffix(".json");
    #[cfg(unix)]
    {
        use std::{fs::Permissions, os::unix::fs::PermissionsExt};
        builder.permissions(Permissions::from_mode(0o666));
    }
    builder.tempfile_in(folder).map_err(|error| {
        // The temporary name means nothing to the user: keep the kind, drop the name.
        fail(error.kind().into())
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::report::Verdict;

    fn report() -> Report {
        Report {
            framewright: "0.1.0".into(),
            command: Vec::new(),
            workload: "w".into(),
            machine: "m".into(),
            seed: Some(1),
            runs: Vec::new(),
            published: Vec::new(),
            verdict: Verdict::of(Vec::new()),
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
            let early = check_destination(path).unwrap_err().to_string();
            let late = write_json(path, &report()).unwrap_err().to_string();
            assert_eq!(early, late);
            assert!(early.starts_with(&format!("cannot write '{}': ", path.display())), "{early}");
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
