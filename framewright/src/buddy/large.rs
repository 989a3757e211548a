//! Blocks larger than a pageblock.
//!
//! They are folded pageblocks that belong together, taken and given as words of the maps of a
//! gigablock. A free one may consist of pageblocks of several types (of those that requests
//! may name); they all get the type of who takes it, which is a claim like any other. What
//! happens to single pageblocks of an allocated one, isolation above all, only changes their
//! types: on the way back each goes to the lists of its own.

use super::{
    Buddy, Bundle, Bundles, Fallback, MigrateType, Refusals, gigablock::spans, take::Want,
};
use crate::{
    frame::{Order, PAGEBLOCK_ORDER},
    sync::Ordering,
};

impl Buddy<'_> {
    /// Takes blocks of an order above 9, as many as are wanted and there. Returns the first
    /// fallback.
    pub(super) fn take_large(&mut self, want: Want, out: &mut Bundles) -> Option<Fallback> {
        let mut fallback = None;
        while out.blocks() < want.blocks && !out.is_full() {
            let Some((place, found_order)) = self.lists.gigablocks.find(want.order) else { break };
            let pageblock = self.lists.gigablocks.index(place);
            let from = self.type_of(pageblock);
            self.take_large_at(place, want.order, want.migratetype);
            if from != want.migratetype {
                let claim = Fallback { pageblock, from, found_order, claimed: true };
                fallback = fallback.or(Some(claim));
            }
            out.push(Bundle::of(pageblock << PAGEBLOCK_ORDER, want.order));
        }
        fallback
    }

    /// Takes the free block of `order` at `place` for requests of type `to`.
    pub(super) fn take_large_at(&mut self, place: u32, order: Order, to: MigrateType) {
        for (leaf, mask) in spans(place..place + order.pageblocks()) {
            for of in MigrateType::REQUESTABLE {
                let mine = self.lists.gigablocks.free_of(of as usize, leaf, mask);
                if mine == 0 {
                    continue;
                }
                self.fold(leaf, mine, of);
                if of != to {
                    self.set_types(leaf, mine, to);
                }
            }
        }
        self.lists.gigablocks.join(place, order);
    }

    /// Gives back a block of an order above 9.
    #[cold]
    #[inline(never)]
    pub(super) fn give_large(&mut self, bundle: Bundle, refusals: &mut Refusals) {
        for frame in bundle.frames() {
            match self.judge(frame, bundle.order) {
                Ok(()) => self.give_large_at(frame >> PAGEBLOCK_ORDER, bundle.order),
                Err(why) => refusals.add(frame, bundle.order, why),
            }
        }
    }

    fn give_large_at(&mut self, index: u32, order: Order) {
        let place = self.lists.gigablocks.place(index);
        for (leaf, mask) in spans(place..place + order.pageblocks()) {
            let mut rest = mask;
            while rest != 0 {
                let of =
                    self.type_of(self.lists.gigablocks.index(leaf * 64 + rest.trailing_zeros()));
                let alike = self.places_of(leaf, rest, of);
                self.give_pageblocks(leaf, alike, of);
                rest &= !alike;
            }
        }
    }

    /// The places of `mask` in `leaf` whose pageblocks are of a type.
    fn places_of(&self, leaf: u32, mask: u64, of: MigrateType) -> u64 {
        let mut alike = 0;
        let mut rest = mask;
        while rest != 0 {
            let bit = rest.trailing_zeros();
            rest &= rest - 1;
            let is_alike = self.type_of(self.lists.gigablocks.index(leaf * 64 + bit)) == of;
            alike |= u64::from(is_alike) << bit;
        }
        alike
    }

    /// Changes the types of folded pageblocks.
    fn set_types(&self, leaf: u32, mask: u64, to: MigrateType) {
        let mut rest = mask;
        while rest != 0 {
            let index = self.lists.gigablocks.index(leaf * 64 + rest.trailing_zeros());
            rest &= rest - 1;
            self.types[index as usize].store(to as u8, Ordering::Relaxed);
        }
    }
}
