//! The stock of a zone: what it keeps free, in whole pageblocks, for who asks for huge pages.
//!
//! Between two watermarks there is hardly room for one huge page. So where files turn memory over, whoever
//! asks for one finds single frames, and has to reclaim and to compact himself. A zone in which that
//! has happened keeps a *stock*: for small requests all its watermarks are higher by so much. They
//! reclaim, themselves or in the background, before they use it, whole pageblocks and pieces alike; huge
//! requests, those that cannot wait, and those that may go below a mark for another reason find it
//! there. Nobody is killed for it.
//!
//! **How much** is learnt. Each request that finds no huge page adds a pageblock, up to a share of
//! the zone (`zone.huge_stock`); each [`SERVED`] in a row that find one take one off, and time in
//! which nobody asks takes half. So rates of requests, speeds of reclaim and numbers of CPUs need no
//! setting, and where nobody asks for huge pages there is none.
//!
//! **In which shape** is for compaction in the background: it forms pageblocks when fewer are there
//! than a part of the stock ([`FORMED`]), and only up to that. The rest is room: huge pages that
//! come back fill it and others take them again, without a page being moved; what lies in pieces
//! is used before a whole pageblock is broken, and is where pages move to. If all of the stock
//! were formed at once, every second huge page would be broken and formed again.
//!
//! Linux raises `min_free_kbytes` by a few pageblocks as soon as khugepaged is on, and `defrag_mode`
//! (Weiner, 2025) has kswapd and kcompactd count whole pageblocks: both whether anybody asks or not.

use super::Zone;
use crate::{
    frame::PAGEBLOCK_FRAMES,
    platform::Platform,
    sync::{AtomicU32, AtomicU64, Ordering},
};

/// So many requests in a row that find a huge page take one off the stock: of a steady stream, one in
/// about so many has to wait.
const SERVED: u32 = 256;

/// One pageblock for so many of the stock is formed ahead. Half of them moves half as many pages again,
/// and gains nothing.
const FORMED: u64 = 4;

/// Nanoseconds without a request after which the stock is half of what it was.
const SILENCE: u64 = 10_000_000_000;

/// Frames of a pageblock.
const PAGEBLOCK: u64 = PAGEBLOCK_FRAMES as u64;

/// What a zone knows of requests for huge pages. How much is kept for them stands with the
/// [marks](super::Marks), which it raises. Here are words that are written now and then, in no order:
/// whoever races with another loses a pageblock or gains one.
pub(super) struct Stock {
    /// Pageblocks that there may be; 0: none.
    limit: AtomicU64,
    /// Requests in a row that found a huge page.
    served: AtomicU32,
    /// When a huge page was asked for last, or the stock was halved.
    asked: AtomicU64,
}

/// Each takes how many pageblocks are kept, and says how many shall be from now on.
impl Stock {
    pub(super) fn new() -> Self {
        Self { limit: AtomicU64::new(0), served: AtomicU32::new(0), asked: AtomicU64::new(0) }
    }

    /// A request found no huge page.
    fn after_lack(&self, kept: u64, now: u64) -> u64 {
        self.hear(0, now);
        (kept + 1).min(self.limit.load(Ordering::Relaxed))
    }

    /// A request found one.
    fn after_service(&self, kept: u64, now: u64) -> u64 {
        let served = self.served.load(Ordering::Relaxed) + 1;
        self.hear(served % SERVED, now);
        if served >= SERVED { kept - 1 } else { kept }
    }

    /// Time has passed, perhaps in silence.
    fn after_a_while(&self, kept: u64, now: u64) -> u64 {
        let silent = now.saturating_sub(self.asked.load(Ordering::Relaxed));
        let halves = u32::try_from(silent / SILENCE).unwrap_or(u32::MAX);
        if halves == 0 {
            return kept;
        }
        self.hear(0, now);
        kept.checked_shr(halves).unwrap_or(0)
    }

    fn hear(&self, served: u32, now: u64) {
        self.served.store(served, Ordering::Relaxed);
        self.asked.store(now, Ordering::Relaxed);
    }
}

impl<P: Platform> Zone<'_, P> {
    /// Pageblocks that are kept.
    #[inline]
    pub(crate) fn stock(&self) -> u64 {
        self.marks.stock() / PAGEBLOCK
    }

    /// From now on there are up to `limit`.
    pub(crate) fn limit_stock(&self, platform: &P, limit: u64) {
        self.stock.limit.store(limit, Ordering::Relaxed);
        self.keep(platform, self.stock().min(limit));
    }

    /// A request found no huge page.
    #[cold]
    pub(crate) fn lacks_huge(&self, platform: &P) {
        self.keep(platform, self.stock.after_lack(self.stock(), platform.now()));
    }

    /// A request found one.
    #[cold]
    pub(crate) fn serves_huge(&self, platform: &P) {
        let kept = self.stock();
        if kept > 0 {
            self.keep(platform, self.stock.after_service(kept, platform.now()));
        }
    }

    /// Has the stock go if nobody has asked for long.
    pub(crate) fn age_stock(&self, platform: &P) {
        let kept = self.stock();
        if kept > 0 {
            self.keep(platform, self.stock.after_a_while(kept, platform.now()));
        }
    }

    /// Has it go at once.
    pub(crate) fn give_up_stock(&self, platform: &P) {
        self.keep(platform, 0);
    }

    /// Whether compaction in the background is to form pageblocks: fewer are there than shall be, and
    /// there is room for all that may be in the way, above the min watermark.
    pub(crate) fn can_restock(&self, platform: &P) -> bool {
        let kept = self.stock();
        if kept == 0 {
            return false;
        }
        let min = self.marks.levels().min;
        self.with(platform, |buddy| {
            let whole = buddy.free_pageblocks(kept);
            let pieces = buddy.free_frames() - whole * PAGEBLOCK;
            whole < kept.div_ceil(FORMED) && pieces > PAGEBLOCK + min
        })
    }

    fn keep(&self, platform: &P, pageblocks: u64) {
        if pageblocks != self.stock() {
            self.with(platform, |_| self.marks.set_stock(pageblocks * PAGEBLOCK));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stock(limit: u64) -> Stock {
        let stock = Stock::new();
        stock.limit.store(limit, Ordering::Relaxed);
        stock
    }

    #[test]
    fn each_request_in_vain_adds_a_pageblock_up_to_the_limit() {
        let stock = stock(3);
        let kept = (0..5).scan(0, |kept, now| {
            *kept = stock.after_lack(*kept, now);
            Some(*kept)
        });
        assert_eq!(kept.collect::<std::vec::Vec<_>>(), [1, 2, 3, 3, 3]);
        assert_eq!(self::stock(0).after_lack(0, 0), 0, "switched off");
    }

    #[test]
    fn requests_that_are_served_in_a_row_take_one_off() {
        let stock = stock(9);
        let served =
            |times: u32| (0..times).fold(9, |kept, now| stock.after_service(kept, now.into()));
        assert_eq!(served(SERVED - 1), 9);
        assert_eq!(stock.after_lack(8, 0), 9);
        assert_eq!(served(SERVED - 1), 9, "not in a row");
        assert_eq!(served(1), 8);
        assert_eq!(served(2 * SERVED), 7);
    }

    #[test]
    fn silence_halves_it() {
        let stock = stock(9);
        stock.after_lack(8, 1);
        assert_eq!(stock.after_a_while(9, SILENCE), 9);
        assert_eq!(stock.after_a_while(9, SILENCE + 1), 4);
        assert_eq!(stock.after_a_while(4, SILENCE + 2), 4, "it waits as long again");
        assert_eq!(stock.after_a_while(4, 3 * SILENCE + 1), 1);
        assert_eq!(stock.after_a_while(9, u64::MAX), 0);
    }
}
