//! What a memory knows of translations as a whole.

use super::{
    CpuFlushes, CpuMask, Shootdown,
    deferred::{DeferredFrees, Published},
    epoch::Epoch,
};
use crate::{
    observe::TlbStats,
    platform::{CpuId, Platform, Section},
    sync::{AtomicBool, AtomicU64, Ordering, SpinLock, fence},
    tuning::{FlushBatching, TlbTuning},
};

/// The epochs of CPUs, and deferred frames: a part of a [`Memory`](crate::Memory), used through
/// [`Flusher`](super::Flusher)s.
pub struct Tlb<'m, P: Platform> {
    pub(super) tuning: TlbTuning,
    /// Grows with every flush and every batch that is put off.
    pub(super) epoch: Epoch,
    pub(super) cpus: &'m [CpuFlushes<P>],
    pub(super) deferred: SpinLock<P, DeferredFrees<'m>>,
    pub(super) published: Published,
    /// Somebody flushes for deferred frames because they are many.
    pub(super) limiting: AtomicBool,
    reserved: Reserved,
    /// Frames that may be unmapped and not flushed: those that are deferred, and those of batches.
    unflushed_bound: u64,
    /// Frames that are flushed at once.
    pub(super) batch: u32,
    /// Frames that may be deferred.
    pub(crate) parked_max: u32,
}

/// What every batch writes, of all CPUs: on a cache line of its own, as all that is beside it is read
/// far more often.
#[repr(align(64))]
struct Reserved {
    /// Frames that batches under way have unmapped and not flushed, or have room for.
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
            parked_max: parked_max(&tuning, managed, cpus.len()),
            tuning,
            epoch: Epoch::new(),
            cpus,
            deferred: SpinLock::new(Section::DeferredFrees, deferred),
            published: Published::new(),
            limiting: AtomicBool::new(false),
            reserved: Reserved { frames: AtomicU64::new(0), unflushed_max: AtomicU64::new(0) },
            unflushed_bound: unflushed_bound(&tuning, managed, cpus.len()),
        }
    }

    /// Its settings.
    #[must_use]
    pub fn tuning(&self) -> &TlbTuning {
        &self.tuning
    }

    /// Frames that are deferred, possibly stale: allocated, unmapped, and waiting for a flush. No
    /// watermark counts them as free.
    #[must_use]
    pub fn deferred(&self) -> u64 {
        self.published.frames.load(Ordering::Relaxed)
    }

    /// Frames that may be deferred.
    #[must_use]
    pub fn parked_max(&self) -> u64 {
        u64::from(self.parked_max)
    }

    /// What was counted, over all CPUs.
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

    /// Which of `cpus` have not flushed_epoch everything since `epoch`.
    pub(super) fn not_flushed(&self, cpus: &CpuMask, epoch: u64) -> CpuMask {
        let not_flushed = |cpu: &CpuId| self.cpu(*cpu).is_some_and(|cpu| !cpu.has_flushed(epoch));
        cpus.iter().filter(not_flushed).collect()
    }

    /// Which of them can use what they have cached.
    pub(super) fn not_lazy(&self, shootdown: &dyn Shootdown, cpus: &CpuMask) -> CpuMask {
        // A CPU that wakes after it was looked at compares generations that were advanced before.
        fence(Ordering::SeqCst);
        cpus.iter().filter(|cpu| !shootdown.is_lazy(*cpu)).collect()
    }

    /// Frames that may be deferred before somebody flushes for some of them; others defer more
    /// meanwhile.
    pub(super) fn deferred_before_flush(&self) -> u64 {
        match self.tuning.batching {
            FlushBatching::All => u64::from(self.batch) - 1,
            _ => self.parked_max() - self.parked_max() / 4,
        }
    }

    /// Gives a batch room for up to `frames` frames that it is about to unmap, as far as the bound lets
    /// it; for how many.
    pub(super) fn reserve_unflushed(&self, frames: u64) -> u64 {
        let others = self.reserved.frames.fetch_add(frames, Ordering::AcqRel);
        // Who parks first says so, and then gives its room back: nothing is missed between the two.
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

    /// What a batch had room for is flushed, or deferred.
    pub(super) fn release_reserved(&self, frames: u64) {
        self.reserved.frames.fetch_sub(frames, Ordering::Release);
    }
}

/// Frames that are flushed at once: the more CPUs, the more of them have to be interrupted for it.
fn batch(tuning: &TlbTuning, managed: u64, cpus: usize) -> u32 {
    const EACH: u32 = 32;
    const LEAST: u32 = 64;
    let most = u32::try_from(managed / 400).unwrap_or(u32::MAX).max(LEAST);
    tuning.batch.or(|| (EACH * cpus as u32).clamp(LEAST, most))
}

/// Frames that may be deferred at once.
fn parked_max(tuning: &TlbTuning, managed: u64, cpus: usize) -> u32 {
    match tuning.batching {
        FlushBatching::Off | FlushBatching::CleanOnly => 0,
        // While one CPU flushes for a batch, others fill the next.
        FlushBatching::All => 2 * batch(tuning, managed, cpus),
        FlushBatching::Lazy => tuning
            .parked_max
            .or(|| u32::try_from(managed / 200).map_or(1 << 24, |max| max.min(1 << 24))),
    }
}

/// Frames that may be unmapped and not flushed at once, deferred or in batches under way: lazily no more
/// than may be deferred, but where that is very little for so many CPUs. Other batches never wait long;
/// there is one for each CPU that reclaims, and what is deferred.
fn unflushed_bound(tuning: &TlbTuning, managed: u64, cpus: usize) -> u64 {
    const EACH: u64 = 32;
    const LEAST: u64 = 256;
    match tuning.batching {
        FlushBatching::Lazy => {
            u64::from(parked_max(tuning, managed, cpus)).max(LEAST + EACH * cpus as u64)
        }
        _ => u64::MAX,
    }
}

/// Frames that there must be room for: as many as may be deferred, and a batch that was dropped.
pub(crate) fn deferred_capacity(tuning: &TlbTuning, managed: u64, cpus: usize) -> usize {
    parked_max(tuning, managed, cpus).max(64) as usize
}
