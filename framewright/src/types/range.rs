//! Ranges of frames.

use core::fmt;

use super::Pfn;

/// A half-open range of frames: `start` is in it, `end` is not.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct FrameRange {
    start: Pfn,
    end: Pfn,
}

impl FrameRange {
    /// The empty range.
    pub(crate) const EMPTY: FrameRange = FrameRange { start: Pfn::new(0), end: Pfn::new(0) };

    /// The range from `start` up to, and without, `end`; `None` if `start` is above `end`. The
    /// range may be empty.
    #[must_use]
    pub const fn new(start: Pfn, end: Pfn) -> Option<Self> {
        if start.get() <= end.get() { Some(Self { start, end }) } else { None }
    }

    /// First frame.
    #[must_use]
    pub const fn start(self) -> Pfn {
        self.start
    }

    /// First frame after the range.
    #[must_use]
    pub const fn end(self) -> Pfn {
        self.end
    }

    /// Number of frames in the range.
    #[must_use]
    pub const fn frames(self) -> u64 {
        self.end.get() - self.start.get()
    }

    /// Whether the range contains `pfn`.
    #[must_use]
    pub const fn contains(self, pfn: Pfn) -> bool {
        self.start.get() <= pfn.get() && pfn.get() < self.end.get()
    }
}

impl fmt::Debug for FrameRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{:#x}, {:#x})", self.start.get(), self.end.get())
    }
}

impl fmt::Display for FrameRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_half_open() {
        let range = FrameRange::new(Pfn::new(2), Pfn::new(5)).unwrap();
        assert_eq!(range.frames(), 3);
        assert!(range.contains(Pfn::new(2)) && !range.contains(Pfn::new(5)));
        assert!(FrameRange::new(Pfn::new(5), Pfn::new(2)).is_none());
    }
}
