//! What keeps a run from happening.

use framewright::{AllocError, CpuError, HotplugError, InitError, Violation};
use framewright_host::HostError;
use thiserror::Error;

use super::plan::size;

/// Why `large-memory` could not run to its end.
#[derive(Debug, Error)]
pub enum LargeMemoryError {
    /// The machine, or the buffer for its books, could not be had.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The memory could not be set up.
    #[error("cannot set up a memory of {}: {reason}", size(*frames))]
    Init {
        /// Frames asked for.
        frames: u64,
        /// What the library said.
        reason: InitError,
    },
    /// A CPU of the memory could not be claimed.
    #[error(transparent)]
    Cpu(#[from] CpuError),
    /// An allocation failed although memory is ample.
    #[error("{what}: {reason}")]
    Alloc {
        /// What was being done.
        what: &'static str,
        /// What the library said.
        reason: AllocError,
    },
    /// Memory could not be added or removed.
    #[error(transparent)]
    Hotplug(#[from] HotplugError),
    /// An invariant does not hold.
    #[error("the books do not add up: {0}")]
    Books(#[from] Violation),
    /// The library did what it must not.
    #[error("{0}")]
    Wrong(String),
}

impl LargeMemoryError {
    /// Whether the library is to blame, not what was asked for.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        !matches!(self, Self::Host(_) | Self::Init { .. } | Self::Cpu(_))
    }
}

/// A broken promise, unless `kept`.
pub(super) fn promise(kept: bool, broken: impl FnOnce() -> String) -> Result<(), LargeMemoryError> {
    if kept { Ok(()) } else { Err(LargeMemoryError::Wrong(broken())) }
}
