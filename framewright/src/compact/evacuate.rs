//! Empties a range of frames of a zone by moving its pages to other frames. The pageblocks of the
//! range are isolated, so that its free frames stay free.

use core::ops::Range;

use super::{Compactor, compactor::ZoneContext};
use crate::{
    buddy::{Contents, WORDS},
    migrate::{ClaimEnd, Claims, Effort, MigrateMode, Move, Targets},
    platform::{MOVES_PER_DRAIN, Platform, or_on_panic},
    types::{CompactEvent, FrameRange, PAGEBLOCK_FRAMES, PAGEBLOCK_ORDER, Pfn, Scanner},
    zone::{clip, pageblocks},
};

/// Rounds over a range. Later rounds move pages that were busy, or were allocated during the first
/// round.
const ROUNDS: u32 = 3;

/// Frames of one claim with `all_or_none`. The first page that cannot be claimed ends the attempt,
/// so a larger claim would often be useless.
const ALL_OR_NONE_CLAIM: u32 = 32;

/// The number of scanned frames that cost as much as one page move.
const SCANNED_PER_MOVE: u64 = 8;

/// The cost of one flush, as a number of page moves.
pub(super) const MOVES_PER_FLUSH: u64 = 16;

/// Cost of moving `pages` pages in one batch, in units of one page move.
pub(super) const fn work_of(pages: u64) -> u64 {
    pages + pages / SCANNED_PER_MOVE + MOVES_PER_FLUSH
}

/// Result of emptying a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Evacuated {
    /// Frames that are still allocated.
    pub(super) left: u64,
    /// Frames whose pages moved, or were freed by their owners meanwhile.
    pub(super) moved: u64,
    /// Frames that were scanned for pages to claim.
    pub(super) scanned: u64,
    /// Batches that moved, each with a flush.
    batches: u64,
    /// Whether free frames from CPU lists, the depot and deferred frees were returned to the zone.
    pub(super) drained_lists: bool,
    /// The reason why the attempt ended early; `None` if it did not.
    pub(super) early_end: Option<EarlyEnd>,
}

impl Evacuated {
    /// The cost, in units of one page move.
    pub(super) fn work(&self) -> u64 {
        self.moved + self.scanned.div_ceil(SCANNED_PER_MOVE) + self.batches * MOVES_PER_FLUSH
    }

    /// Adds the work of both results. The frames left and the reason for an early end are those of
    /// the later result `next`.
    pub(super) fn and_then(self, next: Self) -> Self {
        Self {
            moved: self.moved + next.moved,
            scanned: self.scanned + next.scanned,
            batches: self.batches + next.batches,
            drained_lists: self.drained_lists || next.drained_lists,
            ..next
        }
    }
}

/// The reason why emptying a range ended early.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum EarlyEnd {
    /// There are no target frames.
    NoTargets,
    /// Another CPU holds a lock that the claim needs, or too many pages are isolated already.
    Contended,
    /// The budget is spent.
    BudgetSpent,
}

/// Options for emptying a range.
#[derive(Clone, Copy, Debug)]
pub(super) struct EvacuationOptions {
    pub(super) effort: Effort,
    /// Pages move only if all pages can be claimed: in one batch, or one batch after the other if
    /// the workspace is too small for all.
    pub(super) all_or_none: bool,
    /// If frames of the range remain allocated, free frames on CPU lists, in the depot and in
    /// deferred frees are returned to the zone, at most once.
    pub(super) may_drain: bool,
    /// The budget, in units of one page move. It may be exceeded slightly.
    pub(super) budget: u64,
    /// Whether a part of the range is emptied if the budget does not cover all of it. A later
    /// request continues.
    pub(super) may_be_partial: bool,
}

impl<'c, 'm, P: Platform> Compactor<'c, 'm, P> {
    /// Empties some frames of the zone as far as the mover can move their pages.
    pub(super) fn evacuate(
        &mut self,
        ctx: ZoneContext<'c, 'm, P>,
        frames: Range<u32>,
        options: EvacuationOptions,
        targets: &mut dyn Targets,
    ) -> Evacuated {
        let mut state =
            EvacuationState { ctx, frames, options, count: 0, result: Evacuated::default() };
        for _ in 0..ROUNDS {
            let before = state.result.moved;
            self.round(&mut state, targets);
            targets.finish_frees();
            state.result.left = used_in(ctx, &state.frames);
            if state.result.left == 0 || state.result.early_end.is_some() {
                break;
            }
            if state.options.may_drain && self.has_undrained(ctx) {
                // Free frames on CPU lists, in the depot, or waiting for a flush look allocated,
                // but contain no page to claim. While pageblocks are isolated, the depot takes no
                // more frames.
                self.drain_to_zone(ctx, &mut state.options);
                targets.after_drain();
                state.result.drained_lists = true;
                state.result.left = used_in(ctx, &state.frames);
            } else if state.result.moved == before {
                break;
            }
            if state.result.work() >= state.options.budget {
                // The remaining pages may be movable: only the budget is spent.
                state.result.early_end = Some(EarlyEnd::BudgetSpent);
            }
            if state.result.left == 0 || state.result.early_end.is_some() {
                break;
            }
        }
        state.result
    }

    /// Whether the zone's buddy allocator may lack some free frames, because frames of some zone are
    /// on CPU lists or waiting for a flush, or frames of this zone are in the depot.
    pub(super) fn has_undrained(&self, ctx: ZoneContext<'c, 'm, P>) -> bool {
        let memory = self.memory;
        memory.held_by_cpus() > 0 || ctx.on_cpu.zone.in_depot() > 0 || self.tlb.deferred() > 0
    }

    /// Returns free frames from CPU lists, the depot and deferred frees to the zone. This is done
    /// once, and is charged to the budget before anything else moves. Asynchronous compaction does
    /// not interrupt CPUs for deferred frames, because each pageblock that cannot be emptied would
    /// cause a flush of all CPUs.
    pub(super) fn drain_to_zone(
        &self,
        ctx: ZoneContext<'c, 'm, P>,
        options: &mut EvacuationOptions,
    ) {
        options.may_drain = false;
        options.budget = options.budget.saturating_sub(MOVES_PER_DRAIN);
        let (memory, flusher) = (self.memory, self.flusher());
        let free = &mut |frames: &[Pfn]| memory.free_frames_to_zones(self.cpu, frames);
        match options.effort.mode {
            MigrateMode::Async => flusher.drain_flushed_frames(free),
            _ => flusher.drain_deferred_frames(free),
        };
        memory.drain_every_cpu(ctx.id);
    }

    /// Claims and moves all pages once. With `all_or_none`, if the pages do not fit into one batch,
    /// a first pass only checks that all of them can be claimed, and a second pass moves them.
    fn round(&mut self, state: &mut EvacuationState<'c, 'm, P>, targets: &mut dyn Targets) {
        let mut check_only = state.options.all_or_none;
        while self.pass(state, check_only, targets) {
            check_only = false;
        }
    }

    /// Claims all pages, one batch after the other, and moves each batch. With `check_only`, pages
    /// move only if all of them fit into one batch. Returns `true` if all pages could be claimed
    /// but need more batches, so that none moved: then a pass without `check_only` has to follow.
    fn pass(
        &mut self,
        state: &mut EvacuationState<'c, 'm, P>,
        check_only: bool,
        targets: &mut dyn Targets,
    ) -> bool {
        let (mut unclaimed, mut exceeds_batch) = (0, false);
        'all: for block in pageblocks(state.frames.start, state.frames.end) {
            let (first, last) = clip(block, state.frames.start, state.frames.end);
            let used = within(&contents(state.ctx, block).used, first, last);
            let mut at = first;
            while let Some(run) = next_run(&used, block, at) {
                if self.moves().len() == state.count {
                    exceeds_batch = check_only;
                    self.end_batch(state, check_only, targets);
                }
                if state.result.early_end.is_none() {
                    let claimed = self.claim_run(state, run.clone(), targets);
                    at = claimed.reached;
                    unclaimed += u64::from(at - run.start).saturating_sub(claimed.frames);
                }
                if state.result.early_end.is_some() || state.options.all_or_none && unclaimed > 0 {
                    break 'all;
                }
            }
        }
        let release_claims = state.options.all_or_none && unclaimed > 0;
        self.end_batch(state, release_claims || exceeds_batch, targets);
        exceeds_batch && !release_claims && state.result.early_end.is_none()
    }

    /// Moves the claimed pages, or only ends their claims if `release_claims` is set.
    fn end_batch(
        &mut self,
        state: &mut EvacuationState<'c, 'm, P>,
        release_claims: bool,
        targets: &mut dyn Targets,
    ) {
        if release_claims {
            let count = core::mem::take(&mut state.count);
            self.abandon(0..count, targets);
        } else {
            self.move_claimed(state, targets);
        }
    }

    /// Claims the pages in a run of frames, as many as fit, and appends them to the claimed pages.
    fn claim_run(
        &mut self,
        state: &mut EvacuationState<'c, 'm, P>,
        run: Range<u32>,
        targets: &mut dyn Targets,
    ) -> ClaimedRun {
        let Range { start: from, end: to } = run;
        let mover = self.mover();
        let stop = if state.options.all_or_none { to.min(from + ALL_OR_NONE_CLAIM) } else { to };
        let range = range(state.ctx, from, stop);
        let mut claims = Claims::new(&mut self.moves()[state.count..]);
        let ended = mover.claim(range, &state.options.effort, &mut claims);
        if ended != ClaimEnd::Done {
            state.result.early_end = Some(EarlyEnd::Contended);
        }
        let zone_relative = |pfn: Pfn| (pfn.get() - state.ctx.on_cpu.zone.base().get()) as u32;
        let is_full = claims.is_full();
        let last = claims.last_end().map_or(stop, zone_relative);
        // The last page may extend beyond the claimed frames.
        let reached = if is_full { last } else { last.max(stop) }.clamp(from + 1, to);
        let (first, claimed) = (state.count, claims.len());
        state.count += claimed;
        let claimed = self.moves()[first..first + claimed].iter();
        let frames = claimed.map(|at| at.order().frames()).sum();
        let (ctx, count) = (state.ctx, state.count);
        let event = || CompactEvent::IsolatePages {
            by: Scanner::Migrate,
            range: self::range(ctx, from, reached),
            scanned: u64::from(reached - from),
            taken: frames,
        };
        or_on_panic(|| ctx.trace(event), || self.abandon(0..count, targets));
        state.ctx.hints.counters.compact_migrate_scanned.add(u64::from(reached - from));
        state.result.scanned += u64::from(reached - from);
        ClaimedRun { reached, frames }
    }

    /// Ends the claims on pages that the budget does not cover, but keeps at least one. Returns the
    /// number of claims kept.
    fn trim_to_budget(
        &mut self,
        state: &mut EvacuationState<'c, 'm, P>,
        targets: &mut dyn Targets,
    ) -> usize {
        let claimed = core::mem::take(&mut state.count);
        let mut left = state.options.budget.saturating_sub(state.result.work() + MOVES_PER_FLUSH);
        let fits_budget = |at: &&Move| {
            let fits_budget = left > 0;
            left = left.saturating_sub(at.order().frames());
            fits_budget
        };
        let kept =
            self.moves()[..claimed].iter().take_while(fits_budget).count().max(claimed.min(1));
        if kept < claimed {
            self.abandon(kept..claimed, targets);
            state.result.early_end = Some(EarlyEnd::BudgetSpent);
        }
        kept
    }

    fn move_claimed(&mut self, state: &mut EvacuationState<'c, 'm, P>, targets: &mut dyn Targets) {
        // Without `may_be_partial`, a range is only started if the budget covers all of it.
        let claimed = match state.options.may_be_partial {
            true => self.trim_to_budget(state, targets),
            false => core::mem::take(&mut state.count),
        };
        if claimed == 0 {
            return;
        }
        let moved = self.migrate(state.ctx, claimed, &state.options.effort, targets);
        let all = moved.moved + moved.gone + moved.failed;
        state.ctx.hints.counters.compact_isolated.add(all);
        state.result.moved += moved.moved + moved.gone;
        state.result.batches += 1;
        if moved.lacked_targets {
            state.result.early_end = Some(EarlyEnd::NoTargets);
        }
    }
}

/// State of emptying one range.
struct EvacuationState<'s, 'm, P: Platform> {
    ctx: ZoneContext<'s, 'm, P>,
    frames: Range<u32>,
    options: EvacuationOptions,
    /// Number of pages that are claimed.
    count: usize,
    result: Evacuated,
}

/// Result of claiming pages in a run of allocated frames.
struct ClaimedRun {
    /// The end of the frames that were scanned.
    reached: u32,
    /// Frames of the pages that were claimed.
    frames: u64,
}

/// The contents of a pageblock now.
pub(super) fn contents<P: Platform>(ctx: ZoneContext<'_, '_, P>, block: u32) -> Contents {
    ctx.hints.counters.compact_headers_scanned.add(1);
    ctx.on_cpu.zone.contents(ctx.on_cpu.platform, block)
}

/// The number of allocated frames among `frames`.
pub(super) fn used_in<P: Platform>(ctx: ZoneContext<'_, '_, P>, frames: &Range<u32>) -> u64 {
    let used = |block| {
        let (first, last) = clip(block, frames.start, frames.end);
        let used = within(&contents(ctx, block).used, first, last);
        used.iter().map(|word| u64::from(word.count_ones())).sum::<u64>()
    };
    pageblocks(frames.start, frames.end).map(used).sum()
}

/// The physical range of frames `from` to `to` of a zone.
pub(super) fn range<P: Platform>(ctx: ZoneContext<'_, '_, P>, from: u32, to: u32) -> FrameRange {
    let zone = ctx.on_cpu.zone;
    FrameRange::new(zone.pfn(from), zone.pfn(to)).unwrap_or(FrameRange::EMPTY)
}

/// The bits of a pageblock's map for frames `first` to `last`, which lie in it. All other bits are
/// 0.
pub(super) fn within(map: &[u64; WORDS], first: u32, last: u32) -> [u64; WORDS] {
    let mut kept = [0; WORDS];
    for (i, word) in kept.iter_mut().enumerate() {
        let start = (first & !(PAGEBLOCK_FRAMES as u32 - 1)) + 64 * i as u32;
        let low = first.saturating_sub(start);
        let high = last.saturating_sub(start).min(64);
        if low < high {
            *word = map[i] & (!0 << low) & (!0 >> (64 - high));
        }
    }
    kept
}

/// The first run of set bits at or after frame `at` in the map of pageblock `block`, as frames of
/// the zone.
pub(super) fn next_run(map: &[u64; WORDS], block: u32, at: u32) -> Option<Range<u32>> {
    let first = block << PAGEBLOCK_ORDER;
    let from = find(map, at.checked_sub(first)?, true)?;
    let to = find(map, from, false).unwrap_or(PAGEBLOCK_FRAMES as u32);
    Some(first + from..first + to)
}

/// The first bit at or after `from` that equals `set`.
fn find(map: &[u64; WORDS], from: u32, set: bool) -> Option<u32> {
    let mut at = from;
    while at < PAGEBLOCK_FRAMES as u32 {
        let word = if set { map[at as usize / 64] } else { !map[at as usize / 64] } >> (at % 64);
        if word != 0 {
            return Some(at + word.trailing_zeros());
        }
        at = (at | 63) + 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_set_bits_are_found() {
        let mut map = [0u64; WORDS];
        map[0] = 0b1_0110;
        map[1] = 1 << 63;
        map[2] = 0b11;
        map[7] = 1 << 63;
        let mut at = 512;
        let mut runs = std::vec::Vec::new();
        while let Some(run) = next_run(&map, 1, at) {
            at = run.end;
            runs.push(run);
        }
        assert_eq!(runs, [513..515, 516..517, 639..642, 1023..1024]);
    }

    #[test]
    fn a_map_is_clipped_to_a_range_of_frames() {
        let kept = within(&[!0; WORDS], 512 + 3, 512 + 130);
        assert_eq!(kept[..3], [!0 << 3, !0, 0b11]);
        assert_eq!(kept[3..], [0; 5]);
        assert_eq!(within(&[!0; WORDS], 0, 512), [!0; WORDS]);
    }
}
