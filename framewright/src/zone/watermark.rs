//! Watermarks: the numbers of frames that requests must leave free.
//!
//! The test is strict and signed. A request for 2^order frames passes if
//! `free - (2^order - 1) > mark`. So at least `mark` frames are free afterwards. A watermark may be
//! far higher than the number of free frames, so the difference may be negative.
//!
//! **Flags** let a request go below its watermark ([`AllocFlags`]). `MIN_RESERVE` halves the
//! watermark, and `NON_BLOCK` in addition subtracts a quarter of the half. `OOM` halves the result.
//! `NO_WATERMARKS` ignores the watermark. **The boost** raises all watermarks
//! of a zone for a while, after a fallback found only a block smaller than a pageblock. Background
//! reclaim then frees more than usual, so that the next such request finds a pageblock of its own
//! type. The boost is written under the zone lock and read without it; background reclaim lowers
//! it. Without background reclaim
//! ([`Relief::reclaims_in_background`](crate::platform::Relief::reclaims_in_background), asked each
//! time) there is no boost. **The huge-page reserve** ([`huge_reserve`](super::huge_reserve))
//! raises the watermarks as well. Requests for huge pages and requests with any of the flags above
//! do not count it.

use super::{AllocFlags, ZoneAccess};
use crate::{
    sync::{AtomicU64, Ordering},
    types::{PAGEBLOCK_FRAMES, Watermark, ZoneKind},
};

/// Watermarks as plain numbers, in frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Levels {
    pub(crate) min: u64,
    pub(crate) low: u64,
    pub(crate) high: u64,
    pub(crate) promo: u64,
}

impl Levels {
    /// Watermarks of a zone of `managed` frames with the min watermark `min`. The distance between
    /// two watermarks is a quarter of min, or `scale`/10000 of the zone if that is more.
    pub(crate) fn new(managed: u64, min: u64, scale: u32) -> Self {
        let gap = if min == 0 { 0 } else { (min / 4).max(managed * u64::from(scale) / 10_000) };
        Self { min, low: min + gap, high: min + 2 * gap, promo: min + 3 * gap }
    }
}

/// The watermarks of a zone, in frames. They change when memory is added or removed, and are read
/// without a lock. Each is a hint, and two of them may be from different moments.
pub(crate) struct Marks {
    min: AtomicU64,
    low: AtomicU64,
    high: AtomicU64,
    promo: AtomicU64,
    /// Temporary increase of all watermarks. Written under the zone lock only.
    boost: AtomicU64,
    /// Size of the huge-page reserve ([`huge_reserve`](super::huge_reserve)). Written under the
    /// zone lock only.
    huge_reserve: AtomicU64,
    /// The sum of boost and huge-page reserve: the increase for most requests. Written under the
    /// zone lock only.
    raised: AtomicU64,
    /// Maximum of the boost; 0: no boost.
    boost_limit: AtomicU64,
    /// The lowmem reserve: frames that a request must leave free in addition to its watermark. The
    /// index is the highest kind of zone that the request can use.
    protection: [AtomicU64; ZoneKind::COUNT],
}

impl Marks {
    pub(crate) fn new() -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            min: zero(),
            low: zero(),
            high: zero(),
            promo: zero(),
            boost: zero(),
            huge_reserve: zero(),
            raised: zero(),
            boost_limit: zero(),
            protection: core::array::from_fn(|_| zero()),
        }
    }

    /// Replaces the watermarks and ends any boost. From now on the boost may reach `boost_limit`.
    pub(crate) fn set(&self, levels: Levels, boost_limit: u64, protection: [u64; ZoneKind::COUNT]) {
        for (mark, to) in [
            (&self.min, levels.min),
            (&self.low, levels.low),
            (&self.high, levels.high),
            (&self.promo, levels.promo),
            (&self.boost, 0),
            (&self.boost_limit, boost_limit),
        ] {
            mark.store(to, Ordering::Relaxed);
        }
        self.raise();
        for (mark, to) in self.protection.iter().zip(protection) {
            mark.store(to, Ordering::Relaxed);
        }
    }

    /// All watermarks, without boost and huge-page reserve.
    pub(crate) fn levels(&self) -> Levels {
        let read = |mark: &AtomicU64| mark.load(Ordering::Relaxed);
        Levels {
            min: read(&self.min),
            low: read(&self.low),
            high: read(&self.high),
            promo: read(&self.promo),
        }
    }

    /// The increase of the watermarks after a fallback that mixed migratetypes in a pageblock.
    pub(crate) fn boost(&self) -> u64 {
        self.boost.load(Ordering::Relaxed)
    }

    /// Whether there may be a boost.
    pub(crate) fn may_boost(&self) -> bool {
        self.boost_limit.load(Ordering::Relaxed) > 0
    }

    /// Whether the boost has reached its limit.
    pub(crate) fn is_boosted_fully(&self) -> bool {
        self.boost() >= self.boost_limit.load(Ordering::Relaxed)
    }

    /// Raises the boost by a pageblock. The caller holds the zone lock.
    pub(crate) fn raise_boost(&self) {
        let limit = self.boost_limit.load(Ordering::Relaxed);
        let boost = (self.boost() + PAGEBLOCK_FRAMES as u64).min(limit);
        self.boost.store(boost, Ordering::Relaxed);
        self.raise();
    }

    /// Lowers the boost by up to `by` frames. The caller holds the zone lock.
    pub(crate) fn lower_boost(&self, by: u64) {
        self.boost.store(self.boost().saturating_sub(by), Ordering::Relaxed);
        self.raise();
    }

    /// Size of the huge-page reserve, in frames.
    pub(crate) fn huge_reserve(&self) -> u64 {
        self.huge_reserve.load(Ordering::Relaxed)
    }

    /// Sets the size of the huge-page reserve, in frames. The caller holds the zone lock.
    pub(super) fn set_huge_reserve(&self, frames: u64) {
        self.huge_reserve.store(frames, Ordering::Relaxed);
        self.raise();
    }

    fn raise(&self) {
        self.raised.store(self.boost() + self.huge_reserve(), Ordering::Relaxed);
    }

    /// The lowmem reserve, by the highest kind of zone that a request can use.
    pub(crate) fn protection(&self) -> [u64; ZoneKind::COUNT] {
        core::array::from_fn(|kind| self.protection[kind].load(Ordering::Relaxed))
    }

    /// A watermark for most requests: with boost and huge-page reserve.
    pub(crate) fn get(&self, mark: Watermark) -> u64 {
        self.plain(mark) + self.raised.load(Ordering::Relaxed)
    }

    /// A watermark for requests that may use the huge-page reserve.
    pub(crate) fn without_huge_reserve(&self, mark: Watermark) -> u64 {
        self.plain(mark) + self.boost()
    }

    fn plain(&self, mark: Watermark) -> u64 {
        let mark = match mark {
            Watermark::Min => &self.min,
            Watermark::Low => &self.low,
            Watermark::High => &self.high,
        };
        mark.load(Ordering::Relaxed)
    }

    /// Frames that `access` must leave free.
    #[inline]
    pub(crate) fn reserve(&self, access: ZoneAccess) -> i64 {
        let mark = self.get(access.mark) as i64;
        if access.flags.has(AllocFlags::CHANGES_MARK) {
            return self.reserve_with_flags(access);
        }
        mark + self.protected(access)
    }

    #[cold]
    fn reserve_with_flags(&self, access: ZoneAccess) -> i64 {
        let ZoneAccess { flags, mark, .. } = access;
        if flags.has(AllocFlags::NO_WATERMARKS) {
            return 0;
        }
        let boosted = !flags.has(AllocFlags::PAST_BOOST);
        let mut left =
            if boosted { self.without_huge_reserve(mark) } else { self.plain(mark) } as i64;
        if flags.has(AllocFlags::MIN_RESERVE) {
            left -= left / 2;
            if flags.has(AllocFlags::NON_BLOCK) {
                left -= left / 4;
            }
        }
        if flags.has(AllocFlags::OOM) {
            left -= left / 2;
        }
        left + self.protected(access)
    }

    fn protected(&self, access: ZoneAccess) -> i64 {
        self.protection[access.highest as usize].load(Ordering::Relaxed) as i64
    }

    /// Frames that `access` allows the caller to take if `free` frames are free; negative below the
    /// watermark.
    #[inline]
    pub(crate) fn allowance(&self, free: u64, access: ZoneAccess) -> i64 {
        free as i64 - self.reserve(access)
    }
}

/// The rules that compute the watermarks of a zone from the number of frames that the zone
/// manages.
///
/// The min watermarks of the zones that the kernel itself can use (lowmem) add up to `min_free`, in
/// proportion to the sizes of these zones. Other zones have a min watermark of 32 to 128 frames, as
/// in Linux, but at most a quarter of the zone; 0 if `min_free` is 0.
/// A lower zone reserves frames against requests that could use a higher zone, in
/// proportion to the size of the higher zones. So frames of the lower zone remain for requests that
/// can use no other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MarkRules {
    /// The sum of the min watermarks of all lowmem zones, in frames.
    pub(crate) min_free: u64,
    /// Least distance between watermarks, in 1/10000 of a zone.
    pub(crate) scale: u32,
    /// Frames that the kernel itself can use.
    pub(crate) lowmem: u64,
    /// Each kind reserves one frame for this many frames of the higher zones; 0: none.
    pub(crate) ratios: [u32; ZoneKind::COUNT],
    /// Maximum of the boost, in 1/10000 of the high watermark; 0: no boost.
    pub(crate) boost: u32,
    /// Maximum of the huge-page reserve, in 1/10000 of the zone; 0: no reserve.
    pub(crate) huge_reserve: u32,
}

/// Zones of fewer pageblocks are not boosted: one step would be too large a part of the zone.
const BOOST_PAGEBLOCKS: u64 = 4;

impl MarkRules {
    /// The watermarks of a zone.
    pub(crate) fn levels(&self, kind: ZoneKind, managed: u64) -> Levels {
        let min = if kind.is_lowmem() {
            // Both factors are below 2^32.
            self.min_free.saturating_mul(managed) / self.lowmem.max(1)
        } else if self.min_free == 0 {
            0
        } else {
            (managed / 1024).clamp(32, 128).min(managed / 4)
        };
        Levels::new(managed, min, self.scale)
    }

    /// Maximum of the boost of a zone: at least a pageblock, or 0.
    pub(crate) fn boost_limit(&self, managed: u64, levels: Levels) -> u64 {
        let limit = levels.high.saturating_mul(u64::from(self.boost)) / 10_000;
        let pageblock = PAGEBLOCK_FRAMES as u64;
        let too_small = managed < BOOST_PAGEBLOCKS * pageblock;
        if limit == 0 || too_small { 0 } else { limit.max(pageblock) }
    }

    /// Maximum of the huge-page reserve, in pageblocks.
    pub(crate) fn huge_reserve_limit(&self, managed: u64) -> u64 {
        managed * u64::from(self.huge_reserve) / 10_000 / PAGEBLOCK_FRAMES as u64
    }

    /// The lowmem reserve of a zone. `managed` are the sizes of the zones of its node, by kind.
    pub(crate) fn protection(
        &self,
        kind: ZoneKind,
        managed: [u64; ZoneKind::COUNT],
    ) -> [u64; ZoneKind::COUNT] {
        let mut protection = [0; ZoneKind::COUNT];
        let ratio = u64::from(self.ratios[kind as usize]);
        if ratio == 0 || managed[kind as usize] == 0 {
            return protection;
        }
        let mut above = 0;
        for higher in kind as usize + 1..ZoneKind::COUNT {
            above += managed[higher];
            protection[higher] = above / ratio;
        }
        protection
    }
}

/// The default of `min_free` for `managed` frames of lowmem, in frames. Linux's formula gives KiB: the
/// square root of 16 times the size in KiB, at least 128 (KiB) and at most 262,144 (256 MiB). Also at most a
/// quarter of the memory, which matters only below 512 KiB.
pub(crate) fn default_min_free(managed: u64) -> u64 {
    // In frames of 4 KiB, the formula is the square root of 4 times the size, at least 32 and at most 2^16.
    let root = u32::try_from(4 * managed).map_or(1 << 16, |frames| frames.isqrt().max(32));
    u64::from(root).min(managed / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks() -> Marks {
        let marks = Marks::new();
        let levels = Levels { min: 1000, low: 1250, high: 1500, promo: 1750 };
        marks.set(levels, 600, [0, 0, 0, 300]);
        marks
    }

    fn above(mark: Watermark) -> ZoneAccess {
        ZoneAccess::above(mark, ZoneKind::Normal)
    }

    #[test]
    fn the_test_is_strict() {
        // free - (2^order - 1) > mark, for order 3: 8 frames.
        let passes = |free| marks().allowance(free, above(Watermark::Low)) >= 8;
        assert!(!passes(1250 + 7));
        assert!(passes(1250 + 8));
    }

    #[test]
    fn the_test_is_signed() {
        assert_eq!(marks().allowance(0, above(Watermark::High)), -1500);
    }

    fn reserve(marks: &Marks, flags: AllocFlags) -> i64 {
        marks.reserve(ZoneAccess { flags, ..above(Watermark::Min) })
    }

    #[test]
    fn alloc_flags_reach_below_min() {
        let reserve = |flags| reserve(&marks(), flags);
        assert_eq!(reserve(AllocFlags::MIN_RESERVE), 500);
        // 37.5 % of min.
        let atomic = AllocFlags::MIN_RESERVE.with(AllocFlags::NON_BLOCK);
        assert_eq!(reserve(atomic), 375);
        assert_eq!(reserve(AllocFlags::NON_BLOCK), 1000, "NON_BLOCK alone has an effect");
        assert_eq!(reserve(AllocFlags::OOM), 500);
        assert_eq!(reserve(atomic.with(AllocFlags::OOM)), 375 - 187, "OOM does not halve last");
        assert_eq!(reserve(AllocFlags::NO_WATERMARKS), 0);
        assert_eq!(reserve(AllocFlags::KSWAPD), 1000);
    }

    #[test]
    fn a_boost_raises_every_mark_up_to_its_limit() {
        let marks = marks();
        assert!(marks.may_boost());
        marks.raise_boost();
        assert_eq!((marks.boost(), marks.get(Watermark::Low)), (512, 1762));
        marks.raise_boost();
        assert_eq!(marks.boost(), 600);
        assert_eq!(reserve(&marks, AllocFlags::NONE), 1600);
        assert_eq!(reserve(&marks, AllocFlags::MIN_RESERVE), 800);
        assert_eq!(reserve(&marks, AllocFlags::MIN_RESERVE.with(AllocFlags::PAST_BOOST)), 500);
        marks.lower_boost(512);
        assert_eq!(marks.boost(), 88);
        marks.lower_boost(512);
        assert_eq!(marks.boost(), 0);
    }

    #[test]
    fn small_zones_are_not_boosted() {
        let limit = |managed, boost| {
            let rules = MarkRules {
                min_free: 0,
                scale: 0,
                lowmem: 0,
                ratios: [0; 4],
                boost,
                huge_reserve: 0,
            };
            let levels = Levels { min: 1000, low: 1250, high: 1500, promo: 1750 };
            rules.boost_limit(managed, levels)
        };
        assert_eq!(limit(1 << 20, 15_000), 2250);
        assert_eq!(limit(1 << 20, 1000), 512, "a limit below a pageblock is not raised to one");
        assert_eq!(limit(1 << 20, 6), 0, "a limit that rounds to 0 is not 0");
        assert_eq!(limit(2047, 15_000), 0);
        assert_eq!(limit(2048, 15_000), 2250);
        assert_eq!(limit(1 << 20, 0), 0);
    }

    #[test]
    fn requests_that_could_go_higher_leave_more() {
        let access = ZoneAccess::above(Watermark::Min, ZoneKind::Movable);
        assert_eq!(marks().reserve(access), 1300);
    }

    #[test]
    fn reserves_follow_the_formula() {
        // 1 GiB: 4096 KiB; 16 GiB: 16384 KiB; 256 GiB: 65536 KiB.
        assert_eq!(default_min_free(1 << 18), 1024);
        assert_eq!(default_min_free(1 << 22), 4096);
        assert_eq!(default_min_free(1 << 26), 16384);
        // At least 128 KiB, at most 256 MiB.
        assert_eq!((default_min_free(255), default_min_free(257)), (32, 32));
        assert_eq!((default_min_free((1 << 30) - 1), default_min_free(1 << 30)), (65535, 65536));
        let levels = Levels::new(1 << 18, 1024, 10);
        assert_eq!((levels.low, levels.high), (1024 + 262, 1024 + 2 * 262));
    }

    #[test]
    fn lower_zones_reserve_frames_in_proportion_to_higher_zones() {
        let ratios = [256, 256, 32, 0];
        let rules = MarkRules {
            min_free: 1000,
            scale: 10,
            lowmem: 1_000_000,
            ratios,
            boost: 0,
            huge_reserve: 0,
        };
        // A recorded machine: DMA reserves 3019 frames for the 772,915 frames of DMA32.
        let managed = [3840, 772_915, 0, 0];
        assert_eq!(rules.protection(ZoneKind::Dma, managed), [0, 3019, 3019, 3019]);
        assert_eq!(rules.protection(ZoneKind::Normal, managed), [0; 4]);
    }

    #[test]
    fn zones_share_the_reserve_by_size() {
        let ratios = [0; 4];
        let rules = MarkRules {
            min_free: 1000,
            scale: 1,
            lowmem: 100_000,
            ratios,
            boost: 0,
            huge_reserve: 0,
        };
        assert_eq!(rules.levels(ZoneKind::Normal, 75_000).min, 750);
        assert_eq!(rules.levels(ZoneKind::Movable, 1 << 20).min, 128);
    }
}
