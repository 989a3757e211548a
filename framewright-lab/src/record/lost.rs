//! How many events the kernel lost, from its own books: `per_cpu/cpuN/stats`.

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
    /// Not written: the buffer was too small for what interrupts nested.
    pub commit_overrun: u64,
    /// Not written: there was no place.
    pub dropped: u64,
}

impl Lost {
    /// Reads `stats`; what it does not name counts as none.
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

    /// All of them.
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

/// Why there is no recording.
#[derive(Debug, Error)]
pub enum RecordError {
    /// The kernel lets root alone trace.
    #[error("cannot record: tracing the kernel needs root; run it as `sudo framewright record …`")]
    NotRoot,
    /// The kernel does not even let root trace.
    #[error(
        "cannot record: the kernel refuses it, though this is root: it is locked down (see \
         /sys/kernel/security/lockdown), or this is a container without CAP_SYS_ADMIN"
    )]
    Locked,
    /// The kernel cannot trace.
    #[error("cannot record: {0}")]
    NoTracefs(String),
    /// The kernel lacks an event without which a recording means nothing.
    #[error(
        "cannot record: this kernel has no event {0}; it needs CONFIG_EVENT_TRACING and a name of \
         Linux 3.8 or later"
    )]
    NoEvent(&'static str),
    /// The ring buffers could not be had.
    #[error(
        "cannot record: the kernel gives no buffer of {} KiB for each CPU: {reason}; choose a \
         smaller --buffer",
        .bytes >> 10
    )]
    Buffer {
        /// Bytes asked for, for each CPU.
        bytes: u64,
        /// What the system said.
        reason: io::Error,
    },
    /// A file of the kernel could not be used.
    #[error("cannot record: {what} '{}': {reason}", .file.display())]
    Kernel {
        /// What was to be done with it.
        what: &'static str,
        /// The file.
        file: PathBuf,
        /// What the system said.
        reason: io::Error,
    },
    /// A file of the kernel says something that this program does not understand.
    #[error("cannot record: '{}' {reason}", .file.display())]
    Strange {
        /// The file.
        file: PathBuf,
        /// What is strange about it.
        reason: String,
    },
    /// A buffer page of the kernel makes no sense.
    #[error("cannot decode what CPU {cpu} recorded: {reason}")]
    Page {
        /// The CPU.
        cpu: u16,
        /// What is wrong.
        reason: &'static str,
    },
    /// The recording would not go where it should.
    #[error("cannot write '{}': {reason}", .file.display())]
    Output {
        /// The file.
        file: PathBuf,
        /// Why, and what to do.
        reason: String,
    },
    /// The recording was given up while it was being written.
    #[error("given up while it was being written")]
    GivenUp,
    /// Events could not be kept until the end.
    #[error("cannot keep the events in a temporary file in '{}': {reason}", .folder.display())]
    Spool {
        /// Where the file is.
        folder: PathBuf,
        /// What the system said.
        reason: io::Error,
    },
}

impl RecordError {
    /// What the system said when `what` was done with `file`; a refusal means one thing.
    pub(super) fn kernel(what: &'static str, file: &Path, reason: io::Error) -> Self {
        match reason.kind() {
            io::ErrorKind::PermissionDenied => Self::refused(),
            _ => Self::Kernel { what, file: file.to_owned(), reason },
        }
    }

    /// The kernel refused.
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
