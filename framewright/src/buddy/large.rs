//! Blocks larger than a pageblock.
//!
//! Such a block consists of *folded* pageblocks: only the maps of their gigablock, which has 512
//! pageblocks, record that they are allocated (see [`folded`](super::folded)). The block is
//! allocated and freed one 64-bit word of these maps (a *leaf*) at a time. The pageblocks of a free
//! block may have several of the types that requests may name. The request that takes the block
//! claims them: all get its type. While the block is allocated, a pageblock in it can get another
//! type, for example by isolation; nothing else changes. When the block is freed, each pageblock
//! goes to the lists of its own type.

use super::{
    Buddy, Bundle, Bundles, Fallback, MigrateType, Part, Refusals, Want, Watch, gigablock::spans,
};
use crate::{
    platform::{Access, Cost, Miss},
    types::{Order, PAGEBLOCK_ORDER, set::bits},
};

impl Buddy<'_> {
    /// Takes blocks of an order above 9, up to the requested number. Returns the first fallback.
    pub(super) fn take_large(
        &mut self,
        want: Want,
        out: &mut Bundles,
        watch: impl Watch,
    ) -> Option<Fallback> {
        let mut fallback = None;
        while out.blocks() < want.blocks && !out.is_full() {
            let Some((place, found_order)) = self.lists.gigablocks.find(want.order) else { break };
            let pageblock = self.lists.gigablocks.index(place);
            let from = self.type_of(pageblock);
            probe_block(place, want.order, watch);
            self.take_large_at(place, want.order, want.migratetype);
            if from != want.migratetype {
                let claim = Fallback { pageblock, from, found_order, claimed: true };
                fallback = fallback.or(Some(claim));
            }
            out.push(Bundle::of(pageblock << PAGEBLOCK_ORDER, want.order));
        }
        fallback
    }

    /// Takes the free block of `order` at `place`. Its pageblocks get type `to`.
    pub(super) fn take_large_at(&mut self, place: u32, order: Order, to: MigrateType) {
        for (leaf, mask) in spans(place..place + order.pageblocks()) {
            self.take_free_places(leaf, mask, to);
        }
        self.lists.gigablocks.join(place, order);
    }

    /// Folds those pageblocks of `mask` in `leaf` that are free and of a requestable type, and gives them type `to`.
    /// Returns their mask.
    #[inline(never)]
    pub(super) fn take_free_places(&mut self, leaf: u32, mask: u64, to: MigrateType) -> u64 {
        let mut taken = 0;
        for of in MigrateType::REQUESTABLE {
            let mine = self.fold_free_of_type(leaf, mask, of);
            taken |= mine;
            if of != to {
                self.set_types(leaf, mine, to);
            }
        }
        taken
    }

    /// As [`Buddy::take_large_at`], but every pageblock keeps its type.
    pub(super) fn take_unchanged(&mut self, place: u32, order: Order) {
        for (leaf, mask) in spans(place..place + order.pageblocks()) {
            for of in MigrateType::REQUESTABLE {
                self.fold_free_of_type(leaf, mask, of);
            }
        }
        self.lists.gigablocks.join(place, order);
    }

    /// Folds those pageblocks of `mask` in `leaf` that are free and of type `of`. Returns their
    /// mask.
    #[inline(never)]
    pub(super) fn fold_free_of_type(&mut self, leaf: u32, mask: u64, of: MigrateType) -> u64 {
        let mine = self.lists.gigablocks.free_of(of as usize, leaf, mask);
        if mine != 0 {
            self.fold(leaf, mine, of);
        }
        mine
    }

    /// Frees a block of an order above 9.
    #[cold]
    #[inline(never)]
    pub(super) fn give_large(
        &mut self,
        bundle: Bundle,
        refusals: &mut Refusals,
        watch: impl Watch,
    ) {
        for frame in bundle.frames() {
            probe_block(self.lists.gigablocks.place(frame >> PAGEBLOCK_ORDER), bundle.order, watch);
            match self.check_allocated(frame, bundle.order) {
                Ok(()) => self.give_large_at(frame >> PAGEBLOCK_ORDER, bundle.order),
                Err(why) => refusals.add(frame, bundle.order, why),
            }
        }
    }

    /// Frees the allocated block of `order` that starts with pageblock `index`.
    pub(super) fn give_large_at(&mut self, index: u32, order: Order) {
        let place = self.lists.gigablocks.place(index);
        for (leaf, mask) in spans(place..place + order.pageblocks()) {
            self.give_folded_places(leaf, mask);
        }
    }

    /// Frees the folded pageblocks of `mask` in `leaf`, each to the lists of its own type.
    pub(super) fn give_folded_places(&mut self, leaf: u32, mask: u64) {
        let mut rest = mask;
        while rest != 0 {
            let of = self.type_at(leaf * 64 + rest.trailing_zeros());
            let alike = bits(rest)
                .filter(|bit| self.type_at(leaf * 64 + bit) == of)
                .fold(0, |mask, bit| mask | 1 << bit);
            self.give_pageblocks(leaf, alike, of);
            rest &= !alike;
        }
    }

    /// The type of the pageblock at a place (counted from the start of the zone's first gigablock).
    fn type_at(&self, place: u32) -> MigrateType {
        self.type_of(self.lists.gigablocks.index(place))
    }

    /// Changes the types of the folded pageblocks of `mask` in `leaf`.
    pub(super) fn set_types(&self, leaf: u32, mask: u64, to: MigrateType) {
        for bit in bits(mask) {
            self.set_type(self.lists.gigablocks.index(leaf * 64 + bit), to);
        }
    }
}

/// Reports to the simulator that a block above order 9 is taken or freed.
fn probe_block(place: u32, order: Order, watch: impl Watch) {
    if !watch.listens() {
        return;
    }
    for (leaf, mask) in spans(place..place + order.pageblocks()) {
        watch.touch(Part::Leaf(leaf), Access::Write, Miss::Independent);
        watch.cost(Cost::WholePageblocks, mask.count_ones());
    }
}
