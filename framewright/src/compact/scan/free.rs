//! The free scanner: comes down through a zone and takes free frames from movable pageblocks.
//!
//! Frees what pages have left, and keeps the block that a free completes, if it is waited for.

use super::{FRAMES, Goal, heed::Heed};
use crate::{
    buddy::{Bundle, Bundles, Contents, MigrateType},
    compact::{
        compactor::Site,
        evacuate::{contents, range},
    },
    frame::{Order, PAGEBLOCK_ORDER, Pfn},
    migrate::Targets,
    observe::{CompactEvent, Scanner},
    platform::Platform,
    tuning::{CompactRepairs, CompactTuning},
    zone::Watermark,
};

/// Entries of lists that a short search looks at, before it has failed.
const ENTRIES: u32 = 32;

/// Where nothing is waited for, frames are looked at one in so many while none is free.
const STRIDE: u32 = 32;

/// See the module.
pub(super) struct FreeScanner<'s, 'm, P: Platform> {
    site: Site<'s, 'm, P>,
    goal: Goal,
    repair: CompactRepairs,
    shortcuts: bool,
    /// It looks at pageblocks below this next.
    below: u32,
    /// Where the migrate scanner is: it does not go there.
    migrate: u32,
    /// Frames that are still needed.
    wanted: u32,
    /// Whether others want the zone lock.
    heed: Heed,
    stash: Bundles,
    misses: u32,
    keeps: bool,
    captured: Option<(u32, Order)>,
}

impl<'s, 'm, P: Platform> FreeScanner<'s, 'm, P> {
    pub(super) fn new(
        site: Site<'s, 'm, P>,
        goal: Goal,
        tuning: &CompactTuning,
        below: u32,
        keeps: bool,
    ) -> Self {
        let CompactTuning { repair, shortcuts, .. } = *tuning;
        Self {
            site,
            goal,
            repair,
            shortcuts,
            below,
            migrate: 0,
            wanted: 0,
            heed: Heed::new(&goal),
            stash: Bundles::new(),
            misses: 0,
            keeps,
            captured: None,
        }
    }

    /// The pageblock above the one it looks at next.
    pub(super) fn below(&self) -> u32 {
        self.below
    }

    /// So many frames are needed, and pageblock `migrate` is the other scanner's.
    pub(super) fn prepare(&mut self, wanted: u32, migrate: u32) {
        (self.wanted, self.migrate) = (wanted, migrate);
    }

    pub(super) fn heed(&self) -> &Heed {
        &self.heed
    }

    pub(super) fn has_captured(&self) -> bool {
        self.captured.is_some()
    }

    pub(super) fn take_captured(&mut self) -> Option<(u32, Order)> {
        self.captured.take()
    }

    /// Gives back what was not needed; the highest pageblock of it.
    pub(super) fn give_back(&mut self) -> Option<u32> {
        let left = self.stash.as_slice().iter().filter(|bundle| bundle.heads != 0);
        let highest = left.map(|bundle| bundle.pageblock()).max();
        self.site.at.give_blocks(&mut self.stash);
        highest
    }

    /// Finds frames; whether there are any now.
    fn refill(&mut self) -> bool {
        self.stash.clear();
        let before = self.below;
        self.search();
        while self.stash.blocks() < self.wanted && self.below > self.migrate + 1 {
            let block = self.below - 1;
            if !self.sweep(block, Scanner::Free) {
                break;
            }
            self.below = block;
            self.site.hints.positions.lower_free(block << PAGEBLOCK_ORDER);
        }
        let found = !self.stash.is_empty();
        if !found && !self.repair.detect_meeting {
            // As it was: who finds nothing does not say how far he came.
            self.below = before;
        }
        found
    }

    /// A short look at the lists, for a pageblock near the end of the gap between the scanners.
    fn search(&mut self) {
        let Some(order) = self.goal.order else { return };
        let gap = self.below.saturating_sub(self.migrate);
        let min = self.site.at.zone.marks().without_huge_reserve(Watermark::Min);
        let enough = self.site.at.zone.free() > min + order.frames();
        if !self.shortcuts || self.goal.is_thorough() || gap < 4 || !enough {
            return;
        }
        let least = self.below - gap / 2;
        let entries = (ENTRIES >> self.misses.min(6)).div_ceil(2);
        let (below, skip) = (self.below, &self.site.hints.skip);
        let passes = |at: u32| (least..below).contains(&at) && !skip.is_set(at);
        let (zone, platform) = (self.site.at.zone, self.site.at.platform);
        self.heed.zone_lock(self.site);
        let (found, seen) = zone.with(platform, |buddy| {
            buddy.find_listed((0, order.get()), entries, passes, |at, before| at > before)
        });
        self.site.looked_at_headers(seen);
        match found {
            Some(block) => {
                self.misses = 0;
                self.sweep(block, Scanner::FastFree);
            }
            None => self.misses += 1,
        }
    }

    /// Takes what is needed from a pageblock; whether that was all it has, or it is none to take
    /// from.
    fn sweep(&mut self, block: u32, by: Scanner) -> bool {
        if self.site.at.zone.is_absent(block) {
            return true;
        }
        let thorough = self.goal.is_thorough();
        if !thorough && self.site.hints.skip.is_set(block) {
            return true;
        }
        self.heed.zone_lock(self.site);
        let held = contents(self.site, block);
        if !self.suits(&held) {
            return true;
        }
        let missing = self.wanted.saturating_sub(self.stash.blocks());
        let taken = self.site.at.take_blocks(&mut self.stash, |buddy, out| {
            buddy.take_in_pageblock(block, Order::ZERO, missing, out)
        });
        let swept = taken >= u32::from(held.free);
        let scanned = self.count(&held, taken, swept);
        let first = block << PAGEBLOCK_ORDER;
        let range = range(self.site, first, first + FRAMES);
        let taken = u64::from(taken);
        self.site.trace(|| CompactEvent::IsolatePages { by, range, scanned, taken });
        if swept && !thorough {
            self.site.hints.skip.set(block);
        }
        swept
    }

    /// Whether a pageblock is one to take from: movable, and without a block that is as large as the
    /// one wanted.
    fn suits(&self, held: &Contents) -> bool {
        let breaks = self.goal.order.is_some_and(|order| {
            held.largest.is_some_and(|has| has >= order.min(Order::PAGEBLOCK))
        });
        held.of == MigrateType::Movable && !breaks
    }

    /// Books what of a pageblock was looked at: up to the last frame that was taken.
    fn count(&self, held: &Contents, taken: u32, swept: bool) -> u64 {
        let strides = self.goal.is_async() && held.free == 0;
        let looked_at = match swept {
            true if strides => FRAMES / STRIDE,
            true => FRAMES,
            false => position_of(&held.map, taken),
        };
        let counters = &self.site.hints.counters;
        self.site.scanned_for_room(looked_at);
        counters.compact_isolated.add(u64::from(taken));
        u64::from(looked_at)
    }

    /// A larger block from the pageblocks that it has not come to.
    fn take_block(&self, order: Order) -> Option<u32> {
        let mut one = Bundles::new();
        for block in (self.migrate + 1..self.below).rev() {
            self.heed.zone_lock(self.site);
            let held = contents(self.site, block);
            if !self.suits(&held) || held.largest.is_none_or(|has| has < order) {
                continue;
            }
            let take = |buddy: &mut crate::buddy::Buddy<'m>, out: &mut Bundles| {
                buddy.take_in_pageblock(block, order, 1, out)
            };
            if self.site.at.take_blocks(&mut one, take) > 0 {
                return one.pop_lowest();
            }
        }
        None
    }
}

/// The number of the frame behind the first `count` free ones.
fn position_of(map: &[u64], count: u32) -> u32 {
    let mut left = count;
    for (i, word) in map.iter().enumerate() {
        if word.count_ones() >= left {
            let mut rest = *word;
            for _ in 1..left {
                rest &= rest - 1;
            }
            return 64 * i as u32 + rest.trailing_zeros().min(63) + 1;
        }
        left -= word.count_ones();
    }
    FRAMES
}

impl<P: Platform> Targets for FreeScanner<'_, '_, P> {
    fn take(&mut self, order: Order) -> Option<Pfn> {
        let frame = if order > Order::ZERO {
            self.take_block(order)?
        } else {
            if self.stash.is_empty() && !self.refill() {
                return None;
            }
            self.wanted = self.wanted.saturating_sub(1);
            self.stash.pop_lowest()?
        };
        Some(self.site.at.pfn(frame))
    }

    fn put(&mut self, pfn: Pfn, order: Order) {
        let frame = (pfn.get() - self.site.at.zone.base().get()) as u32;
        let kept = order == Order::ZERO && self.stash.push(Bundle::of(frame, order));
        if !kept {
            self.site.at.free_to_zone(frame, order);
        }
    }

    fn left(&mut self, pfn: Pfn, order: Order) {
        let frame = (pfn.get() - self.site.at.zone.base().get()) as u32;
        match self.goal.order {
            Some(wanted) if self.keeps && self.captured.is_none() && order <= wanted => {
                let formed = self.site.at.free_capturing(frame, order, wanted, self.goal.of);
                self.captured = formed.map(|frame| (frame, wanted));
            }
            _ => _ = self.site.at.free_to_zone(frame, order),
        }
    }
}

impl<P: Platform> Drop for FreeScanner<'_, '_, P> {
    fn drop(&mut self) {
        self.give_back();
        if let Some((frame, order)) = self.captured {
            self.site.at.free_to_zone(frame, order);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_looked_at_ends_behind_the_last_frame_taken() {
        let map = [0b1001_0000, 0, 1 << 63];
        assert_eq!(position_of(&map, 1), 5);
        assert_eq!(position_of(&map, 2), 8);
        assert_eq!(position_of(&map, 3), 192);
    }
}
