//! The pending flush of an address space or a file.

use super::{CpuMask, mask::WORDS};
use crate::sync::{AtomicU64, Ordering};

/// Deferred flushes that concern one address space, or the contents of one file. The embedder keeps
/// one of these per address space and one per file.
///
/// [`FlushBatch::add`](super::FlushBatch::add) records what is deferred, and
/// [`Flusher::flush_deferred`](super::Flusher::flush_deferred) flushes it. A comparison of two
/// numbers tells whether anything is pending.
///
/// The embedder calls `flush_deferred` with the value
/// * of an **address space** after it has taken the page-table lock, and before it relies on clear
///   entries, because a batch that is not flushed, or whose frames are deferred, may have cleared
///   them. That is before it returns from unmapping, protecting or moving pages, before addresses
///   are reused, and before it installs an entry that allows stores;
/// * of a **file** while it holds the lock that keeps pages of the file from being installed:
///   before a write, a writable mapping, truncation, or invalidation of any of its pages.
#[derive(Debug)]
pub struct DeferredFlush {
    /// A CPU that has flushed everything since this epoch has none of it cached.
    epoch: AtomicU64,
    /// Everything before this epoch is flushed.
    flushed_epoch: AtomicU64,
    /// CPUs that may have cached any of it. The set only grows: the epochs of CPUs tell which have
    /// flushed long ago.
    cpus: [AtomicU64; WORDS],
}

impl DeferredFlush {
    /// No flush is pending.
    #[must_use]
    pub fn new() -> Self {
        Self {
            epoch: AtomicU64::new(0),
            flushed_epoch: AtomicU64::new(0),
            cpus: core::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// Whether a flush may be pending.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        self.epoch.load(Ordering::Acquire) > self.flushed_epoch.load(Ordering::Acquire)
    }

    /// Records that `cpus` may have cached entries that were removed before `epoch`.
    pub(super) fn note(&self, epoch: u64, cpus: &CpuMask) {
        for (word, &cpus) in self.cpus.iter().zip(cpus.words()) {
            if word.load(Ordering::Relaxed) & cpus != cpus {
                word.fetch_or(cpus, Ordering::Relaxed);
            }
        }
        // A CPU that reads this epoch also reads these CPUs.
        self.epoch.fetch_max(epoch, Ordering::Release);
    }

    /// The epoch, and the CPUs that must have flushed everything since.
    pub(super) fn pending(&self) -> (u64, CpuMask) {
        let epoch = self.epoch.load(Ordering::Acquire);
        let cpus = self.cpus.each_ref().map(|word| word.load(Ordering::Relaxed));
        (epoch, CpuMask::from_words(&cpus))
    }

    /// Records that these CPUs have flushed everything since `epoch`.
    pub(super) fn set_flushed(&self, epoch: u64) {
        self.flushed_epoch.fetch_max(epoch, Ordering::AcqRel);
    }
}

impl Default for DeferredFlush {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "tso"))))]
mod tests {
    use super::*;
    use crate::{CpuId, tlb::MAX_CPUS};

    #[test]
    fn a_flush_can_be_pending_for_every_cpu() {
        let last = MAX_CPUS as u16 - 1;
        let cpus: CpuMask = [0, 511, 512, last].map(CpuId::new).into_iter().collect();
        let deferred = DeferredFlush::new();
        deferred.note(1, &cpus);
        assert_eq!(deferred.pending(), (1, cpus));
    }
}
