//! The huge_reserve of a zone: what it keeps free, in whole pageblocks, for who asks for huge pages.
//!
//! Between two watermarks there is hardly room for one huge page. So where files turn memory over, whoever
//! asks for one finds single frames, and has to reclaim and to compact himself. A zone in which that
//! has happened keeps a *huge_reserve*: for small requests all its watermarks are higher by so much. They
//! reclaim, themselves or in the background, before they use it, whole pageblocks and pieces alike; huge
//! requests, those that cannot wait, and those that may go below a mark for another reason find it
//! there. Nobody is killed for it, and nobody who tries more than once fails for it.
//!
//! **How much** is learnt. Each request that finds no huge page adds a pageblock, up to a share of
//! the zone (`zone.huge_stock`); each [`SERVED`] in a row that find one take one off, and time in
//! which nobody asks takes half. So rates of requests, speeds of reclaim and numbers of CPUs need no
//! setting, and where nobody asks for huge pages there is none. Background reclaim that finds nothing to
//! reclaim gives it up, rather than look for ever.
//!
//! **In which shape** is for compaction in the background: it forms pageblocks when fewer are there
//! than a part of the huge_reserve ([`FORMED`]), and only up to that. The rest is room: huge pages that
//! come back fill it and others take them again, without a page being moved; what lies in pieces
//! is used before a whole pageblock is broken, and is where pages move to. If all of the huge_reserve
//! were formed at once, every second huge page would be broken and formed again.
//!
//! Linux raises `min_free_kbytes` by a few pageblocks as soon as khugepaged is on, and `defrag_mode`
//! (Weiner, 2025) has kswapd and kcompactd count whole pageblocks: both whether anybody asks or not.

use super::Zone;
use crate::{
    platform::Platform,
    sync::{AtomicU32, AtomicU64, Ordering},
    types::{PAGEBLOCK_FRAMES, Watermark},
};

/// So many requests in a row that find a huge page take one off the huge_reserve: of a steady stream, one in
/// about so many has to wait.
const SERVED: u32 = 256;

/// One pageblock for so many of the huge_reserve is formed ahead. Half of them moves half as many pages again,
/// and gains nothing.
const FORMED: u64 = 4;

/// Nanoseconds without a request after which the huge_reserve is half of what it was.
const IDLE_TIME: u64 = 10_000_000_000;

/// Frames of a pageblock.
const PAGEBLOCK: u64 = PAGEBLOCK_FRAMES as u64;

/// What a zone knows of requests for huge pages. How much is kept for them stands with the
/// [marks](super::Marks), which it raises, and changes under the zone lock. Here are words that are written
/// now and then, in no order: whoever races with another is not counted, or counted twice.
pub(super) struct HugeReserve {
    /// Pageblocks that there may be; 0: none.
    limit: AtomicU64,
    /// Requests in a row that found a huge page.
    served: AtomicU32,
    /// When a huge page was asked for last, or the huge_reserve was halved.
    asked: AtomicU64,
}

impl HugeReserve {
    pub(super) fn new() -> Self {
        Self { limit: AtomicU64::new(0), served: AtomicU32::new(0), asked: AtomicU64::new(0) }
    }

    fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    /// A request found one. Says whether that is one in a row too many for all that is kept.
    fn record_served(&self, now: u64) -> bool {
        let served = self.served.load(Ordering::Relaxed) + 1;
        self.record(served % SERVED, now);
        served >= SERVED
    }

    /// How often what is kept is to be halved for silence, which begins anew.
    fn halves(&self, now: u64) -> u32 {
        let idle = now.saturating_sub(self.asked.load(Ordering::Relaxed));
        let halves = u32::try_from(idle / IDLE_TIME).unwrap_or(u32::MAX);
        if halves > 0 {
            self.record(0, now);
        }
        halves
    }

    fn record(&self, served: u32, now: u64) {
        self.served.store(served, Ordering::Relaxed);
        self.asked.store(now, Ordering::Relaxed);
    }
}

impl<P: Platform> Zone<'_, P> {
    /// Pageblocks that are kept.
    #[inline]
    pub(crate) fn huge_reserve(&self) -> u64 {
        self.marks.huge_reserve() / PAGEBLOCK
    }

    /// From now on there are up to `limit`.
    pub(crate) fn set_huge_reserve_limit(&self, platform: &P, limit: u64) {
        self.huge_reserve.limit.store(limit, Ordering::Relaxed);
        if self.huge_reserve() > limit {
            self.resize_huge_reserve(platform, |kept| kept.min(limit));
        }
    }

    /// A request found no huge page.
    #[cold]
    pub(crate) fn huge_page_missed(&self, platform: &P) {
        let limit = self.huge_reserve.limit();
        self.huge_reserve.record(0, platform.now());
        if self.huge_reserve() < limit {
            self.resize_huge_reserve(platform, |kept| (kept + 1).min(limit));
        }
    }

    /// A request found one.
    #[cold]
    pub(crate) fn huge_page_served(&self, platform: &P) {
        if self.huge_reserve() > 0 && self.huge_reserve.record_served(platform.now()) {
            self.resize_huge_reserve(platform, |kept| kept.saturating_sub(1));
        }
    }

    /// Has the huge_reserve go if nobody has asked for long.
    pub(crate) fn age_huge_reserve(&self, platform: &P) {
        if self.huge_reserve() == 0 {
            return;
        }
        let halves = self.huge_reserve.halves(platform.now());
        if halves > 0 {
            self.resize_huge_reserve(platform, |kept| kept.checked_shr(halves).unwrap_or(0));
        }
    }

    /// Has it go at once; whether there was any.
    pub(crate) fn release_huge_reserve(&self, platform: &P) -> bool {
        let any = self.huge_reserve() > 0;
        if any {
            self.resize_huge_reserve(platform, |_| 0);
        }
        any
    }

    /// Whether as many pageblocks are formed as shall be ahead.
    pub(crate) fn has_formed_huge_reserve(&self, platform: &P) -> bool {
        let wanted = self.huge_reserve().div_ceil(FORMED);
        self.with(platform, |buddy| buddy.free_pageblocks()) >= wanted
    }

    /// Whether all that is kept is free, and room for a pageblock more.
    pub(crate) fn exceeds_huge_reserve(&self) -> bool {
        self.free() > self.marks.get(Watermark::Low) + PAGEBLOCK
    }

    /// Whether compaction in the background is to form pageblocks: fewer are there than shall be, and
    /// there is room for all that may be in the way, above the min watermark.
    pub(crate) fn can_fill_huge_reserve(&self, platform: &P) -> bool {
        let kept = self.huge_reserve();
        if kept == 0 {
            return false;
        }
        let min = self.marks.levels().min;
        self.with(platform, |buddy| {
            let whole = buddy.free_pageblocks();
            let pieces = buddy.free_frames() - whole * PAGEBLOCK;
            whole < kept.div_ceil(FORMED) && pieces > PAGEBLOCK + min
        })
    }

    /// Changes how many pageblocks are kept.
    fn resize_huge_reserve(&self, platform: &P, change: impl FnOnce(u64) -> u64) {
        self.with(platform, |_| {
            self.marks.set_huge_reserve(change(self.huge_reserve()) * PAGEBLOCK)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_256th_served_request_in_a_row_shrinks_the_reserve() {
        let huge_reserve = HugeReserve::new();
        let shrunk = |times: u32| (0..times).filter(|_| huge_reserve.record_served(0)).count();
        assert_eq!(shrunk(SERVED - 1), 0);
        huge_reserve.record(0, 0);
        assert_eq!(shrunk(SERVED - 1), 0, "not in a row");
        assert_eq!((shrunk(1), shrunk(2 * SERVED)), (1, 2));
    }

    #[test]
    fn idle_time_halves_the_reserve() {
        let huge_reserve = HugeReserve::new();
        huge_reserve.record(0, 1);
        assert_eq!(huge_reserve.halves(IDLE_TIME), 0);
        assert_eq!(huge_reserve.halves(IDLE_TIME + 1), 1);
        assert_eq!(huge_reserve.halves(IDLE_TIME + 2), 0, "it waits as long again");
        assert_eq!(huge_reserve.halves(3 * IDLE_TIME + 1), 2);
        assert!(huge_reserve.halves(u64::MAX) > u64::BITS, "nothing is left");
    }
}
