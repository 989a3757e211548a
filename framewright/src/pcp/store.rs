//! The store of bundles behind the rings of a CPU.
//!
//! A *bundle* is a mask of blocks within 64 neighbouring frames, one word of the zone's map. The
//! store is a table of slots, each for one bundle; the number of the word determines the slot.
//! Frames of the same word meet in the same slot, in any order in which they are freed, so that
//! blocks reach the zone in groups. If two words need the same slot, one of the bundles goes to the zone: the
//! newer one if its pageblock is emptying, usually also if it is small ([`DISPLACE_ONE_IN`]), else the older
//! one. A set for each list records the slots that it occupies.

use super::ListIndex;
use crate::{
    buddy::{Bundle, Bundles},
    sync::Address,
    types::{Order, set::NumberSet},
};

/// A slot: a bundle and the list it belongs to. A *head* is the first frame of a block; an empty
/// slot has no heads and no key.
#[derive(Clone, Copy, Default)]
pub(crate) struct Slot {
    heads: u64,
    key: Key,
}

/// Word and list of a slot, compared as one. Zero is the key of an empty slot, so that the comparison also finds out
/// whether the slot is empty.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Key(u64);

impl Key {
    #[inline(always)]
    fn new(word: u32, list: ListIndex) -> Self {
        Self((list.get() as u64 + 1) << 32 | u64::from(word))
    }

    fn word(self) -> u32 {
        self.0 as u32
    }

    fn list(self) -> Option<ListIndex> {
        ListIndex::from_number(((self.0 >> 32) as u8).checked_sub(1)?)
    }
}

/// Slots in a cache line.
const SLOTS_IN_LINE: usize = 64 / size_of::<Slot>();

/// The result of an insertion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Inserted {
    /// The bundle is in the store.
    Stored,
    /// This older bundle has left the store, and the new one is in its slot; or this is the new
    /// bundle itself, which was not stored.
    Displaced(Bundle),
    /// These blocks of the bundle were in the store already: they were freed twice. The others are
    /// in the store.
    Doubled(Bundle),
}

/// The slot of a word in a store of `mask + 1` slots. Blocks of two orders in the same word get
/// different slots.
#[inline(always)]
fn slot_of(word: u32, order: Order, mask: usize) -> usize {
    let spread = u32::from(order.get()).wrapping_mul(0x9e37);
    (word ^ spread) as usize & mask
}

pub(crate) struct BundleStore<'m> {
    /// The slots; their number is a power of two.
    slots: &'m mut [Slot],
    /// For each list, the slots it occupies.
    occupied: [NumberSet<'m>; ListIndex::STORED],
    /// The slot at which the next drain begins: behind the last one that was taken, so that every bundle has the same time
    /// to grow.
    hand: u32,
    /// The slot at which the next sweep begins.
    swept: u32,
    /// The number of slots that lists of emptying pageblocks (sparse ones, whose frames return to
    /// the zone) occupy, and its maximum. Bundles of these lists displace no others.
    emptying: u32,
    most_emptying: u32,
    /// Bundles that needed an occupied slot, counted modulo [`DISPLACE_ONE_IN`].
    conflicts: u32,
}

/// Of this many small bundles that need an occupied slot, one displaces the bundle in it; the
/// others go to the zone themselves. Where frees are scattered, hardly any word gets a second
/// block, so replacing old bundles by new ones would be of no use. Some must be replaced, because
/// the words in use change.
const DISPLACE_ONE_IN: u32 = 4;

/// Bundles of up to this many blocks are small.
const SMALL: u32 = 2;

impl<'m> BundleStore<'m> {
    /// Words of sets that a store of `slots` slots needs.
    pub(crate) const fn set_words(slots: usize) -> usize {
        ListIndex::STORED * NumberSet::words(slots)
    }

    /// The number of slots.
    pub(super) fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// An empty store. The length of `slots` is a power of two; `sets` has as many zeroes as
    /// [`BundleStore::set_words`] returns.
    pub(crate) fn new(slots: &'m mut [Slot], sets: &'m mut [u64]) -> Self {
        debug_assert!(slots.len().is_power_of_two());
        let bound = slots.len();
        let mut words = sets;
        let mut occupied = [const { NumberSet::none() }; ListIndex::STORED];
        NumberSet::fill(&mut occupied, &mut words, bound);
        let most_emptying = bound as u32 / 4 * 3;
        Self { slots, occupied, hand: 0, swept: 0, emptying: 0, most_emptying, conflicts: 0 }
    }

    /// The cache line of the slot of a word of a list.
    pub(super) fn line_of(&self, list: ListIndex, word: u32) -> u32 {
        (slot_of(word, list.order(), self.slots.len() - 1) / SLOTS_IN_LINE) as u32
    }

    /// The cache lines of the last `slots` slots that sweeps have looked at.
    pub(super) fn swept_lines(&self, slots: u32) -> impl Iterator<Item = u32> + use<> {
        let lines = SLOTS_IN_LINE as u32;
        self.swept.saturating_sub(slots) / lines..self.swept.div_ceil(lines)
    }

    /// Prefetches the slots of the words of blocks of `order`.
    #[inline(never)]
    pub(super) fn prefetch<'b>(&self, order: Order, frames: impl Iterator<Item = &'b u32>) {
        let (slots, mask) = (Address::of(&*self.slots), self.slots.len() - 1);
        for frame in frames {
            slots.prefetch(slot_of(frame / 64, order, mask) as u32);
        }
    }

    /// Whether the store contains this block for a list of its order.
    pub(super) fn holds(&self, order: Order, frame: u32) -> bool {
        let Slot { heads, key } = self.slots[slot_of(frame / 64, order, self.slots.len() - 1)];
        heads >> (frame % 64) & 1 == 1
            && key.word() == frame / 64
            && key.list().is_some_and(|list| list.order() == order)
    }

    /// Adds blocks to the bundles of their words, from the first on. Stops at a block without a
    /// bundle in the store, and at a block that is already in its bundle. Adds none if the second block is the
    /// neighbour of the first, because packing runs is faster. Returns the number of added blocks.
    #[inline(always)]
    pub(super) fn join(&mut self, list: ListIndex, frames: &[u32]) -> usize {
        let slots = &mut *self.slots;
        let mask = slots.len() - 1;
        let is_run = frames.first().is_some_and(|first| frames.get(1) == Some(&(first + 1)));
        if is_run {
            return 0;
        }
        let mut joined = 0;
        for &frame in frames {
            let Some(slot) = slots.get_mut(slot_of(frame / 64, list.order(), mask)) else { break };
            let bit = 1 << (frame % 64);
            if slot.key != Key::new(frame / 64, list) || slot.heads & bit != 0 {
                break;
            }
            slot.heads |= bit;
            joined += 1;
        }
        joined
    }

    #[inline(always)]
    pub(super) fn insert(&mut self, list: ListIndex, bundle: Bundle) -> Inserted {
        let i = slot_of(bundle.word, bundle.order, self.slots.len() - 1);
        let slot = &mut self.slots[i];
        let key = Key::new(bundle.word, list);
        if slot.heads == 0 && !(list.is_emptying() && self.emptying >= self.most_emptying) {
            *slot = Slot { heads: bundle.heads, key };
            self.mark(list, i);
            return Inserted::Stored;
        }
        if slot.key == key {
            let doubled = slot.heads & bundle.heads;
            slot.heads |= bundle.heads;
            return match doubled {
                0 => Inserted::Stored,
                heads => Inserted::Doubled(Bundle { heads, ..bundle }),
            };
        }
        self.displace(i, list, bundle)
    }

    #[inline(always)]
    fn displace(&mut self, i: usize, list: ListIndex, bundle: Bundle) -> Inserted {
        // The word is compared first, because it nearly always differs.
        if self.slots[i].key.word() == bundle.word && self.adopt(i, list, bundle) {
            return Inserted::Stored;
        }
        self.conflicts = (self.conflicts + 1) % DISPLACE_ONE_IN;
        if list.is_emptying() || self.conflicts != 0 && bundle.blocks() <= SMALL {
            return Inserted::Displaced(bundle);
        }
        let old = self.slots[i];
        self.slots[i] = Slot { heads: bundle.heads, key: Key::new(bundle.word, list) };
        let Some(old_list) = old.key.list() else { return Inserted::Stored };
        self.unmark(old_list, i);
        self.mark(list, i);
        let order = old_list.order();
        Inserted::Displaced(Bundle { word: old.key.word(), heads: old.heads, order })
    }

    /// Adds blocks to the bundle of their word in slot `i` if another list of the same order has it. The bundle changes
    /// to `list`, because the pageblock has changed its type or its flag since the older blocks were freed.
    #[inline(never)]
    fn adopt(&mut self, i: usize, list: ListIndex, bundle: Bundle) -> bool {
        let slot = self.slots[i];
        let old = slot.key.list().filter(|old| *old != list && old.order() == list.order());
        let Some(old) = old else { return false };
        if slot.heads & bundle.heads != 0 {
            return false;
        }
        self.unmark(old, i);
        self.mark(list, i);
        self.slots[i] = Slot { heads: slot.heads | bundle.heads, key: Key::new(bundle.word, list) };
        true
    }

    /// Whether the store has blocks of a list.
    pub(super) fn has_any(&self, list: ListIndex) -> bool {
        self.occupied.get(list.get()).is_some_and(|slots| slots.first().is_some())
    }

    /// The number of slots that lists of emptying pageblocks occupy.
    pub(super) fn emptying(&self) -> u32 {
        self.emptying
    }

    /// Takes the bundle of a list in its lowest slot. Neighbours in memory have neighbouring slots.
    pub(super) fn pop(&mut self, list: ListIndex) -> Option<Bundle> {
        let i = self.occupied.get(list.get())?.first()?;
        let slot = core::mem::take(self.slots.get_mut(i as usize)?);
        self.unmark(list, i as usize);
        Some(Bundle { word: slot.key.word(), heads: slot.heads, order: list.order() })
    }

    /// Takes bundles of a list, with about `frames` frames in all, until `out` is full. Returns the
    /// frames taken.
    pub(super) fn pop_many(&mut self, list: ListIndex, frames: u64, out: &mut Bundles) -> u64 {
        let order = list.order();
        let mut taken = 0;
        while taken < frames && !out.is_full() {
            let slots = self.occupied.get_mut(list.get());
            let Some((slots, (leaf, word))) =
                slots.and_then(|it| it.word_after(self.hand).map(|word| (it, word)))
            else {
                break;
            };
            let mut left = word;
            while left != 0 && taken < frames && !out.is_full() {
                let i = leaf * 64 + left.trailing_zeros();
                left &= left - 1;
                let slot = core::mem::take(&mut self.slots[i as usize]);
                let bundle = Bundle { word: slot.key.word(), heads: slot.heads, order };
                taken += out.push(bundle).unwrap_or(0);
                self.hand = i + 1;
            }
            let removed = word & !left;
            slots.remove_word(leaf, removed);
            self.emptying -= if list.is_emptying() { removed.count_ones() } else { 0 };
        }
        taken
    }

    /// Looks at the next `slots` slots, and takes the bundles whose words `leaves` selects, until `out` is full. Lists of
    /// emptying pageblocks are not asked for. Returns the frames taken.
    pub(super) fn sweep(
        &mut self,
        slots: u32,
        leaves: impl Fn(u32) -> bool,
        out: &mut Bundles,
    ) -> u64 {
        let start = self.swept as usize & (self.slots.len() - 1);
        let end = (start + slots as usize).min(self.slots.len());
        let (mut at, mut taken) = (start, 0);
        let is_due = |slot: &Slot| slot.heads != 0 && leaves(slot.key.word());
        while let Some(skipped) = self.slots[at..end].iter().position(is_due) {
            let i = at + skipped;
            at = i + 1;
            let Slot { heads, key } = self.slots[i];
            let Some(list) = key.list().filter(|list| !list.is_emptying()) else { continue };
            if out.is_full() {
                self.swept = i as u32;
                return taken;
            }
            self.slots[i] = Slot::default();
            self.unmark(list, i);
            taken += out.push(Bundle { word: key.word(), heads, order: list.order() }).unwrap_or(0);
        }
        self.swept = end as u32;
        taken
    }

    #[inline(always)]
    fn mark(&mut self, list: ListIndex, i: usize) {
        self.emptying += u32::from(list.is_emptying());
        self.occupied[list.get()].insert(i as u32);
    }

    #[inline(always)]
    fn unmark(&mut self, list: ListIndex, i: usize) {
        self.emptying -= u32::from(list.is_emptying());
        self.occupied[list.get()].remove(i as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{MigrateType, Order};
    use std::{vec, vec::Vec};

    fn list(order: u8) -> ListIndex {
        ListIndex::serving(Order::new(order).unwrap(), MigrateType::Movable).unwrap()
    }

    fn single(word: u32, heads: u64) -> Bundle {
        Bundle { word, heads, order: Order::ZERO }
    }

    fn with_store(slots: usize, test: impl FnOnce(&mut BundleStore<'_>)) {
        let mut memory = vec![Slot::default(); slots];
        let mut occupied = vec![0; BundleStore::set_words(slots)];
        test(&mut BundleStore::new(&mut memory, &mut occupied));
    }

    #[test]
    fn neighbours_meet_in_whatever_order_they_are_freed() {
        with_store(64, |store| {
            for bit in [5, 0, 63, 17] {
                let bundle = single(7, 1 << bit);
                assert_eq!(store.insert(list(0), bundle), Inserted::Stored);
            }
            let heads = 1 << 5 | 1 | 1 << 63 | 1 << 17;
            assert_eq!(store.pop(list(0)), Some(single(7, heads)));
            assert_eq!(store.pop(list(0)), None);
        });
    }

    #[test]
    fn a_displaced_bundle_is_handed_over_whole() {
        with_store(64, |store| {
            let old = single(3, 0b1011);
            let new = single(3 + 64, 0b111);
            store.insert(list(0), old);
            assert_eq!(store.insert(list(0), new), Inserted::Displaced(old));
            assert_eq!(store.pop(list(0)), Some(new));
            assert_eq!(store.pop(list(0)), None);
        });
    }

    #[test]
    fn one_in_four_small_bundles_displaces_and_the_others_leave() {
        with_store(64, |store| {
            let mut held = single(3, 0b11);
            store.insert(list(0), held);
            let mut displaced = 0;
            for turn in 1..=8 {
                let new = single(3 + 64 * turn, 1);
                let left = store.insert(list(0), new);
                if left == Inserted::Displaced(held) {
                    displaced += 1;
                    held = new;
                } else {
                    assert_eq!(left, Inserted::Displaced(new));
                }
            }
            assert_eq!(displaced, 2);
            assert_eq!(store.pop(list(0)), Some(held));
        });
    }

    #[test]
    fn blocks_of_emptying_pageblocks_join_but_displace_nothing() {
        let emptying = ListIndex::emptying().next().unwrap();
        with_store(64, |store| {
            let other = single(3 + 64, 0b111);
            store.insert(list(0), single(3, 1));
            assert_eq!(store.insert(emptying, other), Inserted::Displaced(other));
            for word in 4..52 {
                assert_eq!(store.insert(emptying, single(word, 1)), Inserted::Stored);
            }
            let beyond = single(60, 1);
            assert_eq!(
                store.insert(emptying, beyond),
                Inserted::Displaced(beyond),
                "more than 48 of 64 slots are occupied"
            );
            assert_eq!(store.insert(emptying, single(5, 0b10)), Inserted::Stored);
            let doubled = single(5, 0b10);
            assert_eq!(store.insert(emptying, doubled), Inserted::Doubled(doubled));
            assert_eq!(store.emptying(), 48);
            let mut out = Bundles::new();
            assert_eq!(store.pop_many(emptying, u64::MAX, &mut out), 49);
            assert_eq!(store.emptying(), 0);
            assert_eq!(store.pop(list(0)), Some(single(3, 1)));
        });
    }

    #[test]
    fn a_bundle_follows_the_flag_of_its_pageblock() {
        let emptying = ListIndex::emptying().next().unwrap();
        with_store(64, |store| {
            store.insert(list(0), single(3, 1));
            assert_eq!(store.insert(emptying, single(3, 0b10)), Inserted::Stored);
            assert_eq!((store.emptying(), store.pop(list(0))), (1, None));
            assert_eq!(store.insert(list(0), single(3, 0b100)), Inserted::Stored);
            assert_eq!(store.emptying(), 0);
            assert_eq!(store.pop(list(0)), Some(single(3, 0b111)));
        });
    }

    #[test]
    fn lists_do_not_mix() {
        with_store(64, |store| {
            store.insert(list(0), single(9, 1));
            store.insert(list(1), Bundle { word: 9, heads: 0b100, order: list(1).order() });
            assert_eq!(
                store.pop(list(1)),
                Some(Bundle { word: 9, heads: 0b100, order: list(1).order() })
            );
            assert_eq!(store.pop(list(1)), None);
            assert_eq!(store.pop(list(0)), Some(single(9, 1)));
        });
    }

    #[test]
    fn a_block_stored_twice_is_noticed() {
        with_store(64, |store| {
            store.insert(list(0), single(9, 0b11));
            let doubled = store.insert(list(0), single(9, 0b110));
            assert_eq!(doubled, Inserted::Doubled(single(9, 0b10)));
        });
    }

    #[test]
    fn drains_take_every_bundle_once_before_they_take_one_again() {
        let words = 200;
        for at_once in [1, 5, 13, 64] {
            with_store(256, |store| {
                let full = |word| single(word, !0);
                for word in 0..words {
                    store.insert(list(0), full(word));
                }
                let mut taken = Vec::new();
                while taken.len() < if cfg!(miri) { 420 } else { 1000 } {
                    let mut out = Bundles::new();
                    assert_eq!(
                        store.pop_many(list(0), 64 * at_once, &mut out),
                        out.frames(),
                        "{at_once}"
                    );
                    for &bundle in out.as_slice() {
                        assert_eq!(store.insert(list(0), bundle), Inserted::Stored);
                        taken.push(bundle.word);
                    }
                }
                let in_turn = (0..words).cycle().take(taken.len());
                assert_eq!(taken, in_turn.collect::<Vec<_>>(), "{at_once} at once");
            });
        }
    }

    #[test]
    fn bundles_come_back_in_the_order_of_memory() {
        with_store(1024, |store| {
            for word in (0..100).rev() {
                store.insert(list(0), single(word, 1));
            }
            let words: Vec<u32> =
                core::iter::from_fn(|| store.pop(list(0))).map(|bundle| bundle.word).collect();
            assert_eq!(words, (0..100).collect::<Vec<_>>());
        });
    }
}
