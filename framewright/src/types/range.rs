//! Ranges of frames.

use core::fmt;

use super::{FRAME_SIZE, Pfn};

/// A half-open range of frames: `start` is in it, `end` is not.
///
/// # Example
///
/// ```
/// use framewright::{FrameRange, Pfn};
///
/// // Firmware reports bytes: the whole frames within them are free.
/// let free = FrameRange::inside(0x1_0800, 0x8_0000).expect("at least one frame");
/// assert_eq!((free.start(), free.frames()), (Pfn::new(0x11), 0x6f));
/// // Bytes in use: all frames that they touch.
/// let initrd = FrameRange::covering(0x2_0001, 0x2_1001).expect("at least one byte");
/// assert_eq!(initrd.frames(), 2);
/// assert!(free.contains(initrd.start()) && !free.contains(free.end()));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct FrameRange {
    start: Pfn,
    end: Pfn,
}

impl FrameRange {
    /// The empty range.
    pub(crate) const EMPTY: FrameRange = FrameRange { start: Pfn::new(0), end: Pfn::new(0) };

    /// The range from `start` up to but excluding `end`; `None` if `start` is above `end`. The range may be empty.
    #[must_use]
    pub const fn new(start: Pfn, end: Pfn) -> Option<Self> {
        if start.get() <= end.get() { Some(Self { start, end }) } else { None }
    }

    /// The frames that lie completely between the physical addresses `start` and `end`. Suits free memory of a firmware
    /// map. `None` if there is no such frame.
    #[must_use]
    pub const fn inside(start: u64, end: u64) -> Option<Self> {
        let first = start.div_ceil(FRAME_SIZE as u64);
        let end = Pfn::containing(end);
        if first < end.get() { Self::new(Pfn::new(first), end) } else { None }
    }

    /// The frames with at least one byte between the physical addresses `start` and `end`. Suits memory in use. `None`
    /// if there is no such frame.
    #[must_use]
    pub const fn covering(start: u64, end: u64) -> Option<Self> {
        let last = end.div_ceil(FRAME_SIZE as u64);
        if start < end { Self::new(Pfn::containing(start), Pfn::new(last)) } else { None }
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
    fn addresses_are_rounded_to_whole_frames() {
        let range = |start, end| FrameRange::new(Pfn::new(start), Pfn::new(end));
        assert_eq!(FrameRange::inside(0x1000, 0x5000), range(1, 5));
        assert_eq!(FrameRange::inside(0x1001, 0x5fff), range(2, 5));
        assert_eq!(FrameRange::inside(0x1001, 0x2fff), None);
        assert_eq!(FrameRange::inside(0x1000, 0x1000), None);
        assert_eq!(FrameRange::covering(0x1001, 0x5001), range(1, 6));
        assert_eq!(FrameRange::covering(0x1fff, 0x2000), range(1, 2));
        assert_eq!(FrameRange::covering(0x1000, 0x1000), None);
        assert_eq!(FrameRange::inside(u64::MAX, 0), None);
    }

    #[test]
    fn a_range_is_half_open() {
        let range = FrameRange::new(Pfn::new(2), Pfn::new(5)).unwrap();
        assert_eq!(range.frames(), 3);
        assert!(range.contains(Pfn::new(2)) && !range.contains(Pfn::new(5)));
        assert!(FrameRange::new(Pfn::new(5), Pfn::new(2)).is_none());
    }
}
