//! Invariants and statistics that look at every pageblock.

use super::{Buddy, MigrateType, fragmentation_index, unusable_index};
use crate::frame::Order;

/// Free blocks of a zone by type and order, and its pageblocks by type, counted when asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BlockCounts {
    /// Maximal free blocks, by migratetype and order.
    pub free: [[u64; Order::COUNT]; MigrateType::COUNT],
    /// Pageblocks by migratetype, those that are nothing but holes left out.
    pub pageblocks: [u64; MigrateType::COUNT],
}

impl BlockCounts {
    /// Maximal free blocks of `order`, over all types.
    #[must_use]
    pub fn free_of_order(&self, order: Order) -> u64 {
        self.free.iter().map(|orders| orders[usize::from(order.get())]).sum()
    }

    /// Free frames, over all types and orders.
    #[must_use]
    pub fn free_frames(&self) -> u64 {
        Order::all().map(|order| self.free_of_order(order) * order.frames()).sum()
    }

    /// The order of the largest free block.
    #[must_use]
    pub fn largest(&self) -> Option<Order> {
        Order::all().rev().find(|&order| self.free_of_order(order) > 0)
    }

    /// Maximal free blocks by order, over all types.
    #[must_use]
    pub fn by_order(&self) -> [u64; Order::COUNT] {
        let mut blocks = [0; Order::COUNT];
        for (sum, order) in blocks.iter_mut().zip(Order::all()) {
            *sum = self.free_of_order(order);
        }
        blocks
    }

    /// The unusable-free index for `order`: see [`unusable_index`].
    #[must_use]
    pub fn unusable_index(&self, order: Order) -> u64 {
        unusable_index(&self.by_order(), usize::from(order.get()))
    }

    /// The fragmentation index for `order`: see [`fragmentation_index`].
    #[must_use]
    pub fn fragmentation_index(&self, order: Order) -> i64 {
        fragmentation_index(&self.by_order(), usize::from(order.get()))
    }
}

impl Buddy<'_> {
    /// Counts free blocks and pageblocks.
    pub(crate) fn counts(&self) -> BlockCounts {
        let mut counts = BlockCounts::default();
        for (index, block) in self.blocks.iter().enumerate() {
            if block.present == 0 {
                continue;
            }
            let of = self.type_of(index as u32) as usize;
            counts.pageblocks[of] += 1;
            if self.folded.contains(index as u32) {
                continue;
            }
            for (order, blocks) in block.count_blocks().into_iter().enumerate() {
                counts.free[of][order] += u64::from(blocks);
            }
        }
        counts
    }

    /// Tests invariant I2 and the counts; the text says what is wrong, the number where.
    pub(crate) fn check(&self) -> Result<(), (&'static str, u32)> {
        let mut free = [0; MigrateType::COUNT];
        let mut listed = [0; MigrateType::COUNT];
        for (index, block) in self.blocks.iter().enumerate() {
            if !block.is_consistent() {
                return Err(("the header of a pageblock contradicts its map", index as u32));
            }
            let of = self.type_of(index as u32);
            if self.folded.contains(index as u32) {
                if !block.is_free() {
                    return Err(("a folded pageblock does not look free", index as u32));
                }
                continue;
            }
            let proper = if of.listed().is_some() { block.proper_class() } else { block.class };
            if block.class != proper {
                return Err(("a pageblock is on the wrong list", index as u32));
            }
            free[of as usize] += u64::from(block.free);
            listed[of as usize] += usize::from(block.free > 0);
        }
        for of in MigrateType::all().filter(|of| of.listed().is_some()) {
            if self.lists.count_listed(self.blocks, of) != Some(listed[of as usize]) {
                return Err(("the lists of a migratetype are damaged", of as u32));
            }
        }
        if free != self.free {
            return Err(("free frames per type do not add up", 0));
        }
        Ok(())
    }

    /// Whether `frame` is not in the memory map.
    pub(crate) fn is_hole(&self, frame: u32) -> bool {
        !self.ranges.iter().any(|range| (range[0]..range[1]).contains(&frame))
    }
}
