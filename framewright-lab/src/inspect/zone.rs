//! The free memory of a zone: blocks by migratetype and order, and the indices of its fragmentation.

use framewright::{
    MigrateType, Order,
    buddy::{BlockCounts, unusable_index},
};

use crate::{replay::uncapped, trace::snapshot::Zone};

/// The free blocks of a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragmentation {
    /// Free blocks by order, from buddyinfo.
    pub blocks: Vec<u64>,
    /// The same by migratetype, from pagetypeinfo, in the kernel's order; empty if that is missing.
    pub types: Vec<TypeBlocks>,
}

/// The free blocks and the pageblocks of one migratetype.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeBlocks {
    /// The migratetype, by the kernel's name.
    pub name: String,
    /// Free blocks by order.
    pub blocks: Vec<u64>,
    /// Pageblocks.
    pub pageblocks: u64,
}

impl Fragmentation {
    /// The free blocks of a zone; `None` without buddyinfo.
    #[must_use]
    pub fn of(zone: &Zone) -> Option<Self> {
        if zone.free_blocks.is_empty() {
            return None;
        }
        let types = zone.types.iter().zip(uncapped(zone)).map(|(of, blocks)| TypeBlocks {
            name: of.name.clone(),
            blocks,
            pageblocks: of.pageblocks,
        });
        Some(Self { blocks: zone.free_blocks.clone(), types: types.collect() })
    }

    /// The unusable free space index for `order`, from 0 to 1: the share of the free frames in blocks smaller
    /// than `order`. 1 also if nothing is free.
    #[must_use]
    pub fn unusable(&self, order: usize) -> f64 {
        unusable_index(&self.blocks, order) as f64 / 1000.0
    }

    /// The fragmentation index for `order`. Towards 1, a request fails because of fragmentation, which
    /// compaction repairs. Towards 0 it fails because there is too little free memory. -1: it does not
    /// fail. A few blocks that are nearly large enough give values down to -0.5.
    #[must_use]
    pub fn index(&self, order: usize) -> f64 {
        let mut counts = BlockCounts::default();
        let movable = &mut counts.free[MigrateType::Movable as usize];
        movable.iter_mut().zip(&self.blocks).for_each(|(to, from)| *to = *from);
        let order = Order::new(u8::try_from(order).unwrap_or(u8::MAX));
        order.map_or(0.0, |order| counts.fragmentation_index(order) as f64 / 1000.0)
    }
}
