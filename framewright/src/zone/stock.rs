//! The huge-page reserve of a zone: free memory that is kept for huge pages.
//!
//! Between two watermarks there is hardly room for one huge page. While files turn memory over, a
//! request for a huge page finds single frames only, and has to reclaim and compact by itself. A
//! zone in which that has happened keeps a *huge-page reserve*: its size is added to all watermarks
//! of small requests. Small requests reclaim, directly or in the background, before they use the
//! reserve, both whole pageblocks and pieces. Huge requests, requests that cannot wait, and
//! requests that may go below a watermark for another reason use the reserve. No task is killed
//! because of the reserve, and no request that tries more than once fails because of it.
//!
//! **Size.** The size adapts. Each request that finds no huge page adds a pageblock, up to a share
//! of the zone (`zone.huge_stock`). [`SERVED`] requests in a row that find one take off one
//! pageblock, and time without requests halves the reserve. So rates of requests, speeds of reclaim
//! and numbers of CPUs need no setting, and without huge requests there is no reserve. Background
//! reclaim that finds nothing to reclaim releases the reserve, because it would never reach its
//! goal.
//!
//! **Form.** Compaction in the background forms whole pageblocks, but only up to a part of the
//! reserve ([`FORMED`]). The rest is free space. Huge pages that are freed fill it and are
//! allocated again, without a page being moved. Free pieces are used before a whole pageblock is
//! broken, and are the targets of migration. If the whole reserve were formed in advance, every
//! second huge page would be broken and formed again.
//!
//! Linux raises `min_free_kbytes` by a few pageblocks as soon as khugepaged is on. With
//! `defrag_mode` (Weiner, 2025), kswapd and kcompactd count whole pageblocks. Both work this way
//! whether huge pages are requested or not.

use super::{Watermark, Zone};
use crate::{
    frame::PAGEBLOCK_FRAMES,
    platform::Platform,
    sync::{AtomicU32, AtomicU64, Ordering},
};

/// This many requests in a row that find a huge page take one off the reserve. In a steady stream
/// about one request in so many has to wait.
const SERVED: u32 = 256;

/// One pageblock in this many of the reserve is formed in advance. With one in two, half as many
/// pages again are moved, without a gain.
const FORMED: u64 = 4;

/// Nanoseconds without a request after which the reserve is halved.
const SILENCE: u64 = 10_000_000_000;

const PAGEBLOCK: u64 = PAGEBLOCK_FRAMES as u64;

/// What a zone records about requests for huge pages. The size of the reserve is one of the
/// [watermarks](super::Marks) and changes under the zone lock. The words here are written without
/// the lock and in no order: a request that races with another is not counted, or is counted twice.
pub(super) struct Stock {
    /// The limit of the reserve in pageblocks; 0: no reserve.
    limit: AtomicU64,
    /// Requests in a row that found a huge page.
    served: AtomicU32,
    /// When a huge page was requested last, or the reserve was halved.
    asked: AtomicU64,
}

impl Stock {
    pub(super) fn new() -> Self {
        Self { limit: AtomicU64::new(0), served: AtomicU32::new(0), asked: AtomicU64::new(0) }
    }

    fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    /// Records a request that found a huge page. Returns whether the reserve is to shrink by one.
    fn hear_of_service(&self, now: u64) -> bool {
        let served = self.served.load(Ordering::Relaxed) + 1;
        self.hear(served % SERVED, now);
        served >= SERVED
    }

    /// How often the reserve is to be halved because of silence. If at all, a new period of silence
    /// begins.
    fn halves(&self, now: u64) -> u32 {
        let silent = now.saturating_sub(self.asked.load(Ordering::Relaxed));
        let halves = u32::try_from(silent / SILENCE).unwrap_or(u32::MAX);
        if halves > 0 {
            self.hear(0, now);
        }
        halves
    }

    fn hear(&self, served: u32, now: u64) {
        self.served.store(served, Ordering::Relaxed);
        self.asked.store(now, Ordering::Relaxed);
    }
}

impl<P: Platform> Zone<'_, P> {
    /// The size of the huge-page reserve in pageblocks.
    #[inline]
    pub(crate) fn stock(&self) -> u64 {
        self.marks.stock() / PAGEBLOCK
    }

    /// Sets the limit of the reserve, in pageblocks.
    pub(crate) fn limit_stock(&self, platform: &P, limit: u64) {
        self.stock.limit.store(limit, Ordering::Relaxed);
        if self.stock() > limit {
            self.keep(platform, |kept| kept.min(limit));
        }
    }

    /// Records that a request found no huge page.
    #[cold]
    pub(crate) fn lacks_huge(&self, platform: &P) {
        let limit = self.stock.limit();
        self.stock.hear(0, platform.now());
        if self.stock() < limit {
            self.keep(platform, |kept| (kept + 1).min(limit));
        }
    }

    /// Records that a request found a huge page.
    #[cold]
    pub(crate) fn serves_huge(&self, platform: &P) {
        if self.stock() > 0 && self.stock.hear_of_service(platform.now()) {
            self.keep(platform, |kept| kept.saturating_sub(1));
        }
    }

    /// Shrinks the reserve if no huge page was requested for a long time.
    pub(crate) fn age_stock(&self, platform: &P) {
        if self.stock() == 0 {
            return;
        }
        let halves = self.stock.halves(platform.now());
        if halves > 0 {
            self.keep(platform, |kept| kept.checked_shr(halves).unwrap_or(0));
        }
    }

    /// Sets the reserve to 0. Returns whether there was any.
    pub(crate) fn give_up_stock(&self, platform: &P) -> bool {
        let any = self.stock() > 0;
        if any {
            self.keep(platform, |_| 0);
        }
        any
    }

    /// Whether as many pageblocks are formed as are to be formed in advance.
    pub(crate) fn is_stocked(&self, platform: &P) -> bool {
        let wanted = self.stock().div_ceil(FORMED);
        self.with(platform, |buddy| buddy.free_pageblocks()) >= wanted
    }

    /// Whether all frames of the reserve are free, and a pageblock more.
    pub(crate) fn has_room_for_stock(&self) -> bool {
        self.free() > self.marks.get(Watermark::Low) + PAGEBLOCK
    }

    /// Whether compaction in the background should form pageblocks for the reserve: fewer are
    /// formed than should be, and the free frames above the min watermark suffice as targets for a
    /// whole pageblock.
    pub(crate) fn can_restock(&self, platform: &P) -> bool {
        let kept = self.stock();
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

    /// Changes the size of the reserve, in pageblocks.
    fn keep(&self, platform: &P, change: impl FnOnce(u64) -> u64) {
        self.with(platform, |_| self.marks.set_stock(change(self.stock()) * PAGEBLOCK));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_so_many_that_are_served_in_a_row_are_told() {
        let stock = Stock::new();
        let told = |times: u32| (0..times).filter(|_| stock.hear_of_service(0)).count();
        assert_eq!(told(SERVED - 1), 0);
        stock.hear(0, 0);
        assert_eq!(told(SERVED - 1), 0, "not in a row");
        assert_eq!((told(1), told(2 * SERVED)), (1, 2));
    }

    #[test]
    fn silence_halves_it() {
        let stock = Stock::new();
        stock.hear(0, 1);
        assert_eq!(stock.halves(SILENCE), 0);
        assert_eq!(stock.halves(SILENCE + 1), 1);
        assert_eq!(stock.halves(SILENCE + 2), 0, "a new period of silence has begun");
        assert_eq!(stock.halves(3 * SILENCE + 1), 2);
        assert!(stock.halves(u64::MAX) > u64::BITS, "nothing is left");
    }
}
