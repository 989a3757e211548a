//! TLB state that all CPUs of a memory share.

use super::{
    CpuFlushes, CpuMask, Shootdown,
    deferred::{DeferredFrees, Published},
    epoch::Epoch,
};
use crate::{
    core::TryLock,
    observe::TlbStats,
    platform::{Platform, Section, SpinLock},
    sync::{AtomicU64, Ordering, fence},
    tuning::{FlushBatching, TlbTuning},
    types::CpuId,
};

/// The epochs of CPUs, and deferred frames: a part of a [`Memory`](crate::Memory), used through
/// [`Flusher`](super::Flusher)s.
pub struct Tlb<'m, P: Platform> {
    pub(super) tuning: TlbTuning,
    /// Grows with every flush and every deferred batch.
    pub(super) epoch: Epoch,
    pub(super) cpus: &'m [CpuFlushes<P>],
    pub(super) deferred: SpinLock<P, DeferredFrees<'m>>,
    pub(super) published: Published,
    /// Held by a CPU that flushes because many frames are deferred.
    pub(super) limiting: TryLock,
    reserved: Reserved,
    /// The maximum number of unflushed frames, deferred or in batches.
    unflushed_bound: u64,
    /// Frames per batch.
    pub(super) batch: u32,
    /// The maximum number of deferred frames.
    pub(crate) deferred_max: u32,
}

/// Written by every batch on every CPU. It has a cache line of its own, because the fields next to
/// it are read far more often.
#[repr(align(64))]
struct Reserved {
    /// Frames that batches in progress have unmapped and not flushed, or have reserved.
    frames: AtomicU64,
    unflushed_max: AtomicU64,
}

impl<'m, P: Platform> Tlb<'m, P> {
    pub(crate) fn new(
        tuning: TlbTuning,
        managed: u64,
        cpus: &'m [CpuFlushes<P>],
        deferred: DeferredFrees<'m>,
    ) -> Self {
        Self {
            batch: batch(&tuning, managed, cpus.len()),
            deferred_max: deferred_max(&tuning, managed, cpus.len()),
            tuning,
            epoch: Epoch::new(),
            cpus,
            deferred: SpinLock::new(Section::DeferredFrees, deferred),
            published: Published::new(),
            limiting: TryLock::new(),
            reserved: Reserved { frames: AtomicU64::new(0), unflushed_max: AtomicU64::new(0) },
            unflushed_bound: unflushed_bound(&tuning, managed, cpus.len()),
        }
    }

    /// The settings.
    #[must_use]
    pub fn tuning(&self) -> &TlbTuning {
        &self.tuning
    }

    /// Number of deferred frames, possibly out of date: allocated, unmapped, and waiting for a
    /// flush. They do not count as free for any watermark.
    #[must_use]
    pub fn deferred(&self) -> u64 {
        self.published.frames.load(Ordering::Relaxed)
    }

    /// The maximum number of deferred frames.
    #[must_use]
    pub fn deferred_max(&self) -> u64 {
        u64::from(self.deferred_max)
    }

    /// Counters summed over all CPUs.
    #[must_use]
    pub fn stats(&self) -> TlbStats {
        let mut sum = TlbStats::default();
        for cpu in self.cpus {
            sum += cpu.counters.read();
        }
        sum.unflushed_frames_max = self.reserved.unflushed_max.load(Ordering::Relaxed);
        sum
    }

    pub(super) fn cpu(&self, cpu: CpuId) -> Option<&CpuFlushes<P>> {
        self.cpus.get(cpu.index())
    }

    /// Those of `cpus` that have not flushed everything since `epoch`.
    pub(super) fn not_flushed(&self, cpus: &CpuMask, epoch: u64) -> CpuMask {
        let not_flushed = |cpu: &CpuId| self.cpu(*cpu).is_some_and(|cpu| !cpu.has_flushed(epoch));
        cpus.iter().filter(not_flushed).collect()
    }

    /// Those of `cpus` that are not lazy, and so may use their cached entries.
    pub(super) fn not_lazy(&self, shootdown: &dyn Shootdown, cpus: &CpuMask) -> CpuMask {
        // A CPU that stops being lazy after this check compares generations that were advanced
        // before.
        fence(Ordering::SeqCst);
        cpus.iter().filter(|cpu| !shootdown.is_lazy(*cpu)).collect()
    }

    /// The number of deferred frames above which a CPU flushes for some of them. Meanwhile other
    /// CPUs can defer more.
    pub(super) fn deferred_before_flush(&self) -> u64 {
        match self.tuning.batching {
            FlushBatching::All => u64::from(self.batch) - 1,
            _ => self.deferred_max() - self.deferred_max() / 4,
        }
    }

    /// Reserves up to `frames` frames that a batch is about to unmap, within the bound on unflushed
    /// frames. Returns the number of reserved frames.
    pub(super) fn reserve_unflushed(&self, frames: u64) -> u64 {
        let others = self.reserved.frames.fetch_add(frames, Ordering::AcqRel);
        // A batch first publishes the frames that it defers and then releases its reservation, so
        // no frame is missed between the two.
        let deferred = self.published.frames.load(Ordering::Acquire);
        let all = others.saturating_add(deferred).saturating_add(frames);
        let over = all.saturating_sub(self.unflushed_bound).min(frames);
        if over > 0 {
            self.release_reserved(over);
        }
        let max = &self.reserved.unflushed_max;
        if over < frames && max.load(Ordering::Relaxed) < all - over {
            max.fetch_max(all - over, Ordering::Relaxed);
        }
        frames - over
    }

    /// Releases the reservation of frames that were flushed or deferred.
    pub(super) fn release_reserved(&self, frames: u64) {
        self.reserved.frames.fetch_sub(frames, Ordering::Release);
    }
}

/// Frames per batch: the setting `tlb.batch`. By default 32 for every CPU, because a flush interrupts
/// all CPUs; at most a 400th of the memory, and at least 64.
fn batch(tuning: &TlbTuning, managed: u64, cpus: usize) -> u32 {
    const EACH: u32 = 32;
    const LEAST: u32 = 64;
    let most = u32::try_from(managed / 400).unwrap_or(u32::MAX).max(LEAST);
    tuning.batch.or(|| (EACH * cpus as u32).clamp(LEAST, most))
}

/// The maximum number of deferred frames.
fn deferred_max(tuning: &TlbTuning, managed: u64, cpus: usize) -> u32 {
    match tuning.batching {
        FlushBatching::Off | FlushBatching::CleanOnly => 0,
        // While one CPU flushes for a batch, others fill the next one.
        FlushBatching::All => 2 * batch(tuning, managed, cpus),
        FlushBatching::Lazy => tuning
            .deferred_max
            .or(|| u32::try_from(managed / 200).map_or(1 << 24, |max| max.min(1 << 24))),
    }
}

/// The maximum number of unmapped frames that are not flushed. With lazy batching, this is the
/// maximum number of deferred frames, but at least 256 plus 32 for every CPU. With other batching,
/// there is no bound: batches end soon, and each CPU that reclaims has one.
fn unflushed_bound(tuning: &TlbTuning, managed: u64, cpus: usize) -> u64 {
    const EACH: u64 = 32;
    const LEAST: u64 = 256;
    match tuning.batching {
        FlushBatching::Lazy => {
            u64::from(deferred_max(tuning, managed, cpus)).max(LEAST + EACH * cpus as u64)
        }
        _ => u64::MAX,
    }
}

/// The capacity for deferred frames: the maximum number that may be deferred, and at least 64 for a dropped
/// batch.
pub(crate) fn deferred_capacity(tuning: &TlbTuning, managed: u64, cpus: usize) -> usize {
    deferred_max(tuning, managed, cpus).max(64) as usize
}
