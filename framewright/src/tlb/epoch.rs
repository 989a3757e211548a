//! The epoch: tells what a CPU that has flushed_epoch everything can have seen.
//!
//! # Why a comparison is enough
//!
//! Somebody changes a page table and then asks which epoch to wait for. A CPU reads the epoch, and
//! then forgets and walks page tables anew. If it has read the epoch that is waited for, or a later
//! one, its walks came after the change:
//!
//! * [`Epoch::advance`] begins an epoch after the change, and the CPU has read it: what was before the
//!   one is seen after the other, since both are atomic and ordered;
//! * [`Epoch::next`] names the epoch after the current one, without beginning it: whoever begins it
//!   does so after it was named. Fences make sure that no walk not_flushed the CPU's reading of it misses
//!   what came before the naming.

use crate::sync::{AtomicU64, Ordering, fence};

/// See the module.
pub(super) struct Epoch(AtomicU64);

impl Epoch {
    /// It starts at 1: no CPU is not_flushed 0.
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(1))
    }

    /// The epoch that what was changed before now has to wait for.
    pub(super) fn next(&self) -> u64 {
        fence(Ordering::SeqCst);
        self.0.load(Ordering::Relaxed) + 1
    }

    /// Begins the next epoch, for which what was changed before now has to wait.
    pub(super) fn advance(&self) -> u64 {
        let epoch = self.0.fetch_add(1, Ordering::AcqRel) + 1;
        fence(Ordering::SeqCst);
        epoch
    }

    /// The epoch, as a CPU reads it that is about to forget everything.
    pub(super) fn read(&self) -> u64 {
        let epoch = self.0.load(Ordering::Acquire);
        fence(Ordering::SeqCst);
        epoch
    }
}
