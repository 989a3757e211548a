//! Loose blocks: those without neighbours, as numbers of frames.
//!
//! Beside bundles the other currency between the zone and the lists of a CPU. A bundle of one block
//! says with 16 bytes what a number says with four, and has to be put together and taken apart.

use crate::{
    buddy::{Bundle, MigrateType},
    frame::Order,
};

/// Blocks of one order, in pageblocks of one type: what one stack holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Kind(u8);

/// Orders 0 to this have kinds: those that lists of CPUs keep by mobility.
const LARGEST_ORDER: u8 = 3;

impl Kind {
    /// How many there are.
    pub(super) const COUNT: usize = (LARGEST_ORDER as usize + 1) * MigrateType::PCP;

    /// The kind of a block in a pageblock whose type has this number, if there is one.
    #[inline(always)]
    pub(crate) const fn of(order: Order, type_number: u8) -> Option<Self> {
        if order.get() <= LARGEST_ORDER && (type_number as usize) < MigrateType::PCP {
            Some(Self(order.get() * MigrateType::PCP as u8 + type_number))
        } else {
            None
        }
    }

    #[inline(always)]
    pub(crate) const fn order(self) -> Order {
        match Order::new(self.0 / MigrateType::PCP as u8) {
            Some(order) => order,
            None => Order::ZERO,
        }
    }

    /// Its number, below [`Kind::COUNT`].
    #[inline(always)]
    pub(super) const fn get(self) -> usize {
        self.0 as usize
    }

    pub(super) fn is_of(self, of: MigrateType) -> bool {
        self.get() % MigrateType::PCP == of as usize
    }

    pub(super) fn all() -> impl Iterator<Item = Kind> {
        (0..Self::COUNT as u8).map(Kind)
    }
}

/// Blocks of one kind, the colder ones first: what comes out of a depot, or goes into it.
pub(crate) struct Loose {
    kind: Option<Kind>,
    blocks: [u32; Loose::CAPACITY],
    len: usize,
}

impl Loose {
    /// As many as a ring holds.
    pub(crate) const CAPACITY: usize = 128;

    /// No blocks of whatever kind.
    pub(crate) const fn new() -> Self {
        Self { kind: None, blocks: [0; Self::CAPACITY], len: 0 }
    }

    #[inline(always)]
    pub(crate) fn kind(&self) -> Option<Kind> {
        self.kind
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline(always)]
    pub(crate) fn blocks(&self) -> &[u32] {
        &self.blocks[..self.len.min(Self::CAPACITY)]
    }

    pub(crate) fn frames(&self) -> u64 {
        self.kind.map_or(0, |kind| (self.len as u64) << kind.order().get())
    }

    /// Adds the blocks of a bundle; `false` if they are of another kind than those that are here,
    /// or too many.
    #[inline(always)]
    pub(crate) fn add(&mut self, kind: Kind, bundle: Bundle) -> bool {
        let other = self.kind.is_some_and(|has| has != kind);
        if other || self.len + bundle.blocks() as usize > Self::CAPACITY {
            return false;
        }
        self.kind = Some(kind);
        for block in bundle.frames() {
            self.blocks[self.len % Self::CAPACITY] = block;
            self.len += 1;
        }
        true
    }

    /// Takes the block that was freed last.
    pub(crate) fn pop(&mut self) -> Option<u32> {
        self.len = self.len.checked_sub(1)?;
        Some(self.blocks[self.len])
    }

    /// Puts blocks that are neighbours in memory next to each other.
    pub(crate) fn sort(&mut self) {
        self.blocks[..self.len].sort_unstable();
    }

    /// Replaces everything by `count` blocks of a kind, which whoever gets the slice writes.
    #[inline(always)]
    pub(super) fn refill(&mut self, kind: Kind, count: usize) -> &mut [u32] {
        let count = count.min(Self::CAPACITY);
        (self.kind, self.len) = (Some(kind), count);
        &mut self.blocks[..count]
    }

    pub(crate) fn clear(&mut self) {
        (self.kind, self.len) = (None, 0);
    }
}
