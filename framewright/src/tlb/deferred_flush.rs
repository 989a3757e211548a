//! The pending flush of an address space or a file.

use super::{CpuMask, mask::WORDS};
use crate::{
    sync::{AtomicU64, Ordering},
    types::MemoryTag,
};

/// Deferred flushes that concern one address space, or the contents of one file. The embedder has
/// one per address space and one per file.
///
/// [`FlushBatch::add`](super::FlushBatch::add) records removed translations, and
/// [`Flusher::flush_deferred`](super::Flusher::flush_deferred) flushes them. A comparison of two
/// numbers tells whether a flush is pending.
///
/// A deferred flush belongs to the first memory whose batch records something in it, because the epochs are those of
/// that memory. An address space or a file with pages of several memories needs one for each. With another memory it
/// defers nothing: a batch flushes at once, and [`Flusher::flush_deferred`](super::Flusher::flush_deferred) flushes
/// everything each time and leaves the flush of the first memory pending. After the first memory is dropped, the value
/// must not be used with a later one.
///
/// The embedder calls `flush_deferred` with the value
/// * of an **address space**, under its page-table lock, before it returns from unmapping,
///   protecting or moving pages, before addresses are reused, and before it installs an entry that
///   allows stores. (A clear entry does not mean that no CPU has the translation cached: a batch
///   may have cleared the entry and not flushed yet.)
/// * of a **file** under the lock that prevents pages of the file from being mapped: before a
///   write, a writable mapping, truncation, or invalidation of any of its pages.
#[derive(Debug)]
pub struct DeferredFlush {
    /// The address that identifies the memory of this flush; 0: none yet.
    memory: AtomicU64,
    /// CPUs that have flushed everything since this epoch have no removed entry cached.
    epoch: AtomicU64,
    /// Everything before this epoch is flushed.
    flushed_epoch: AtomicU64,
    /// CPUs that may have removed entries cached. The set only grows; the epochs of the CPUs tell
    /// which of them have flushed since.
    cpus: [AtomicU64; WORDS],
}

impl DeferredFlush {
    /// No flush is pending.
    #[must_use]
    pub fn new() -> Self {
        Self {
            memory: AtomicU64::new(0),
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

    /// Whether the flush belongs to this memory. A flush without a memory belongs to this one from
    /// now on.
    pub(super) fn belongs_to(&self, memory: MemoryTag<'_>) -> bool {
        let address = memory.address().get() as u64;
        let mut found = self.memory.load(Ordering::Relaxed);
        if found == 0 {
            let order = Ordering::Relaxed;
            let first = self.memory.compare_exchange(0, address, order, order);
            found = first.map_or_else(|other| other, |_| address);
        }
        found == address
    }

    /// Records that `cpus` may have cached entries whose removal was before `epoch`.
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

    /// Records that all CPUs of the set have flushed everything since `epoch`.
    pub(super) fn set_flushed(&self, epoch: u64) {
        self.flushed_epoch.fetch_max(epoch, Ordering::AcqRel);
    }
}

impl Default for DeferredFlush {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(any(framewright_loom, framewright_tso))))]
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
