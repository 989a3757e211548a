//! Lists of pageblocks by migratetype and class.
//!
//! A pageblock with free frames is on exactly one list: that of its migratetype, of the order
//! of its largest free block, and of its fullness quartile. One bit per list says whether it is
//! non-empty, so the smallest sufficient order, fullest pageblocks first, is one find-first-set.

use super::{
    MigrateType,
    pageblock::{NIL, Pageblock, UNLISTED},
};
use crate::{frame::Order, set::NumberSet};

/// Quartiles of fullness per order.
pub(super) const QUARTILES: u8 = 4;
const CLASSES: usize = Order::COUNT * QUARTILES as usize;

/// Which lists to look at.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Room {
    /// Any with a free block of the order: fill what is full first.
    Any,
    /// Only pageblocks with more than a quarter of their frames free.
    Roomy,
}

/// The classes that count as roomy: quartiles 1 to 3 of every order.
const ROOMY: u64 = 0xeeee_eeee_eeee_eeee;

/// The class of pageblocks that are free as a whole: highest order, emptiest quartile.
const FREE: u8 = Order::PAGEBLOCK.get() * QUARTILES + QUARTILES - 1;

pub(super) struct Lists<'m> {
    heads: [[u32; CLASSES]; MigrateType::LISTED],
    nonempty: [u64; MigrateType::LISTED],
    /// Instead of lists of class [`FREE`].
    free: [NumberSet<'m>; MigrateType::LISTED],
}

impl<'m> Lists<'m> {
    pub(super) fn new(free: [NumberSet<'m>; MigrateType::LISTED]) -> Self {
        Self {
            heads: [[NIL; CLASSES]; MigrateType::LISTED],
            nonempty: [0; MigrateType::LISTED],
            free,
        }
    }

    /// First pageblock of `migratetype` that holds a free block of `order`, from the smallest
    /// sufficient largest order and the fullest quartile.
    #[inline(always)]
    pub(super) fn first(&self, migratetype: MigrateType, order: u8, room: Room) -> Option<u32> {
        let list = migratetype.listed()?;
        let mut classes = self.nonempty[list] & !0 << (order * QUARTILES);
        if room == Room::Roomy {
            classes &= ROOMY;
        }
        if classes == 0 {
            return None;
        }
        self.head(list, classes.trailing_zeros() as u8)
    }

    /// A pageblock of a class that is not empty.
    #[inline(always)]
    fn head(&self, list: usize, class: u8) -> Option<u32> {
        if class == FREE { self.free[list].first() } else { Some(self.heads[list][class as usize]) }
    }

    /// Takes up to `count` neighbouring pageblocks that are free as a whole off the lists,
    /// without touching them: 64 x the first number + i for every bit i of the second.
    #[inline(always)]
    pub(super) fn take_free_pageblocks(
        &mut self,
        of: MigrateType,
        count: u32,
    ) -> Option<(u32, u64)> {
        let list = of.listed()?;
        let taken = self.free[list].take_word(count)?;
        self.nonempty[list] &= !(u64::from(self.free[list].is_empty()) << FREE);
        Some(taken)
    }

    /// Puts a pageblock that is free as a whole on the lists, without touching it.
    #[inline(always)]
    pub(super) fn give_free_pageblock(&mut self, index: u32, of: MigrateType) {
        if let Some(list) = of.listed() {
            self.free[list].insert(index);
            self.nonempty[list] |= 1 << FREE;
        }
    }

    fn remove_free(&mut self, list: usize, index: u32) {
        self.free[list].remove(index);
        self.nonempty[list] &= !(u64::from(self.free[list].is_empty()) << FREE);
    }

    /// The emptiest pageblock of `migratetype` whose largest free block has exactly `order`.
    pub(super) fn emptiest(&self, migratetype: MigrateType, order: u8) -> Option<u32> {
        let list = migratetype.listed()?;
        let classes = self.nonempty[list] >> (order * QUARTILES) & 0xf;
        let quartile = classes.checked_ilog2()? as u8;
        self.head(list, order * QUARTILES + quartile)
    }

    /// The non-empty classes of all types together: four bits per order.
    #[inline(always)]
    pub(super) fn classes(&self) -> u64 {
        self.nonempty.iter().fold(0, |all, list| all | list)
    }

    /// Takes pageblock `index` off its list, if it is on one.
    pub(super) fn unlink(&mut self, blocks: &mut [Pageblock], index: u32, of: MigrateType) {
        let block = &mut blocks[index as usize];
        let (class, previous, next) = (block.class, block.previous, block.next);
        let Some(list) = of.listed() else { return };
        if class == UNLISTED {
            return;
        }
        block.class = UNLISTED;
        if class == FREE {
            self.remove_free(list, index);
            return;
        }
        if next != NIL {
            blocks[next as usize].previous = previous;
        }
        if previous != NIL {
            blocks[previous as usize].next = next;
        } else {
            self.heads[list][usize::from(class)] = next;
            self.nonempty[list] &= !(u64::from(next == NIL) << class);
        }
    }

    /// Puts pageblock `index` at the head of the list of its class, if it has free frames and
    /// `of` is a type with lists.
    pub(super) fn link(&mut self, blocks: &mut [Pageblock], index: u32, of: MigrateType) {
        let class = blocks[index as usize].proper_class();
        let Some(list) = of.listed() else { return };
        if class == UNLISTED {
            return;
        }
        if class == FREE {
            blocks[index as usize].class = FREE;
            self.give_free_pageblock(index, of);
            return;
        }
        let head = &mut self.heads[list][usize::from(class)];
        let next = core::mem::replace(head, index);
        self.nonempty[list] |= 1 << class;
        let block = &mut blocks[index as usize];
        (block.class, block.previous, block.next) = (class, NIL, next);
        if next != NIL {
            blocks[next as usize].previous = index;
        }
    }

    /// Whether the lists are intact and hold exactly the pageblocks of `of` that belong on them
    /// (invariant I2, the part between pageblocks).
    pub(super) fn count_listed(&self, blocks: &[Pageblock], of: MigrateType) -> Option<usize> {
        let list = of.listed()?;
        let free = (0..blocks.len() as u32).filter(|&index| self.free[list].contains(index));
        let mut count = free.count();
        if (count > 0) != (self.nonempty[list] >> FREE & 1 == 1) {
            return None;
        }
        let lists = self.heads[list].iter().take(usize::from(FREE));
        for (class, &head) in lists.enumerate() {
            if (head != NIL) != (self.nonempty[list] >> class & 1 == 1) {
                return None;
            }
            let (mut index, mut previous) = (head, NIL);
            while index != NIL {
                let block = blocks.get(index as usize)?;
                if usize::from(block.class) != class || block.previous != previous {
                    return None;
                }
                count += 1;
                if count > blocks.len() {
                    return None;
                }
                (previous, index) = (index, block.next);
            }
        }
        Some(count)
    }
}
