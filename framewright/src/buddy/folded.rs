//! Folded pageblocks: those that are allocated as one block, or as a part of a larger one, except
//! single pageblocks that [`Buddy::take_specific`] has taken.
//!
//! The map and header of a pageblock that is one block, free or allocated, carry no information. So
//! allocating and freeing such a pageblock only moves bits between words of its gigablock (1 GiB). One
//! operation moves the bits that a mask selects in a *leaf*: 64 neighbouring pageblocks. Map and header
//! stay those of a free pageblock. If its folded bit is set, the pageblock is allocated, and its map and
//! header are not valid. Before it is split into smaller blocks it is *unfolded*: its map and
//! header are written.

use super::{Buddy, Bundle, Bundles, MigrateType, Part, Want, Watch, lists::FREE};
use crate::{
    platform::{Access, Cost, Miss},
    sync::Ordering,
    types::{Order, PAGEBLOCK_FRAMES, PAGEBLOCK_ORDER, set::bits},
};

impl Buddy<'_> {
    /// Takes free pageblocks of the requested type, up to the requested number.
    pub(super) fn take_pageblocks(&mut self, want: Want, out: &mut Bundles, watch: impl Watch) {
        let of = want.migratetype;
        let Some(list) = of.listed() else { return };
        while out.blocks() < want.blocks && !out.is_full() {
            let missing = (want.blocks - out.blocks()).min(out.free_slots());
            let Some((leaf, mask)) = self.lists.gigablocks.lowest_free(list, missing) else {
                return;
            };
            watch.touch(Part::Leaf(leaf), Access::Write, Miss::Dependent);
            watch.cost(Cost::PageblockWords, 1);
            watch.cost(Cost::WholePageblocks, mask.count_ones());
            self.fold(leaf, mask, of);
            // Wraps if the leaf starts before the zone.
            let first = (leaf * 64).wrapping_sub(self.lists.gigablocks.place(0));
            out.push_pageblocks(bits(mask).map(|bit| first.wrapping_add(bit) << PAGEBLOCK_ORDER));
        }
    }

    /// Takes the pageblocks of `mask` in `leaf`, which are wholly free and of type `of`, as one
    /// block each.
    #[inline(never)]
    pub(super) fn fold(&mut self, leaf: u32, mask: u64, of: MigrateType) {
        self.lists.remove_free(leaf, mask, of);
        self.lists.gigablocks.fold(leaf, mask);
        self.free[of as usize] -= frames(mask);
    }

    /// Frees the pageblocks of `mask` in `leaf`, which are folded and of type `of`.
    pub(super) fn give_pageblocks(&mut self, leaf: u32, mask: u64, of: MigrateType) {
        self.lists.gigablocks.unfold(leaf, mask);
        self.lists.insert_free(leaf, mask, of);
        self.free[of as usize] += frames(mask);
    }

    /// Frees the leading bundles that are whole pageblocks of one type in one leaf, each allocated as one block.
    /// Returns their number; 0 if the first bundle is no such pageblock.
    pub(super) fn give_folded(&mut self, bundles: &[Bundle], watch: impl Watch) -> usize {
        let Some(first) = bundles.first() else { return 0 };
        let leaf = self.lists.gigablocks.place(first.pageblock()) / 64;
        let folded = self.lists.gigablocks.folded_alone(leaf);
        let number_of = |bundle: &Bundle| {
            self.types.get(bundle.pageblock() as usize).map(|number| number.load(Ordering::Relaxed))
        };
        let number = number_of(first);
        let mut rest = folded;
        let mut given = 0;
        for bundle in bundles {
            let place = self.lists.gigablocks.place(bundle.pageblock());
            let bit = 1 << (place % 64);
            if place / 64 != leaf
                || rest & bit == 0
                || (bundle.heads, bundle.order) != (1, Order::PAGEBLOCK)
                || number_of(bundle) != number
            {
                break;
            }
            rest ^= bit;
            given += 1;
        }
        let mask = folded ^ rest;
        watch.touch(Part::Leaf(leaf), Access::Write, Miss::Independent);
        if given > 0 {
            watch.cost(Cost::PageblockWords, 1);
            watch.cost(Cost::WholePageblocks, given as u32);
            self.give_pageblocks(leaf, mask, self.type_of(first.pageblock()));
        }
        given
    }

    /// Writes map and header of pageblock `index` if it is folded. It must then be one block, not a
    /// part of a larger one.
    pub(super) fn unfold(&mut self, index: u32) {
        if self.lists.gigablocks.is_folded(index) {
            let place = self.lists.gigablocks.place(index);
            self.lists.gigablocks.unfold(place / 64, 1 << (place % 64));
            let movable = self.unisolated_type(index) == MigrateType::Movable;
            let block = &mut self.blocks[index as usize];
            debug_assert_eq!(
                block.class, FREE,
                "the header of a folded pageblock is not that of a free one"
            );
            block.take_whole(movable);
            if let Some(heads) = self.heads_of(index) {
                heads.add(0, 1);
            }
        }
    }
}

/// Number of frames in as many pageblocks as `mask` has bits.
#[inline(always)]
fn frames(mask: u64) -> u64 {
    u64::from(mask.count_ones()) * PAGEBLOCK_FRAMES as u64
}
