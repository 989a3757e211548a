//! Orders: sizes of blocks as powers of two.

use core::fmt;

use super::PAGEBLOCK_ORDER;

/// The size of a block: 2^order frames.
///
/// Orders range from 0 (one frame) to [`Order::MAX`] (1 GiB); [`Order::PAGEBLOCK`] is 2 MiB.
///
/// # Example
///
/// ```
/// use framewright::Order;
///
/// let order = Order::new(3).expect("at most Order::MAX");
/// assert_eq!(order.frames(), 8);
/// assert_eq!(Order::holding(9), Order::new(4), "the smallest block with nine frames");
/// assert_eq!(Order::PAGEBLOCK.frames(), 512, "2 MiB");
/// assert_eq!(Order::new(19), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct Order(u8);

impl Order {
    /// One frame.
    pub const ZERO: Order = Order(0);
    /// One pageblock.
    pub const PAGEBLOCK: Order = Order(PAGEBLOCK_ORDER);
    /// 512 pageblocks: the largest block that can be allocated, and the largest page of x86-64.
    pub const MAX: Order = Order(2 * PAGEBLOCK_ORDER);
    /// The number of orders.
    pub const COUNT: usize = Order::MAX.0 as usize + 1;

    /// The order `value`, or `None` above [`Order::MAX`].
    #[must_use]
    pub const fn new(value: u8) -> Option<Self> {
        if value <= Order::MAX.0 { Some(Self(value)) } else { None }
    }

    /// The order in the low byte of a word. The byte is a valid order.
    #[inline(always)]
    pub(super) const fn from_low_bits(word: u64) -> Self {
        Self(word as u8)
    }

    /// The smallest order with at least `frames` frames; `None` if no block has as many, or for 0 frames.
    #[must_use]
    pub const fn holding(frames: u64) -> Option<Self> {
        if frames == 0 || frames > Order::MAX.frames() {
            return None;
        }
        Some(Self(frames.next_power_of_two().ilog2() as u8))
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

    /// Pageblocks in a block of this order, which is at least [`Order::PAGEBLOCK`].
    #[inline(always)]
    pub(crate) const fn pageblocks(self) -> u32 {
        1 << (self.0 - PAGEBLOCK_ORDER)
    }

    /// All orders, smallest first.
    pub fn all() -> impl DoubleEndedIterator<Item = Order> + Clone {
        (0..=Order::MAX.0).map(Order)
    }
}

impl fmt::Debug for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "order {}", self.0)
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        u32::from(self.0).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_end_at_a_gibibyte() {
        assert_eq!(Order::new(9), Some(Order::PAGEBLOCK));
        assert_eq!(Order::new(18), Some(Order::MAX));
        assert_eq!(Order::new(19), None);
        let holding = |frames| Order::holding(frames).map(Order::get);
        assert_eq!([1, 2, 3, 512, 513, 1 << 18].map(holding), [0, 1, 2, 9, 10, 18].map(Some));
        assert_eq!([0, (1 << 18) + 1, u64::MAX].map(holding), [None; 3]);
        assert_eq!(Order::all().count(), Order::COUNT);
        assert_eq!(Order::PAGEBLOCK.frames(), 512);
        assert_eq!(Order::MAX.pageblocks(), 512);
    }
}
