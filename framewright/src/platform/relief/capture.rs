//! Capture of the block that compaction forms for a request.

use core::{cell::Cell, num::NonZeroUsize};

use crate::types::{Block, MemoryTag, Order, Pfn};

/// The cost of draining the lists of CPUs, as a number of page moves.
pub(crate) const MOVES_PER_DRAIN: u64 = 48;

/// The state of a request during compaction: the block that was formed for the request, and its
/// budget of page moves (setting `compact.migrate_budget`). Compaction only gets a reference to this
/// state ([`Captured`]), so that one request never gets the block of another.
#[derive(Debug)]
pub(crate) struct CaptureSlot {
    memory: NonZeroUsize,
    order: Order,
    block: Cell<Option<Pfn>>,
    /// The budget of the request, in page moves.
    budget: u64,
    /// The rest of the budget.
    left: Cell<u64>,
    /// Whether the lists of CPUs were drained for the request.
    has_drained: Cell<bool>,
}

impl CaptureSlot {
    /// A slot for one block of `order` of a memory, and a budget of `frames` moves for each
    /// pageblock that the block spans.
    pub(crate) fn new(memory: MemoryTag<'_>, order: Order, frames: u32) -> Self {
        let budget = u64::from(frames) * u64::from(order.max(Order::PAGEBLOCK).pageblocks());
        Self {
            memory: memory.address(),
            order,
            block: Cell::new(None),
            budget,
            left: Cell::new(budget),
            has_drained: Cell::new(false),
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
/// takes the block first.
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
    /// The block is returned if it is of another memory or order, or if the request has one already.
    pub fn keep<'m>(&self, block: Block<'m>) -> Result<(), Block<'m>> {
        let Self(slot) = self;
        if block.memory_address() != slot.memory || !self.lacks(block.order()) {
            return Err(block);
        }
        slot.block.set(Some(block.into_raw().0));
        Ok(())
    }

    /// Whether the request still needs a block of this order.
    #[must_use]
    pub fn lacks(&self, order: Order) -> bool {
        self.0.block.get().is_none() && self.0.order == order
    }

    /// The rest of the budget, in page moves. All attempts of the request share it until it is renewed.
    pub(crate) fn left(self) -> u64 {
        self.0.left.get()
    }

    /// Whether more than a quarter of the budget is left, which is enough to start further work.
    pub(crate) fn has_plenty_left(self) -> bool {
        4 * self.left() > self.0.budget
    }

    /// Charges the budget with `moves` page moves, or with other work that takes as long.
    pub(crate) fn spend(self, moves: u64) {
        self.0.left.set(self.left().saturating_sub(moves));
    }

    /// Whether the lists of CPUs were drained for the request.
    pub(crate) fn has_drained(self) -> bool {
        self.0.has_drained.get()
    }

    /// Records a drain of the CPU lists, and charges it to the budget.
    pub(crate) fn charge_drain(self) {
        self.0.has_drained.set(true);
        self.spend(MOVES_PER_DRAIN);
    }

    /// Restores the whole budget, and permits another drain of the CPU lists.
    pub(crate) fn renew(self) {
        self.0.left.set(self.0.budget);
        self.0.has_drained.set(false);
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
        assert!(captured.keep(block(64, order)).is_err(), "a second block was kept");
        assert_eq!(slot.take(), Some(Pfn::new(8)));
    }
}
