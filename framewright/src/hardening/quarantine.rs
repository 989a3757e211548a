//! The blocks that a CPU freed last, first in, first out.

use crate::types::Order;

/// A block in quarantine.
#[derive(Clone, Copy, Default)]
pub(crate) struct Waiting {
    pub(crate) frame: u32,
    pub(crate) order: Order,
}

/// Freed blocks that wait before they return to the zone. The number of slots is also the maximum
/// number of frames. Only the youngest block may exceed it, until the next block is added.
pub(crate) struct Quarantine<'m> {
    slots: &'m mut [Waiting],
    /// The slot of the oldest block.
    first: usize,
    len: usize,
    frames: u64,
}

impl<'m> Quarantine<'m> {
    pub(crate) fn new(slots: &'m mut [Waiting]) -> Self {
        Self { slots, first: 0, len: 0, frames: 0 }
    }

    /// Whether blocks of an order enter the quarantine. Blocks larger than the whole quarantine do
    /// not.
    pub(crate) fn admits(&self, order: Order) -> bool {
        order.frames() <= self.slots.len() as u64
    }

    /// Whether a block has to leave before a block of `order` can be added.
    pub(crate) fn is_crowded(&self, order: Order) -> bool {
        self.frames + order.frames() > self.slots.len() as u64
    }

    /// Adds a block as the youngest; `false` if there is no slot.
    pub(crate) fn push(&mut self, block: Waiting) -> bool {
        if self.len == self.slots.len() {
            return false;
        }
        let at = self.place(self.len);
        self.slots[at] = block;
        self.len += 1;
        self.frames += block.order.frames();
        true
    }

    /// Takes the oldest block.
    pub(crate) fn pop(&mut self) -> Option<Waiting> {
        let block = *self.slots.get(self.first)?;
        self.len = self.len.checked_sub(1)?;
        self.first = self.place(1);
        self.frames -= block.order.frames();
        Some(block)
    }

    /// The slot that is `ahead` slots behind the first, around the end.
    fn place(&self, ahead: usize) -> usize {
        let at = self.first + ahead;
        if at < self.slots.len() { at } else { at - self.slots.len() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(frame: u32, order: u8) -> Waiting {
        Waiting { frame, order: Order::new(order).unwrap() }
    }

    #[test]
    fn the_oldest_leaves_first_also_around_the_end() {
        let mut slots = [Waiting::default(); 3];
        let mut quarantine = Quarantine::new(&mut slots);
        for round in 0..5 {
            assert!(
                quarantine.push(block(round * 8, 0)) && quarantine.push(block(round * 8 + 2, 1))
            );
            assert!(quarantine.is_crowded(Order::ZERO));
            assert_eq!(quarantine.pop().map(|b| b.frame), Some(round * 8));
            assert!(!quarantine.is_crowded(Order::ZERO));
            assert_eq!(quarantine.pop().map(|b| b.frame), Some(round * 8 + 2));
            assert!(quarantine.pop().is_none());
        }
    }

    #[test]
    fn without_slots_nothing_waits() {
        let mut quarantine = Quarantine::new(&mut []);
        assert!(!quarantine.admits(Order::ZERO) && !quarantine.push(block(0, 0)));
        assert!(quarantine.pop().is_none());
    }

    #[test]
    fn a_block_larger_than_all_of_it_is_not_admitted() {
        let mut slots = [Waiting::default(); 4];
        let quarantine = Quarantine::new(&mut slots);
        assert!(quarantine.admits(Order::new(2).unwrap()));
        assert!(!quarantine.admits(Order::new(3).unwrap()));
    }
}
