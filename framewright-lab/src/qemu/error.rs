//! What can go wrong with an emulated machine.

use std::{io, path::PathBuf, time::Duration};

use thiserror::Error;

/// Why there is no result.
#[derive(Debug, Error)]
pub enum QemuError {
    /// There is no QEMU.
    #[error(
        "there is no {0}: install it, on Debian and Ubuntu with \
         `apt install --no-install-recommends qemu-system-x86`"
    )]
    NoQemu(&'static str),
    /// The sources of the kernel are not there.
    #[error(
        "the sources of the kernel are not at '{}': qemu machines need a checkout of the repository \
         with its folder kernel/",
        .0.display()
    )]
    NoSources(PathBuf),
    /// Something could not be started.
    #[error("cannot run {program}: {error}")]
    Start {
        /// What.
        program: &'static str,
        /// Why.
        error: io::Error,
    },
    /// The kernel could not be built.
    #[error("the kernel could not be built:\n{0}")]
    Build(String),
    /// The machine took too long.
    #[error("the machine was still running after {} s, and was stopped; it said last:\n{said}", .after.as_secs())]
    TimedOut {
        /// What it was given.
        after: Duration,
        /// Its last lines.
        said: String,
    },
    /// QEMU has no such machine, or the host no memory for it.
    #[error("QEMU cannot make this machine: {0}")]
    NoMachine(String),
    /// The kernel cannot do what it was asked to.
    #[error("the kernel refuses: {0}")]
    Refused(String),
    /// The kernel panicked.
    #[error("the kernel stopped: {0}")]
    Stopped(String),
    /// The machine ended in a way in which none should.
    #[error("QEMU ended with {code} and without a result; the machine said last:\n{said}")]
    Ended {
        /// How.
        code: String,
        /// Its last lines.
        said: String,
    },
}

impl QemuError {
    /// Whether what was asked for cannot be had here; otherwise the kernel is broken.
    #[must_use]
    pub fn is_bad_input(&self) -> bool {
        !matches!(self, Self::Stopped(_) | Self::Ended { .. } | Self::TimedOut { .. })
    }
}
