//! What a memory knows of translations as a whole.

use super::{
    CpuFlushes, CpuMask, Shootdown,
    epoch::Epoch,
    parked::{Parked, Published},
};
use crate::{
    observe::TlbStats,
    platform::{Platform, Section, SpinLock},
    sync::{AtomicBool, AtomicU64, Ordering, fence},
    tuning::{FlushBatching, TlbTuning},
    types::CpuId,
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
    /// Somebody flushes for parked frames because they are many.
    pub(super) settling: AtomicBool,
    in_hand: InHand,
    /// Frames that may be unmapped and not flushed: those that are parked, and those of batches.
    unflushed_bound: u64,
    /// Frames that are flushed at once.
    pub(super) batch: u32,
    /// Frames that may be parked.
    pub(crate) parked_max: u32,
}

/// What every batch writes, of all CPUs: on a cache line of its own, as all that is beside it is read
/// far more often.
#[repr(align(64))]
struct InHand {
    /// Frames that batches under way have unmapped and not flushed, or have room for.
    frames: AtomicU64,
    unflushed_max: AtomicU64,
}

impl<'m, P: Platform> Tlb<'m, P> {
    pub(crate) fn new(
        tuning: TlbTuning,
        managed: u64,
        cpus: &'m [CpuFlushes<P>],
        parked: Parked<'m>,
    ) -> Self {
        Self {
            batch: batch(&tuning, managed, cpus.len()),
            parked_max: parked_max(&tuning, managed, cpus.len()),
            tuning,
            epoch: Epoch::new(),
            cpus,
            parked: SpinLock::new(Section::Parked, parked),
            published: Published::new(),
            settling: AtomicBool::new(false),
            in_hand: InHand { frames: AtomicU64::new(0), unflushed_max: AtomicU64::new(0) },
            unflushed_bound: unflushed_bound(&tuning, managed, cpus.len()),
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
        sum.unflushed_frames_max = self.in_hand.unflushed_max.load(Ordering::Relaxed);
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

    /// Frames that may be parked before somebody flushes for some of them; others park more
    /// meanwhile.
    pub(super) fn parked_until_due(&self) -> u64 {
        match self.tuning.batching {
            FlushBatching::All => u64::from(self.batch) - 1,
            _ => self.parked_max() - self.parked_max() / 4,
        }
    }

    /// Gives a batch room for up to `frames` frames that it is about to unmap, as far as the bound lets
    /// it; for how many.
    pub(super) fn take_in_hand(&self, frames: u64) -> u64 {
        let others = self.in_hand.frames.fetch_add(frames, Ordering::AcqRel);
        // Who parks first says so, and then gives its room back: nothing is missed between the two.
        let parked = self.published.frames.load(Ordering::Acquire);
        let all = others.saturating_add(parked).saturating_add(frames);
        let over = all.saturating_sub(self.unflushed_bound).min(frames);
        if over > 0 {
            self.give_back_in_hand(over);
        }
        let max = &self.in_hand.unflushed_max;
        if over < frames && max.load(Ordering::Relaxed) < all - over {
            max.fetch_max(all - over, Ordering::Relaxed);
        }
        frames - over
    }

    /// What a batch had room for is flushed, or parked.
    pub(super) fn give_back_in_hand(&self, frames: u64) {
        self.in_hand.frames.fetch_sub(frames, Ordering::Release);
    }
}

/// Frames that are flushed at once: the more CPUs, the more of them have to be interrupted for it.
fn batch(tuning: &TlbTuning, managed: u64, cpus: usize) -> u32 {
    const EACH: u32 = 32;
    const LEAST: u32 = 64;
    let most = u32::try_from(managed / 400).unwrap_or(u32::MAX).max(LEAST);
    tuning.batch.or(|| (EACH * cpus as u32).clamp(LEAST, most))
}

/// Frames that may be parked at once.
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

/// Frames that may be unmapped and not flushed at once, parked or in batches under way: lazily no more
/// than may be parked, but where that is very little for so many CPUs. Other batches never wait long;
/// there is one for each CPU that reclaims, and what is parked.
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

/// Frames that there must be room for: as many as may be parked, and a batch that was dropped.
pub(crate) fn parked_capacity(tuning: &TlbTuning, managed: u64, cpus: usize) -> usize {
    parked_max(tuning, managed, cpus).max(64) as usize
}
