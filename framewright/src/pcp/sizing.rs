//! The limits of a CPU's lists: the number of frames that they move at once, and the number that
//! they may contain.
//!
//! The rules are Linux's (6.7 and later), with two differences. First, they are evaluated when a
//! ring is refilled or spills or a high-order free may drain, not per operation. So the hot path
//! only counts frames. Second, while a CPU only allocates, refills of every order grow, not only
//! refills of order 0, because a huge page costs a lock acquisition like any other block.

mod high_order;

use super::{ListIndex, index::RING, traffic::Traffic};
use crate::{
    tuning::{HighOrderDrain, PcpTuning},
    types::Order,
};

/// Bounds and state of one CPU's lists. All sizes are in frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizing {
    batch: u32,
    high_min: u32,
    high_max: u32,
    /// Frames that the CPU may hold now, between the two bounds.
    high: u32,
    /// Refills may enlarge the lists to one in this many of the frames that are free, in the zone or on these lists; 0:
    /// without this limit.
    share_of_free: u64,
    /// A refill asks for `batch << alloc_factor` frames.
    alloc_factor: u32,
    /// Frames freed recently and not allocated again.
    free_count: u32,
    /// Frames freed beyond those allocated, from -`high` to `burst`.
    surplus: i64,
    /// Frames of a burst of high-order frees that have still to return to the zone.
    owed: u32,
    /// Frames allocated and freed when `free_count` was last updated.
    seen: (u64, u64),
    /// Maximum of `alloc_factor`. A bulk free returns at most `batch << scale_max` frames.
    scale_max: u32,
    /// The largest order with rings, apart from pageblocks.
    max_order: u32,
    /// Batches of frames for which a ring has space.
    ring_batches: u32,
    /// The high-order frees that drain.
    rule: HighOrderDrain,
    /// Whether one free returns all frames of a burst of high-order frees.
    drains_at_once: bool,
    /// Frames freed in a row before a high-order free may drain.
    burst: u32,
    /// Whether a high-order free drains nothing while the lists hold less than a batch.
    keep_batch: bool,
    /// Maximum number of pageblocks in which one hold of the zone lock frees blocks.
    hold: u32,
    /// Whether many CPUs share the zone.
    is_contended: bool,
}

/// The free memory of the zone.
#[derive(Clone, Copy)]
pub(crate) struct ZoneFree {
    /// Free frames, without those on lists of CPUs.
    pub(crate) frames: u64,
    /// Whether they are below the high watermark.
    pub(crate) is_low: bool,
}

/// Lists that may hold fewer frames than this are too short for blocks to wait in them for their neighbours.
pub(super) const LONG_LISTS: u32 = 2048;

/// A zone that at most this many CPUs share is rarely contended. So the work is divided into more
/// and shorter holds of its lock.
const FEW_CPUS: u64 = 8;

/// The maximum number of pageblocks in which one hold of the zone lock frees blocks, for one of
/// `cpus` CPUs that share the zone.
fn hold_pageblocks(tuning: &PcpTuning, cpus: u64) -> u32 {
    tuning.hold_pageblocks.or(|| if cpus <= FEW_CPUS { 16 } else { 64 }).clamp(1, 64)
}

/// The batch of a zone of `managed` frames: a quarter of 1/1024 of the zone, at most a quarter of 1
/// MiB, rounded to a power of two minus one.
pub(crate) fn default_batch(managed: u64) -> u32 {
    let quarter = ((managed / 1024).min(256) / 4).max(1) as u32;
    let rounded = (quarter + quarter / 2).max(1);
    ((1 << rounded.ilog2()) - 1).max(1)
}

/// The self-tuned lists of one of `cpus` CPUs may hold one frame in this many. Only its owner can allocate from a list,
/// and with more CPUs, a larger part of the frames on lists belongs to other CPUs. So the share of all lists together
/// shrinks with the number of CPUs, down to a bound.
fn largest_share(tuning: &PcpTuning, cpus: u64) -> u64 {
    let few = u64::from(tuning.high_max_divisor);
    let many = u64::from(tuning.high_max_divisor_many);
    cpus.min(many).max(few).max(1) * cpus.max(1)
}

/// The number of frames freed in a row after which the second high-order free drains. It is at
/// least half of the maximum of one bulk free, so that a CPU that frees the blocks of another CPU
/// rarely takes the lock.
fn long_burst(batch: u32, high_min: u32, scale_max: u32) -> u32 {
    (batch + high_min / 2).max((batch << scale_max) / 2)
}

/// Whether one free returns all frames of a burst of high-order frees, as the older rule did.
fn drains_at_once(tuning: &PcpTuning) -> bool {
    #[cfg(feature = "compare")]
    if tuning.high_order_at_once {
        return true;
    }
    tuning.high_order_drain == HighOrderDrain::EveryFree
}

/// Slots in the store of one of `cpus` CPUs: by default enough words of 64 frames for its share of
/// the zone, within bounds.
pub(crate) fn bundle_slots(tuning: &PcpTuning, managed: u64, cpus: u64) -> usize {
    let share = (managed / 64 / cpus.max(1)).clamp(64, 2048) as u32;
    tuning.bundle_slots.or(|| share).next_power_of_two() as usize
}

impl Sizing {
    /// The sizing for one of `cpus` online CPUs on a zone of `managed` frames with the low
    /// watermark `low`; its store has `slots` slots.
    pub(crate) fn new(tuning: &PcpTuning, managed: u64, low: u64, cpus: u32, slots: usize) -> Self {
        let batch = tuning.batch.or(|| default_batch(managed));
        let cpus = u64::from(cpus.max(1));
        let least = 4 * u64::from(batch);
        let capacity = 64 * slots as u64;
        let share = largest_share(tuning, cpus);
        #[cfg(feature = "compare")]
        let share_of_free = if tuning.refill_ignores_free { 0 } else { share };
        #[cfg(not(feature = "compare"))]
        let share_of_free = share;
        let bounded = |frames: u64| frames.max(least).min(capacity) as u32;
        let (high_min, high_max) = if tuning.high_fraction == 0 {
            (low / cpus, managed / share)
        } else {
            let fixed = managed / u64::from(tuning.high_fraction) / cpus;
            (fixed, fixed)
        };
        let high_min = bounded(high_min);
        Self {
            batch,
            high_min,
            high_max: bounded(high_max).max(high_min),
            high: high_min,
            share_of_free,
            alloc_factor: 0,
            free_count: 0,
            surplus: 0,
            owed: 0,
            seen: (0, 0),
            scale_max: tuning.scale_max,
            max_order: tuning.max_order,
            ring_batches: tuning.ring_batches,
            rule: tuning.high_order_drain,
            drains_at_once: drains_at_once(tuning),
            burst: tuning.high_order_burst.or(|| match tuning.high_order_drain {
                HighOrderDrain::EveryFree => batch,
                HighOrderDrain::SecondConsecutive => long_burst(batch, high_min, tuning.scale_max),
            }),
            keep_batch: tuning.cache_frames > 3 * batch,
            hold: hold_pageblocks(tuning, cpus),
            is_contended: cpus > FEW_CPUS,
        }
    }

    /// The sizing of lists that are switched off: every free goes to the zone.
    pub(crate) fn disabled() -> Self {
        Self {
            batch: 1,
            high_min: 0,
            high_max: 0,
            high: 0,
            share_of_free: 0,
            alloc_factor: 0,
            free_count: 0,
            surplus: 0,
            owed: 0,
            seen: (0, 0),
            scale_max: 0,
            max_order: 0,
            ring_batches: 1,
            rule: HighOrderDrain::default(),
            drains_at_once: true,
            burst: u32::MAX,
            keep_batch: false,
            hold: 64,
            is_contended: false,
        }
    }

    /// Sets new bounds. Keeps the adapted `high`, within these bounds, and forgets the other
    /// adapted values.
    pub(crate) fn resize(&mut self, to: Sizing) {
        let high = if self.high == 0 { to.high } else { self.high };
        *self = Sizing { seen: self.seen, ..to };
        self.high = high.min(to.high_max).max(to.high_min);
    }

    /// Maximum number of pageblocks in which one hold of the zone lock frees blocks.
    pub(crate) fn hold_pageblocks(&self) -> u32 {
        self.hold
    }

    /// Whether the CPU has freed at least a burst more frames than it has allocated, both lately and in all. Other CPUs
    /// have then allocated these frames, and will probably allocate them again.
    pub(super) fn frees_of_others(&self) -> bool {
        let in_all = self.seen.1 as i64 - self.seen.0 as i64;
        self.surplus.min(in_all) >= self.burst.into()
    }

    /// Whether many CPUs share the zone.
    pub(super) fn is_contended(&self) -> bool {
        self.is_contended
    }

    /// Unit of refill and drain, in frames.
    pub(crate) fn batch(&self) -> u32 {
        self.batch
    }

    /// Frames that the CPU may hold now.
    pub(crate) fn high(&self) -> u32 {
        self.high
    }

    /// Least and greatest value of [`Sizing::high`].
    pub(crate) fn bounds(&self) -> (u64, u64) {
        (self.high_min.into(), self.high_max.into())
    }

    pub(crate) fn is_disabled(&self) -> bool {
        self.high_max == 0
    }

    fn has_rings(&self, order: Order) -> bool {
        !self.is_disabled() && (order.get() <= self.max_order as u8 || order == Order::PAGEBLOCK)
    }

    /// Blocks that the ring of a list may contain: some batches of frames ([`PcpTuning::ring_batches`]), but at least 16
    /// times as many blocks, because otherwise a free of order 2 or 3, or any free in a small zone, would often spill.
    /// This least number is limited to a 32nd of the frames that the CPU may hold, for order 0 to an eighth: for all
    /// orders up to 4 and three types, these are three quarters of them. No ring contains more frames than the CPU may
    /// hold. The ring for emptying pageblocks contains as many frames as one hold of the zone lock may free in different
    /// pageblocks.
    pub(crate) fn ring_limit(&self, list: ListIndex) -> usize {
        let order = list.order();
        if !list.is_emptying() {
            return self.ring_blocks(order);
        }
        if self.has_rings(order) { (self.hold as usize >> order.get()).max(1) } else { 0 }
    }

    /// [`Sizing::ring_limit`] of a list of `order` that is not for emptying pageblocks.
    fn ring_blocks(&self, order: Order) -> usize {
        if !self.has_rings(order) {
            return 0;
        }
        // A batch is usually one less than a power of two. With one frame more, whole words of the
        // map spill.
        let frames = self.ring_batches * (self.batch + 1);
        let affordable = |share| (self.high_max / share) >> order.get();
        let least = match order {
            Order::PAGEBLOCK => 32,
            _ => affordable(if order == Order::ZERO { 8 } else { 32 })
                .min(16 * self.ring_batches)
                .max(2),
        };
        let blocks = (frames >> order.get()).max(least);
        (blocks.min(affordable(1)) as usize).min(RING)
    }

    /// Blocks to request from the zone for a list that has run out while the CPU holds `held`
    /// frames. If the zone is low the lists do not grow, because that would starve other CPUs.
    pub(crate) fn on_refill(&mut self, order: Order, held: u64, zone: ZoneFree) -> u32 {
        if self.high < self.batch || !self.has_rings(order) {
            return 1;
        }
        let mut frames = self.batch << self.alloc_factor;
        if self.is_tuned() && !zone.is_low {
            self.high = (self.high + frames).min(self.high_max);
        }
        let held = u32::try_from(held).unwrap_or(u32::MAX);
        let limit = self.refill_limit(order, zone.frames.saturating_add(held.into()));
        let space = limit.saturating_sub(held).saturating_sub(self.batch).max(self.batch);
        if frames <= space && self.alloc_factor < self.scale_max {
            self.alloc_factor += 1;
        }
        frames = frames.min(space);
        if frames == 1 {
            return 1;
        }
        let least = match order {
            Order::ZERO => 2,
            // A pageblock is larger than any batch, so for pageblocks the factor counts blocks instead
            // of frames, up to a whole ring.
            Order::PAGEBLOCK => 1 << self.alloc_factor.min(5),
            // A batch has few blocks of these orders.
            _ => self.ring_blocks(order) as u32 / 4,
        };
        let blocks = (frames >> order.get()).max(least);
        blocks.min((space >> order.get()).max(2)).max(2)
    }

    /// Frames up to which a refill of a list of `order` may enlarge the lists: [`Sizing::high`], but no more than the share
    /// of a CPU in `free` frames, those of the zone and those on its lists. While little is free, frames on lists are
    /// missing in the zone: for requests of other orders and CPUs, it must break huge pages. A refill with whole
    /// pageblocks breaks none.
    fn refill_limit(&self, order: Order, free: u64) -> u32 {
        let share = free.checked_div(self.share_of_free).unwrap_or(u64::MAX);
        if self.is_tuned() && order < Order::PAGEBLOCK && share < self.high.into() {
            return (share as u32).max(self.high_min);
        }
        self.high
    }

    /// Records the frames allocated and freed since the last call. Frees in a row add up;
    /// allocations reduce the count.
    pub(super) fn observe(&mut self, traffic: &Traffic) {
        let seen = core::mem::replace(&mut self.seen, traffic.frames());
        let allocated = self.seen.0 - seen.0;
        let freed = self.seen.1 - seen.1;
        self.free_count = self.free_count.checked_shr(allocated.min(31) as u32).unwrap_or(0);
        let net = u32::try_from(freed.saturating_sub(allocated)).unwrap_or(u32::MAX);
        self.free_count = self.free_count.saturating_add(net).min(self.batch << self.scale_max);
        // Refills grow while the CPU only allocates. Each high-order free should halve the factor,
        // but the number of these frees is not known. So they reset it.
        if traffic.has_freed_high_order_since(seen.1) {
            self.alloc_factor = 0;
        } else if freed > allocated {
            self.alloc_factor >>= 1;
        }
        // Frames that the CPU has allocated itself and frees again are no surplus. At most `high`
        // of them count, because the lists may hold so many frames anyway.
        let surplus = self.surplus + freed as i64 - allocated as i64;
        self.surplus = surplus.max(-i64::from(self.high)).min(self.burst.into());
    }

    /// Frames to return to the zone after a ring has spilled while the CPU holds `held`; 0: none.
    pub(crate) fn on_spill(&mut self, held: u64, zone_is_low: bool) -> u64 {
        if self.is_disabled() {
            return held;
        }
        let held = u32::try_from(held).unwrap_or(u32::MAX);
        let threshold = if !self.is_tuned() {
            self.high
        } else if zone_is_low {
            let less = self.free_count.max(self.batch);
            self.high = self.high.saturating_sub(less).max(self.high_min);
            held.max(self.high_min)
        } else {
            let before = self.high;
            if held >= self.high {
                self.high = self.high.max(self.free_count + self.batch).min(self.high_max);
            }
            before
        };
        if held < threshold {
            return 0;
        }
        let most = threshold.saturating_sub(self.batch).max(self.batch);
        // A move from a full ring may have added more than a bulk free returns.
        let beyond = held.saturating_sub(self.high_max);
        u64::from(self.free_count.clamp(self.batch, most).max(beyond))
    }

    fn is_tuned(&self) -> bool {
        self.high_min != self.high_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::MigrateType;

    const GIB: u64 = 1 << 18;
    const ALL_FREE: ZoneFree = ZoneFree { frames: u64::MAX, is_low: false };

    fn sizing(managed: u64) -> Sizing {
        Sizing::new(&PcpTuning::default(), managed, managed / 500, 2, 4096)
    }

    #[test]
    fn batches_follow_the_table() {
        for (managed, batch) in
            [(GIB, 63), (16 * GIB, 63), (GIB / 2, 31), (GIB / 4, 15), (GIB / 8, 7), (GIB / 16, 3)]
        {
            assert_eq!(default_batch(managed), batch, "{managed}");
        }
        assert_eq!(default_batch(GIB / 32), 1);
        assert_eq!(default_batch(512), 1);
    }

    #[test]
    fn the_more_cpus_the_smaller_the_share_of_their_lists() {
        let share = |cpus| largest_share(&PcpTuning::default(), cpus) / cpus;
        assert_eq!([1, 2, 8, 16, 50, 56, 500].map(share), [8, 8, 8, 16, 50, 50, 50]);
    }

    #[test]
    fn a_refill_enlarges_self_tuned_lists_to_at_most_a_share_of_the_free_frames() {
        let asked = |tuning: &PcpTuning, order, held, frames| {
            let mut sizing = Sizing::new(tuning, 16 * GIB, 5000, 2, 4096);
            (0..1000).for_each(|_| _ = sizing.on_refill(Order::ZERO, 0, ALL_FREE));
            sizing.on_refill(order, held, ZoneFree { frames, is_low: false })
        };
        let asked_by_default =
            |held, frames| asked(&PcpTuning::default(), Order::ZERO, held, frames);
        assert_eq!(asked_by_default(5000, u64::MAX), 2016);
        // Both CPUs together may hold an eighth, and keep space for a batch.
        assert_eq!(asked_by_default(5000, 96_000 - 5000), 1000 - 63);
        assert_eq!(asked_by_default(5000, 80_000 - 5000), 63);
        assert_eq!(asked_by_default(1500, 0), 1000 - 63, "the least size of the lists");
        assert_eq!(asked(&PcpTuning::default(), Order::PAGEBLOCK, 0, 0), 32, "whole pageblocks");
        let fixed = PcpTuning { high_fraction: 8, ..PcpTuning::default() };
        assert_eq!(asked(&fixed, Order::ZERO, 5000, 0), 2016);
    }

    #[test]
    fn rings_hold_some_batches_or_16_blocks_for_each() {
        let limits = |ring_batches, managed, cpus| {
            let tuning = PcpTuning { ring_batches, ..PcpTuning::default() };
            let sizing = Sizing::new(&tuning, managed, managed / 500, cpus, 4096);
            [0, 1, 2, 3, 4, 9].map(|order| {
                let order = Order::new(order).unwrap();
                sizing.ring_limit(ListIndex::serving(order, MigrateType::Movable).unwrap())
            })
        };
        assert_eq!(limits(4, GIB, 2), [128, 128, 64, 64, 32, 32]);
        assert_eq!(limits(2, GIB, 2), [128, 64, 32, 32, 32, 32]);
        assert_eq!(limits(1, GIB, 2), [64, 32, 16, 16, 16, 32]);
        assert_eq!(limits(4, GIB / 4, 2), [64, 64, 32, 16, 8, 8]);
        // The CPU may hold 512 frames here, and 64 in the last case. An eighth of that limits the ring of order 0, a
        // 32nd those of orders 1 to 4.
        assert_eq!(limits(4, GIB / 16, 4), [64, 8, 4, 2, 2, 1]);
        assert_eq!(limits(4, GIB / 64, 8), [8, 4, 2, 2, 2, 0]);
    }

    #[test]
    fn refills_double_while_there_is_room_and_pageblocks_up_to_a_ring() {
        let asked = |managed, order| {
            let mut sizing = sizing(managed);
            [(); 7].map(|()| sizing.on_refill(order, 0, ALL_FREE))
        };
        assert_eq!(asked(16 * GIB, Order::ZERO), [63, 126, 252, 504, 1008, 2016, 2016]);
        assert_eq!(asked(64 * GIB, Order::PAGEBLOCK), [2, 4, 8, 16, 32, 32, 32]);
    }

    #[test]
    fn a_refill_of_larger_blocks_asks_for_a_quarter_of_a_ring_if_the_lists_may_hold_it() {
        let asked = |managed, held| {
            [1, 2, 3, 4].map(|order| {
                let order = Order::new(order).unwrap();
                sizing(managed).on_refill(order, held, ALL_FREE)
            })
        };
        assert_eq!(asked(16 * GIB, 0), [32, 16, 16, 16]);
        assert_eq!(asked(16 * GIB, 16 * GIB), [31, 15, 7, 3]);
        assert_eq!(asked(GIB / 4, 0), [16, 8, 4, 2]);
    }

    #[test]
    fn refills_are_small_again_after_frees() {
        let list = |order| ListIndex::serving(order, MigrateType::Movable).unwrap();
        let next_refill = |order: Order, blocks| {
            let (mut sizing, traffic) = (sizing(16 * GIB), Traffic::new());
            (0..6).for_each(|_| _ = sizing.on_refill(Order::ZERO, 0, ALL_FREE));
            (0..1000).for_each(|_| traffic.count_alloc(Order::ZERO));
            (0..blocks).for_each(|_| traffic.count_free(list(order), order));
            sizing.observe(&traffic);
            sizing.on_refill(Order::ZERO, 0, ALL_FREE)
        };
        assert_eq!(next_refill(Order::ZERO, 0), 2016);
        assert_eq!(next_refill(Order::ZERO, 1000), 2016);
        assert_eq!(next_refill(Order::ZERO, 1001), 252);
        assert_eq!(next_refill(Order::new(1).unwrap(), 1), 63);
        assert_eq!(next_refill(Order::PAGEBLOCK, 1), 2016);
    }

    #[test]
    fn a_cpu_frees_frames_of_others_after_a_burst_beyond_all_that_it_allocated() {
        let (mut sizing, traffic) = (sizing(GIB / 16), Traffic::new());
        let burst = u64::from(sizing.burst);
        let mut frees = |frames| {
            (0..frames).for_each(|_| traffic.count_free(ListIndex::MOVABLE, Order::ZERO));
            sizing.observe(&traffic);
            sizing.frees_of_others()
        };
        (0..5000).for_each(|_| traffic.count_alloc(Order::ZERO));
        assert!(!frees(0));
        assert!(!frees(5000), "all its own");
        assert!(!frees(burst - 1));
        assert!(frees(burst));
        // It allocates again: lately it has not freed a burst more than that.
        traffic.count_alloc(Order::ZERO);
        assert!(!frees(0));
    }

    #[test]
    fn high_stays_within_its_bounds() {
        let mut sizing = sizing(GIB);
        for _ in 0..1000 {
            sizing.on_refill(Order::ZERO, 0, ALL_FREE);
        }
        assert_eq!(sizing.high, sizing.high_max);
        let traffic = Traffic::new();
        (0..20).for_each(|_| traffic.count_free(ListIndex::MOVABLE, Order::PAGEBLOCK));
        sizing.observe(&traffic);
        for _ in 0..1000 {
            sizing.on_spill(u64::from(sizing.high), true);
        }
        assert_eq!(sizing.high, sizing.high_min);
    }
}
