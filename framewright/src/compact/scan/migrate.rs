//! The migrate scanner: moves up through a zone and claims pages that can move.

use core::ops::Range;

use super::{CLUSTER, FRAMES, Isolated, Run};
use crate::{
    buddy::{Contents, WORDS},
    compact::evacuate::{contents, next_run, range, within},
    migrate::{ClaimEnd, Claims, MigrateMode},
    platform::{Platform, or_on_panic},
    types::{CompactEvent, MigrateType, Order, PAGEBLOCK_ORDER, Pfn, Scanner},
};

/// Frames that are claimed under one hold of the LRU lock in asynchronous mode.
const HOLD: u32 = 32;

/// List entries that a fast search examines. Failures reduce this number.
const ENTRIES: u32 = 32;

/// Fast searches are made for orders above this one only, and find no smaller blocks.
const SEARCHED_ORDER: u8 = 3;

impl<P: Platform> Run<'_, '_, '_, P> {
    /// Claims pages in the next pageblock that has some.
    pub(super) fn isolate(&mut self) -> Isolated {
        let chosen = self.fast_search();
        loop {
            let block = self.migrate >> PAGEBLOCK_ORDER;
            if self.belongs_to_free_scanner(block) {
                self.migrate = (block + 1) << PAGEBLOCK_ORDER;
                return Isolated::Pages(0);
            }
            let at_start = self.migrate.is_multiple_of(FRAMES);
            if self.ctx.on_cpu.zone.is_absent(block)
                || at_start && chosen != Some(block) && self.has_skip_hint(block)
            {
                self.next_block(block);
                continue;
            }
            self.contention.before_zone_lock(self.ctx);
            let held = contents(self.ctx, block);
            if !self.suits(&held) {
                self.ctx.hints.counters.scan_unsuitable.add(1);
                // Another run may want pages of this type, so there is no reason for a skip hint.
                if !self.repair.unmarked_types {
                    self.set_skip_hint(block);
                }
                self.next_block(block);
                self.advance(block);
                continue;
            }
            return self.isolate_in(block, &held);
        }
    }

    /// Whether a pageblock is the next one of the free scanner, or above it. Without the repair,
    /// the migrate scanner enters the free scanner's next pageblock, too, although there are no
    /// targets left for its pages.
    fn belongs_to_free_scanner(&self, block: u32) -> bool {
        block + u32::from(self.repair.detect_meeting) >= self.free.below()
    }

    fn has_skip_hint(&self, block: u32) -> bool {
        !self.goal.is_thorough() && self.ctx.hints.skip.is_set(block)
    }

    fn set_skip_hint(&self, block: u32) -> bool {
        !self.goal.is_thorough() && self.ctx.hints.skip.set(block)
    }

    /// Continues with the next pageblock.
    fn next_block(&mut self, block: u32) {
        self.migrate = (block + 1) << PAGEBLOCK_ORDER;
    }

    /// Lets later runs begin after a pageblock.
    fn advance(&self, block: u32) {
        let sync = !self.goal.is_async() || self.modes_agree;
        let at = (block + 1) << PAGEBLOCK_ORDER;
        if !self.goal.is_thorough() {
            self.ctx.hints.scan.positions.advance_migrate(at, sync);
        }
    }

    /// Whether pages may be claimed in a pageblock: in an asynchronous run for a request, only if
    /// it has the type of the request.
    fn suits(&self, held: &Contents) -> bool {
        let is_type =
            !(self.goal.is_async() && self.goal.is_direct()) || held.of == self.goal.migratetype;
        let excluded = matches!(held.of, MigrateType::Isolate | MigrateType::HighAtomic);
        is_type && !excluded
    }

    /// A fast search of the lists, for a largely free pageblock near the start of the gap between
    /// the scanners. The scanner continues there.
    fn fast_search(&mut self) -> Option<u32> {
        let order = self.goal.order?.get();
        let movable = !self.goal.is_direct() || self.goal.migratetype == MigrateType::Movable;
        let block = self.migrate >> PAGEBLOCK_ORDER;
        let at_start = self.migrate.is_multiple_of(FRAMES);
        if !self.shortcuts
            || order <= SEARCHED_ORDER
            || self.goal.is_thorough()
            || self.finishing
            || !at_start
            || !movable
        {
            return None;
        }
        let gap = self.free.below().saturating_sub(block);
        let near = block + if self.migrate == 0 { gap / 2 } else { gap / 8 };
        let entries = (ENTRIES >> self.failed_searches.min(6)) + 1;
        let skip = &self.ctx.hints.skip;
        let is_eligible = |at: u32| (block..near).contains(&at) && !skip.is_set(at);
        let (zone, platform) = (self.ctx.on_cpu.zone, self.ctx.on_cpu.platform);
        self.contention.before_zone_lock(self.ctx);
        let (found, seen) = zone.with(platform, |buddy| {
            buddy.find_listed((SEARCHED_ORDER, order), entries, is_eligible, |at, before| {
                at < before
            })
        });
        self.ctx.count_headers(seen);
        match found {
            Some(found) => {
                self.failed_searches = 0;
                self.migrate = found << PAGEBLOCK_ORDER;
            }
            None => self.failed_searches += 1,
        }
        found
    }

    /// Claims pages in one pageblock from the position of the scanner on: as many as allowed at
    /// once, or the pages of the first part that has any.
    fn isolate_in(&mut self, block: u32, held: &Contents) -> Isolated {
        let from = self.migrate;
        let end = (block + 1) << PAGEBLOCK_ORDER;
        let part = self.part();
        let mut count = 0;
        let mut scanned = 0;
        let mut at = from;
        while at < end && count < self.most() {
            let stop = ((at / part + 1) * part).min(end);
            let used = within(&held.used, at, stop);
            scanned += looked_at(&used, &within(&held.map, at, stop));
            let (ended, reached, claimed) = self.claim_part(&used, block, (at, stop), count);
            if claimed > 0 && !self.start_block(block) {
                self.compactor.abandon(count..count + claimed, &mut self.free);
                at = end;
                break;
            }
            if ended != ClaimEnd::Done {
                return self.abort(count + claimed, scanned);
            }
            let all_or_none = self.goal.is_async() && self.goal.is_direct();
            let all = self.frames(count, claimed) == frames_in(&within(&used, at, reached));
            if all_or_none && !all {
                // No block will form in this part, so its other pages stay.
                self.compactor.abandon(count..count + claimed, &mut self.free);
                at = stop;
                continue;
            }
            count += claimed;
            at = reached;
            if all_or_none && count > 0 && at == stop {
                break;
            }
        }
        self.migrate = at;
        if at == end && (count == 0 || self.finishing) {
            self.set_skip_hint(block);
            self.advance(block);
        }
        self.count_isolated(block, from, scanned, count);
        Isolated::Pages(count)
    }

    /// Claims pages in the runs of `used` within a part. Returns the reason for the end, its
    /// position, and the number of claimed pages.
    fn claim_part(
        &mut self,
        used: &[u64; WORDS],
        block: u32,
        (from, stop): (u32, u32),
        count: usize,
    ) -> (ClaimEnd, u32, usize) {
        let (mover, most) = (self.compactor.mover(), self.most());
        let (effort, ctx, lru) = (self.goal.effort, self.ctx, self.compactor.lru);
        let mut claims = Claims::new(&mut self.compactor.moves()[count..most]);
        let mut at = from;
        while let Some(Range { start: first, end: last }) = next_run(used, block, at) {
            let last = if effort.mode == MigrateMode::Async {
                self.contention.before_lru_lock(lru, ctx);
                last.min((first / HOLD + 1) * HOLD)
            } else {
                last
            };
            let ended = mover.claim(range(ctx, first, last), &effort, &mut claims);
            if ended != ClaimEnd::Done {
                return (ended, first, claims.len());
            }
            if claims.is_full() {
                let zone_relative = |pfn: Pfn| (pfn.get() - ctx.on_cpu.zone.base().get()) as u32;
                let reached = claims.last_end().map_or(last, zone_relative);
                return (ended, reached.clamp(first + 1, stop), claims.len());
            }
            at = last;
        }
        (ClaimEnd::Done, stop, claims.len())
    }

    /// Sets the skip hint of a pageblock whose first pages were claimed. Returns `false` if another
    /// run had set it, so that this run leaves the pageblock to the other one.
    fn start_block(&mut self, block: u32) -> bool {
        if self.started_block == Some(block) {
            return true;
        }
        self.started_block = Some(block);
        self.modes_agree = false;
        let inside = !self.migrate.is_multiple_of(FRAMES);
        !self.set_skip_hint(block) || self.finishing || inside
    }

    /// Ends the run because of contention. No claimed page moves.
    fn abort(&mut self, count: usize, scanned: u64) -> Isolated {
        self.ctx.count_page_scan(scanned);
        self.compactor.abandon(0..count, &mut self.free);
        Isolated::Abort
    }

    fn count_isolated(&mut self, block: u32, from: u32, scanned: u64, count: usize) {
        let counters = &self.ctx.hints.counters;
        self.ctx.count_page_scan(scanned);
        if count > 0 {
            self.last = Some(self.migrate);
        }
        let taken = self.frames(0, count);
        counters.compact_isolated.add(u64::from(taken));
        let range = range(self.ctx, from, self.migrate.max(from));
        debug_assert!(from >> PAGEBLOCK_ORDER == block);
        let (by, taken) = (Scanner::Migrate, taken.into());
        let ctx = self.ctx;
        let event = || CompactEvent::IsolatePages { by, range, scanned, taken };
        let end_claims = || self.compactor.abandon(0..count, &mut self.free);
        or_on_panic(|| ctx.trace(event), end_claims);
    }

    /// Number of pages that may be claimed at once.
    fn most(&mut self) -> usize {
        let capacity = self.compactor.moves().len();
        let all = self.finishing || self.contention.has_seen_contention();
        if all { capacity } else { capacity.min(CLUSTER) }
    }

    /// Size in frames of the parts that are scanned. In an asynchronous run for a request, all
    /// pages of a part move or none.
    fn part(&self) -> u32 {
        match self.goal.order {
            Some(order) if self.goal.is_async() && self.goal.is_direct() => {
                order.min(Order::PAGEBLOCK).frames() as u32
            }
            _ => FRAMES,
        }
    }

    /// Number of frames of some of the claimed pages.
    fn frames(&mut self, first: usize, count: usize) -> u32 {
        let moves = &self.compactor.moves()[first..first + count];
        moves.iter().map(|at| at.order().frames() as u32).sum()
    }
}

fn frames_in(map: &[u64; WORDS]) -> u32 {
    map.iter().map(|word| word.count_ones()).sum()
}

/// Number of steps to scan some frames: one for each allocated frame, one for each run of free
/// frames.
fn looked_at(used: &[u64; WORDS], free: &[u64; WORDS]) -> u64 {
    let mut before = 0;
    let mut runs = 0;
    for word in free {
        runs += (word & !(word << 1 | before)).count_ones();
        before = word >> 63;
    }
    u64::from(frames_in(used) + runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_blocks_are_one_step_each() {
        let (mut used, mut free) = ([0; WORDS], [0; WORDS]);
        used[0] = 0b1001;
        free[0] = !0b1001;
        free[1] = 0b11;
        used[1] = 0b100;
        assert_eq!(looked_at(&used, &free), 3 + 2);
    }
}
