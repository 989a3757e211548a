//! The present frames of a zone.
//!
//! The type of a pageblock tells whether it is present as a whole, in part, or not at all. The present frames of
//! partial pageblocks are recorded in one of two ways. If only whole pageblocks are added and removed, the ranges of
//! the memory map suffice. If memory is added in pieces of any length, there is a bit per frame, so that pieces may be
//! added in any order and number. Bits are written under the zone lock. Without the lock, they are
//! reliable for frames that the caller has allocated, and may be out of date for others.

use super::{FRAMES, gigablock::spans, levels::WORDS};
use crate::{
    sync::{HintU64, Ordering},
    types::PAGEBLOCK_ORDER,
};

/// One bit per frame of a pageblock: the frame is present.
#[repr(C, align(64))]
pub(crate) struct PresentMap([HintU64; WORDS]);

impl PresentMap {
    /// No frame is present.
    pub(crate) fn none() -> Self {
        Self(core::array::from_fn(|_| HintU64::new(0)))
    }
}

/// The present frames of a zone, by their numbers in it.
#[derive(Clone, Copy)]
pub(crate) struct PresentFrames<'m> {
    /// First frame and end of each range of the memory map that is present from the start, ascending.
    ranges: &'m [[u32; 2]],
    /// If memory is added in pieces: a map per pageblock, used instead of the ranges. Otherwise
    /// empty.
    maps: &'m [PresentMap],
}

impl<'m> PresentFrames<'m> {
    /// The frames in `ranges`. `maps` has one map without frames for each pageblock of the zone, or
    /// is empty.
    pub(crate) fn new(ranges: &'m [[u32; 2]], maps: &'m [PresentMap]) -> Self {
        Self { ranges, maps }
    }

    /// The ranges that are present from the start.
    pub(crate) fn ranges(&self) -> &'m [[u32; 2]] {
        self.ranges
    }

    /// Whether memory is added in pieces of any length.
    pub(crate) fn are_in_pieces(&self) -> bool {
        !self.maps.is_empty()
    }

    /// Whether all frames from `start` to `end`, which lie in one pageblock, are present.
    pub(crate) fn has_all(&self, start: u32, end: u32) -> bool {
        if self.are_in_pieces() {
            return self.words(start, end).all(|(_, present, mask)| present == mask);
        }
        covers(self.ranges, (start, end))
    }

    /// The first present frame from `start` to `end`, which lie in one pageblock, and the end of
    /// the last present one.
    pub(crate) fn bounds(&self, start: u32, end: u32) -> Option<(u32, u32)> {
        if self.are_in_pieces() {
            let mut bounds = None;
            for (at, present, _) in self.words(start, end).filter(|(_, present, _)| *present != 0) {
                let first = bounds.map_or(at + present.trailing_zeros(), |(first, _)| first);
                bounds = Some((first, at + 64 - present.leading_zeros()));
            }
            return bounds;
        }
        let inside = |&&[from, to]: &&[u32; 2]| from < end && start < to;
        let (first, last) = (self.ranges.iter().find(inside)?, self.ranges.iter().rfind(inside)?);
        Some((first[0].max(start), last[1].min(end)))
    }

    /// The number of present frames of pageblock `index`, if there are maps.
    pub(super) fn count(&self, index: u32) -> Option<u32> {
        let map = self.maps.get(index as usize)?;
        Some(map.0.iter().map(|word| word.load(Ordering::Relaxed).count_ones()).sum())
    }

    /// Adds frames of one pageblock. Under the zone lock.
    pub(super) fn add(&self, start: u32, end: u32) {
        self.change(start, end, |word, mask| word | mask);
    }

    /// Removes frames of one pageblock. Under the zone lock.
    pub(super) fn remove(&self, start: u32, end: u32) {
        self.change(start, end, |word, mask| word & !mask);
    }

    fn change(&self, start: u32, end: u32, to: impl Fn(u64, u64) -> u64) {
        let Some(map) = self.maps.get((start >> PAGEBLOCK_ORDER) as usize) else { return };
        for (i, mask) in spans(start % FRAMES..start % FRAMES + (end - start)) {
            let word = &map.0[i as usize];
            word.store(to(word.load(Ordering::Relaxed), mask), Ordering::Relaxed);
        }
    }

    /// For each word of the map: its first frame, the present frames from `start` to `end` as a mask, and all frames
    /// from `start` to `end` as a mask.
    fn words(&self, start: u32, end: u32) -> impl Iterator<Item = (u32, u64, u64)> {
        let first = start & !(FRAMES - 1);
        let map = self.maps.get((start >> PAGEBLOCK_ORDER) as usize);
        spans(start - first..end - first).map(move |(i, mask)| {
            let word = map.map_or(0, |map| map.0[i as usize].load(Ordering::Relaxed));
            (first + 64 * i, word & mask, mask)
        })
    }
}

/// Whether all frames from `start` to `end` are in `ranges`, which are ascending and may touch.
fn covers(ranges: &[[u32; 2]], (start, end): (u32, u32)) -> bool {
    let mut covered = start;
    for &[first, stop] in ranges {
        if first <= covered && covered < stop {
            covered = stop;
        }
    }
    covered >= end
}

#[cfg(all(test, not(framewright_loom)))]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn both_records_agree() {
        let ranges = [[3, 60], [60, 64], [70, 71], [500, 512]];
        let maps: Vec<PresentMap> = (0..2).map(|_| PresentMap::none()).collect();
        let by_ranges = PresentFrames::new(&ranges, &[]);
        let by_maps = PresentFrames::new(&[], &maps);
        ranges.iter().for_each(|&[start, end]| by_maps.add(start, end));
        assert!(by_maps.are_in_pieces() && !by_ranges.are_in_pieces());
        for (start, end) in (0..512).flat_map(|start| [1, 4, 64].map(|len| (start, start + len))) {
            let end = end.min(512);
            let both = [by_ranges, by_maps];
            let [a, b] = both.map(|present| present.has_all(start, end));
            assert_eq!(a, b, "{start} to {end}");
            let [a, b] = both.map(|present| present.bounds(start, end));
            assert_eq!(a, b, "{start} to {end}");
        }
        assert_eq!((by_maps.count(0), by_maps.count(1)), (Some(74), Some(0)));
        assert_eq!(by_ranges.count(0), None);
        by_maps.remove(0, 512);
        assert_eq!(by_maps.bounds(0, 512), None);
    }
}
