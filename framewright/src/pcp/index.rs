//! The list that a block belongs to.

use crate::{
    buddy::EMPTYING,
    types::{MigrateType, Order, Request},
};

/// The size of a ring in blocks: two batches of a large zone.
pub(super) const RING: usize = 128;

/// The largest small order: orders 0 to this one have lists by mobility.
pub(super) const SMALL_ORDERS: u8 = 4;
/// The number of types that have lists.
const TYPES: u8 = MigrateType::PCP as u8;
const SMALL_LISTS: u8 = (SMALL_ORDERS + 1) * TYPES;

/// The first list of blocks in emptying pageblocks.
const EMPTYING_LISTS: u8 = SMALL_LISTS;
/// The first list of pageblocks.
const PAGEBLOCK_LISTS: u8 = EMPTYING_LISTS + SMALL_ORDERS + 1;

/// A list of a CPU. The lists are numbered in this order:
/// * blocks of orders 0 to 4 by mobility, with the number 3 x order + type;
/// * blocks of orders 0 to 4 in [emptying](crate::buddy::EMPTYING) pageblocks of all types; these
///   lists serve no request;
/// * unmovable and reclaimable pageblocks;
/// * movable pageblocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub(crate) struct ListIndex(u8);

impl ListIndex {
    /// The number of lists of a CPU.
    pub(crate) const COUNT: usize = PAGEBLOCK_LISTS as usize + 2;

    /// The number of lists, from the first on, that use the store.
    pub(crate) const STORED: usize = PAGEBLOCK_LISTS as usize;

    /// The list that serves a request.
    #[inline(always)]
    pub(crate) const fn of(request: Request) -> Option<Self> {
        Self::freeing_directly(request.order(), request.type_number())
    }

    /// The list that serves requests for `order` and a requestable type.
    #[inline(always)]
    pub(crate) const fn serving(order: Order, of: MigrateType) -> Option<Self> {
        let of = of as u8;
        if of < TYPES { Self::of_type(order, of) } else { None }
    }

    /// The list of single movable frames, which the hot path is optimised for.
    pub(crate) const MOVABLE: ListIndex = ListIndex(MigrateType::Movable as u8);

    /// The list to which the hot path frees a block, if there is one: the type of the pageblock has
    /// lists of its own, or the pageblock is emptying. `of` is the number of the type, with the
    /// flags.
    #[inline(always)]
    pub(crate) const fn freeing_directly(order: Order, of: u8) -> Option<Self> {
        if of < TYPES {
            return Self::of_type(order, of);
        }
        if Self::is_type_emptying(of) { Self::emptying_of(order) } else { None }
    }

    /// Whether `of`, the number of a type with the flags, has the flag of emptying pageblocks and
    /// no other, so that all frames of the pageblock are present.
    #[inline(always)]
    pub(crate) const fn is_type_emptying(of: u8) -> bool {
        of & !3 == EMPTYING
    }

    /// The list of blocks of `order` in emptying pageblocks.
    const fn emptying_of(order: Order) -> Option<Self> {
        match order.get() {
            small @ 0..=SMALL_ORDERS => Some(Self(EMPTYING_LISTS + small)),
            _ => None,
        }
    }

    /// The list of blocks of `order` in pageblocks of a type with lists of its own.
    #[inline(always)]
    const fn of_type(order: Order, of: u8) -> Option<Self> {
        match order.get() {
            small @ 0..=SMALL_ORDERS => Some(Self(TYPES * small + of)),
            9 => Some(Self(PAGEBLOCK_LISTS + (of == MigrateType::Movable as u8) as u8)),
            _ => None,
        }
    }

    /// The list that a block of `order` is freed to, if there is one. `of` is the number of the type, with the flag
    /// of emptying pageblocks. Types without lists of their own use the lists of movable blocks; isolated frames have
    /// no list.
    pub(crate) fn freeing(order: Order, of: u8) -> Option<Self> {
        if of & EMPTYING != 0 && order.get() <= SMALL_ORDERS {
            return Some(Self(EMPTYING_LISTS + order.get()));
        }
        match MigrateType::from_number(of & !EMPTYING)? {
            MigrateType::Isolate => None,
            MigrateType::HighAtomic => Self::serving(order, MigrateType::Movable),
            of => Self::serving(order, of),
        }
    }

    /// All lists.
    pub(crate) fn all() -> impl Iterator<Item = ListIndex> {
        (0..Self::COUNT as u8).map(ListIndex)
    }

    /// The lists of an order.
    pub(super) fn of_order(order: Order) -> impl Iterator<Item = ListIndex> {
        let order = order.get();
        let (types, first) = match order {
            0..=SMALL_ORDERS => (TYPES, TYPES * order),
            9 => (2, PAGEBLOCK_LISTS),
            _ => (0, 0),
        };
        let emptying = u8::from(order <= SMALL_ORDERS);
        (0..types + emptying).map(move |nth| match nth < types {
            true => Self(first + nth),
            false => Self(EMPTYING_LISTS + order),
        })
    }

    /// The list with the next number; after the last one the first.
    pub(super) const fn following(self) -> Self {
        Self((self.0 + 1) % Self::COUNT as u8)
    }

    /// The number of the list as an index, below [`ListIndex::COUNT`].
    #[inline(always)]
    pub(crate) const fn get(self) -> usize {
        self.0 as usize
    }

    /// The list with this number.
    #[inline(always)]
    pub(crate) const fn from_number(number: u8) -> Option<Self> {
        if (number as usize) < Self::COUNT { Some(Self(number)) } else { None }
    }

    /// The order of the list's blocks.
    #[inline(always)]
    pub(crate) const fn order(self) -> Order {
        let order = match self.0 {
            small @ 0..SMALL_LISTS => small / TYPES,
            emptying @ EMPTYING_LISTS..PAGEBLOCK_LISTS => emptying - EMPTYING_LISTS,
            _ => 9,
        };
        match Order::new(order) {
            Some(order) => order,
            None => Order::PAGEBLOCK,
        }
    }

    /// Whether frees to this list may trigger the high-order drain.
    #[inline(always)]
    pub(crate) const fn is_high_order(self) -> bool {
        TYPES <= self.0 && self.0 < SMALL_LISTS
    }

    /// Whether the list has the blocks of emptying pageblocks.
    #[inline(always)]
    pub(crate) const fn is_emptying(self) -> bool {
        EMPTYING_LISTS <= self.0 && self.0 < PAGEBLOCK_LISTS
    }

    /// The list of single frames in emptying pageblocks.
    pub(crate) const EMPTYING: ListIndex = ListIndex(EMPTYING_LISTS);

    /// The lists of blocks in emptying pageblocks.
    pub(super) fn emptying() -> impl Iterator<Item = ListIndex> {
        (EMPTYING_LISTS..PAGEBLOCK_LISTS).map(ListIndex)
    }

    /// The type whose pageblocks refill the list. Only for lists that are refilled, not for those
    /// of emptying pageblocks. The list of unmovable and reclaimable pageblocks is refilled with
    /// unmovable ones.
    pub(crate) const fn migratetype(self) -> MigrateType {
        let number = if self.0 < SMALL_LISTS { self.0 % TYPES } else { self.0 - PAGEBLOCK_LISTS };
        match MigrateType::from_number(number) {
            Some(of) => of,
            None => MigrateType::Movable,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serving_and_freeing_agree() {
        for order in Order::all() {
            for of in MigrateType::REQUESTABLE {
                let serving = ListIndex::serving(order, of);
                assert_eq!(serving, ListIndex::freeing(order, of as u8));
                if let Some(list) = serving {
                    assert_eq!(list.order(), order);
                    assert_eq!(ListIndex::freeing_directly(order, of as u8), Some(list));
                    assert_eq!(list.is_high_order(), (1..=4).contains(&order.get()));
                }
            }
            for of in MigrateType::PCP as u8..=u8::MAX {
                let list = ListIndex::freeing_directly(order, of);
                let is_emptying = of & !3 == EMPTYING && order.get() <= SMALL_ORDERS;
                assert_eq!(list.is_some(), is_emptying, "{order:?} {of}");
                assert!(list.is_none_or(|list| list.is_emptying() && list.order() == order));
            }
            assert_eq!(ListIndex::freeing(order, MigrateType::Isolate as u8), None);
            let of_order = ListIndex::all().filter(|list| list.order() == order);
            assert!(ListIndex::of_order(order).eq(of_order), "{order:?}");
        }
        assert_eq!(
            ListIndex::freeing(Order::ZERO, MigrateType::HighAtomic as u8),
            ListIndex::serving(Order::ZERO, MigrateType::Movable)
        );
    }
}
