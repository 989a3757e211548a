//! The free frames of a zone: a map for each pageblock, and lists of pageblocks.
//!
//! **The unit is the pageblock** (512 frames): one 512-bit map of free frames next to a small
//! header. The free blocks are read off the map. So freeing sets bits and allocating clears bits,
//! 64 neighbours at a time; no block is split or merged explicitly. The entries of zone lists are
//! *pageblocks*, by migratetype, order of the largest free block, and fullness. The fullest are
//! used first, so empty pageblocks stay empty, and huge pages stay available.
//!
//! The level above works in the same way. A *gigablock* (1 GiB) has a map of the wholly free ones
//! of its 512 pageblocks, so blocks up to 1 GiB need no merging either. A pageblock that is
//! allocated as one block, or inside a larger block, is *folded*: recorded in its gigablock only.
//! Only `Buddy::take_specific` takes a pageblock without folding it.
//!
//! Frames enter and leave as bundles: a word of the map, and a mask of the block heads in it. The zone lock is acquired
//! once per batch, not per frame. Frames to free are selected and grouped into bundles before the lock is taken.
//!
//! The zone lock protects all these data. The types of the pageblocks are written under the lock,
//! and read without it as hints: the free path selects a list by the type, and reads the type again
//! under the lock.
//!
//! `Buddy::check` tests these invariants: header and map of a pageblock agree. A pageblock is on the list
//! that its header names, or on no list if it has no free frame, is isolated or is folded. Free frames of
//! isolated pageblocks are not counted as free.

mod bundle;
mod check;
mod compact;
#[cfg(feature = "compare")]
mod compare;
mod emptying;
mod fallback;
mod folded;
mod gigablock;
mod gigablocks;
mod give;
mod heads;
mod highatomic;
mod hotplug;
mod in_use;
mod isolate;
mod large;
mod levels;
mod lists;
mod pageblock;
mod present;
mod range;
mod report;
mod search;
mod source;
mod take;
mod want;
mod watch;
mod word;

use crate::{
    platform::Cost,
    sync::{Address, AtomicU8, Ordering},
    types::{Order, PAGEBLOCK_ORDER, Pfn},
};

pub(crate) use crate::types::MigrateType;
pub use crate::types::unusable_index;
pub(crate) use bundle::Bundle;
pub(crate) use bundle::Bundles;
pub use check::BlockCounts;
pub(crate) use fallback::Fallback;
pub(crate) use gigablock::Gigablock;
pub(crate) use give::{Capture, Refusals};
pub(crate) use heads::Heads;
pub(crate) use isolate::IsolationRefused;
pub(crate) use levels::WORDS;
pub(crate) use lists::Classes;
pub(crate) use pageblock::{Contents, Pageblock};
pub(crate) use present::{PresentFrames, PresentMap};
pub(crate) use search::{FreeRun, RunWanted};
pub(crate) use source::{Search, SourceKind, Sources, TargetFilter};
pub(crate) use want::{Reserve, Want};
pub(crate) use watch::{Part, Watch};

use gigablocks::Gigablocks;
use lists::{FREE, Lists};
use pageblock::FRAMES;

/// Words of the map per pageblock, as a shift.
const WORDS_SHIFT: u32 = (PAGEBLOCK_ORDER - word::WORD_ORDER) as u32;

/// In the array of types: none of the pageblock's frames is present. Not the number of a type.
pub(crate) const ABSENT: u8 = 5;

/// Flag in the array of types: only some of the pageblock's frames are present in this zone; the
/// others are holes, or frames of another zone. A number with this flag equals no type's number. So
/// a comparison without the lock fails, and the slow path reads the memory map.
pub(crate) const PARTIAL: u8 = 0x80;

/// Flag in the array of types: the pageblock is *emptying*. It is sparsely used, and the zone allocates from
/// fuller pageblocks. Its frames are not reused from the lists of a CPU: they return to the zone, until the
/// pageblock is wholly free or the zone allocates from it again. As with [`PARTIAL`], a number with this flag
/// equals no type's number, so that the hot path needs no test of its own.
pub(crate) const EMPTYING: u8 = 0x40;

/// All flags in the array of types.
pub(crate) const TYPE_FLAGS: u8 = PARTIAL | EMPTYING;

/// The free frames of one zone. Frames are numbered from the zone's first pageblock.
pub(crate) struct Buddy<'m> {
    /// First frame of the first pageblock.
    base: Pfn,
    blocks: &'m mut [Pageblock],
    types: &'m [AtomicU8],
    /// The frames of the zone; all others are holes.
    present: PresentFrames<'m>,
    lists: Lists<'m>,
    /// Free frames by migratetype.
    free: [u64; MigrateType::COUNT],
    /// Frames of pageblocks in the high-atomic reserve, isolated ones included.
    highatomic_reserved: u64,
    /// Pageblocks that are isolated.
    isolated: u64,
    /// Heads of allocated blocks, for checking frees; empty where frees are not checked.
    heads: &'m [Heads],
    /// A pageblock with more free frames than this is sparse.
    emptying_above: u16,
    /// The pageblock from which refills took frames last.
    refilled_last: u32,
    /// Whether any refill that takes frames from a pageblock ends its emptying.
    #[cfg(feature = "compare")]
    any_refill_ends_emptying: bool,
    /// Whether a batch breaks a wholly free pageblock for its last frames, even if it has some already.
    #[cfg(feature = "compare")]
    rest_breaks_pageblock: bool,
    /// The pageblock in which frames were freed last; frees of whole pageblocks do not count.
    #[cfg(feature = "compare")]
    given_last: u32,
}

impl<'m> Buddy<'m> {
    /// Number of gigablocks that a zone of `pageblocks` pageblocks from frame `base` on overlaps.
    pub(crate) fn gigablocks(base: Pfn, pageblocks: usize) -> usize {
        Gigablocks::count(base, pageblocks)
    }

    /// Number of words that the sets of free pageblocks need, in a zone of `pageblocks` pageblocks
    /// from frame `base` on.
    pub(crate) fn set_words(base: Pfn, pageblocks: usize) -> usize {
        Gigablocks::set_words(base, pageblocks)
    }

    /// A zone with the pageblocks `blocks`, the first at frame `base`. Frames in the ranges of `present` become free by
    /// [`Buddy::add_present`], all others are holes. `gigablocks` are empty, and `sets` are zeroes; [`Buddy::gigablocks`]
    /// and [`Buddy::set_words`] return their lengths. `heads` has the length of `blocks`, or is
    /// empty if frees are not checked.
    pub(crate) fn new(
        base: Pfn,
        blocks: &'m mut [Pageblock],
        gigablocks: &'m mut [Gigablock],
        types: &'m [AtomicU8],
        present: PresentFrames<'m>,
        sets: &'m mut [u64],
        heads: &'m [Heads],
    ) -> Self {
        let lists = Lists::new(Gigablocks::new(base, gigablocks, sets));
        let free = [0; MigrateType::COUNT];
        let (highatomic_reserved, isolated) = (0, 0);
        Self {
            base,
            blocks,
            types,
            present,
            lists,
            free,
            highatomic_reserved,
            isolated,
            heads,
            emptying_above: FRAMES as u16,
            refilled_last: u32::MAX,
            #[cfg(feature = "compare")]
            any_refill_ends_emptying: false,
            #[cfg(feature = "compare")]
            rest_breaks_pageblock: false,
            #[cfg(feature = "compare")]
            given_last: 0,
        }
    }

    /// Adds the frames in the ranges of `present`, once. Not part of [`Buddy::new`], because the value is large, and a
    /// function that changes it before it returns it needs space for it twice on a kernel's short stack.
    pub(crate) fn add_present(&mut self) {
        for &[start, end] in self.present.ranges() {
            self.add_frames(start, end);
        }
    }

    /// Adds frames `start` to `end`, which were holes, to the zone as free frames. Pageblocks that were absent
    /// become movable.
    pub(crate) fn add_frames(&mut self, start: u32, end: u32) {
        let mut at = start;
        while at < end {
            let index = at >> PAGEBLOCK_ORDER;
            let stop = end.min((index + 1) << PAGEBLOCK_ORDER);
            let was_absent = self.blocks[index as usize].present == 0;
            let of = if was_absent { MigrateType::Movable } else { self.type_of(index) };
            self.present.add(at, stop);
            let block = &mut self.blocks[index as usize];
            for (i, mask) in gigablock::spans(at % FRAMES..at % FRAMES + (stop - at)) {
                block.set_word(i as usize, block.map[i as usize] | mask);
            }
            let frames = (stop - at) as u16;
            block.free += frames;
            block.present += frames;
            let partial = if block.present < FRAMES as u16 { PARTIAL } else { 0 };
            self.types[index as usize].store(of as u8 | partial, Ordering::Relaxed);
            self.free[of as usize] += u64::from(frames);
            self.move_to_proper_list(index, of, ());
            at = stop;
        }
    }

    /// The heads of all pageblocks, to be read without the lock; empty where frees are not checked.
    pub(crate) fn heads(&self) -> &'m [Heads] {
        self.heads
    }

    /// The addresses of the pageblocks, for prefetching them without the lock.
    pub(crate) fn address(&self) -> Address<Pageblock> {
        Address::of(self.blocks)
    }

    /// Whether frees are checked.
    #[inline(always)]
    fn is_checked(&self) -> bool {
        !self.heads.is_empty()
    }

    /// The heads of pageblock `index`, if frees are checked.
    #[inline(always)]
    fn heads_of(&self, index: u32) -> Option<&'m Heads> {
        self.heads.get(index as usize)
    }

    /// Free frames that may be allocated, without those of isolated pageblocks.
    pub(crate) fn free_frames(&self) -> u64 {
        self.free[..MigrateType::LISTED].iter().sum()
    }

    /// A summary of the orders of the free blocks of all types.
    pub(crate) fn classes(&self) -> Classes {
        self.lists.classes()
    }

    /// The type of a pageblock, read under the lock. Absent pageblocks count as isolated, because no
    /// frame is taken from them.
    fn type_of(&self, index: u32) -> MigrateType {
        let number = self.types[index as usize].load(Ordering::Relaxed) & !TYPE_FLAGS;
        MigrateType::from_number(number).unwrap_or(MigrateType::Isolate)
    }

    fn set_type(&self, index: u32, to: MigrateType) {
        let number = &self.types[index as usize];
        let partial = number.load(Ordering::Relaxed) & PARTIAL;
        number.store(to as u8 | partial, Ordering::Relaxed);
    }

    /// The type of a pageblock; for an isolated pageblock, the type that it returns to.
    fn unisolated_type(&self, index: u32) -> MigrateType {
        match self.type_of(index) {
            MigrateType::Isolate => {
                let before = self.blocks[index as usize].type_before_isolation;
                MigrateType::from_number(before).unwrap_or(MigrateType::Movable)
            }
            of => of,
        }
    }

    /// Moves a pageblock with all its free frames to another type.
    fn change_type(&mut self, index: u32, to: MigrateType, watch: impl Watch) {
        let from = self.type_of(index);
        if from != MigrateType::Isolate && to != MigrateType::Isolate {
            self.count_reserved(from, to);
        }
        if self.lists.gigablocks.is_folded(index) {
            // The pageblock is folded, so none of its frames is free, and its header is not valid.
            self.set_type(index, to);
            return;
        }
        let free = u64::from(self.blocks[index as usize].free);
        self.lists.unlink(self.blocks, index, from, watch);
        self.set_type(index, to);
        self.free[from as usize] -= free;
        self.free[to as usize] += free;
        self.lists.link(self.blocks, index, to, watch);
    }

    /// Sets the type of a pageblock to one that requests may name; `false` if it is isolated.
    pub(crate) fn set_requestable_type(&mut self, index: u32, to: MigrateType) -> bool {
        let isolated = self.type_of(index) == MigrateType::Isolate;
        if !isolated {
            self.change_type(index, to, ());
        }
        !isolated
    }

    /// Moves a pageblock whose map has changed to the list on which it belongs now.
    fn relist(&mut self, index: u32, of: MigrateType, watch: impl Watch) {
        let block = &self.blocks[index as usize];
        if block.class != block.proper_class() {
            self.move_to_proper_list(index, of, watch);
        }
    }

    #[inline(never)]
    fn move_to_proper_list(&mut self, index: u32, of: MigrateType, watch: impl Watch) {
        watch.cost(Cost::Relist, 1);
        self.lists.unlink(self.blocks, index, of, watch);
        self.lists.link(self.blocks, index, of, watch);
        if self.blocks[index as usize].class == FREE {
            self.clear_emptying(index);
        }
    }
}

/// Number of map words that a block of `order` covers.
const fn words_of(order: Order) -> usize {
    if order.get() <= word::WORD_ORDER { 1 } else { 1 << (order.get() - word::WORD_ORDER) }
}

#[cfg(test)]
mod tests;
