//! The number of events that the kernel lost, from its statistics (`per_cpu/cpuN/stats`), and the
//! errors of recordings.

use std::{
    fmt, io,
    path::{Path, PathBuf},
};
use thiserror::Error;

/// Events lost by one or all CPUs, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Overwritten before they were read: the buffer was too small.
    pub overrun: u64,
    /// Not written: the buffer was full of nested interrupts' events.
    pub commit_overrun: u64,
    /// Not written: the buffer was full.
    pub dropped: u64,
}

impl Lost {
    /// Parses `stats`; missing counts are zero.
    pub(super) fn parse(stats: &str) -> Self {
        let of = |key: &str| {
            let value = stats.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
            value.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
        };
        Self {
            overrun: of("overrun"),
            commit_overrun: of("commit overrun"),
            dropped: of("dropped events"),
        }
    }

    /// The sum.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.overrun.saturating_add(self.commit_overrun).saturating_add(self.dropped)
    }

    pub(super) fn add(&mut self, other: Self) {
        self.overrun += other.overrun;
        self.commit_overrun += other.commit_overrun;
        self.dropped += other.dropped;
    }
}

/// The reason why there is no recording.
#[derive(Debug, Error)]
pub enum RecordError {
    /// Only root may trace the kernel.
    #[error("cannot record: tracing the kernel needs root; run it as `sudo framewright record …`")]
    NotRoot,
    /// Not even root may trace the kernel.
    #[error(
        "cannot record: the kernel refuses it even to root: it is locked down (see \
         /sys/kernel/security/lockdown), or this is a container without CAP_SYS_ADMIN"
    )]
    Locked,
    /// The kernel has no tracing.
    #[error("cannot record: {0}")]
    NoTracefs(String),
    /// The kernel lacks a necessary event.
    #[error(
        "cannot record: this kernel has no event {0}; it needs CONFIG_EVENT_TRACING and a name of \
         Linux 3.8 or later"
    )]
    NoEvent(&'static str),
    /// The ring buffers could not be allocated.
    #[error(
        "cannot record: the kernel cannot allocate a buffer of {} KiB for each CPU: {reason}; choose a \
         smaller --buffer",
        .bytes >> 10
    )]
    Buffer {
        /// Requested bytes for each CPU.
        bytes: u64,
        /// The error of the system.
        reason: io::Error,
    },
    /// A file of the kernel could not be used.
    #[error("cannot record: {what} '{}': {reason}", .file.display())]
    Kernel {
        /// The operation.
        what: &'static str,
        /// The file.
        file: PathBuf,
        /// The error of the system.
        reason: io::Error,
    },
    /// A file of the kernel has contents that are not understood.
    #[error("cannot record: '{}' {reason}", .file.display())]
    Malformed {
        /// The file.
        file: PathBuf,
        /// The reason.
        reason: String,
    },
    /// A malformed page of the kernel's buffer.
    #[error("cannot decode the events of CPU {cpu}: {reason}")]
    Page {
        /// The CPU.
        cpu: u16,
        /// The reason.
        reason: &'static str,
    },
    /// The recording could not be written to its files.
    #[error("cannot write '{}': {reason}", .file.display())]
    Output {
        /// The file.
        file: PathBuf,
        /// The reason, and a remedy.
        reason: String,
    },
    /// The writing of the recording was aborted.
    #[error("aborted while it was being written")]
    Aborted,
    /// Events could not be stored until the end.
    #[error("cannot store the events in a temporary file in '{}': {reason}", .folder.display())]
    Spool {
        /// The folder of the file.
        folder: PathBuf,
        /// The error of the system.
        reason: io::Error,
    },
}

impl RecordError {
    /// The error of an operation on a file. A refused permission always means that tracing is not
    /// allowed.
    pub(super) fn kernel(what: &'static str, file: &Path, reason: io::Error) -> Self {
        match reason.kind() {
            io::ErrorKind::PermissionDenied => Self::refused(),
            _ => Self::Kernel { what, file: file.to_owned(), reason },
        }
    }

    /// The error for missing permission.
    pub(super) fn refused() -> Self {
        if rustix::process::geteuid().is_root() { Self::Locked } else { Self::NotRoot }
    }

    pub(super) fn output(file: &Path, reason: &(impl fmt::Display + ?Sized)) -> Self {
        Self::Output { file: file.to_owned(), reason: reason.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stats_are_read_by_name() {
        let stats = "entries: 16\noverrun: 851\ncommit overrun: 2\nbytes: 0\n\
                     oldest event ts: 13048.618785\ndropped events: 3\nread events: 1849\n";
        let lost = Lost::parse(stats);
        assert_eq!(lost, Lost { overrun: 851, commit_overrun: 2, dropped: 3 });
        assert_eq!(lost.total(), 856);
        assert_eq!(Lost::parse("entries: 16\n").total(), 0);
    }
}
