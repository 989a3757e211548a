//! The sizes of one CPU's lists: frames per refill, and when and how many blocks return to the
//! zone.
//!
//! Arithmetic only. `bulk` carries out its decisions under the zone lock.

use super::{
    MigrateType,
    lists::PAGEBLOCK_ORDER,
    stats::{CpuStats, DrainReason},
    tuning::{DrainAfter, HighOrderDrain, Sizing, Tuning},
};

/// Orders below this have a list per type.
const LISTED_ORDERS: u8 = 4;
/// Index of the first of the two lists of huge blocks.
const HUGE: usize = LISTED_ORDERS as usize * super::lists::TYPES;
/// Lists that hold blocks; the next one is private to bulk frees.
pub(super) const HOLDING_LISTS: usize = HUGE + 2;
/// The private list.
pub(super) const PRIVATE: usize = HOLDING_LISTS;

/// The list of a CPU that serves an order and migratetype; `None` where the lists are not used.
#[inline]
pub(super) fn list_index(order: u8, migratetype: MigrateType) -> Option<usize> {
    if order < LISTED_ORDERS {
        Some(usize::from(order) * super::lists::TYPES + migratetype as usize)
    } else if order == PAGEBLOCK_ORDER {
        Some(HUGE + usize::from(migratetype == MigrateType::Movable))
    } else {
        None
    }
}

/// Whether a list holds movable blocks.
pub(super) fn is_movable(index: usize) -> bool {
    match index.checked_sub(HUGE) {
        Some(huge) => huge == 1,
        None => index % super::lists::TYPES == MigrateType::Movable as usize,
    }
}

/// The order of the blocks on a list.
pub(super) fn list_order(index: usize) -> u8 {
    if index >= HUGE { PAGEBLOCK_ORDER } else { (index / super::lists::TYPES) as u8 }
}

/// The pressure on memory of the zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pressure {
    /// Free memory has fallen below the high watermark.
    pub below_high: bool,
    /// Reclaim is running.
    pub reclaim_active: bool,
}

/// A bulk free that became due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Drain {
    /// Approximate number of frames to return.
    pub(super) frames: u32,
    pub(super) reason: DrainReason,
}

/// The counters of one CPU's lists.
#[repr(align(64))]
pub(super) struct Pcp {
    /// Frames on all lists.
    pub(super) count: u32,
    /// Current limit of frames on all lists, between the bounds.
    high: u32,
    /// The number of times that the refill has doubled.
    alloc_factor: u8,
    scale_max: u8,
    every_free: bool,
    drain_after: DrainAfter,
    previous_free_was_high_order: bool,
    /// Whether a drain after high-order frees keeps a batch, because the cache holds it.
    keep_batch: bool,
    /// Recently freed frames, halved by each allocation.
    free_count: u32,
    /// Recent bulk free calls because of full lists, halved by each allocation.
    bulk_frees: u8,
    sizing: Sizing,
    pub(super) stats: CpuStats,
}

impl Pcp {
    pub(super) fn new(sizing: Sizing, tuning: &Tuning) -> Self {
        Self {
            count: 0,
            high: sizing.high_min,
            alloc_factor: 0,
            scale_max: tuning.batch_scale_max.min(6),
            every_free: tuning.high_order_drain == HighOrderDrain::EveryFree,
            drain_after: tuning.drain_after,
            previous_free_was_high_order: false,
            keep_batch: tuning.cache_frames.is_some_and(|frames| frames > 3 * sizing.batch),
            free_count: 0,
            bulk_frees: 0,
            sizing,
            stats: CpuStats::default(),
        }
    }

    /// Notes an allocation, successful or not.
    #[inline]
    pub(super) fn note_alloc(&mut self) {
        self.free_count >>= 1;
        self.bulk_frees >>= 1;
    }

    /// The number of blocks of `order` to fetch for an empty list.
    pub(super) fn refill_blocks(&mut self, order: u8, pressure: Pressure) -> u32 {
        self.clamp_high();
        let batch = self.sizing.batch;
        if self.high < batch {
            return 1;
        }
        let mut frames = if order == 0 { batch << self.alloc_factor } else { batch };
        if self.sizing.high_min != self.sizing.high_max && !pressure.below_high {
            self.high = (self.high + frames).min(self.sizing.high_max);
        }
        if order == 0 {
            let space = self.high.saturating_sub(self.count + batch).max(batch);
            if frames <= space && self.alloc_factor < self.scale_max {
                self.alloc_factor += 1;
            }
            frames = frames.min(space);
        }
        if frames > 1 { (frames >> order).max(2) } else { frames }
    }

    /// Notes a free block that was just put on a list. Returns the bulk free that is due, if any.
    #[inline]
    pub(super) fn note_free(&mut self, order: u8, pressure: Pressure) -> Option<Drain> {
        let batch = self.sizing.batch;
        self.alloc_factor >>= 1;
        self.count += 1 << order;
        let high_order = (1..LISTED_ORDERS).contains(&order);
        let mostly_frees = match self.drain_after {
            DrainAfter::Batch => self.free_count >= batch,
            DrainAfter::FullLists => self.bulk_frees > 0,
        };
        let empty = high_order
            && mostly_frees
            && (self.previous_free_was_high_order || self.every_free)
            && (!self.keep_batch || self.count >= batch);
        self.previous_free_was_high_order = high_order;
        if self.free_count < batch << self.scale_max {
            self.free_count += 1 << order;
        }
        let threshold = self.threshold(empty, pressure);
        (self.count >= threshold).then(|| self.due(empty, threshold))
    }

    /// The number of frames that the regular trimming returns to the zone.
    pub(super) fn decay(&mut self) -> u32 {
        if self.high > self.sizing.high_min {
            self.high = self
                .count
                .saturating_sub(self.scaled_batch())
                .max(self.high - self.high / 8)
                .max(self.sizing.high_min);
        }
        self.count.saturating_sub(self.high)
    }

    /// Limit of frames returned per hold of the zone lock when lists are emptied.
    pub(super) fn scaled_batch(&self) -> u32 {
        self.sizing.batch << self.scale_max
    }

    /// Raises the limit of the lists to `high` frames, but not above its upper bound.
    pub(super) fn raise_high(&mut self, high: u32) {
        self.high = self.high.max(high.min(self.sizing.high_max));
    }

    /// Frames per batch.
    pub(super) fn batch(&self) -> u32 {
        self.sizing.batch
    }

    fn clamp_high(&mut self) {
        self.high = self.high.max(self.sizing.high_min).min(self.sizing.high_max);
    }

    /// The number of listed frames from which a free drains. Adjusts the limit of the lists.
    #[inline]
    fn threshold(&mut self, empty: bool, pressure: Pressure) -> u32 {
        self.clamp_high();
        let Sizing { batch, high_min, high_max } = self.sizing;
        if self.high == 0 {
            return 0;
        }
        if empty {
            self.high = self.high.saturating_sub(self.scaled_batch()).max(high_min);
            return 0;
        }
        if pressure.reclaim_active || pressure.below_high {
            let lowered = self.high.saturating_sub(self.free_count.max(batch)).max(high_min);
            if pressure.reclaim_active {
                self.high = lowered;
                return self.high.min(4 * batch);
            }
            if high_min != high_max {
                self.high = lowered;
                return self.count.max(high_min);
            }
        }
        let threshold = self.high;
        if self.count >= self.high && high_min != high_max {
            let wanted = self.free_count + batch;
            self.high = self.high.max(wanted).max(high_min).min(high_max);
        }
        threshold
    }

    fn due(&mut self, empty: bool, threshold: u32) -> Drain {
        let batch = self.sizing.batch;
        if empty {
            let frames = self.count.min(self.scaled_batch());
            return Drain { frames, reason: DrainReason::HighOrder };
        }
        // Kernels doubled the batch with each of these, up to the size of the lists.
        if batch << self.bulk_frees < threshold.saturating_sub(batch) {
            self.bulk_frees += 1;
        }
        let frames = if threshold < batch {
            1
        } else {
            self.free_count.max(batch).min(threshold - batch).max(1)
        };
        Drain { frames, reason: DrainReason::Threshold }
    }
}

#[cfg(test)]
mod tests;
