//! What a memory knows of translations as a whole.

use super::{CpuFlushes, CpuMask, Shootdown, parked::Parked};
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
    /// Grows with every flush and every batch that is put off. Starts at 1.
    epoch: AtomicU64,
    pub(super) cpus: &'m [CpuFlushes<P>],
    pub(super) parked: SpinLock<P, Parked<'m>>,
    /// Frames in it, for who reads without its lock.
    pub(super) parked_frames: AtomicU64,
    unflushed_max: AtomicU64,
    /// Frames that may be parked with lazy batching.
    parked_max: u32,
}

impl<'m, P: Platform> Tlb<'m, P> {
    pub(crate) fn new(
        tuning: TlbTuning,
        parked_max: u32,
        cpus: &'m [CpuFlushes<P>],
        parked: Parked<'m>,
    ) -> Self {
        Self {
            parked_max,
            tuning,
            epoch: AtomicU64::new(1),
            cpus,
            parked: SpinLock::new(Section::Parked, parked),
            parked_frames: AtomicU64::new(0),
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
        self.parked_frames.load(Ordering::Relaxed)
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

    /// The epoch that what was unmapped before now has to wait for: a CPU that reads it, and then
    /// forgets everything, reaches none of it.
    pub(super) fn next_epoch(&self) -> u64 {
        // A CPU that reads a later epoch walks the page tables after they were changed.
        fence(Ordering::SeqCst);
        self.epoch.load(Ordering::Relaxed) + 1
    }

    /// Begins that epoch.
    pub(super) fn advance(&self) -> u64 {
        self.epoch.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// The epoch as a CPU reads it before it forgets.
    pub(super) fn begin_forgetting(&self) -> u64 {
        let epoch = self.epoch.load(Ordering::Acquire);
        fence(Ordering::SeqCst);
        epoch
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

    /// Frames that may be parked.
    pub(super) fn parked_limit(&self) -> u64 {
        match self.tuning.batching {
            FlushBatching::Off | FlushBatching::CleanOnly => 0,
            // The batch that fills it is flushed.
            FlushBatching::All => u64::from(self.tuning.batch) - 1,
            FlushBatching::Lazy => u64::from(self.parked_max),
        }
    }

    /// There are so many frames that were unmapped and are not flushed.
    pub(super) fn note_unflushed(&self, frames: u64) {
        self.unflushed_max.fetch_max(frames, Ordering::Relaxed);
    }
}

/// Frames that there must be room for: as many as may be parked, and a batch that was dropped.
pub(crate) fn parked_capacity(tuning: &TlbTuning, managed: u64) -> usize {
    let lazy =
        tuning.parked_max.or(|| u32::try_from(managed / 256).unwrap_or(u32::MAX).min(1 << 24));
    let parked = match tuning.batching {
        FlushBatching::Off | FlushBatching::CleanOnly => 0,
        FlushBatching::All => tuning.batch,
        FlushBatching::Lazy => lazy,
    };
    parked.max(64) as usize
}
