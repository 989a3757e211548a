//! Free blocks by order and by migratetype.

use framewright::{
    MigrateType, Order,
    buddy::{BlockCounts, unusable_index},
    frame::PAGEBLOCK_ORDER,
    observe::text::COLUMNS,
};
use serde::Serialize;
use std::collections::BTreeMap;

/// The order of a pageblock.
const PAGEBLOCK: usize = PAGEBLOCK_ORDER as usize;

/// Orders in reports: those that both the kernel and the library have. A larger block counts as
/// several of the last order.
pub const SHOWN_ORDERS: usize = if Order::COUNT < COLUMNS { Order::COUNT } else { COLUMNS };

/// Blocks by order.
pub type Blocks = [u64; SHOWN_ORDERS];

/// Free memory at one moment, without frames on CPU lists.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FreeMemory {
    /// Free blocks by order.
    pub blocks: Blocks,
    /// Free blocks by migratetype and order, for the types that requests may name.
    pub by_type: BTreeMap<&'static str, Blocks>,
}

impl FreeMemory {
    /// Free memory of a zone of the library.
    pub(crate) fn of_counts(counts: &BlockCounts) -> Self {
        let by_type =
            MigrateType::REQUESTABLE.map(|of| (of.name(), fold(&counts.free[of as usize])));
        Self { blocks: fold(&counts.by_order()), by_type: by_type.into() }
    }

    /// These free blocks by order, of unknown migratetypes.
    pub(crate) fn of_blocks(blocks: &[u64]) -> Self {
        Self { blocks: fold(blocks), by_type: BTreeMap::new() }
    }

    /// Adds the free memory of another zone.
    pub(crate) fn add(&mut self, other: &Self) {
        add(&mut self.blocks, &other.blocks);
        for (&name, blocks) in &other.by_type {
            add(self.by_type.entry(name).or_default(), blocks);
        }
    }

    /// Free frames.
    #[must_use]
    pub fn frames(&self) -> u64 {
        frames(&self.blocks)
    }

    /// Free frames of one migratetype; 0 if types are unknown.
    #[must_use]
    pub fn frames_of(&self, of: MigrateType) -> u64 {
        self.by_type.get(of.name()).map_or(0, frames)
    }

    /// Blocks of order 9 that can be allocated from the free blocks.
    #[must_use]
    pub fn order9_allocatable(&self) -> u64 {
        let larger = self.blocks.iter().enumerate().skip(PAGEBLOCK);
        let blocks = larger.map(|(order, blocks)| blocks.saturating_mul(1 << (order - PAGEBLOCK)));
        blocks.fold(0, u64::saturating_add)
    }

    /// Order of the largest free block, among the shown orders.
    #[must_use]
    pub fn largest_order(&self) -> Option<u8> {
        self.blocks.iter().rposition(|&blocks| blocks > 0).map(|order| order as u8)
    }

    /// The unusable free space index for `order`, in thousandths: the share of free memory in
    /// blocks that are too small. 1000 without free memory.
    #[must_use]
    pub fn unusable_index(&self, order: Order) -> u64 {
        unusable_index(&self.blocks, usize::from(order.get()))
    }

    /// The difference to `other` in blocks of each order.
    #[must_use]
    pub fn beyond(&self, other: &Self) -> [i64; SHOWN_ORDERS] {
        let ours = self.blocks.map(|blocks| blocks as i64);
        std::array::from_fn(|order| ours[order].saturating_sub(other.blocks[order] as i64))
    }
}

/// The number of frames in these blocks.
fn frames(blocks: &Blocks) -> u64 {
    let blocks = blocks.iter().enumerate();
    blocks.fold(0, |sum, (order, &blocks)| sum.saturating_add(blocks.saturating_mul(1 << order)))
}

fn add(sum: &mut Blocks, more: &Blocks) {
    sum.iter_mut().zip(more).for_each(|(sum, more)| *sum = sum.saturating_add(*more));
}

/// Counts larger blocks as several of the largest shown order.
pub(crate) fn fold(blocks: &[u64]) -> Blocks {
    let mut shown = Blocks::default();
    for (order, &count) in blocks.iter().enumerate() {
        let at = order.min(SHOWN_ORDERS - 1);
        shown[at] = shown[at].saturating_add(count.saturating_mul(1 << (order - at).min(63)));
    }
    shown
}
