//! The epoch: a number that tells which page-table changes a full flush of a CPU covers.
//!
//! # Why a comparison is enough
//!
//! Code changes a page table and then asks which epoch to wait for. A CPU reads the epoch, then
//! flushes and walks page tables anew. If the CPU has read the awaited epoch or a later one, its
//! walks were after the change:
//!
//! * [`Epoch::advance`] begins an epoch after the change, and the CPU has read that epoch. Both
//!   accesses are atomic and ordered, so the CPU's walks see the change.
//! * [`Epoch::next`] returns the number of the epoch after the current one and does not begin that
//!   epoch. Any CPU may begin it later. Fences ensure that no walk after the CPU's read of that
//!   epoch misses a change made before the call.

use crate::sync::{AtomicU64, Ordering, fence};

/// The number of the current epoch.
pub(super) struct Epoch(AtomicU64);

impl Epoch {
    /// Starts at 1, so that every CPU has passed epoch 0.
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(1))
    }

    /// Returns the epoch to wait for after the changes made so far, without beginning it.
    pub(super) fn next(&self) -> u64 {
        fence(Ordering::SeqCst);
        self.0.load(Ordering::Relaxed) + 1
    }

    /// Begins the next epoch and returns it: the epoch to wait for after the changes made so far.
    pub(super) fn advance(&self) -> u64 {
        let epoch = self.0.fetch_add(1, Ordering::AcqRel) + 1;
        fence(Ordering::SeqCst);
        epoch
    }

    /// Reads the epoch, on a CPU that is about to flush everything.
    pub(super) fn read(&self) -> u64 {
        let epoch = self.0.load(Ordering::Acquire);
        fence(Ordering::SeqCst);
        epoch
    }
}
