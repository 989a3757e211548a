//! What a memory knows of translations as a whole.

use super::{
    CpuFlushes, CpuMask, Shootdown,
    epoch::Epoch,
    parked::{Parked, Published},
};
use crate::{
    observe::TlbStats,
    platform::{CpuId, Platform, Section},
    sync::{AtomicU64, Ordering, SpinLock, fence},
    tuning::{FlushBatching, TlbTuning},
};

/// The epochs of CPUs, and parked frames: a part of a [`Memory`](crate::Memory), used through
/// [`Flusher`](super::Flusher)s.
pub struct Tlb<'m, P: Platform> {
    pub(super) tuning: TlbTuning,
    /// Grows with every flush and every batch that is put off.
    pub(super) epoch: Epoch,
    pub(super) cpus: &'m [CpuFlushes<P>],
    pub(super) parked: SpinLock<P, Parked<'m>>,
    pub(super) published: Published,
    unflushed_max: AtomicU64,
    /// Frames that may be parked.
    pub(crate) parked_max: u32,
}

impl<'m, P: Platform> Tlb<'m, P> {
    pub(crate) fn new(
        tuning: TlbTuning,
        managed: u64,
        cpus: &'m [CpuFlushes<P>],
        parked: Parked<'m>,
    ) -> Self {
        Self {
            parked_max: parked_max(&tuning, managed),
            tuning,
            epoch: Epoch::new(),
            cpus,
            parked: SpinLock::new(Section::Parked, parked),
            published: Published::new(),
            unflushed_max: AtomicU64::new(0),
        }
    }

    /// Its settings.
    #[must_use]
    pub fn tuning(&self) -> &TlbTuning {
        &self.tuning
    }

    /// Frames that are parked, possibly stale: allocated, unmapped, and waiting for a flush. No
    /// watermark counts them as free.
    #[must_use]
    pub fn parked(&self) -> u64 {
        self.published.frames.load(Ordering::Relaxed)
    }

    /// Frames that may be parked.
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
        sum.unflushed_frames_max = self.unflushed_max.load(Ordering::Relaxed);
        sum
    }

    pub(super) fn cpu(&self, cpu: CpuId) -> Option<&CpuFlushes<P>> {
        self.cpus.get(cpu.index())
    }

    /// Which of `cpus` have not forgotten everything since `epoch`.
    pub(super) fn behind(&self, cpus: &CpuMask, epoch: u64) -> CpuMask {
        let behind = |cpu: &CpuId| self.cpu(*cpu).is_some_and(|cpu| !cpu.has_forgotten(epoch));
        cpus.iter().filter(behind).collect()
    }

    /// Which of them can use what they have cached.
    pub(super) fn awake(&self, shootdown: &dyn Shootdown, cpus: &CpuMask) -> CpuMask {
        // A CPU that wakes after it was looked at compares generations that were advanced before.
        fence(Ordering::SeqCst);
        cpus.iter().filter(|cpu| !shootdown.is_lazy(*cpu)).collect()
    }

    /// There are so many frames that were unmapped and are not flushed.
    pub(super) fn note_unflushed(&self, frames: u64) {
        self.unflushed_max.fetch_max(frames, Ordering::Relaxed);
    }
}

/// Frames that may be parked at once.
fn parked_max(tuning: &TlbTuning, managed: u64) -> u32 {
    match tuning.batching {
        FlushBatching::Off | FlushBatching::CleanOnly => 0,
        // The batch that makes them so many is flushed.
        FlushBatching::All => tuning.batch - 1,
        FlushBatching::Lazy => tuning
            .parked_max
            .or(|| u32::try_from(managed / 200).map_or(1 << 24, |max| max.min(1 << 24))),
    }
}

/// Frames that there must be room for: as many as may be parked, and a batch that was dropped.
pub(crate) fn parked_capacity(tuning: &TlbTuning, managed: u64) -> usize {
    parked_max(tuning, managed).max(64) as usize
}
