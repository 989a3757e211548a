//! Handing over the block that compaction forms.

use core::num::NonZeroUsize;

use crate::frame::{Block, MemoryTag, Order, Pfn};

/// Pages that move in the time that it takes to bring home what lies on the lists of CPUs.
pub(crate) const MOVES_PER_DRAIN: u64 = 48;

/// Where compaction may put the block that it was asked to form, for the request that asked: so
/// that nobody else takes it in between.
///
/// ```
/// # use framewright::{Block, platform::Captured};
/// // `formed` as it came from `CpuToken::free_capturing`.
/// fn hand_over<'m>(formed: Block<'m>, captured: &mut Captured) -> Option<Block<'m>> {
///     captured.keep(formed).err()
/// }
/// ```
#[derive(Debug)]
pub struct Captured {
    memory: NonZeroUsize,
    order: Order,
    block: Option<Pfn>,
    /// What the request may wait for, in moves of pages, and how much of that is left.
    share: u64,
    left: u64,
    /// What lay on the lists of CPUs was brought home for it.
    is_home: bool,
}

impl Captured {
    /// Room for one block of `order` of a memory, and what who asks may wait for: `frames` moves for
    /// each pageblock that it takes.
    pub(crate) fn new(memory: MemoryTag<'_>, order: Order, frames: u32) -> Self {
        let share = u64::from(frames) * u64::from(order.max(Order::PAGEBLOCK).pageblocks());
        let memory = memory.address();
        Self { memory, order, block: None, share, left: share, is_home: false }
    }

    /// Hands over a block.
    ///
    /// # Errors
    ///
    /// It is given back if it is of another memory or order, or if there is one already.
    pub fn keep<'m>(&mut self, block: Block<'m>) -> Result<(), Block<'m>> {
        if block.memory_address() != self.memory
            || block.order() != self.order
            || self.block.is_some()
        {
            return Err(block);
        }
        self.block = Some(block.into_raw().0);
        Ok(())
    }

    /// Whether a block of `order` is what is missing.
    #[must_use]
    pub fn lacks(&self, order: Order) -> bool {
        self.block.is_none() && self.order == order
    }

    /// How many moves of pages the request may wait for still, in all its tries together.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// Whether more than a quarter of that is left, which is worth beginning something with.
    pub(crate) fn has_plenty_left(&self) -> bool {
        4 * self.left > self.share
    }

    /// It has waited for so many moves, or for what takes as long.
    pub(crate) fn spend(&mut self, moves: u64) {
        self.left = self.left.saturating_sub(moves);
    }

    /// Whether what lay on the lists of CPUs was brought home for it.
    pub(crate) fn is_home(&self) -> bool {
        self.is_home
    }

    /// That is being done.
    pub(crate) fn bring_home(&mut self) {
        self.is_home = true;
        self.spend(MOVES_PER_DRAIN);
    }

    /// It begins to count anew.
    pub(crate) fn renew(&mut self) {
        (self.left, self.is_home) = (self.share, false);
    }

    /// The block's first frame; the caller owns the block.
    pub(crate) fn take(&mut self) -> Option<Pfn> {
        self.block.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tag(address: usize) -> MemoryTag<'static> {
        MemoryTag::at(NonZeroUsize::new(address).unwrap())
    }

    #[test]
    fn one_block_of_the_right_order_and_memory_is_kept() {
        let order = Order::new(3).unwrap();
        let block = |address, order| Block::new(tag(address), Pfn::new(8), order);
        let mut captured = Captured::new(tag(64), order, 1);
        assert!(captured.keep(block(128, order)).is_err(), "of another memory");
        assert!(captured.keep(block(64, Order::ZERO)).is_err(), "of another order");
        assert!(captured.lacks(order) && !captured.lacks(Order::ZERO));
        assert!(captured.keep(block(64, order)).is_ok() && !captured.lacks(order));
        assert!(captured.keep(block(64, order)).is_err(), "there is one");
        assert_eq!(captured.take(), Some(Pfn::new(8)));
    }
}
