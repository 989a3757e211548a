//! What requests may expect of a zone, and what keeps expectations up: decisions about
//! watermarks, their boost, and the high-atomic reserve.
//!
//! Most are taken without the lock, on what was published when it was dropped last, and are
//! repeated under it where they must be exact.

use super::{Refused, Zone, ZoneAccess};
use crate::{
    buddy::{BlockCounts, Buddy, Classes, Fallback, Reserve},
    platform::Platform,
    sync::Ordering,
    tuning::CompactTuning,
    types::{MigrateType, Order, PAGEBLOCK_FRAMES, PAGEBLOCK_ORDER, fragmentation_index},
};

/// The high-atomic reserve holds at most one frame in so many, rounded up to a pageblock; zones
/// of which that would not be a pageblock have none.
const RESERVED_SHARE: u64 = 100;

/// Pageblocks whose free blocks are counted under one hold of the zone lock.
const COUNTED: u32 = 4;

impl<'m, P: Platform> Zone<'m, P> {
    /// Whether a request may take 2^order frames now: enough stays free, and a block of the
    /// order seems to be there. Lockless.
    pub(crate) fn may_take(&self, order: Order, access: ZoneAccess) -> bool {
        self.could_take(order, access, 0)
    }

    /// Frames that a request may take now, one by one. Lockless.
    pub(crate) fn allowed(&self, access: ZoneAccess) -> u64 {
        self.lockless_allowance(access, 0).try_into().unwrap_or(0)
    }

    /// Why [`Zone::may_take`] said no.
    pub(crate) fn refusal(&self, order: Order, access: ZoneAccess) -> Refused {
        if self.lockless_allowance(access, 0) < order.frames() as i64 {
            Refused::BelowWatermark
        } else {
            Refused::NoBlockOfOrder
        }
    }

    /// Whether [`Zone::may_take`] would say yes if `more` frames were free as well.
    #[inline]
    pub(crate) fn could_take(&self, order: Order, access: ZoneAccess, more: u64) -> bool {
        let classes = Classes(self.classes.load(Ordering::Relaxed));
        self.lockless_allowance(access, more) >= order.frames() as i64
            && (classes.offer(order)
                || access.reserve() != Reserve::None && classes.offer_reserved(order))
    }

    /// Whether `access` could leave the [room](CompactTuning::room) that compaction takes to form a
    /// block of `order`, if `more` frames were free as well. For a huge page, what is kept ready for such
    /// counts as room.
    pub(crate) fn could_compact(
        &self,
        order: Order,
        access: ZoneAccess,
        more: u64,
        tuning: &CompactTuning,
    ) -> bool {
        let huge_reserve = if order >= Order::PAGEBLOCK { self.marks.huge_reserve() } else { 0 };
        self.lockless_allowance(access, more.saturating_add(huge_reserve))
            > tuning.room(order) as i64
    }

    /// Whether compaction by scanners leaves a request for `order` alone, because it guesses that memory
    /// is short rather than that large blocks are. By index it needs no such guess: it finds nothing to
    /// empty where nothing is scattered. Walks every pageblock, as [`Zone::block_counts`] does.
    pub(crate) fn is_short(&self, platform: &P, order: Order, tuning: &CompactTuning) -> bool {
        if !tuning.method.scans() {
            return false;
        }
        let blocks = self.block_counts(platform).by_order();
        let index = fragmentation_index(&blocks, usize::from(order.get()));
        (0..=i64::from(tuning.extfrag_threshold)).contains(&index)
    }

    /// Its free blocks by type and order, and its pageblocks by type. Walks every pageblock, a few under each
    /// hold of the lock: blocks that are allocated or freed meanwhile may be counted twice or not at all.
    pub(crate) fn block_counts(&self, platform: &P) -> BlockCounts {
        let mut counts = BlockCounts::default();
        let pageblocks = (self.spanned() >> PAGEBLOCK_ORDER) as u32;
        for start in (0..pageblocks).step_by(COUNTED as usize) {
            let some = start..pageblocks.min(start + COUNTED);
            self.with(platform, |buddy| buddy.add_counts(some, &mut counts));
        }
        counts
    }

    /// Frames that `access` seems to allow to take if `more` were free; negative below the mark.
    #[inline]
    fn lockless_allowance(&self, access: ZoneAccess, more: u64) -> i64 {
        let mut free = self.free();
        if !access.counts_reserve() {
            free = free.saturating_sub(self.free_reserved.load(Ordering::Relaxed));
        }
        let free = free.saturating_add(more).min(i64::MAX as u64);
        self.marks.allowance(free, access)
    }

    /// Frames that `access` allows to take, exactly.
    #[inline]
    pub(super) fn allowance(&self, buddy: &Buddy<'m>, access: ZoneAccess) -> i64 {
        let mut free = buddy.free_frames();
        if !access.counts_reserve() {
            free -= buddy.highatomic_free();
        }
        self.marks.allowance(free, access)
    }

    // ---- boost --------------------------------------------------------------------------------

    /// What a fallback does to the watermarks: when less than a pageblock was found, types were
    /// mixed, and the zone shall have more free from now on. Says whether it is boosted, so that
    /// background reclaim is to be woken. Without the lock: the embedder is asked whether there is
    /// anybody to wake, at this moment, for relief may be lent to a memory that is in use.
    #[cold]
    pub(crate) fn is_boosted_for(&self, platform: &P, fallback: Fallback) -> bool {
        let mixes = fallback.found_order < Order::PAGEBLOCK;
        mixes && self.marks.may_boost() && platform.relief().reclaims_in_background()
    }

    /// Boosts the watermarks by a pageblock, if they may be boosted further; whether that took the lock.
    #[cold]
    pub(crate) fn raise_boost(&self, platform: &P) -> bool {
        let rises = !self.marks.is_boosted_fully();
        if rises {
            self.with(platform, |_| self.marks.raise_boost());
        }
        rises
    }

    /// Takes up to `by` frames off the boost of the watermarks.
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

    /// Gives one pageblock of the reserve to another type; says whether there was one to give.
    /// The last one goes only if that is `forced`.
    pub(crate) fn unreserve_highatomic(&self, platform: &P, to: MigrateType, forced: bool) -> bool {
        let at_least = if forced { 1 } else { PAGEBLOCK_FRAMES as u64 + 1 };
        self.free_reserved.load(Ordering::Relaxed) > 0
            && self.with(platform, |buddy| {
                buddy.highatomic_reserved() >= at_least && buddy.unreserve_highatomic(to)
            })
    }
}
