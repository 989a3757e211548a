//! Decisions about watermarks, their boost and the high-atomic reserve.
//!
//! Most decisions are made without the lock, from the counters published at its last release. If a
//! decision must be exact, it is repeated under the lock.

use super::{Refused, Zone, ZoneAccess};
use crate::{
    buddy::{BlockCounts, Buddy, Classes, Fallback, Reserve},
    platform::Platform,
    sync::Ordering,
    tuning::CompactTuning,
    types::{MigrateType, Order, PAGEBLOCK_FRAMES, PAGEBLOCK_ORDER, fragmentation_index},
};

/// The high-atomic reserve contains at most one frame in this many, rounded up to a pageblock. A
/// zone whose share is less than a pageblock has no reserve.
const RESERVED_SHARE: u64 = 100;

/// The number of pageblocks whose free blocks are counted under one hold of the zone lock.
const COUNTED: u32 = 8;

/// The treatment of the last pageblock in the high-atomic reserve.
#[derive(Clone, Copy)]
pub(crate) enum LastReserved {
    /// It stays reserved.
    Stays,
    /// It is released, too.
    IsReleased,
}

impl<'m, P: Platform> Zone<'m, P> {
    /// Whether a request may take 2^order frames now: enough frames stay free, and there seems to
    /// be a block of the order. A hint, read without the lock, unless `zone.watermark_by_order` is
    /// on.
    #[inline]
    pub(crate) fn may_take(&self, platform: &P, order: Order, access: ZoneAccess) -> bool {
        self.could_take(order, access, 0) && self.passes_by_order(platform, order, access)
    }

    /// Without the feature `compare`, there is no watermark test by order.
    #[cfg(not(feature = "compare"))]
    #[inline]
    pub(crate) fn passes_by_order(&self, _: &P, _: Order, _: ZoneAccess) -> bool {
        true
    }

    /// Frames that a request may take now, one by one. A hint, read without the lock.
    pub(crate) fn allowed(&self, access: ZoneAccess) -> u64 {
        self.lockless_allowance(access, 0).try_into().unwrap_or(0)
    }

    /// The reason why [`Zone::may_take`] returned `false`.
    pub(crate) fn refusal(&self, order: Order, access: ZoneAccess) -> Refused {
        if self.lockless_allowance(access, 0) < order.frames() as i64 {
            Refused::BelowWatermark
        } else {
            Refused::NoBlockOfOrder
        }
    }

    /// Whether [`Zone::may_take`] would return `true` if `more` frames were free as well.
    #[inline]
    pub(crate) fn could_take(&self, order: Order, access: ZoneAccess, more: u64) -> bool {
        let classes = Classes(self.classes.load(Ordering::Relaxed));
        self.lockless_allowance(access, more) >= order.frames() as i64
            && (classes.offer(order)
                || access.reserve() != Reserve::None && classes.offer_reserved(order))
    }

    /// Whether `access` would leave the free frames that compaction needs to form a block of
    /// `order` ([`CompactTuning::frames_needed`]), if `more` frames were free as well. For a huge page, the
    /// frames of the huge-page reserve count as free.
    pub(crate) fn could_compact(
        &self,
        order: Order,
        access: ZoneAccess,
        more: u64,
        tuning: &CompactTuning,
    ) -> bool {
        let huge_reserve = if order >= Order::PAGEBLOCK { self.marks.huge_reserve() } else { 0 };
        self.lockless_allowance(access, more.saturating_add(huge_reserve))
            > tuning.frames_needed(order) as i64
    }

    /// Whether a request for `order` fails for lack of memory rather than because of fragmentation,
    /// according to the fragmentation index. Compaction by scanners is then not suitable. Always
    /// `false` for `compact.method=index`, which needs no such estimate: without fragmentation it
    /// finds no pageblock to empty. Walks every pageblock, as [`Zone::block_counts`] does.
    pub(crate) fn is_short(&self, platform: &P, order: Order, tuning: &CompactTuning) -> bool {
        if !tuning.method.scans() {
            return false;
        }
        let blocks = self.block_counts(platform).by_order();
        let index = fragmentation_index(&blocks, usize::from(order.get()));
        (0..=i64::from(tuning.extfrag_threshold)).contains(&index)
    }

    /// The zone's free blocks by type and order, and its pageblocks by type. Walks every pageblock,
    /// a few under each hold of the lock, so blocks that are allocated or freed meanwhile may be
    /// counted twice or not at all.
    pub(crate) fn block_counts(&self, platform: &P) -> BlockCounts {
        let mut counts = BlockCounts::default();
        let pageblocks = (self.spanned() >> PAGEBLOCK_ORDER) as u32;
        for start in (0..pageblocks).step_by(COUNTED as usize) {
            let some = start..pageblocks.min(start + COUNTED);
            self.read(platform, |buddy| buddy.add_counts(some, &mut counts));
        }
        counts
    }

    /// Frames that `access` would allow the caller to take if `more` frames were free as well;
    /// negative below the watermark. A hint.
    #[inline]
    fn lockless_allowance(&self, access: ZoneAccess, more: u64) -> i64 {
        let mut free = self.free();
        if !access.counts_reserve() {
            free = free.saturating_sub(self.free_reserved.load(Ordering::Relaxed));
        }
        let free = free.saturating_add(more).min(i64::MAX as u64);
        self.marks.allowance(free, access)
    }

    /// Frames that `access` allows the caller to take; exact, because the caller holds the lock.
    #[inline]
    pub(super) fn allowance(&self, buddy: &Buddy<'m>, access: ZoneAccess) -> i64 {
        let mut free = buddy.free_frames();
        if !access.counts_reserve() {
            free -= buddy.highatomic_free();
        }
        self.marks.allowance(free, access)
    }

    // ---- boost --------------------------------------------------------------------------------

    /// Whether a fallback boosts the watermarks: the block that it found was smaller than a
    /// pageblock, so types were mixed, and there is background reclaim, which lowers the boost
    /// again. The caller then wakes background reclaim. Called without the lock, because it asks
    /// the embedder whether there is background reclaim. It asks each time, because the embedder
    /// may attach its [`Relief`](crate::platform::Relief) (reclaim and compaction) while the memory
    /// is in use.
    #[cold]
    pub(crate) fn is_boosted_for(&self, platform: &P, fallback: Fallback) -> bool {
        let mixes = fallback.found_order < Order::PAGEBLOCK;
        mixes && self.marks.may_boost() && platform.relief().reclaims_in_background()
    }

    /// Boosts the watermarks by a pageblock, if the limit allows. Returns whether the lock was
    /// taken.
    #[cold]
    pub(crate) fn raise_boost(&self, platform: &P) -> bool {
        let rises = !self.marks.is_boosted_fully();
        if rises {
            self.with(platform, |_| self.marks.raise_boost());
        }
        rises
    }

    /// Lowers the boost of the watermarks by up to `by` frames.
    pub(crate) fn lower_boost(&self, platform: &P, by: u64) {
        self.with(platform, |_| self.marks.lower_boost(by));
    }

    // ---- high-atomic reserve --------------------------------------------------------------------

    /// Reserves the pageblocks of an allocated block, as far as the reserve may grow.
    pub(crate) fn reserve_highatomic(&self, platform: &P, frame: u32, order: Order) {
        let pageblock = PAGEBLOCK_FRAMES as u64;
        let share = self.managed() / RESERVED_SHARE;
        let is_reserved = self.type_number(frame) == MigrateType::HighAtomic as u8;
        if share < pageblock || is_reserved {
            return;
        }
        let limit = share.next_multiple_of(pageblock);
        let pageblock = frame >> PAGEBLOCK_ORDER;
        self.change(platform, pageblock, |buddy| buddy.reserve_highatomic(frame, order, limit));
    }

    /// Changes one pageblock of the reserve to type `to`. Returns whether there was one.
    pub(crate) fn unreserve_highatomic(
        &self,
        platform: &P,
        to: MigrateType,
        last: LastReserved,
    ) -> bool {
        let at_least = match last {
            LastReserved::Stays => PAGEBLOCK_FRAMES as u64 + 1,
            LastReserved::IsReleased => 1,
        };
        self.free_reserved.load(Ordering::Relaxed) > 0
            && self.with(platform, |buddy| {
                buddy.highatomic_reserved() >= at_least && buddy.unreserve_highatomic(to)
            })
    }
}
