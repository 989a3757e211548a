//! Folded pageblocks: those that are allocated as one block.
//!
//! While a pageblock is one block, free or allocated, nothing in its map or header is worth
//! looking at. So taking and giving it moves one bit between two sets and leaves map and header
//! as they are: those of a free pageblock. A pageblock whose bit is in the set of folded ones
//! is allocated whatever they say; it is *unfolded*, its map and header written out, before
//! anything else happens to it.

use super::{Buddy, MigrateType, WORDS_SHIFT, bundle::Bundle, bundle::Bundles, take::Want};
use crate::frame::{Order, PAGEBLOCK_FRAMES};

impl Buddy<'_> {
    /// Takes free pageblocks of the wanted type, as many as are wanted and there.
    pub(super) fn take_pageblocks(&mut self, want: Want, out: &mut Bundles) {
        let of = want.migratetype;
        while out.blocks() < want.blocks && !out.is_full() {
            let missing = (want.blocks - out.blocks()).min(out.room());
            let Some((leaf, mut mask)) = self.lists.take_free_pageblocks(of, missing) else {
                return;
            };
            self.folded.insert_word(leaf, mask);
            self.free[of as usize] -= u64::from(mask.count_ones()) * PAGEBLOCK_FRAMES as u64;
            while mask != 0 {
                let index = leaf * 64 + mask.trailing_zeros();
                mask &= mask - 1;
                out.push(Bundle { word: index << WORDS_SHIFT, heads: 1, order: Order::PAGEBLOCK });
            }
        }
    }

    /// Gives back a pageblock that is folded; `false` if it is not.
    pub(super) fn give_folded(&mut self, bundle: Bundle) -> bool {
        let index = bundle.pageblock();
        if !self.folded.contains(index) || bundle != Bundle::of(bundle.word * 64, Order::PAGEBLOCK)
        {
            return false;
        }
        let of = self.type_of(index);
        self.folded.remove(index);
        self.free[of as usize] += PAGEBLOCK_FRAMES as u64;
        self.lists.give_free_pageblock(index, of);
        true
    }

    /// Writes out map and header of a pageblock if it is folded.
    pub(super) fn unfold(&mut self, index: u32) {
        if self.folded.contains(index) {
            self.folded.remove(index);
            let movable = self.type_of(index) == MigrateType::Movable;
            self.blocks[index as usize].take_whole(movable, self.checked);
        }
    }
}
