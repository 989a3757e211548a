//! Orders: sizes of blocks as powers of two.

use core::fmt;

use super::PAGEBLOCK_ORDER;

/// The size of a block: 2^order frames.
///
/// Orders reach from 0 (one frame) to [`Order::PAGEBLOCK`] (one pageblock).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct Order(u8);

impl Order {
    /// One frame.
    pub const ZERO: Order = Order(0);
    /// One pageblock, the largest block the allocator hands out.
    pub const PAGEBLOCK: Order = Order(PAGEBLOCK_ORDER);
    /// How many orders there are.
    pub const COUNT: usize = PAGEBLOCK_ORDER as usize + 1;

    /// The order `value`, or `None` above [`Order::PAGEBLOCK`].
    #[must_use]
    pub const fn new(value: u8) -> Option<Self> {
        if value <= PAGEBLOCK_ORDER { Some(Self(value)) } else { None }
    }

    /// The order in the low byte of a word that was made from a valid order.
    #[inline(always)]
    pub(super) const fn from_low_bits(word: u64) -> Self {
        Self(word as u8)
    }

    /// The exponent.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }

    /// Frames in a block of this order.
    #[must_use]
    pub const fn frames(self) -> u64 {
        1 << self.0
    }

    /// All orders, smallest first.
    pub fn all() -> impl DoubleEndedIterator<Item = Order> + Clone {
        (0..=PAGEBLOCK_ORDER).map(Order)
    }
}

impl fmt::Debug for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "order {}", self.0)
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_end_at_a_pageblock() {
        assert_eq!(Order::new(9), Some(Order::PAGEBLOCK));
        assert_eq!(Order::new(10), None);
        assert_eq!(Order::all().count(), Order::COUNT);
        assert_eq!(Order::PAGEBLOCK.frames(), 512);
    }
}
