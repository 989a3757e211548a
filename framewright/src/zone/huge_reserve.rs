//! The huge-page reserve of a zone: free memory that is kept for huge pages.
//!
//! The distance between two watermarks is small: in a zone of 1 GiB, half of a huge page. While
//! page cache is filled and reclaimed continuously, a request for a huge page finds only single
//! frames, and has to reclaim and compact by itself. After such a request, the zone keeps a
//! *huge-page reserve*.
//!
//! The size of the reserve is added to all watermarks of small requests. Small requests must
//! reclaim, directly or in the background, before they can use the reserve. Huge requests, requests
//! that cannot wait, and other requests with permission to go below a watermark use the reserve.
//! Before a task is killed, or a request that tries more than once fails, the reserve is used or
//! released.
//!
//! **Size.** The size adapts. Each request that finds no huge page adds a pageblock, up to a share
//! of the zone (`zone.huge_reserve`). After [`SERVED`](super::huge_requests::SERVED) requests in a
//! row that find one, a pageblock is removed. After an idle time without requests, the reserve is
//! halved. So no setting depends on the rate of requests, the speed of reclaim or the number of
//! CPUs, and without huge requests there is no reserve. If background reclaim finds nothing to
//! reclaim, it releases the reserve, because it would never reach its goal.
//!
//! **Form.** Compaction in the background forms whole pageblocks, but only up to a part of the
//! reserve ([`FORMED`]). The rest is free space in smaller blocks. Freed huge pages become part of
//! the reserve and are allocated again, without moving a page. Smaller blocks are used before a
//! whole pageblock is split, and are the targets of migration. If the whole reserve were formed in
//! advance, every second huge page would be split and formed again.
//!
//! Linux raises `min_free_kbytes` by a few pageblocks as soon as khugepaged is on. With
//! `defrag_mode` (Weiner, 2025), kswapd and kcompactd count whole pageblocks. Linux does both
//! whether huge pages are requested or not.

use super::Zone;
use crate::{
    platform::Platform,
    sync::Ordering,
    types::{PAGEBLOCK_FRAMES, Watermark},
};

/// Of this many pageblocks of the reserve, one is formed in advance. With one of two, compaction
/// moves 1.5 times as many pages, without a gain.
const FORMED: u64 = 4;

const PAGEBLOCK: u64 = PAGEBLOCK_FRAMES as u64;

impl<P: Platform> Zone<'_, P> {
    /// The size of the huge-page reserve in pageblocks.
    #[inline]
    pub(crate) fn huge_reserve(&self) -> u64 {
        self.marks.huge_reserve() / PAGEBLOCK
    }

    /// Sets the limit of the reserve, in pageblocks.
    pub(crate) fn set_huge_reserve_limit(&self, platform: &P, limit: u64) {
        self.huge_requests.limit.store(limit, Ordering::Relaxed);
        if self.huge_reserve() > limit {
            self.resize_huge_reserve(platform, |kept| kept.min(limit));
        }
    }

    /// Records that a request found no huge page.
    #[cold]
    pub(crate) fn huge_page_missed(&self, platform: &P) {
        let limit = self.huge_requests.limit();
        self.huge_requests.record(0, platform.now());
        if self.huge_reserve() < limit {
            self.resize_huge_reserve(platform, |kept| (kept + 1).min(limit));
        }
    }

    /// Records that a request found a huge page.
    #[cold]
    pub(crate) fn huge_page_served(&self, platform: &P) {
        if self.huge_reserve() > 0 && self.huge_requests.record_served(platform.now()) {
            self.resize_huge_reserve(platform, |kept| kept.saturating_sub(1));
        }
    }

    /// Shrinks the reserve if no huge page was requested for a long time.
    pub(crate) fn age_huge_reserve(&self, platform: &P) {
        if self.huge_reserve() == 0 {
            return;
        }
        let halves = self.huge_requests.halves(platform.now());
        if halves > 0 {
            self.resize_huge_reserve(platform, |kept| kept.checked_shr(halves).unwrap_or(0));
        }
    }

    /// Sets the reserve to 0. Returns whether there was any.
    pub(crate) fn release_huge_reserve(&self, platform: &P) -> bool {
        let any = self.huge_reserve() > 0;
        if any {
            self.resize_huge_reserve(platform, |_| 0);
        }
        any
    }

    /// Whether all pageblocks that are to be formed in advance are formed.
    pub(crate) fn has_formed_huge_reserve(&self, platform: &P) -> bool {
        let wanted = self.huge_reserve().div_ceil(FORMED);
        self.with(platform, |buddy| buddy.free_pageblocks()) >= wanted
    }

    /// Whether more than one pageblock is free above the low watermark and the reserve.
    pub(crate) fn exceeds_huge_reserve(&self) -> bool {
        self.free() > self.marks.get(Watermark::Low) + PAGEBLOCK
    }

    /// Whether compaction in the background should form pageblocks for the reserve: fewer are
    /// formed than should be, and the free frames outside whole pageblocks suffice as targets for
    /// the pages of a pageblock, above the min watermark.
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

    /// Changes the size of the reserve, in pageblocks.
    fn resize_huge_reserve(&self, platform: &P, change: impl FnOnce(u64) -> u64) {
        self.with(platform, |_| {
            self.marks.set_huge_reserve(change(self.huge_reserve()) * PAGEBLOCK);
        });
    }
}
