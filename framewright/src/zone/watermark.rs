//! Watermarks: how much free memory each kind of request must leave behind.
//!
//! The test is strict and signed: a request for 2^order frames passes if
//! `free - (2^order - 1) > mark`, which says that at least `mark` frames are free afterwards.
//! Marks may exceed what is free by far, so the arithmetic must be able to go negative.

use core::fmt;

use super::ZoneKind;
use crate::sync::{AtomicU64, Ordering};

/// The marks of a zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Watermark {
    /// Below it, only requests with rights to reserves are served.
    Min,
    /// Below it, background reclaim is woken.
    Low,
    /// Up to it, background reclaim works.
    High,
}

impl fmt::Display for Watermark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Watermark::Min => "min",
            Watermark::Low => "low",
            Watermark::High => "high",
        })
    }
}

/// How far down a request may go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Depth {
    /// To a mark.
    Above(Watermark),
    /// To half of min: urgent requests.
    HalfOfMin,
    /// To three eighths of min: urgent requests that cannot wait.
    Atomic,
}

/// What a request may use of a zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Access {
    pub(crate) depth: Depth,
    /// The highest kind of zone it could use: lower zones keep more back from it.
    pub(crate) highest: ZoneKind,
}

impl Access {
    /// Everything above a mark.
    pub(crate) const fn above(mark: Watermark, highest: ZoneKind) -> Self {
        Self { depth: Depth::Above(mark), highest }
    }

    /// The mark it is measured against.
    pub(crate) fn watermark(self) -> Watermark {
        match self.depth {
            Depth::Above(mark) => mark,
            Depth::HalfOfMin | Depth::Atomic => Watermark::Min,
        }
    }
}

/// Watermarks as plain numbers, in frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Levels {
    pub(crate) min: u64,
    pub(crate) low: u64,
    pub(crate) high: u64,
    pub(crate) promo: u64,
}

impl Levels {
    /// Marks of a zone of `managed` frames that keeps `min` of them in reserve; the distance
    /// between two marks is a quarter of min, or `scale`/10000 of the zone if that is more.
    pub(crate) fn new(managed: u64, min: u64, scale: u32) -> Self {
        let gap = if min == 0 { 0 } else { (min / 4).max(managed * u64::from(scale) / 10_000) };
        Self { min, low: min + gap, high: min + 2 * gap, promo: min + 3 * gap }
    }
}

/// The watermarks of a zone. They change when memory comes or goes, and are read without a lock:
/// each is a hint by itself, and no two need to be of one moment.
pub(crate) struct Marks {
    min: AtomicU64,
    low: AtomicU64,
    high: AtomicU64,
    promo: AtomicU64,
    /// What is kept back from requests that could use a higher zone, by the highest they can.
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
            protection: core::array::from_fn(|_| zero()),
        }
    }

    /// Replaces them.
    pub(crate) fn set(&self, levels: Levels, protection: [u64; ZoneKind::COUNT]) {
        for (mark, to) in [
            (&self.min, levels.min),
            (&self.low, levels.low),
            (&self.high, levels.high),
            (&self.promo, levels.promo),
        ] {
            mark.store(to, Ordering::Relaxed);
        }
        for (mark, to) in self.protection.iter().zip(protection) {
            mark.store(to, Ordering::Relaxed);
        }
    }

    /// All of them.
    pub(crate) fn levels(&self) -> Levels {
        let read = |mark: &AtomicU64| mark.load(Ordering::Relaxed);
        Levels {
            min: read(&self.min),
            low: read(&self.low),
            high: read(&self.high),
            promo: read(&self.promo),
        }
    }

    /// What is kept back from requests by the highest zone they can use.
    pub(crate) fn protection(&self) -> [u64; ZoneKind::COUNT] {
        core::array::from_fn(|kind| self.protection[kind].load(Ordering::Relaxed))
    }

    /// The mark itself.
    pub(crate) fn get(&self, mark: Watermark) -> u64 {
        let mark = match mark {
            Watermark::Min => &self.min,
            Watermark::Low => &self.low,
            Watermark::High => &self.high,
        };
        mark.load(Ordering::Relaxed)
    }

    /// Frames that `access` must leave free.
    pub(crate) fn reserve(&self, access: Access) -> i64 {
        let mark = self.get(access.watermark()) as i64;
        let mark = match access.depth {
            Depth::Above(_) => mark,
            Depth::HalfOfMin => mark - mark / 2,
            Depth::Atomic => {
                let half = mark - mark / 2;
                half - half / 4
            }
        };
        mark + self.protection[access.highest as usize].load(Ordering::Relaxed) as i64
    }

    /// Frames that `access` may take from `free`; negative below the mark.
    #[inline]
    pub(crate) fn allowance(&self, free: u64, access: Access) -> i64 {
        free as i64 - self.reserve(access)
    }
}

/// The marks of all zones of a memory, from how much each manages.
///
/// Zones that the system itself can use share its reserve by size; others keep a token one. Of a
/// lower zone, requests that could use a higher one leave a share of the higher zones' size: so
/// that what only the lower zone can serve is not used up by what could have gone elsewhere.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MarkRules {
    /// The reserve of the whole memory, in frames.
    pub(crate) min_free: u64,
    /// Least distance of marks, in 1/10000 of a zone.
    pub(crate) scale: u32,
    /// Frames that the system itself can use.
    pub(crate) lowmem: u64,
    /// Share of the higher zones that each kind keeps back: one in so many frames; 0: none.
    pub(crate) ratios: [u32; ZoneKind::COUNT],
}

impl MarkRules {
    /// The marks of a zone.
    pub(crate) fn levels(&self, kind: ZoneKind, managed: u64) -> Levels {
        let min = if kind.is_lowmem() {
            (u128::from(self.min_free) * u128::from(managed) / u128::from(self.lowmem.max(1)))
                as u64
        } else if self.min_free == 0 {
            0
        } else {
            (managed / 1024).clamp(32, 128).min(managed / 4)
        };
        Levels::new(managed, min, self.scale)
    }

    /// What a zone keeps back; `managed` are the sizes of the kinds of its node.
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

/// The reserve of a memory of `managed` frames by Linux's formula: the square root of 16 times
/// its KiB, at least 128 KiB and at most 256 MiB; and never more than a quarter of the memory,
/// which matters for toy sizes only.
pub(crate) fn default_min_free(managed: u64) -> u64 {
    let kib = (16 * managed * 4).isqrt().clamp(128, 262_144);
    (kib / 4).min(managed / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks() -> Marks {
        let marks = Marks::new();
        let levels = Levels { min: 1000, low: 1250, high: 1500, promo: 1750 };
        marks.set(levels, [0, 0, 0, 300]);
        marks
    }

    fn above(mark: Watermark) -> Access {
        Access::above(mark, ZoneKind::Normal)
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

    #[test]
    fn urgent_requests_dip_below_min() {
        let reserve = |depth| marks().reserve(Access { depth, highest: ZoneKind::Normal });
        assert_eq!(reserve(Depth::HalfOfMin), 500);
        // 37.5 % of min.
        assert_eq!(reserve(Depth::Atomic), 375);
    }

    #[test]
    fn requests_that_could_go_higher_leave_more() {
        let access = Access::above(Watermark::Min, ZoneKind::Movable);
        assert_eq!(marks().reserve(access), 1300);
    }

    #[test]
    fn reserves_follow_the_formula() {
        // 1 GiB: 4096 KiB; 16 GiB: 16384 KiB; 256 GiB: 65536 KiB.
        assert_eq!(default_min_free(1 << 18), 1024);
        assert_eq!(default_min_free(1 << 22), 4096);
        assert_eq!(default_min_free(1 << 26), 16384);
        let levels = Levels::new(1 << 18, 1024, 10);
        assert_eq!((levels.low, levels.high), (1024 + 262, 1024 + 2 * 262));
    }

    #[test]
    fn lower_zones_keep_a_share_of_the_higher_ones() {
        let ratios = [256, 256, 32, 0];
        let rules = MarkRules { min_free: 1000, scale: 10, lowmem: 1_000_000, ratios };
        // A recorded machine: 772,915 frames of DMA32 are 3019 for DMA.
        let managed = [3840, 772_915, 0, 0];
        assert_eq!(rules.protection(ZoneKind::Dma, managed), [0, 3019, 3019, 3019]);
        assert_eq!(rules.protection(ZoneKind::Normal, managed), [0; 4]);
    }

    #[test]
    fn zones_share_the_reserve_by_size() {
        let rules = MarkRules { min_free: 1000, scale: 1, lowmem: 100_000, ratios: [0; 4] };
        assert_eq!(rules.levels(ZoneKind::Normal, 75_000).min, 750);
        assert_eq!(rules.levels(ZoneKind::Movable, 1 << 20).min, 128);
    }
}
