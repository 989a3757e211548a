//! Handing over the block that compaction forms.

use core::num::NonZeroUsize;

use crate::frame::{Block, MemoryTag, Order, Pfn};

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
    /// What the request has waited for so far: pages that moved, and what takes as long.
    spent: u64,
}

impl Captured {
    /// Room for one block of `order` of a memory.
    pub(crate) fn new(memory: MemoryTag<'_>, order: Order) -> Self {
        Self { memory: memory.address(), order, block: None, spent: 0 }
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

    /// How many moves of pages the request has waited for, in all its tries.
    pub(crate) fn spent(&self) -> u64 {
        self.spent
    }

    /// It has waited for so many more, or for what takes as long.
    pub(crate) fn spend(&mut self, moves: u64) {
        self.spent += moves;
    }

    /// It begins to count anew.
    pub(crate) fn forget_spent(&mut self) {
        self.spent = 0;
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
        let mut captured = Captured::new(tag(64), order);
        assert!(captured.keep(block(128, order)).is_err(), "of another memory");
        assert!(captured.keep(block(64, Order::ZERO)).is_err(), "of another order");
        assert!(captured.lacks(order) && !captured.lacks(Order::ZERO));
        assert!(captured.keep(block(64, order)).is_ok() && !captured.lacks(order));
        assert!(captured.keep(block(64, order)).is_err(), "there is one");
        assert_eq!(captured.take(), Some(Pfn::new(8)));
    }
}
