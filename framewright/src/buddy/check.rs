//! Invariants and statistics that read every pageblock.

use core::ops::Range;

use super::{ABSENT, Buddy, FRAMES, MigrateType, PARTIAL, levels::count_blocks, lists::FREE};
use crate::{
    sync::Ordering,
    types::{Order, PAGEBLOCK_ORDER, fragmentation_index, unusable_index},
};

/// Counts of the free blocks of a zone by type and order, and of its pageblocks by type.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BlockCounts {
    /// Maximal free blocks, by migratetype and order.
    pub free: [[u64; Order::COUNT]; MigrateType::COUNT],
    /// Pageblocks by migratetype, without those that consist of holes.
    pub pageblocks: [u64; MigrateType::COUNT],
}

impl BlockCounts {
    /// Maximal free blocks of `order`, over all types.
    #[must_use]
    pub fn free_of_order(&self, order: Order) -> u64 {
        self.free.iter().map(|orders| orders[usize::from(order.get())]).sum()
    }

    /// Number of blocks of `order` that could be allocated if larger blocks are split, too.
    #[must_use]
    pub fn yields(&self, order: Order) -> u64 {
        let larger = Order::all().filter(|&at| at >= order);
        larger.map(|at| self.free_of_order(at) << (at.get() - order.get())).sum()
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

    /// The unusable free space index for `order`: see [`unusable_index`].
    #[must_use]
    pub fn unusable_index(&self, order: Order) -> u64 {
        unusable_index(&self.by_order(), usize::from(order.get()))
    }

    /// The fragmentation index for `order` in thousandths: the reason why a request for `order`
    /// fails. Towards 1000 the request fails because of fragmentation, which compaction repairs;
    /// towards 0 it fails because there is too little free memory. -1000: the request would not
    /// fail. A few blocks that are nearly large enough give negative values down to -500. 0 if
    /// nothing is free.
    #[must_use]
    pub fn fragmentation_index(&self, order: Order) -> i64 {
        fragmentation_index(&self.by_order(), usize::from(order.get()))
    }
}

impl Buddy<'_> {
    /// Counts free blocks and pageblocks. A block of pageblocks of several types counts for the
    /// type of its first pageblock.
    pub(crate) fn counts(&self) -> BlockCounts {
        let mut counts = BlockCounts::default();
        self.add_counts(0..self.blocks.len() as u32, &mut counts);
        counts
    }

    /// Adds to `counts` the free blocks inside some pageblocks, and the larger free blocks that
    /// start with one of these pageblocks.
    pub(crate) fn add_counts(&self, some: Range<u32>, counts: &mut BlockCounts) {
        for index in some {
            let Some(block) = self.blocks.get(index as usize) else { continue };
            if block.present == 0 {
                continue;
            }
            let of = self.type_of(index);
            counts.pageblocks[of as usize] += 1;
            let counts = &mut counts.free[of as usize];
            if block.free == 0 {
                continue;
            }
            if !block.is_free() {
                count_blocks(&block.map, block.free.into(), block.levels.whole(), counts);
            } else if of.mixes() {
                // Such pageblocks merge into blocks above order 9, also across types. Folded ones look free, too.
                if let Some(order) = self.lists.gigablocks.order_from(index) {
                    counts[usize::from(order.get())] += 1;
                }
            } else if !self.lists.gigablocks.is_folded(index) {
                counts[usize::from(PAGEBLOCK_ORDER)] += 1;
            }
        }
    }

    /// Tests the invariants of the [module](super) and the counts. An error names the violation and
    /// the number of the pageblock, gigablock (512 pageblocks) or type.
    pub(crate) fn check(&self) -> Result<(), (&'static str, u32)> {
        let mut free = [0; MigrateType::COUNT];
        let mut listed = [0; MigrateType::COUNT];
        for (index, block) in self.blocks.iter().enumerate() {
            if !block.is_consistent() {
                return Err(("the header of a pageblock contradicts its map", index as u32));
            }
            let index = index as u32;
            if self.heads_of(index).is_some_and(|heads| heads.has_any_of(&block.map)) {
                return Err(("an allocated block starts at a free frame", index));
            }
            if self.present.count(index).is_some_and(|frames| frames != u32::from(block.present)) {
                return Err(("the present frames of a pageblock contradict its header", index));
            }
            let of = self.type_of(index);
            let folded = self.lists.gigablocks.is_folded(index);
            self.check_whole(index, block.is_free() && !folded, of)?;
            if folded {
                if !block.is_free() || block.class != FREE {
                    let what = "the header of a pageblock that is allocated as a whole is not that of a free one";
                    return Err((what, index));
                }
                continue;
            }
            if of.listed().is_some() && block.class != block.proper_class() {
                return Err(("a pageblock is on the wrong list", index));
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
        let indices = 0..self.blocks.len() as u32;
        let reserved =
            indices.filter(|&index| self.unisolated_type(index) == MigrateType::HighAtomic);
        if reserved.count() as u64 * u64::from(FRAMES) != self.highatomic_reserved {
            return Err(("reserved pageblocks do not add up", 0));
        }
        self.lists.gigablocks.check()
    }

    /// Checks that a pageblock is in the sets of free pageblocks that it belongs to, and in no
    /// other. `whole` tells whether it is wholly free.
    fn check_whole(
        &self,
        index: u32,
        whole: bool,
        of: MigrateType,
    ) -> Result<(), (&'static str, u32)> {
        let gigablocks = &self.lists.gigablocks;
        for list in 0..MigrateType::LISTED {
            if gigablocks.is_listed(list, index) != (whole && of.listed() == Some(list)) {
                return Err(("a pageblock is in the wrong set of free pageblocks", index));
            }
        }
        if gigablocks.is_free(gigablocks.place(index), Order::PAGEBLOCK) != (whole && of.mixes()) {
            return Err(("the map of a gigablock contradicts a pageblock", index));
        }
        Ok(())
    }

    /// Whether `frame` is not in the memory map, or not present.
    pub(crate) fn is_hole(&self, frame: u32) -> bool {
        let number = self.types.get((frame >> PAGEBLOCK_ORDER) as usize);
        match number.map(|number| number.load(Ordering::Relaxed)) {
            None | Some(ABSENT) => return true,
            Some(number) if number & PARTIAL == 0 => return false,
            Some(_) => {}
        }
        !self.present.has_all(frame, frame + 1)
    }
}
