//! Page frame numbers.

use core::fmt;

use super::{FRAME_SIZE, Order};

/// A page frame number: a physical address divided by [`FRAME_SIZE`](super::FRAME_SIZE).
///
/// # Example
///
/// ```
/// use framewright::{Order, Pfn};
///
/// let pfn = Pfn::from_address(0x20_3000).expect("a multiple of the size of frames");
/// assert_eq!((pfn.get(), pfn.offset(1).address()), (0x203, 0x20_4000));
/// assert_eq!(Pfn::containing(0x20_3fff), pfn);
/// assert_eq!(pfn.align_down(Order::PAGEBLOCK), Pfn::new(0x200));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct Pfn(u64);

impl Pfn {
    /// The highest frame number that the library accepts. 2^48 frames are 1 EiB of physical address
    /// space, far more than any machine has. The other bits of a word suffice for a block's order.
    pub const MAX: Pfn = Pfn((1 << 48) - 1);

    /// The frame with this number.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The frame at a physical address; `None` if no frame starts there.
    #[must_use]
    pub const fn from_address(address: u64) -> Option<Self> {
        if address.is_multiple_of(FRAME_SIZE as u64) {
            Some(Self::containing(address))
        } else {
            None
        }
    }

    /// The frame that contains a physical address.
    #[must_use]
    pub const fn containing(address: u64) -> Self {
        Self(address / FRAME_SIZE as u64)
    }

    /// The physical address of the frame's first byte. Wraps from frame 2^52 on, above
    /// [`Pfn::MAX`].
    #[must_use]
    pub const fn address(self) -> u64 {
        self.0.wrapping_mul(FRAME_SIZE as u64)
    }

    /// The frame number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The frame `frames` above this one. Wraps at the end of `u64`, far above [`Pfn::MAX`].
    #[must_use]
    pub const fn offset(self, frames: u64) -> Self {
        Self(self.0.wrapping_add(frames))
    }

    /// The first frame of the aligned block of `order` that contains this frame.
    #[must_use]
    pub const fn align_down(self, order: Order) -> Self {
        Self(self.0 & !(order.frames() - 1))
    }

    /// Whether a block of `order` may start here.
    #[must_use]
    pub const fn is_aligned(self, order: Order) -> bool {
        self.0 & (order.frames() - 1) == 0
    }
}

impl fmt::Debug for Pfn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pfn {:#x}", self.0)
    }
}

impl fmt::Display for Pfn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_whole_frames() {
        assert_eq!(Pfn::from_address(0x20_3000), Some(Pfn::new(0x203)));
        assert_eq!(Pfn::from_address(0x20_3001), None);
        assert_eq!(Pfn::containing(0x20_3fff), Pfn::new(0x203));
        assert_eq!(Pfn::new(0x203).address(), 0x20_3000);
        assert_eq!(Pfn::from_address(Pfn::MAX.address()), Some(Pfn::MAX));
        assert_eq!(Pfn::containing(u64::MAX), Pfn::new((1 << 52) - 1));
    }

    #[test]
    fn alignment_follows_the_order() {
        let order = Order::new(3).unwrap();
        assert!(Pfn::new(16).is_aligned(order));
        assert!(!Pfn::new(12).is_aligned(order));
        assert_eq!(Pfn::new(23).align_down(order), Pfn::new(16));
        assert_eq!(Pfn::new(16).offset(7).align_down(order), Pfn::new(16));
    }
}
