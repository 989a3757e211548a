//! Lists of pageblocks by migratetype and class.
//!
//! A pageblock with free frames is on exactly one list, unless it is isolated: that of its
//! migratetype and its *class* (the order of its largest free block, and its grade of fullness).
//! One bit per list tells whether the list is not empty. So one find-first-set finds the list of
//! the smallest sufficient order with the fullest pageblocks. Wholly free pageblocks are not on
//! linked lists but in the sets of [`Gigablocks`].

use super::{
    MigrateType, Part, Watch,
    gigablocks::{Gigablocks, LARGE_ORDERS},
    pageblock::{NIL, Pageblock, UNLISTED},
};
use crate::{
    platform::{Access, Miss},
    types::{Order, PAGEBLOCK_ORDER},
};

/// Grades of fullness per order.
pub(super) const GRADES: u8 = 4;
const CLASSES: usize = (PAGEBLOCK_ORDER + 1) as usize * GRADES as usize;

/// How many pageblocks ahead a refill prefetches: as many as it visits in the time of a few cache misses.
const LATEST: usize = 8;

/// The class of wholly free pageblocks: highest order, emptiest grade.
pub(super) const FREE: u8 = Order::PAGEBLOCK.get() * GRADES + GRADES - 1;

/// A summary of the free blocks of a zone, in one word, so that it can be published. Four bits per
/// order up to 9 tell which classes are not empty. One bit per order from 10 on tells whether the
/// largest free block of some gigablock (1 GiB) has that order. The bits above contain the level of
/// the high-atomic reserve: 0 if it has no free block, else 1 + the order of its largest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Classes(pub(crate) u64);

/// The lowest bit of the level of the high-atomic reserve.
const RESERVE: usize = CLASSES + LARGE_ORDERS;

impl Classes {
    /// Whether there is a free block of at least `order` outside of the high-atomic reserve.
    pub(crate) const fn offer(self, order: Order) -> bool {
        let first = if order.get() <= PAGEBLOCK_ORDER {
            order.get() as usize * GRADES as usize
        } else {
            CLASSES + (order.get() - PAGEBLOCK_ORDER - 1) as usize
        };
        (self.0 & ((1 << RESERVE) - 1)) >> first != 0
    }

    /// Whether there is a free block of at least `order` in the high-atomic reserve.
    pub(crate) const fn offer_reserved(self, order: Order) -> bool {
        self.0 >> RESERVE > order.get() as u64
    }

    /// The order of the largest free block, in the reserve or outside.
    pub(crate) fn largest(self) -> Option<Order> {
        Order::all().rev().find(|&order| self.offer(order) || self.offer_reserved(order))
    }
}

pub(super) struct Lists<'m> {
    heads: [[u32; CLASSES]; MigrateType::LISTED],
    nonempty: [u64; MigrateType::LISTED],
    /// The pageblocks that were put on lists last, and the place of the oldest of them.
    latest: [u32; LATEST],
    oldest: u8,
    /// All wholly free pageblocks, and the free blocks above order 9. No linked list has class
    /// [`FREE`].
    pub(super) gigablocks: Gigablocks<'m>,
}

impl<'m> Lists<'m> {
    pub(super) fn new(gigablocks: Gigablocks<'m>) -> Self {
        Self {
            heads: [[NIL; CLASSES]; MigrateType::LISTED],
            nonempty: [0; MigrateType::LISTED],
            latest: [NIL; LATEST],
            oldest: 0,
            gigablocks,
        }
    }

    /// The cache line of the head of a list, counted from 1: line 0 is the map of non-empty lists.
    pub(super) const fn line_of(of: MigrateType, class: u8) -> u32 {
        const HEADS: u32 = 64 / size_of::<u32>() as u32;
        1 + (of as u32 * CLASSES as u32 + class as u32) / HEADS
    }

    /// First pageblock of `migratetype` with a free block of `order`, from the best class that is not
    /// empty: the lowest order that is at least `order`, and of that order the fullest grade.
    #[inline]
    pub(super) fn first(&self, migratetype: MigrateType, order: u8) -> Option<u32> {
        let list = migratetype.listed()?;
        let classes = self.nonempty[list] & !0 << (order * GRADES);
        if classes == 0 {
            return None;
        }
        self.head(list, classes.trailing_zeros() as u8)
    }

    /// The first pageblock of a class that is not empty.
    fn head(&self, list: usize, class: u8) -> Option<u32> {
        if class == FREE {
            self.gigablocks.first_free(list)
        } else {
            Some(self.heads[list][class as usize])
        }
    }

    /// Inserts wholly free pageblocks without touching their headers: bit i of `mask` is the pageblock
    /// at place 64 x `leaf` + i (see [`Gigablocks`] for places).
    pub(super) fn insert_free(&mut self, leaf: u32, mask: u64, of: MigrateType) {
        if let Some(list) = of.listed() {
            self.gigablocks.insert(leaf, mask, of);
            self.nonempty[list] |= 1 << FREE;
        }
    }

    /// Removes wholly free pageblocks without touching their headers. `leaf` and `mask` are as for
    /// [`Lists::insert_free`].
    pub(super) fn remove_free(&mut self, leaf: u32, mask: u64, of: MigrateType) {
        if let Some(list) = of.listed() {
            self.gigablocks.remove(leaf, mask, of);
            let empty = self.gigablocks.has_none_free(list);
            self.nonempty[list] &= !(u64::from(empty) << FREE);
        }
    }

    /// The first pageblock on the list of `class`, or [`NIL`]. `class` is below [`FREE`], which has no
    /// list.
    pub(super) fn head_of(&self, of: MigrateType, class: u8) -> u32 {
        of.listed().map_or(NIL, |list| self.heads[list][usize::from(class)])
    }

    /// Of the pageblocks of `migratetype` whose largest free block has exactly `order`, the first
    /// of the emptiest grade.
    pub(super) fn emptiest(&self, migratetype: MigrateType, order: u8) -> Option<u32> {
        let list = migratetype.listed()?;
        let classes = self.nonempty[list] >> (order * GRADES) & 0xf;
        let grade = classes.checked_ilog2()? as u8;
        self.head(list, order * GRADES + grade)
    }

    /// The summary of the free blocks of all types.
    pub(super) fn classes(&self) -> Classes {
        let [unmovable, movable, reclaimable, reserved] = self.nonempty;
        let reserve = reserved.checked_ilog2().map_or(0, |class| class / u32::from(GRADES) + 1);
        Classes(
            unmovable
                | movable
                | reclaimable
                | self.gigablocks.orders() << CLASSES
                | u64::from(reserve) << RESERVE,
        )
    }

    /// Takes pageblock `index` off its list, if it is on one.
    pub(super) fn unlink(
        &mut self,
        blocks: &mut [Pageblock],
        index: u32,
        of: MigrateType,
        watch: impl Watch,
    ) {
        let block = &mut blocks[index as usize];
        let (class, previous, next) = (block.class, block.previous, block.next);
        block.class = UNLISTED;
        let Some(list) = of.listed() else { return };
        if class == UNLISTED {
            return;
        }
        if class == FREE {
            let place = self.gigablocks.place(index);
            watch.touch(Part::Leaf(place / 64), Access::Write, Miss::Independent);
            self.remove_free(place / 64, 1 << (place % 64), of);
            return;
        }
        if next != NIL {
            watch.touch(Part::Header(next), Access::Write, Miss::Independent);
            blocks[next as usize].previous = previous;
        }
        if previous != NIL {
            watch.touch(Part::Header(previous), Access::Write, Miss::Independent);
            blocks[previous as usize].next = next;
        } else {
            watch.touch(Part::Index(Self::line_of(of, class)), Access::Write, Miss::Independent);
            self.heads[list][usize::from(class)] = next;
            self.nonempty[list] &= !(u64::from(next == NIL) << class);
        }
    }

    /// Puts pageblock `index` at the head of the list of its class, if it has free frames and
    /// `of` is a type with lists.
    pub(super) fn link(
        &mut self,
        blocks: &mut [Pageblock],
        index: u32,
        of: MigrateType,
        watch: impl Watch,
    ) {
        let class = blocks[index as usize].proper_class();
        let Some(list) = of.listed() else { return };
        if class == UNLISTED {
            return;
        }
        if class == FREE {
            blocks[index as usize].class = FREE;
            let place = self.gigablocks.place(index);
            watch.touch(Part::Leaf(place / 64), Access::Write, Miss::Independent);
            self.insert_free(place / 64, 1 << (place % 64), of);
            return;
        }
        watch.touch(Part::Index(Self::line_of(of, class)), Access::Write, Miss::Independent);
        let head = &mut self.heads[list][usize::from(class)];
        let next = core::mem::replace(head, index);
        self.nonempty[list] |= 1 << class;
        let block = &mut blocks[index as usize];
        (block.class, block.previous, block.next) = (class, NIL, next);
        let oldest = usize::from(self.oldest) % LATEST;
        block.soon = core::mem::replace(&mut self.latest[oldest], index);
        self.oldest = self.oldest.wrapping_add(1);
        if next != NIL {
            watch.touch(Part::Header(next), Access::Write, Miss::Independent);
            blocks[next as usize].previous = index;
        }
    }

    /// Number of pageblocks on the lists of type `of`; `None` if a list is damaged, or contains a
    /// pageblock of another class.
    pub(super) fn count_listed(&self, blocks: &[Pageblock], of: MigrateType) -> Option<usize> {
        let list = of.listed()?;
        let is_free = |&index: &u32| self.gigablocks.is_listed(list, index);
        let mut count = (0..blocks.len() as u32).filter(is_free).count();
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
