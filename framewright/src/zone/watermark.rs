//! Watermarks: how much free memory each kind of request must leave behind.
//!
//! The test is strict and signed: a request for 2^order frames passes if
//! `free - (2^order - 1) > mark`, which says that at least `mark` frames are free afterwards.
//! Marks may exceed what is free by far, so the arithmetic must be able to go negative.

use core::fmt;

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

/// What a request may use: a mark, and how far below it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    /// Everything above a mark.
    Above(Watermark),
    /// Half of what lies below min: for urgent requests.
    HalfOfMin,
    /// Five eighths of what lies below min: for urgent requests that cannot wait.
    Atomic,
}

impl Access {
    /// The mark it is measured against.
    pub(crate) fn watermark(self) -> Watermark {
        match self {
            Access::Above(mark) => mark,
            Access::HalfOfMin | Access::Atomic => Watermark::Min,
        }
    }
}

/// The watermarks of a zone, in frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Marks {
    pub(crate) min: u64,
    pub(crate) low: u64,
    pub(crate) high: u64,
}

impl Marks {
    /// Marks of a zone of `managed` frames that keeps `min` of them in reserve; the distance
    /// between two marks is a quarter of min, or `scale`/10000 of the zone if that is more.
    pub(crate) fn new(managed: u64, min: u64, scale: u32) -> Self {
        let gap = if min == 0 { 0 } else { (min / 4).max(managed * u64::from(scale) / 10_000) };
        Self { min, low: min + gap, high: min + 2 * gap }
    }

    /// The mark itself.
    pub(crate) fn get(&self, mark: Watermark) -> u64 {
        match mark {
            Watermark::Min => self.min,
            Watermark::Low => self.low,
            Watermark::High => self.high,
        }
    }

    /// Frames that `access` must leave free.
    pub(crate) fn reserve(&self, access: Access) -> i64 {
        let min = self.min as i64;
        match access {
            Access::Above(mark) => self.get(mark) as i64,
            Access::HalfOfMin => min - min / 2,
            Access::Atomic => {
                let half = min - min / 2;
                half - half / 4
            }
        }
    }

    /// Frames that `access` may take from `free`; negative below the mark.
    #[inline]
    pub(crate) fn allowance(&self, free: u64, access: Access) -> i64 {
        free as i64 - self.reserve(access)
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

    const MARKS: Marks = Marks { min: 1000, low: 1250, high: 1500 };

    #[test]
    fn the_test_is_strict() {
        // free - (2^order - 1) > mark, for order 3: 8 frames.
        let passes = |free| MARKS.allowance(free, Access::Above(Watermark::Low)) >= 8;
        assert!(!passes(1250 + 7));
        assert!(passes(1250 + 8));
    }

    #[test]
    fn the_test_is_signed() {
        assert_eq!(MARKS.allowance(0, Access::Above(Watermark::High)), -1500);
    }

    #[test]
    fn urgent_requests_dip_below_min() {
        assert_eq!(MARKS.reserve(Access::HalfOfMin), 500);
        // 37.5 % of min.
        assert_eq!(MARKS.reserve(Access::Atomic), 375);
    }

    #[test]
    fn reserves_follow_the_formula() {
        // 1 GiB: 4096 KiB; 16 GiB: 16384 KiB; 256 GiB: 65536 KiB.
        assert_eq!(default_min_free(1 << 18), 1024);
        assert_eq!(default_min_free(1 << 22), 4096);
        assert_eq!(default_min_free(1 << 26), 16384);
        let marks = Marks::new(1 << 18, 1024, 10);
        assert_eq!((marks.low, marks.high), (1024 + 262, 1024 + 2 * 262));
    }
}
