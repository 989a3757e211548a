//! The frames that a CPU has allocated and freed through its lists of a zone.
//!
//! The hot path counts them, and tests whether a free of order 1 to 4 may drain the lists. Such a free
//! takes the slow path, where the rule decides ([`Sizing::on_free`](super::Sizing::on_free)).
//!
//! Access: only the side that is inside the lists writes. Any CPU may read.

use super::ListIndex;
use crate::{
    sync::{AtomicU64, Ordering},
    types::Order,
};

/// No block of order 1 to 4 was freed yet.
const NEVER: u64 = u64::MAX;

/// Counts of frames. The first two fields are in the first cache line of
/// [`CpuPages`](super::CpuPages), so that operations on single frames use only that line.
#[repr(C)]
pub(crate) struct Traffic {
    allocated: AtomicU64,
    freed: AtomicU64,
    /// Frames allocated beyond one per request.
    allocated_beyond: AtomicU64,
    /// `freed` after the last free of order 1 to 4, or [`NEVER`].
    freed_after_high_order: AtomicU64,
    /// No free of order 1 to 4 drains while `freed` is less.
    may_drain_from: AtomicU64,
}

impl Traffic {
    pub(super) fn new() -> Self {
        Self {
            allocated: AtomicU64::new(0),
            freed: AtomicU64::new(0),
            allocated_beyond: AtomicU64::new(0),
            freed_after_high_order: AtomicU64::new(NEVER),
            may_drain_from: AtomicU64::new(0),
        }
    }

    /// Counts one allocation from a list of `order`.
    #[inline(always)]
    pub(super) fn count_alloc(&self, order: Order) {
        let frames = order.frames();
        add(&self.allocated, frames);
        if frames > 1 {
            add(&self.allocated_beyond, frames - 1);
        }
    }

    /// Counts one free to a list of `order`.
    #[inline(always)]
    pub(super) fn count_free(&self, list: ListIndex, order: Order) {
        add(&self.freed, order.frames());
        if list.is_high_order() {
            let freed = self.freed.load(Ordering::Relaxed);
            self.freed_after_high_order.store(freed, Ordering::Relaxed);
        }
    }

    /// Whether the next free may drain by the rule of high-order frees, if it is of `order` and
    /// goes to `list`.
    #[inline(always)]
    pub(super) fn may_drain(&self, list: ListIndex, order: Order) -> bool {
        list.is_high_order()
            && self.freed.load(Ordering::Relaxed) + order.frames()
                >= self.may_drain_from.load(Ordering::Relaxed)
    }

    /// Lets a free of order 1 to 4 drain only once `freed` frames have been freed.
    pub(super) fn set_may_drain_from(&self, freed: u64) {
        self.may_drain_from.store(freed, Ordering::Relaxed);
    }

    /// Whether the last free was of order 1 to 4.
    pub(super) fn last_free_was_high_order(&self) -> bool {
        self.freed_after_high_order.load(Ordering::Relaxed) == self.freed.load(Ordering::Relaxed)
    }

    /// Whether blocks of order 1 to 4 were freed since `freed` frames were freed.
    pub(super) fn has_freed_high_order_since(&self, freed: u64) -> bool {
        let last = self.freed_after_high_order.load(Ordering::Relaxed);
        last != NEVER && last > freed
    }

    /// Frames allocated and freed so far.
    pub(super) fn frames(&self) -> (u64, u64) {
        (self.allocated.load(Ordering::Relaxed), self.freed.load(Ordering::Relaxed))
    }

    /// Frames allocated beyond one per request, so far.
    pub(super) fn allocated_beyond(&self) -> u64 {
        self.allocated_beyond.load(Ordering::Relaxed)
    }
}

/// Adds to a counter that has one writer at a time.
#[inline(always)]
fn add(counter: &AtomicU64, amount: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
}

/// A CPU that has freed this many frames in a row is in a burst of frees.
const BURST: u64 = 256;

/// Frames that count as a part of a run between two spills: one block of order 9 is no burst.
const MOST_AT_ONCE: u64 = BURST - 1;

/// The traffic of a CPU, for detecting bursts of frees.
#[derive(Clone, Copy, Default)]
pub(super) struct Burst {
    /// The counts of frames allocated and freed, when a ring for emptying pageblocks was last found full.
    seen: (u64, u64),
    /// Frames freed in the current run of frees, at most [`MOST_AT_ONCE`] between two spills.
    run: u64,
}

impl Burst {
    /// Whether the CPU is in a burst of frees, if it has allocated and freed `traffic` frames so
    /// far. A run of frees ends when more than half as many frames are allocated as freed between
    /// two spills.
    pub(super) fn update(&mut self, traffic: (u64, u64)) -> bool {
        let (allocated, freed) = (traffic.0 - self.seen.0, traffic.1 - self.seen.1);
        self.run = if 2 * allocated > freed { 0 } else { self.run + freed.min(MOST_AT_ONCE) };
        self.seen = traffic;
        self.lasts()
    }

    /// Whether the CPU was in a burst of frees at the last spill. Small bundles then go to the
    /// depot, if the zone has one, like those of other pageblocks: frees to the buddy would hold
    /// the lock for too long.
    pub(super) fn lasts(self) -> bool {
        self.run >= BURST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frees_in_a_row_are_a_burst_and_one_large_block_is_none() {
        let burst_after = |spills: &[(u64, u64)]| {
            let (mut burst, mut traffic) = (Burst::default(), (0, 0));
            for (allocated, freed) in spills {
                traffic = (traffic.0 + allocated, traffic.1 + freed);
                burst.update(traffic);
            }
            burst.lasts()
        };
        assert!(burst_after(&[(0, 100), (0, 100), (0, 100)]));
        assert!(!burst_after(&[(0, 100), (0, 100), (60, 100), (0, 100)]), "the run ended");
        assert!(!burst_after(&[(16, 16 + 512)]));
        assert!(burst_after(&[(0, 512), (0, 512)]));
    }
}
