//! Bundles: neighbouring blocks of one order, as one word of the map and a mask.
//!
//! Frames move between the zone and the lists of a CPU as bundles: up to 64 blocks in 16 bytes.

#![allow(unsafe_code)]

use core::{fmt, mem::MaybeUninit};

use super::{WORDS_SHIFT, word};
use crate::types::{Order, PAGEBLOCK_ORDER};

/// Blocks of one order inside 64 neighbouring frames (above order 6: one block).
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Bundle {
    /// First frame of the word, divided by 64, counted from the start of the zone.
    pub(crate) word: u32,
    /// One bit per head of a block.
    pub(crate) heads: u64,
    /// The order of the blocks.
    pub(crate) order: Order,
}

impl Bundle {
    /// Number of blocks in the bundle.
    #[inline(always)]
    pub(crate) fn blocks(self) -> u32 {
        // If frees are scattered, most bundles have one block.
        if self.heads & self.heads.wrapping_sub(1) == 0 {
            return u32::from(self.heads != 0);
        }
        count_heads(self.heads)
    }

    /// First frame of each block, lowest first.
    pub(crate) fn frames(self) -> impl Iterator<Item = u32> {
        let mut heads = self.heads;
        core::iter::from_fn(move || {
            let bit = (heads != 0).then(|| heads.trailing_zeros())?;
            heads &= heads - 1;
            Some(self.word * 64 + bit)
        })
    }

    /// The pageblock of the bundle.
    #[inline(always)]
    pub(crate) fn pageblock(self) -> u32 {
        self.word >> WORDS_SHIFT
    }

    /// Number of frames in the bundle.
    #[inline(always)]
    pub(crate) fn frame_count(self) -> u64 {
        u64::from(self.blocks()) << self.order.get()
    }

    /// The bundle of one block.
    #[inline(always)]
    pub(crate) fn of(frame: u32, order: Order) -> Self {
        Self { word: frame / 64, heads: 1 << (frame % 64), order }
    }

    /// The frames of the blocks, as bits of the word.
    #[inline(always)]
    pub(super) fn spread(self) -> u64 {
        word::spread(self.heads, self.order.get())
    }
}

/// The number of bits of `heads`. Not inlined: counting takes about twenty instructions on a processor without POPCNT.
#[cold]
#[inline(never)]
fn count_heads(heads: u64) -> u32 {
    heads.count_ones()
}

impl fmt::Debug for Bundle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bundle({:#x}: {:#018x}, {:?})", self.word, self.heads, self.order)
    }
}

/// A batch of bundles, which moves under one hold of the zone lock.
///
/// Small enough for a kernel stack (1 KiB). The capacity bounds the time under the lock. Its memory
/// is not initialised, because most batches use little of it. Invariant: the first `len` items are
/// initialised.
pub(crate) struct Bundles {
    items: [MaybeUninit<Bundle>; Bundles::CAPACITY],
    len: usize,
    blocks: u32,
    frames: u64,
    /// The number of pageblocks of the bundles that were pushed, if those of each pageblock were
    /// adjacent.
    pageblocks: u32,
    /// The pageblock of the last bundle, or `u32::MAX`.
    last_pageblock: u32,
    /// The batch counts as full with this many pageblocks.
    most_pageblocks: u32,
}

impl Bundles {
    pub(crate) const CAPACITY: usize = 64;

    #[inline(always)]
    pub(crate) const fn new() -> Self {
        let items = [const { MaybeUninit::uninit() }; Self::CAPACITY];
        let (last_pageblock, most_pageblocks) = (u32::MAX, u32::MAX);
        Self { items, len: 0, blocks: 0, frames: 0, pageblocks: 0, last_pageblock, most_pageblocks }
    }

    /// Makes the batch count as full when it has bundles in `most` pageblocks.
    pub(crate) fn limit_pageblocks(&mut self, most: u32) {
        self.most_pageblocks = most;
    }

    /// Adds a bundle. Returns the number of its frames; `None` if there is no space left.
    pub(crate) fn push(&mut self, bundle: Bundle) -> Option<u64> {
        let slot = self.items.get_mut(self.len)?;
        slot.write(bundle);
        self.len += 1;
        self.pageblocks += u32::from(bundle.pageblock() != self.last_pageblock);
        self.last_pageblock = bundle.pageblock();
        let blocks = bundle.blocks();
        self.blocks += blocks;
        let frames = u64::from(blocks) << bundle.order.get();
        self.frames += frames;
        Some(frames)
    }

    /// Adds single frames of pageblock `index`, of which the batch has none yet: the numbers of the words that have any,
    /// and the frames of each. They are `count` frames in all, and there is space for a bundle of each word. Inlined: the
    /// copy of a bundle that was passed through memory would wait for the stores of its fields.
    #[inline(always)]
    pub(super) fn push_words(
        &mut self,
        index: u32,
        words: impl Iterator<Item = (usize, u64)>,
        count: u16,
    ) {
        let slots = self.items.get_mut(self.len..).unwrap_or_default();
        for (slot, (i, heads)) in slots.iter_mut().zip(words) {
            slot.write(Bundle {
                word: (index << WORDS_SHIFT) + i as u32,
                heads,
                order: Order::ZERO,
            });
            self.len += 1;
        }
        self.pageblocks += 1;
        self.last_pageblock = index;
        self.blocks += u32::from(count);
        self.frames += u64::from(count);
    }

    /// Adds different whole pageblocks, each as a bundle, as far as there is space. Returns their number.
    #[inline(always)]
    pub(crate) fn push_pageblocks(&mut self, first_frames: impl Iterator<Item = u32>) -> usize {
        // The counts are updated once, so that no addition waits for the one before.
        let (mut added, mut last) = (0, 0);
        let slots = self.items.get_mut(self.len..).unwrap_or_default();
        for (slot, frame) in slots.iter_mut().zip(first_frames) {
            last = frame / 64;
            slot.write(Bundle { word: last, heads: 1, order: Order::PAGEBLOCK });
            added += 1;
        }
        if added > 0 {
            self.last_pageblock = last >> WORDS_SHIFT;
        }
        self.len += added;
        self.pageblocks += added as u32;
        self.blocks += added as u32;
        self.frames += (added as u64) << PAGEBLOCK_ORDER;
        added
    }

    /// Adds blocks below the size of a pageblock, each as a bundle, as many as fit if each is in another pageblock.
    /// Returns their number.
    #[inline(always)]
    pub(crate) fn push_blocks(&mut self, first_frames: &[u32], order: Order) -> usize {
        let count = first_frames.len().min(self.free_slots() as usize);
        let slots = self.items.get_mut(self.len..).unwrap_or_default();
        for (slot, &frame) in slots.iter_mut().zip(&first_frames[..count]) {
            slot.write(Bundle::of(frame, order));
            self.last_pageblock = frame >> PAGEBLOCK_ORDER;
        }
        self.len += count;
        self.pageblocks += count as u32;
        self.blocks += count as u32;
        self.frames += (count as u64) << order.get();
        count
    }

    /// Removes the lowest block of the first bundle that is not empty.
    pub(crate) fn pop_lowest(&mut self) -> Option<u32> {
        let bundle = self.as_mut_slice().iter_mut().find(|bundle| bundle.heads != 0)?;
        let frame = bundle.word * 64 + bundle.heads.trailing_zeros();
        bundle.heads &= bundle.heads - 1;
        let frames = bundle.order.frames();
        self.blocks -= 1;
        self.frames -= frames;
        Some(frame)
    }

    /// Joins the last two bundles if they are of the same word and order.
    pub(crate) fn join_last(&mut self) {
        if let [.., before, last] = self.as_mut_slice()
            && (before.word, before.order) == (last.word, last.order)
        {
            before.heads |= last.heads;
            self.len -= 1;
        }
    }

    /// Keeps the bundles for which `keep` returns `true`, in their order.
    #[inline(always)]
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(Bundle) -> bool) {
        let items = self.as_mut_slice();
        let (mut kept, mut blocks, mut frames) = (0, 0, 0);
        for i in 0..items.len() {
            let bundle = items[i];
            if keep(bundle) {
                items[kept] = bundle;
                kept += 1;
            } else {
                blocks += bundle.blocks();
                frames += bundle.frame_count();
            }
        }
        self.last_pageblock =
            items.get(kept.wrapping_sub(1)).map_or(u32::MAX, |bundle| bundle.pageblock());
        self.len = kept;
        self.pageblocks = self.pageblocks.min(kept as u32);
        self.blocks -= blocks;
        self.frames -= frames;
    }

    pub(crate) fn clear(&mut self) {
        self.len = 0;
        self.blocks = 0;
        self.frames = 0;
        self.pageblocks = 0;
        self.last_pageblock = u32::MAX;
    }

    /// The number of bundles that still fit, if each is in another pageblock.
    pub(crate) fn free_slots(&self) -> u32 {
        let left = self.most_pageblocks.saturating_sub(self.pageblocks);
        left.min((Self::CAPACITY - self.len) as u32)
    }

    #[inline(always)]
    pub(crate) fn is_full(&self) -> bool {
        self.len == Self::CAPACITY || self.pageblocks >= self.most_pageblocks
    }

    /// Whether the batch has no block.
    pub(crate) fn is_empty(&self) -> bool {
        self.blocks == 0
    }

    /// Number of blocks in all bundles.
    #[inline(always)]
    pub(crate) fn blocks(&self) -> u32 {
        self.blocks
    }

    /// Number of frames in all bundles.
    pub(crate) fn frames(&self) -> u64 {
        self.frames
    }

    #[inline(always)]
    pub(crate) fn as_slice(&self) -> &[Bundle] {
        let items = &self.items[..self.len.min(Self::CAPACITY)];
        // SAFETY: the first `len` items are initialised, and `MaybeUninit<T>` is laid out like
        // `T`.
        unsafe { core::slice::from_raw_parts(items.as_ptr().cast(), items.len()) }
    }

    fn as_mut_slice(&mut self) -> &mut [Bundle] {
        let items = &mut self.items[..self.len.min(Self::CAPACITY)];
        // SAFETY: as above, and borrowed exclusively.
        unsafe { core::slice::from_raw_parts_mut(items.as_mut_ptr().cast(), items.len()) }
    }
}

#[cfg(all(test, not(framewright_loom)))]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_added_up_to_either_limit() {
        let frames: [u32; 100] = core::array::from_fn(|i| 512 * i as u32 + 5);
        let mut batch = Bundles::new();
        batch.limit_pageblocks(16);
        batch.push(Bundle::of(frames[0], Order::ZERO));
        let order = Order::new(1).unwrap();
        assert_eq!(batch.push_blocks(&frames[1..], order), 15);
        assert!(batch.is_full());
        assert_eq!((batch.blocks(), batch.frames()), (16, 1 + 15 * 2));
        assert_eq!(batch.as_slice()[15], Bundle::of(frames[15], order));
        let mut batch = Bundles::new();
        assert_eq!(batch.push_blocks(&frames, Order::ZERO), Bundles::CAPACITY);
        assert!(batch.is_full());
        // Another bundle of the last pageblock is no bundle of a new one.
        let mut batch = Bundles::new();
        batch.limit_pageblocks(2);
        batch.push_blocks(&frames[..1], Order::ZERO);
        batch.push(Bundle::of(frames[0] + 64, Order::ZERO));
        assert!(!batch.is_full());
    }
}
