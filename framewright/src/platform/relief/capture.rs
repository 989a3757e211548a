//! Handing over the block that compaction forms.

use core::{cell::Cell, num::NonZeroUsize};

use crate::types::{Block, MemoryTag, Order, Pfn};

/// Pages that move in the time that it takes to bring home what lies on the lists of CPUs.
pub(crate) const MOVES_PER_DRAIN: u64 = 48;

/// The state of a request during compaction: the block that was formed for it, and its budget of page moves.
/// Relief only gets a reference to it ([`Captured`]), so that one request never gets the block of another.
#[derive(Debug)]
pub(crate) struct CaptureSlot {
    memory: NonZeroUsize,
    order: Order,
    block: Cell<Option<Pfn>>,
    /// What the request may wait for, in moves of pages, and how much of that is left.
    share: u64,
    left: Cell<u64>,
    /// What lay on the lists of CPUs was brought home for it.
    is_home: Cell<bool>,
}

impl CaptureSlot {
    /// A slot for one block of `order` of a memory, and a budget of `frames` moves for each
    /// pageblock that the block spans.
    pub(crate) fn new(memory: MemoryTag<'_>, order: Order, frames: u32) -> Self {
        let share = u64::from(frames) * u64::from(order.max(Order::PAGEBLOCK).pageblocks());
        Self {
            memory: memory.address(),
            order,
            block: Cell::new(None),
            share,
            left: Cell::new(share),
            is_home: Cell::new(false),
        }
    }

    /// The order of the block.
    pub(crate) fn order(&self) -> Order {
        self.order
    }

    /// The block's first frame; the caller owns the block.
    pub(crate) fn take(&self) -> Option<Pfn> {
        self.block.take()
    }
}

/// The place where compaction puts the block that it formed for a request, so that no other request
/// takes it in between.
///
/// It refers to the request and owns nothing: the block stays with the request even if this value
/// is copied or dropped. It cannot outlive the call that it was passed to, nor leave its thread.
///
/// ```
/// # use framewright::{Block, platform::Captured};
/// // `formed` was returned by `CpuToken::free_capturing`.
/// fn hand_over<'m>(formed: Block<'m>, captured: Captured<'_>) -> Option<Block<'m>> {
///     captured.keep(formed).err()
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Captured<'c>(&'c CaptureSlot);

impl<'c> Captured<'c> {
    /// The reference to the request that owns `slot`.
    pub(crate) fn of(slot: &'c CaptureSlot) -> Self {
        Self(slot)
    }

    /// Hands over a block.
    ///
    /// # Errors
    ///
    /// It is given back if it is of another memory or order, or if there is one already.
    pub fn keep<'m>(&self, block: Block<'m>) -> Result<(), Block<'m>> {
        let Self(slot) = self;
        if block.memory_address() != slot.memory || !self.lacks(block.order()) {
            return Err(block);
        }
        slot.block.set(Some(block.into_raw().0));
        Ok(())
    }

    /// Whether a block of `order` is what is missing.
    #[must_use]
    pub fn lacks(&self, order: Order) -> bool {
        self.0.block.get().is_none() && self.0.order == order
    }

    /// How many moves of pages the request may wait for still, in all its tries together.
    pub(crate) fn left(self) -> u64 {
        self.0.left.get()
    }

    /// Whether more than a quarter of that is left, which is worth beginning something with.
    pub(crate) fn has_plenty_left(self) -> bool {
        4 * self.left() > self.0.share
    }

    /// It has waited for so many moves, or for what takes as long.
    pub(crate) fn spend(self, moves: u64) {
        self.0.left.set(self.left().saturating_sub(moves));
    }

    /// Whether what lay on the lists of CPUs was brought home for it.
    pub(crate) fn is_home(self) -> bool {
        self.0.is_home.get()
    }

    /// That is being done.
    pub(crate) fn bring_home(self) {
        self.0.is_home.set(true);
        self.spend(MOVES_PER_DRAIN);
    }

    /// It begins to count anew.
    pub(crate) fn renew(self) {
        self.0.left.set(self.0.share);
        self.0.is_home.set(false);
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
        let slot = CaptureSlot::new(tag(64), order, 1);
        let captured = Captured::of(&slot);
        assert!(captured.keep(block(128, order)).is_err(), "of another memory");
        assert!(captured.keep(block(64, Order::ZERO)).is_err(), "of another order");
        assert!(captured.lacks(order) && !captured.lacks(Order::ZERO));
        assert!(captured.keep(block(64, order)).is_ok() && !captured.lacks(order));
        assert!(captured.keep(block(64, order)).is_err(), "there is one");
        assert_eq!(slot.take(), Some(Pfn::new(8)));
    }
}
