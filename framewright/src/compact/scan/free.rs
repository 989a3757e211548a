//! The free scanner: moves down through a zone and takes free frames from movable pageblocks.
//!
//! The scanner also frees the frames that pages have left. If a request waits for the block that
//! such a free completes, the scanner captures the block.

use super::{FRAMES, Goal, contention::ContentionProbe};
use crate::{
    buddy::{Bundle, Bundles, Contents},
    compact::{
        compactor::ZoneContext,
        evacuate::{contents, range},
    },
    migrate::Targets,
    platform::Platform,
    tuning::{CompactRepairs, CompactTuning},
    types::{CompactEvent, MigrateType, Order, PAGEBLOCK_ORDER, Pfn, Scanner, Watermark},
};

/// Twice the number of list entries that a fast search examines. Failures reduce this number.
const ENTRIES: u32 = 32;

/// In asynchronous mode, only one in this many frames is scanned while none is free.
const STRIDE: u32 = 32;

/// The free scanner of one run.
pub(super) struct FreeScanner<'s, 'm, P: Platform> {
    ctx: ZoneContext<'s, 'm, P>,
    goal: Goal,
    repair: CompactRepairs,
    shortcuts: bool,
    /// The next pageblock to scan is the one below this.
    below: u32,
    /// The pageblock of the migrate scanner, which the free scanner does not enter.
    migrate: u32,
    /// Frames that are still needed.
    wanted: u32,
    /// Contention for the zone lock.
    contention: ContentionProbe,
    /// Free frames that were taken and not used yet.
    stash: Bundles,
    /// Fast searches in a row that found nothing.
    failed_searches: u32,
    /// Whether a request waits for the block that forms.
    captures: bool,
    /// The block that has formed for the request.
    captured: Option<(u32, Order)>,
}

impl<'s, 'm, P: Platform> FreeScanner<'s, 'm, P> {
    pub(super) fn new(
        ctx: ZoneContext<'s, 'm, P>,
        goal: Goal,
        tuning: &CompactTuning,
        below: u32,
        captures: bool,
    ) -> Self {
        let CompactTuning { repair, shortcuts, .. } = *tuning;
        Self {
            ctx,
            goal,
            repair,
            shortcuts,
            below,
            migrate: 0,
            wanted: 0,
            contention: ContentionProbe::new(&goal),
            stash: Bundles::new(),
            failed_searches: 0,
            captures,
            captured: None,
        }
    }

    /// The pageblock above the one that is scanned next.
    pub(super) fn below(&self) -> u32 {
        self.below
    }

    /// Prepares for `wanted` target frames, while the migrate scanner is in pageblock `migrate`.
    pub(super) fn prepare(&mut self, wanted: u32, migrate: u32) {
        (self.wanted, self.migrate) = (wanted, migrate);
    }

    pub(super) fn contention(&self) -> &ContentionProbe {
        &self.contention
    }

    pub(super) fn has_captured(&self) -> bool {
        self.captured.is_some()
    }

    pub(super) fn take_captured(&mut self) -> Option<(u32, Order)> {
        self.captured.take()
    }

    /// Gives frames that were not needed back to the zone. Returns the highest pageblock with such
    /// frames.
    pub(super) fn give_back(&mut self) -> Option<u32> {
        let left = self.stash.as_slice().iter().filter(|bundle| bundle.heads != 0);
        let highest = left.map(|bundle| bundle.pageblock()).max();
        self.ctx.on_cpu.give_blocks(&mut self.stash);
        highest
    }

    /// Takes free frames. Returns whether there are any now.
    fn refill(&mut self) -> bool {
        self.stash.clear();
        let before = self.below;
        self.fast_search();
        while self.stash.blocks() < self.wanted && self.below > self.migrate + 1 {
            let block = self.below - 1;
            if !self.isolate_from(block, Scanner::Free) {
                break;
            }
            self.below = block;
            self.ctx.hints.scan.positions.lower_free(block << PAGEBLOCK_ORDER);
        }
        let found = !self.stash.is_empty();
        if !found {
            self.ctx.hints.counters.scan_without_targets.add(1);
        }
        if !found && !self.repair.detect_meeting {
            // Without this repair, a scanner that finds nothing does not record its position.
            self.below = before;
        }
        found
    }

    /// A fast search of the lists, for a pageblock near the end of the gap between the scanners.
    fn fast_search(&mut self) {
        let Some(order) = self.goal.order else { return };
        let gap = self.below.saturating_sub(self.migrate);
        let min = self.ctx.on_cpu.zone.marks().without_huge_reserve(Watermark::Min);
        let enough = self.ctx.on_cpu.zone.free() > min + order.frames();
        if !self.shortcuts || self.goal.is_thorough() || gap < 4 || !enough {
            return;
        }
        let least = self.below - gap / 2;
        let entries = (ENTRIES >> self.failed_searches.min(6)).div_ceil(2);
        let (below, skip) = (self.below, &self.ctx.hints.skip);
        let is_eligible = |at: u32| (least..below).contains(&at) && !skip.is_set(at);
        let (zone, platform) = (self.ctx.on_cpu.zone, self.ctx.on_cpu.platform);
        self.contention.before_zone_lock(self.ctx);
        let (found, seen) = zone.with(platform, |buddy| {
            buddy.find_listed((0, order.get()), entries, is_eligible, |at, before| at > before)
        });
        self.ctx.count_headers(seen);
        match found {
            Some(block) => {
                self.failed_searches = 0;
                self.isolate_from(block, Scanner::FastFree);
            }
            None => self.failed_searches += 1,
        }
    }

    /// Takes the frames that are needed from a pageblock. Returns whether the pageblock has no
    /// more, or is not suitable.
    fn isolate_from(&mut self, block: u32, by: Scanner) -> bool {
        if self.ctx.on_cpu.zone.is_absent(block) {
            return true;
        }
        let thorough = self.goal.is_thorough();
        if !thorough && self.ctx.hints.skip.is_set(block) {
            return true;
        }
        self.contention.before_zone_lock(self.ctx);
        let held = contents(self.ctx, block);
        if !self.suits(&held) {
            return true;
        }
        let missing = self.wanted.saturating_sub(self.stash.blocks());
        let taken = self.ctx.on_cpu.take_blocks(&mut self.stash, |buddy, out| {
            buddy.take_in_pageblock(block, Order::ZERO, missing, out)
        });
        let is_exhausted = taken >= u32::from(held.free);
        let scanned = self.count(&held, taken, is_exhausted);
        let first = block << PAGEBLOCK_ORDER;
        let range = range(self.ctx, first, first + FRAMES);
        let taken = u64::from(taken);
        self.ctx.trace(|| CompactEvent::IsolatePages { by, range, scanned, taken });
        if is_exhausted && !thorough {
            self.ctx.hints.skip.set(block);
        }
        is_exhausted
    }

    /// Whether frames may be taken from a pageblock: it is movable, and has no free block as large
    /// as the wanted one.
    fn suits(&self, held: &Contents) -> bool {
        let breaks = self.goal.order.is_some_and(|order| {
            held.largest.is_some_and(|has| has >= order.min(Order::PAGEBLOCK))
        });
        held.of == MigrateType::Movable && !breaks
    }

    /// Counts the scanned frames of a pageblock, up to the last taken frame.
    fn count(&self, held: &Contents, taken: u32, is_exhausted: bool) -> u64 {
        let strides = self.goal.is_async() && held.free == 0;
        let looked_at = match is_exhausted {
            true if strides => FRAMES / STRIDE,
            true => FRAMES,
            false => position_of(&held.map, taken),
        };
        let counters = &self.ctx.hints.counters;
        self.ctx.count_free_scan(looked_at);
        counters.compact_isolated.add(u64::from(taken));
        u64::from(looked_at)
    }

    /// Takes a larger block from a pageblock that the scanner has not reached yet.
    fn take_block(&self, order: Order) -> Option<u32> {
        let mut one = Bundles::new();
        for block in (self.migrate + 1..self.below).rev() {
            self.contention.before_zone_lock(self.ctx);
            let held = contents(self.ctx, block);
            if !self.suits(&held) || held.largest.is_none_or(|has| has < order) {
                continue;
            }
            let take = |buddy: &mut crate::buddy::Buddy<'m>, out: &mut Bundles| {
                buddy.take_in_pageblock(block, order, 1, out)
            };
            if self.ctx.on_cpu.take_blocks(&mut one, take) > 0 {
                return one.pop_lowest();
            }
        }
        None
    }
}

/// The position after the `count`-th free frame.
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
        Some(self.ctx.on_cpu.pfn(frame))
    }

    fn put_back(&mut self, pfn: Pfn, order: Order) {
        let frame = (pfn.get() - self.ctx.on_cpu.zone.base().get()) as u32;
        let kept = order == Order::ZERO && self.stash.push(Bundle::of(frame, order)).is_some();
        if !kept {
            self.ctx.on_cpu.free_to_zone(frame, order);
        }
    }

    fn free_source(&mut self, pfn: Pfn, order: Order) {
        let frame = (pfn.get() - self.ctx.on_cpu.zone.base().get()) as u32;
        match self.goal.order {
            Some(wanted) if self.captures && self.captured.is_none() && order <= wanted => {
                let formed =
                    self.ctx.on_cpu.free_capturing(frame, order, wanted, self.goal.migratetype);
                self.captured = formed.map(|frame| (frame, wanted));
            }
            _ => _ = self.ctx.on_cpu.free_to_zone(frame, order),
        }
    }
}

impl<P: Platform> Drop for FreeScanner<'_, '_, P> {
    fn drop(&mut self) {
        self.give_back();
        if let Some((frame, order)) = self.captured {
            self.ctx.on_cpu.free_to_zone(frame, order);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scanned_frames_end_after_the_last_taken_frame() {
        let map = [0b1001_0000, 0, 1 << 63];
        assert_eq!(position_of(&map, 1), 5);
        assert_eq!(position_of(&map, 2), 8);
        assert_eq!(position_of(&map, 3), 192);
    }
}
