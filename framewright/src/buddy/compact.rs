//! Operations for compaction: the contents of a pageblock, and frames to move pages to.
//! [`source`](super::source) decides which pageblocks are worth emptying.
//!
//! The header of a pageblock counts the free frames, and the allocated frames by movability.
//! Pageblocks can therefore be chosen without reading their maps. The lists sort pageblocks by
//! fullness, so the fullest are found without a search. Target frames are taken from movable
//! pageblocks only, never from a wholly free one, and from the fullest first (for a source without
//! free frames, from the emptiest first).

use super::{
    Buddy, Bundles, Contents, FRAMES, MigrateType, Reserve, Want,
    levels::WORDS,
    lists::GRADES,
    pageblock::NIL,
    source::{RANKS, TargetFilter, class_of},
    take::take_from,
};
use crate::{
    tuning::BulkTake,
    types::{Order, PAGEBLOCK_ORDER},
};

impl Buddy<'_> {
    /// The contents of pageblock `index`.
    pub(crate) fn contents(&self, index: u32) -> Contents {
        let block = &self.blocks[index as usize];
        let of = self.type_of(index);
        if self.lists.gigablocks.is_folded(index) {
            let movable = self.unisolated_type(index) == MigrateType::Movable;
            let (movable, unmovable) =
                if movable { (FRAMES as u16, 0) } else { (0, FRAMES as u16) };
            let (used, map) = ([!0; WORDS], [0; WORDS]);
            return Contents { of, free: 0, movable, unmovable, largest: None, used, map };
        }
        let mut used = block.map.map(|word| !word);
        if u32::from(block.present) < FRAMES {
            for at in 0..FRAMES {
                let hole = self.is_hole((index << PAGEBLOCK_ORDER) + at);
                used[at as usize / 64] &= !(u64::from(hole) << (at % 64));
            }
        }
        Contents {
            of,
            free: block.free,
            movable: block.movable,
            unmovable: block.unmovable,
            largest: block.largest(),
            used,
            map: block.map,
        }
    }

    /// Takes frames to move pages to, as up to `blocks` blocks of `order`, from movable pageblocks
    /// that `filter` accepts: first from pageblock `near`, then from the others, the fullest first.
    /// If `filter` accepts only pageblocks with unmovable frames, these are visited in the order of
    /// [`Buddy::may_have_targets`], the emptiest first. Reads at most `most` headers, or only that
    /// of `near` if `most` is 0. Returns the number of headers that were read, which includes the
    /// headers of pageblocks that `filter` does not accept.
    pub(crate) fn take_targets(
        &mut self,
        (order, blocks): (Order, u32),
        (filter, near): (TargetFilter, Option<u32>),
        most: u32,
        out: &mut Bundles,
    ) -> u32 {
        let wanted = out.blocks() + blocks;
        let mut headers = 0;
        let near = near.filter(|&at| self.listed_class(at).is_some());
        if let Some(at) = near.filter(|&at| filter.accepts(&self.blocks[at as usize])) {
            headers += 1;
            self.take_in_pageblock(at, order, blocks, out);
        }
        for step in 0..RANKS {
            let class =
                class_of(if filter.only_with_unmovable() { step } else { RANKS - 1 - step });
            if class < order.get() * GRADES {
                continue;
            }
            let mut at = self.lists.head_of(MigrateType::Movable, class);
            while at != NIL && headers < most && out.blocks() < wanted && !out.is_full() {
                headers += 1;
                let block = &self.blocks[at as usize];
                let (next, is_target) = (block.next, filter.accepts(block));
                if is_target {
                    self.take_in_pageblock(at, order, wanted - out.blocks(), out);
                }
                at = next;
            }
        }
        headers
    }

    /// Takes up to `blocks` free blocks of `order` from pageblock `index`, if it is movable.
    /// Returns the number of blocks taken.
    pub(crate) fn take_in_pageblock(
        &mut self,
        index: u32,
        order: Order,
        blocks: u32,
        out: &mut Bundles,
    ) -> u32 {
        let before = out.blocks();
        let of = self.type_of(index);
        let block = &mut self.blocks[index as usize];
        let folded = self.lists.gigablocks.is_folded(index);
        if of != MigrateType::Movable || folded || block.largest().is_none_or(|has| has < order) {
            return 0;
        }
        let free = block.free;
        let known = self.heads.get(index as usize);
        let want = Want {
            order,
            migratetype: of,
            blocks: before + blocks,
            at_most: before + blocks,
            visits: 0,
            reserve: Reserve::None,
            how: BulkTake::Bulk,
            unmixed: true,
        };
        take_from(block, index, &want, known, out);
        self.free[of as usize] -= u64::from(free - self.blocks[index as usize].free);
        self.relist(index, of, ());
        out.blocks() - before
    }

    /// Whether a request for `order` and type `of` would find a block: one of its own type, or one
    /// in a pageblock of another type that it would claim. `unmixed`: of other types, only a wholly
    /// free pageblock counts.
    pub(crate) fn has_formed(&self, order: Order, of: MigrateType, unmixed: bool) -> bool {
        if order > Order::PAGEBLOCK {
            return self.lists.classes().offer(order);
        }
        let has = |of| self.lists.first(of, order.get()).is_some();
        let least = if unmixed { PAGEBLOCK_ORDER } else { order.get() };
        let claims = |&from: &MigrateType| {
            (least..=PAGEBLOCK_ORDER)
                .rev()
                .find_map(|found| self.lists.emptiest(from, found).map(|at| (found, at)))
                .is_some_and(|(found, at)| self.is_claimable(found, at, from, of))
        };
        has(of) || of.fallbacks().iter().any(claims)
    }

    /// The number of wholly free pageblocks of requestable types.
    pub(crate) fn free_pageblocks(&self) -> u64 {
        self.lists.gigablocks.count_free()
    }

    /// Percentage of the free frames that are in blocks smaller than a pageblock; 100 if no frame is free. Reserved and
    /// isolated frames do not count. Reads counts only, because compaction calls this after each pageblock that it has
    /// emptied.
    pub(crate) fn scattered_percent(&self) -> u64 {
        let free = self.free_frames() - self.highatomic_free();
        let whole = self.free_pageblocks() * u64::from(FRAMES);
        ((free - whole) * 100).checked_div(free).unwrap_or(100)
    }

    /// Sets the type that an isolated pageblock gets when its isolation ends. A pageblock of the
    /// high-atomic reserve keeps its type.
    pub(crate) fn set_type_after_isolation(&mut self, index: u32, to: MigrateType) {
        if self.type_of(index) == MigrateType::Isolate && self.unisolated_type(index).mixes() {
            self.blocks[index as usize].type_before_isolation = to as u8;
        }
    }
}
