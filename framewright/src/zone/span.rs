//! The frames of a zone: numbers, ranges, holes.
//!
//! Inside a zone a frame has a number, counted from the first frame of the zone's first pageblock,
//! holes included. The type of a pageblock, read without the lock, tells which of its frames are
//! present: all, none, or the frames in [`PresentFrames`](crate::buddy::PresentFrames). Memory is
//! added and removed in whole pageblocks, unless the memory map lets it be added in pieces.

use core::ops::Range;

use super::{SideTableIndex, Zone, clip, pageblocks};
use crate::{
    buddy::{ABSENT, EMPTYING, PARTIAL},
    platform::Platform,
    sync::Ordering,
    types::{FrameRange, Order, PAGEBLOCK_ORDER, Pfn},
};

impl<'m, P: Platform> Zone<'m, P> {
    /// The page frame number of the zone's frame `frame`.
    pub(crate) fn pfn(&self, frame: u32) -> Pfn {
        self.base().offset(u64::from(frame))
    }

    /// First frame of the zone's first pageblock. Zone-relative frame numbers count from here.
    pub(crate) fn base(&self) -> Pfn {
        self.placement.base
    }

    /// The first present frame, and the number of frames from there to the last present one.
    pub(crate) fn span(&self) -> (Pfn, u64) {
        let mut there = (0..self.types.len() as u32).filter(|&block| !self.is_absent(block));
        let Some(first) = there.next() else { return (self.base(), 0) };
        let last = there.next_back().unwrap_or(first);
        let (start, end) = (self.present_in(first).0, self.present_in(last).1);
        (self.pfn(start), u64::from(end - start))
    }

    /// The frames of a pageblock that is not absent, from the first present one to the last.
    pub(crate) fn frames_of(&self, block: u32) -> FrameRange {
        let (start, end) = self.present_in(block);
        FrameRange::new(self.pfn(start), self.pfn(end)).unwrap_or(FrameRange::EMPTY)
    }

    /// The first present frame of a pageblock that is not absent, and the end of its last present
    /// frame.
    fn present_in(&self, block: u32) -> (u32, u32) {
        let (start, end) = clip(block, 0, u32::MAX);
        let number = self.types[block as usize].load(Ordering::Relaxed);
        if number & PARTIAL == 0 {
            return (start, end);
        }
        self.placement.present.bounds(start, end).unwrap_or((start, end))
    }

    /// Frames from the first pageblock of the zone to its last, holes included.
    pub(crate) fn spanned(&self) -> u64 {
        (self.types.len() << PAGEBLOCK_ORDER) as u64
    }

    /// The zone-relative number of the block at `pfn`, if all its frames are in the zone.
    pub(crate) fn locate(&self, pfn: Pfn, order: Order) -> Option<u32> {
        // Callers try one zone after the other, mostly for single frames. For a single frame, one
        // load of the pageblock's type usually decides.
        let frame = pfn.get().wrapping_sub(self.base().get());
        let of = self
            .types
            .get(usize::try_from(frame >> PAGEBLOCK_ORDER).ok()?)?
            .load(Ordering::Relaxed);
        if order == Order::ZERO && of & !EMPTYING < ABSENT {
            return Some(frame as u32);
        }
        self.locate_block(frame, order)
    }

    #[inline(never)]
    fn locate_block(&self, frame: u64, order: Order) -> Option<u32> {
        let frame = u32::try_from(frame).ok()?;
        let end = frame.checked_add(order.frames() as u32)?;
        self.has_all(frame, end).then_some(frame)
    }

    /// The lookup of the zone's frames in the per-frame side tables.
    pub(crate) fn side_table_index(&self) -> SideTableIndex<'m> {
        SideTableIndex {
            base: self.placement.base,
            types: self.types,
            start: self.placement.side_table_start as u32,
        }
    }

    /// Whether all frames from `start` to `end` are in the zone and present.
    pub(crate) fn has_all(&self, start: u32, end: u32) -> bool {
        pageblocks(start, end).all(|block| match self.types.get(block as usize) {
            None => false,
            Some(number) => match number.load(Ordering::Relaxed) {
                ABSENT => false,
                number if number & PARTIAL == 0 => true,
                _ => {
                    let (start, end) = clip(block, start, end);
                    self.placement.present.has_all(start, end)
                }
            },
        })
    }

    /// Whether no frame of a pageblock is present.
    pub(crate) fn is_absent(&self, block: u32) -> bool {
        self.types.get(block as usize).is_none_or(|of| of.load(Ordering::Relaxed) == ABSENT)
    }

    /// The numbers of the pageblocks in `range`; `None` unless the memory map names all of its
    /// frames for this zone, as present or absent. `range` consists of whole pageblocks.
    pub(crate) fn named_pageblocks(&self, range: FrameRange) -> Option<Range<u32>> {
        let (start, end) = self.clip(range)?;
        let whole = u64::from(end - start) == range.frames();
        (whole && self.names_all(start, end)).then(|| pageblocks(start, end))
    }

    /// The numbers of the frames in `range`; `None` unless the zone's memory is added in pieces and the memory map
    /// names all of the frames for this zone.
    pub(crate) fn named_piece(&self, range: FrameRange) -> Option<Range<u32>> {
        let (start, end) = self.clip(range)?;
        let whole = u64::from(end - start) == range.frames();
        let is_one = self.placement.present.are_in_pieces() && whole;
        (is_one && self.names_all(start, end)).then_some(start..end)
    }

    /// Whether the memory map names all frames from `start` to `end` for this zone. Present and absent ranges may
    /// alternate.
    fn names_all(&self, start: u32, end: u32) -> bool {
        let named = || self.placement.present.ranges().iter().chain(self.placement.absent);
        let mut covered = start;
        while covered < end {
            let Some(range) = named().find(|range| (range[0]..range[1]).contains(&covered)) else {
                return false;
            };
            covered = range[1];
        }
        true
    }

    /// The first present frame of `frames`.
    pub(crate) fn first_present(&self, frames: Range<u32>) -> Option<u32> {
        pageblocks(frames.start, frames.end).find_map(|block| {
            let (start, end) = clip(block, frames.start, frames.end);
            match self.types.get(block as usize)?.load(Ordering::Relaxed) {
                ABSENT => None,
                number if number & PARTIAL == 0 => Some(start),
                _ => self.placement.present.bounds(start, end).map(|(first, _)| first),
            }
        })
    }

    /// Whether all frames of a pageblock are present.
    pub(crate) fn is_whole(&self, block: u32) -> bool {
        let number = self.types.get(block as usize).map(|of| of.load(Ordering::Relaxed));
        number.is_some_and(|number| number & PARTIAL == 0 && number != ABSENT)
    }

    /// The part of `range` that lies between the zone's first and last pageblock, as numbers of
    /// frames; `None` if there is none.
    pub(crate) fn clip(&self, range: FrameRange) -> Option<(u32, u32)> {
        let from_base = |pfn: Pfn| pfn.get().saturating_sub(self.base().get());
        let (start, end) = (from_base(range.start()), from_base(range.end()).min(self.spanned()));
        (start < end).then_some((start as u32, end as u32))
    }
}
