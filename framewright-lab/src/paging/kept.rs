//! Blocks besides file pages: large objects, and memory of the kernel.

use std::{cell::RefCell, collections::BTreeMap};

use framewright::{Block, Pfn, frame::PAGEBLOCK_FRAMES};

/// Blocks of one CPU, each of which is kept until it expires.
pub(super) struct Kept<'m> {
    /// The blocks, each with the number of used pages at which it expires.
    blocks: Vec<(u64, Block<'m>)>,
    /// Mean number of used pages until expiry.
    kept_for: u64,
    random: fastrand::Rng,
}

impl<'m> Kept<'m> {
    /// No blocks. Later ones are kept for `kept_for` used pages on average.
    pub(super) fn new(kept_for: u64, seed: u64) -> Self {
        Self { blocks: Vec::new(), kept_for, random: fastrand::Rng::with_seed(seed) }
    }

    /// Keeps `block`, if there is one, from now on: `used` pages have been used.
    pub(super) fn keep(&mut self, block: Option<Block<'m>>, used: u64) {
        let expires = used + self.random.u64(..=2 * self.kept_for);
        self.blocks.extend(block.map(|block| (expires, block)));
    }

    /// Removes and returns an expired block.
    pub(super) fn expired(&mut self, used: u64) -> Option<Block<'m>> {
        let at = self.blocks.iter().position(|(expires, _)| *expires <= used)?;
        Some(self.blocks.swap_remove(at).1)
    }
}

/// The number of blocks of the kernel in each pageblock that has any. A block is smaller than a pageblock.
#[derive(Debug, Default)]
pub(super) struct KernelBlocks(RefCell<BTreeMap<u64, u32>>);

impl KernelBlocks {
    fn pageblock(pfn: Pfn) -> u64 {
        pfn.get() / PAGEBLOCK_FRAMES as u64
    }

    /// Adds the block at `pfn`.
    pub(super) fn add(&self, pfn: Pfn) {
        *self.0.borrow_mut().entry(Self::pageblock(pfn)).or_default() += 1;
    }

    /// Removes the block at `pfn`.
    pub(super) fn remove(&self, pfn: Pfn) {
        let (mut blocks, of) = (self.0.borrow_mut(), Self::pageblock(pfn));
        if let Some(count) = blocks.get_mut(&of) {
            *count -= 1;
            if *count == 0 {
                blocks.remove(&of);
            }
        }
    }

    /// The number of pageblocks that have any.
    pub(super) fn pageblocks(&self) -> u64 {
        self.0.borrow().len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pageblock_counts_until_its_last_block_of_the_kernel_is_freed() {
        let blocks = KernelBlocks::default();
        let frames = [3, 8, PAGEBLOCK_FRAMES as u64].map(Pfn::new);
        frames.into_iter().for_each(|pfn| blocks.add(pfn));
        assert_eq!(blocks.pageblocks(), 2);
        blocks.remove(frames[0]);
        assert_eq!(blocks.pageblocks(), 2);
        blocks.remove(frames[1]);
        assert_eq!(blocks.pageblocks(), 1);
    }
}
