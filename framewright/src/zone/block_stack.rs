//! Free blocks outside bundles, each as the number of its first frame.
//!
//! Blocks are passed between the zone and the lists of a CPU as bundles or as such numbers. A
//! bundle of one block needs 16 bytes, and must be packed and unpacked. A number needs 4 bytes.

#![allow(unsafe_code)]

use core::{mem::MaybeUninit, ops::Range};

use crate::{
    buddy::Bundle,
    types::{MigrateType, Order},
};

/// Blocks of one order in pageblocks of one type: the contents of one stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BlockKind(u8);

/// The largest order that has kinds. Larger blocks pass from CPU to CPU through the buddy, where they merge: they are
/// few.
const LARGEST_ORDER: u8 = 3;

impl BlockKind {
    /// The number of kinds.
    pub(super) const COUNT: usize = (LARGEST_ORDER as usize + 1) * MigrateType::PCP;

    /// The kind of a block of `order` in a pageblock whose type has this number; `None` if there is
    /// none.
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

    /// The type of the pageblocks of its blocks, as a number.
    #[inline(always)]
    pub(crate) const fn type_number(self) -> u8 {
        self.0 % MigrateType::PCP as u8
    }

    /// The number of this kind, below [`BlockKind::COUNT`].
    #[inline(always)]
    pub(super) const fn get(self) -> usize {
        self.0 as usize
    }

    pub(super) fn is_of(self, of: MigrateType) -> bool {
        self.type_number() == of as u8
    }

    pub(super) fn all() -> impl Iterator<Item = BlockKind> {
        (0..Self::COUNT as u8).map(BlockKind)
    }
}

/// The number of blocks of each order that a refill asks for, all of one type.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct RefillDemand([u8; LARGEST_ORDER as usize + 1]);

impl RefillDemand {
    #[inline(always)]
    pub(crate) fn of(self, order: Order) -> u8 {
        self.0.get(usize::from(order.get())).copied().unwrap_or(0)
    }

    /// Sets the number of blocks of an order. Orders without kinds are ignored.
    pub(crate) fn set(&mut self, order: Order, blocks: u8) {
        if let Some(wanted) = self.0.get_mut(usize::from(order.get())) {
            *wanted = blocks;
        }
    }

    /// All orders with kinds, except `own`.
    pub(crate) fn others(self, own: Order) -> impl Iterator<Item = Order> {
        Order::all().take(self.0.len()).filter(move |&order| order != own)
    }
}

/// Blocks by kind, the coldest first within each kind. Batches enter and leave a depot in this
/// form.
///
/// The value lives on the stack, is mostly unused, and is not initialised. Invariant: the entries
/// that the runs cover are initialised.
pub(crate) struct BlockStack {
    blocks: [MaybeUninit<u32>; BlockStack::CAPACITY],
    runs: [Run; BlockStack::RUNS],
    /// The number of runs in use. Each starts at the end of the run before it.
    used: usize,
}

/// Blocks of one kind: a range of entries of the array.
#[derive(Clone, Copy)]
struct Run {
    kind: BlockKind,
    start: u16,
    end: u16,
}

impl Run {
    #[inline(always)]
    fn places(self) -> Range<usize> {
        usize::from(self.start)..usize::from(self.end)
    }
}

impl BlockStack {
    /// A ring of one order, and half a ring for each of three others.
    pub(crate) const CAPACITY: usize = 320;
    /// A run for each of the orders 0 to 3, and two more for blocks of another type.
    const RUNS: usize = 6;

    /// An empty stack.
    #[inline(always)]
    pub(crate) const fn new() -> Self {
        let none = Run { kind: BlockKind(0), start: 0, end: 0 };
        Self {
            blocks: [const { MaybeUninit::uninit() }; Self::CAPACITY],
            runs: [none; Self::RUNS],
            used: 0,
        }
    }

    #[inline(always)]
    fn used(&self) -> &[Run] {
        &self.runs[..self.used.min(Self::RUNS)]
    }

    /// The blocks of a run.
    #[inline(always)]
    fn blocks(&self, run: Run) -> &[u32] {
        let places = &self.blocks[run.places()];
        // SAFETY: the entries that a run covers are initialised, and `MaybeUninit<T>` has the
        // layout of `T`.
        unsafe { core::slice::from_raw_parts(places.as_ptr().cast(), places.len()) }
    }

    #[inline(always)]
    fn blocks_mut(&mut self, run: Run) -> &mut [u32] {
        let places = &mut self.blocks[run.places()];
        // SAFETY: the entries are initialised as above, and are borrowed exclusively.
        unsafe { core::slice::from_raw_parts_mut(places.as_mut_ptr().cast(), places.len()) }
    }

    #[inline(never)]
    pub(crate) fn is_empty(&self) -> bool {
        self.used().iter().all(|run| run.start == run.end)
    }

    /// The blocks, kind by kind.
    #[inline(always)]
    pub(crate) fn runs(&self) -> impl Iterator<Item = (BlockKind, &[u32])> {
        self.used().iter().map(|&run| (run.kind, self.blocks(run)))
    }

    /// The number of all blocks.
    #[inline(never)]
    pub(crate) fn len(&self) -> usize {
        self.used().iter().map(|run| run.places().len()).sum()
    }

    /// The number of all frames.
    #[inline(never)]
    pub(crate) fn frames(&self) -> u64 {
        let frames = |run: &Run| (run.places().len() as u64) << run.kind.order().get();
        self.used().iter().map(frames).sum()
    }

    /// Adds the blocks of a bundle. Returns `false` if they do not fit.
    #[inline(always)]
    pub(crate) fn add(&mut self, kind: BlockKind, bundle: Bundle) -> bool {
        let is_same = self.used().last().is_some_and(|run| run.kind == kind);
        if !is_same && !self.add_run(kind, &[]) {
            return false;
        }
        let run = &mut self.runs[self.used - 1];
        let places = usize::from(run.end)..usize::from(run.end) + bundle.blocks() as usize;
        let Some(places) = self.blocks.get_mut(places) else { return false };
        for (place, block) in places.iter_mut().zip(bundle.frames()) {
            place.write(block);
            run.end += 1;
        }
        true
    }

    /// Adds a run of blocks. Returns `false` if they do not fit.
    #[inline(never)]
    pub(crate) fn add_run(&mut self, kind: BlockKind, blocks: &[u32]) -> bool {
        let Some(entries) = self.open(kind, blocks.len()) else { return false };
        entries.copy_from_slice(blocks);
        true
    }

    /// Adds a run of `count` blocks and returns its entries, which the caller writes; `None` if
    /// they do not fit.
    #[inline(always)]
    pub(super) fn open(&mut self, kind: BlockKind, count: usize) -> Option<&mut [u32]> {
        let start = self.used().last().map_or(0, |last| last.end);
        let run = Run { kind, start, end: start + count as u16 };
        for place in self.blocks.get_mut(run.places())? {
            place.write(0);
        }
        *self.runs.get_mut(self.used)? = run;
        self.used += 1;
        Some(self.blocks_mut(run))
    }

    /// Takes the block that was freed last from the first run.
    pub(crate) fn pop(&mut self) -> Option<u32> {
        let &first = self.used().first()?;
        let &last = self.blocks(first).last()?;
        self.runs[0].end -= 1;
        Some(last)
    }

    /// Empties those runs for which `leaves` returns `true`.
    #[inline(always)]
    pub(crate) fn empty(&mut self, mut leaves: impl FnMut(BlockKind, &[u32]) -> bool) {
        for i in 0..self.used().len() {
            let run = self.runs[i];
            if leaves(run.kind, self.blocks(run)) {
                self.runs[i].end = run.start;
            }
        }
    }

    /// Sorts each run, so that neighbours in memory are neighbours in the run.
    pub(crate) fn sort(&mut self) {
        for i in 0..self.used().len() {
            sort(self.blocks_mut(self.runs[i]));
        }
    }

    pub(crate) fn clear(&mut self) {
        self.used = 0;
    }
}

/// Shell's sort with Ciura's gaps. For a few hundred numbers it is as fast as the sort of `core`,
/// and a tenth of its code.
fn sort(numbers: &mut [u32]) {
    for gap in [132, 57, 23, 10, 4, 1] {
        sort_apart(numbers, gap);
    }
}

/// Sorts numbers that are `gap` places apart. Not inlined, so that the code exists once for all gaps.
#[inline(never)]
fn sort_apart(numbers: &mut [u32], gap: usize) {
    for end in gap..numbers.len() {
        let number = numbers[end];
        let mut at = end;
        while at >= gap && numbers[at - gap] > number {
            numbers[at] = numbers[at - gap];
            at -= gap;
        }
        numbers[at] = number;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sort_handles_every_length() {
        for count in 0..=BlockStack::CAPACITY {
            let numbers = (0..count as u32).map(|i| i.wrapping_mul(0x9e37_79b1) >> 20);
            let mut sorted: [u32; BlockStack::CAPACITY] = [0; BlockStack::CAPACITY];
            sorted.iter_mut().zip(numbers).for_each(|(slot, number)| *slot = number);
            let mut expected = sorted;
            expected[..count].sort_unstable();
            sort(&mut sorted[..count]);
            assert_eq!(sorted, expected);
        }
    }
}
