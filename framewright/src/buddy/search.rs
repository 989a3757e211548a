//! Finding a run of free frames, of any length and alignment.
//!
//! The search walks *runs* of neighbouring frames that are all free or all not free. It
//! remembers the start of the free run that reaches the current position. A run that must contain a
//! whole pageblock is searched in the maps of gigablocks. Of the pageblocks that are not wholly
//! free, this search reads only the two next to each run of wholly free ones, and the first and
//! last of each leaf (64 pageblocks). If a header shows that no run inside its pageblock is long
//! enough, only the free frames at both ends of the pageblock are examined. The search is done in
//! steps, so that the lock can be released between them. Frames that were free may be allocated
//! before the lock is held again.

use super::{Buddy, FRAMES, gigablock::spans, levels::WORDS};
use crate::types::PAGEBLOCK_ORDER;

/// The run to search for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunWanted {
    /// Number of frames.
    pub(crate) frames: u32,
    /// The physical number of the first frame is a multiple of this power of two.
    pub(crate) align: u64,
    /// The end of the run is at most this frame.
    pub(crate) to: u32,
}

/// Result of one step of the search.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FreeRun {
    /// A run starts at this frame.
    Found(u32),
    /// No run so far: continue at this frame.
    Continue(u32),
    /// There is no run.
    None,
}

/// Every run of this many frames contains a whole pageblock.
const CONTAINS_WHOLE: u32 = 2 * FRAMES - 1;

impl Buddy<'_> {
    /// Searches for a run from frame `from` on, in pageblocks of types that requests may name.
    /// Returns [`FreeRun::Continue`] after `budget` runs, each of at most 64 pageblocks, that
    /// were too short or not free.
    pub(crate) fn find_free_run(&self, want: RunWanted, from: u32, budget: u32) -> FreeRun {
        let end = (self.blocks.len() as u64) << PAGEBLOCK_ORDER;
        let to = u64::from(want.to).min(end) as u32;
        let mut left = budget.max(1);
        let mut run = from;
        let mut at = from;
        while at < to {
            // The step does not end inside a run, because the next step would walk the run again.
            if run == at {
                if left == 0 {
                    return FreeRun::Continue(at);
                }
                left -= 1;
            }
            let (stop, free) = self.run_at(at, want.frames);
            at = stop;
            if !free {
                run = stop;
            } else if let Some(start) = self.fits(&want, run, at.min(to)) {
                return FreeRun::Found(start);
            }
        }
        FreeRun::None
    }

    /// Start of the wanted run in the free frames from `run` to `end`, if it fits.
    fn fits(&self, want: &RunWanted, run: u32, end: u32) -> Option<u32> {
        let base = self.base.get();
        let start = (base + u64::from(run)).next_multiple_of(want.align) - base;
        (start + u64::from(want.frames) <= u64::from(end)).then_some(start as u32)
    }

    /// The end of a run that starts at frame `at`, and whether it is free. Free frames that
    /// cannot be part of a run of `frames` count as not free.
    fn run_at(&self, at: u32, frames: u32) -> (u32, bool) {
        let index = at >> PAGEBLOCK_ORDER;
        let place = self.lists.gigablocks.place(index);
        let free_from_here = self.lists.gigablocks.leaf(place / 64).free >> (place % 64);
        let first_behind = |pageblocks: u32| (index + pageblocks) << PAGEBLOCK_ORDER;
        if free_from_here & 1 == 1 {
            return (first_behind(free_from_here.trailing_ones()), true);
        }
        let next = first_behind(1);
        if self.type_of(index).mixes() && !self.lists.gigablocks.is_folded(index) {
            let block = &self.blocks[index as usize];
            let (map, offset) = (&block.map, at % FRAMES);
            if map[(offset / 64) as usize] >> (offset % 64) & 1 == 1 {
                return (next - FRAMES + first_bit(map, offset, false), true);
            }
            if block.longest_run() >= frames {
                return (next - FRAMES + first_bit(map, offset, true), false);
            }
        }
        if frames < CONTAINS_WHOLE {
            return (self.suffix(index, at), false);
        }
        // The last pageblock before one that is free as a whole, or before the next leaf.
        let others = free_from_here.trailing_zeros().min(64 - place % 64);
        if others > 1 { (first_behind(others - 1), false) } else { (self.suffix(index, at), false) }
    }

    /// Start of the free frames that reach the end of pageblock `index`. The start is after frame
    /// `at`, which is not free.
    fn suffix(&self, index: u32, at: u32) -> u32 {
        let end = (index + 1) << PAGEBLOCK_ORDER;
        if !self.type_of(index).mixes() || self.lists.gigablocks.is_folded(index) {
            return end;
        }
        let map = &self.blocks[index as usize].map;
        let mut free = 0;
        for word in map.iter().rev() {
            free += word.leading_ones();
            if *word != !0 {
                break;
            }
        }
        (end - free).max(at + 1)
    }
}

/// The first bit at or after `from` that equals `set`, or the end of the map.
fn first_bit(map: &[u64; WORDS], from: u32, set: bool) -> u32 {
    spans(from..FRAMES)
        .find_map(|(i, mask)| {
            let word = if set { map[i as usize] } else { !map[i as usize] } & mask;
            (word != 0).then(|| 64 * i + word.trailing_zeros())
        })
        .unwrap_or(FRAMES)
}
