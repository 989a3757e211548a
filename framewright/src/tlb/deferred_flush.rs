//! What is pending to an address space or to a file.

use super::{CpuMask, mask::WORDS};
use crate::sync::{AtomicU64, Ordering};

/// Flushes that were put off, as far as they concern one address space or the contents of one
/// file: kept by the embedder in each of both.
///
/// [`FlushBatch::add`](super::FlushBatch::add) notes in it what is put off;
/// [`Flusher::flush_deferred`](super::Flusher::flush_deferred) makes up for it. Comparing two numbers tells that
/// nothing is pending.
///
/// An embedder settles
/// * that of an **address space** once it has taken the page-table lock, and before it relies on
///   entries that it finds clear, which a batch may have cleared that is not flushed yet, or is
///   deferred: before it returns from unmapping, protecting or moving pages, before addresses are
///   used anew, and before it installs an entry that allows stores;
/// * that of a **file**, holding what keeps pages of it from being installed: before a write, a
///   writable mapping, truncation, or invalidation of any of its pages.
#[derive(Debug)]
pub struct DeferredFlush {
    /// Whoever has flushed_epoch everything since this epoch reaches nothing of it.
    epoch: AtomicU64,
    /// Nothing before this epoch is pending any more.
    flushed_epoch: AtomicU64,
    /// CPUs that may have cached any of it. Only grows: those that have long flushed_epoch it are told
    /// by their epochs.
    cpus: [AtomicU64; WORDS],
}

impl DeferredFlush {
    /// Nothing is pending.
    #[must_use]
    pub fn new() -> Self {
        Self {
            epoch: AtomicU64::new(0),
            flushed_epoch: AtomicU64::new(0),
            cpus: core::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// Whether anything may be pending.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        self.epoch.load(Ordering::Acquire) > self.flushed_epoch.load(Ordering::Acquire)
    }

    /// `cpus` may have cached what was unmapped before `epoch`.
    pub(super) fn note(&self, epoch: u64, cpus: &CpuMask) {
        for (word, &cpus) in self.cpus.iter().zip(cpus.words()) {
            if word.load(Ordering::Relaxed) & cpus != cpus {
                word.fetch_or(cpus, Ordering::Relaxed);
            }
        }
        // Who sees the epoch sees the CPUs.
        self.epoch.fetch_max(epoch, Ordering::Release);
    }

    /// The epoch, and the CPUs that have to have flushed_epoch everything since.
    pub(super) fn pending(&self) -> (u64, CpuMask) {
        let epoch = self.epoch.load(Ordering::Acquire);
        let cpus = self.cpus.each_ref().map(|word| word.load(Ordering::Relaxed));
        (epoch, CpuMask::from_words(&cpus))
    }

    /// They have.
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
    fn every_cpu_that_a_memory_can_have_may_be_owed_a_flush() {
        let last = MAX_CPUS as u16 - 1;
        let cpus: CpuMask = [0, 511, 512, last].map(CpuId::new).into_iter().collect();
        let deferred = DeferredFlush::new();
        deferred.note(1, &cpus);
        assert_eq!(deferred.pending(), (1, cpus));
    }
}
