//! The pageblocks of a zone that are whole blocks: free as a whole, or allocated as one block.
//!
//! Free pageblocks are in a set by migratetype. If requests may name that type, they are also in
//! the map of their [`Gigablock`] (1 GiB). Blocks of order 9 are taken from the set, up to 64 at a
//! time; larger blocks are read off the map. A *leaf* of the map describes 64 pageblocks.
//! Gigablocks are in sets by the order of their largest free block. So one find-first-set finds, in
//! a zone of any size, the set of the smallest sufficient order.
//!
//! Larger blocks are aligned to *physical* addresses. So this module numbers pageblocks by their
//! *place*: counted from the start of the gigablock that contains the zone's first frame. Places
//! before the zone are never free.

use super::{
    MigrateType,
    gigablock::{Gigablock, Leaf, PAGEBLOCKS, spans},
    levels::WORDS,
};
use crate::types::{Order, PAGEBLOCK_ORDER, Pfn, set::NumberSet};

/// Orders above that of a pageblock.
pub(super) const LARGE_ORDERS: usize = Order::COUNT - 1 - PAGEBLOCK_ORDER as usize;

pub(super) struct Gigablocks<'m> {
    blocks: &'m mut [Gigablock],
    /// The place of the zone's first pageblock.
    skew: u32,
    /// By migratetype: the places of wholly free pageblocks.
    free: [NumberSet<'m>; MigrateType::LISTED],
    /// Number of wholly free pageblocks of requestable types.
    whole: u64,
    /// By order from 10 on: the gigablocks whose largest free block has this order.
    by_order: [NumberSet<'m>; LARGE_ORDERS],
    /// Bit k: the set of order 10 + k is not empty.
    orders: u64,
}

impl<'m> Gigablocks<'m> {
    /// Number of gigablocks that a zone of `pageblocks` pageblocks from frame `base` on overlaps.
    pub(super) fn count(base: Pfn, pageblocks: usize) -> usize {
        (skew(base) as usize + pageblocks).div_ceil(PAGEBLOCKS as usize)
    }

    /// Number of words that the sets of a zone of `pageblocks` pageblocks from frame `base` on
    /// need.
    pub(super) fn set_words(base: Pfn, pageblocks: usize) -> usize {
        let gigablocks = Self::count(base, pageblocks);
        MigrateType::LISTED * NumberSet::words(gigablocks * PAGEBLOCKS as usize)
            + LARGE_ORDERS * NumberSet::words(gigablocks)
    }

    /// Gigablocks without free pageblocks. `blocks` and `words` must be zeroes, and must have the
    /// lengths for this zone.
    pub(super) fn new(base: Pfn, blocks: &'m mut [Gigablock], words: &'m mut [u64]) -> Self {
        let count = blocks.len();
        let mut words = words;
        let mut free = [const { NumberSet::none() }; MigrateType::LISTED];
        NumberSet::fill(&mut free, &mut words, count * PAGEBLOCKS as usize);
        let mut by_order = [const { NumberSet::none() }; LARGE_ORDERS];
        NumberSet::fill(&mut by_order, &mut words, count);
        Self { blocks, skew: skew(base), free, whole: 0, by_order, orders: 0 }
    }

    /// The place of pageblock `index` of the zone.
    pub(super) fn place(&self, index: u32) -> u32 {
        self.skew + index
    }

    /// The pageblock of the zone at `place`.
    pub(super) fn index(&self, place: u32) -> u32 {
        place - self.skew
    }

    /// The first pageblock of the aligned block of `order` (at least 9) that pageblock `index`
    /// lies in; `None` if that block starts before the zone.
    pub(super) fn align_down(&self, index: u32, order: Order) -> Option<u32> {
        (self.place(index) & !(order.pageblocks() - 1)).checked_sub(self.skew)
    }

    pub(super) fn leaf(&self, leaf: u32) -> &Leaf {
        &self.blocks[leaf as usize / WORDS].leaves[leaf as usize % WORDS]
    }

    fn leaf_mut(&mut self, leaf: u32) -> &mut Leaf {
        &mut self.blocks[leaf as usize / WORDS].leaves[leaf as usize % WORDS]
    }

    // ---- free pageblocks ----------------------------------------------------------------------

    /// The lowest pageblock of a type that is free as a whole.
    pub(super) fn first_free(&self, list: usize) -> Option<u32> {
        self.free[list].first().map(|place| self.index(place))
    }

    /// Whether a type has no pageblock that is free as a whole.
    pub(super) fn has_none_free(&self, list: usize) -> bool {
        self.free[list].is_empty()
    }

    /// Whether pageblock `index` is among the free ones of a type.
    pub(super) fn is_listed(&self, list: usize, index: u32) -> bool {
        self.free[list].contains(self.place(index))
    }

    /// Adds the places of `mask` in `leaf`, which are free as a whole.
    pub(super) fn insert(&mut self, leaf: u32, mask: u64, of: MigrateType) {
        let Some(list) = of.listed() else { return };
        self.free[list].insert_word(leaf, mask);
        if of.mixes() {
            let bits = &mut self.leaf_mut(leaf).free;
            let added = mask & !*bits;
            *bits |= mask;
            self.whole += u64::from(added.count_ones());
            self.refresh(leaf);
        }
    }

    /// Removes the places of `mask` in `leaf`, which are free as a whole.
    pub(super) fn remove(&mut self, leaf: u32, mask: u64, of: MigrateType) {
        let Some(list) = of.listed() else { return };
        self.free[list].remove_word(leaf, mask);
        if of.mixes() {
            let leaf_bits = self.leaf_mut(leaf);
            let removed = mask & leaf_bits.free;
            leaf_bits.free &= !mask;
            leaf_bits.reported &= !mask;
            self.whole -= u64::from(removed.count_ones());
            self.refresh(leaf);
        }
    }

    /// Up to `count` of the lowest free places of a type, as a leaf and a mask: all are in that
    /// leaf.
    pub(super) fn lowest_free(&self, list: usize, count: u32) -> Option<(u32, u64)> {
        self.free[list].lowest_word(count)
    }

    /// The places of `mask` in `leaf` that are free and of a type, as a mask.
    pub(super) fn free_of(&self, list: usize, leaf: u32, mask: u64) -> u64 {
        self.free[list].word(leaf) & mask
    }

    /// Updates levels and sets after the free pageblocks of a leaf changed.
    fn refresh(&mut self, leaf: u32) {
        let gigablock = &mut self.blocks[leaf as usize / WORDS];
        let before = gigablock.level();
        gigablock.refresh(leaf as usize % WORDS);
        let after = gigablock.level();
        if before != after {
            self.reindex(leaf / WORDS as u32, before, after);
        }
    }

    /// Moves a gigablock to the set of its new level: 2 + i if its largest free block is of order
    /// 10 + i. At levels 0 and 1 it has no such block, and is in no set.
    fn reindex(&mut self, gigablock: u32, before: u8, after: u8) {
        if let Some(i) = before.checked_sub(2) {
            let set = &mut self.by_order[usize::from(i)];
            set.remove(gigablock);
            self.orders &= !(u64::from(set.is_empty()) << i);
        }
        if let Some(i) = after.checked_sub(2) {
            self.by_order[usize::from(i)].insert(gigablock);
            self.orders |= 1 << i;
        }
    }

    // ---- large blocks -------------------------------------------------------------------------

    /// Bit k: in some gigablock, the largest free block is of order 10 + k.
    pub(super) fn orders(&self) -> u64 {
        self.orders
    }

    /// The place of a free block of `order` (above 9), and the order of the maximal free block that
    /// contains it. Chooses the gigablock with the smallest sufficient largest free block, and in
    /// it the smallest sufficient block.
    pub(super) fn find(&self, order: Order) -> Option<(u32, Order)> {
        // A block of this order has 2^doublings pageblocks.
        let doublings = order.get() - PAGEBLOCK_ORDER;
        let sufficient = self.orders & !0 << (doublings - 1);
        let set = self.by_order.get(sufficient.trailing_zeros() as usize)?;
        let number = set.first()?;
        let gigablock = &self.blocks[number as usize];
        let at = gigablock.best_block(doublings)?;
        let found = PAGEBLOCK_ORDER + gigablock.doublings_around(at)?;
        Some((number * PAGEBLOCKS + at, Order::new(found)?))
    }

    /// Whether the pageblocks of the aligned block of `order` at `place` are all free.
    pub(super) fn is_free(&self, place: u32, order: Order) -> bool {
        (place + order.pageblocks()).div_ceil(PAGEBLOCKS) as usize <= self.blocks.len()
            && spans(place..place + order.pageblocks())
                .all(|(leaf, mask)| self.leaf(leaf).free & mask == mask)
    }

    // ---- reported pageblocks -------------------------------------------------------------------

    /// The place of the first free block of `order` in a gigablock. Some pageblock of the block is
    /// not marked as reported.
    pub(super) fn unreported(&self, gigablock: u32, order: Order) -> Option<u32> {
        let block = self.blocks.get(gigablock as usize)?;
        let size = order.pageblocks();
        let is = |at: u32, pick: fn(&Leaf) -> u64| {
            spans(at..at + size).all(|(i, mask)| pick(&block.leaves[i as usize]) & mask == mask)
        };
        let mut starts = (0..PAGEBLOCKS).step_by(size as usize);
        let found = starts.find(|&at| is(at, |leaf| leaf.free) && !is(at, |leaf| leaf.reported))?;
        Some(gigablock * PAGEBLOCKS + found)
    }

    /// Marks places as reported, if they are in the map of free pageblocks.
    pub(super) fn mark_reported(&mut self, leaf: u32, mask: u64) {
        let leaf = self.leaf_mut(leaf);
        leaf.reported |= mask & leaf.free;
    }

    /// The order of the maximal free block whose first pageblock is `index`; `None` if no such block starts there.
    pub(super) fn order_from(&self, index: u32) -> Option<Order> {
        let place = self.place(index);
        let gigablock = self.blocks.get((place / PAGEBLOCKS) as usize)?;
        Order::new(PAGEBLOCK_ORDER + gigablock.doublings_from(place % PAGEBLOCKS)?)
    }

    /// Number of wholly free pageblocks of requestable types.
    pub(super) fn count_free(&self) -> u64 {
        self.whole
    }

    // ---- allocated blocks ---------------------------------------------------------------------

    /// Whether pageblock `index` is [folded](super::folded).
    pub(super) fn is_folded(&self, index: u32) -> bool {
        let place = self.place(index);
        let gigablock = self.blocks.get((place / PAGEBLOCKS) as usize);
        gigablock.is_some_and(|block| {
            block.leaves[(place % PAGEBLOCKS / 64) as usize].folded >> (place % 64) & 1 == 1
        })
    }

    /// The order of the allocated block that starts with pageblock `index`; `None` if none does.
    pub(super) fn allocated_order(&self, index: u32) -> Option<Order> {
        let place = self.place(index);
        if !self.is_folded(index) || self.leaf(place / 64).tails >> (place % 64) & 1 == 1 {
            return None;
        }
        let gigablock = &self.blocks[(place / PAGEBLOCKS) as usize];
        let pageblocks = gigablock.allocated_from(place % PAGEBLOCKS);
        Order::new(PAGEBLOCK_ORDER + pageblocks.checked_ilog2()? as u8)
    }

    /// The places of a leaf that are allocated as one block of order 9 each. A larger block is
    /// aligned, so its second place is in the leaf of its first.
    pub(super) fn folded_alone(&self, leaf: u32) -> u64 {
        let leaf = self.leaf(leaf);
        leaf.folded & !(leaf.tails | leaf.tails >> 1)
    }

    /// Marks places as allocated, each as one block.
    pub(super) fn fold(&mut self, leaf: u32, mask: u64) {
        self.leaf_mut(leaf).folded |= mask;
    }

    /// Joins the folded pageblocks of the aligned block of `order` at `place` into one.
    pub(super) fn join(&mut self, place: u32, order: Order) {
        if order > Order::PAGEBLOCK {
            for (leaf, mask) in spans(place + 1..place + order.pageblocks()) {
                self.leaf_mut(leaf).tails |= mask;
            }
        }
    }

    /// Splits the allocated block that contains pageblock `index` in front of that pageblock.
    pub(super) fn part(&mut self, index: u32) {
        let place = self.place(index);
        self.leaf_mut(place / 64).tails &= !(1 << (place % 64));
    }

    /// Marks places as no longer allocated in blocks of order 9 and up.
    pub(super) fn unfold(&mut self, leaf: u32, mask: u64) {
        let leaf = self.leaf_mut(leaf);
        leaf.folded &= !mask;
        leaf.tails &= !mask;
    }

    // ---- invariants ---------------------------------------------------------------------------

    /// Tests every gigablock and its sets. An error names the violation and the number of the
    /// gigablock.
    pub(super) fn check(&self) -> Result<(), (&'static str, u32)> {
        for (number, gigablock) in self.blocks.iter().enumerate() {
            let number = number as u32;
            if !gigablock.is_consistent() {
                return Err(("the header of a gigablock contradicts its maps", number));
            }
            for (i, set) in self.by_order.iter().enumerate() {
                if set.contains(number) != (usize::from(gigablock.level()) == i + 2) {
                    return Err(("a gigablock is in the wrong set", number));
                }
            }
        }
        for (i, set) in self.by_order.iter().enumerate() {
            if set.is_empty() != (self.orders >> i & 1 == 0) {
                return Err(("the orders of gigablocks are damaged", i as u32));
            }
        }
        Ok(())
    }
}

/// Number of pageblocks from the start of a gigablock to frame `base` in it.
fn skew(base: Pfn) -> u32 {
    ((base.get() >> PAGEBLOCK_ORDER) % u64::from(PAGEBLOCKS)) as u32
}
