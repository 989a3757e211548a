//! Moves what is in a stretch of a zone elsewhere. The stretch is withheld, so that what becomes free
//! in it stays free.

use super::{Compactor, compactor::ZoneContext};
use crate::{
    buddy::{Contents, WORDS},
    migrate::{ClaimEnd, Claims, Effort, MigrateMode, Move, Targets},
    platform::{MOVES_PER_DRAIN, Platform},
    types::{CompactEvent, FrameRange, PAGEBLOCK_FRAMES, PAGEBLOCK_ORDER, Pfn, Scanner},
    zone::{clip, pageblocks},
};

/// Rounds over a stretch: what was busy, or allocated while the first went on, has another chance.
const ROUNDS: u32 = 3;

/// Frames that are claimed at once where one that cannot be claimed ends it.
const ALL_OR_NONE_CLAIM: u32 = 32;

/// Pages that are asked for in the time that one takes to move.
const SCANNED_PER_MOVE: u64 = 8;

/// Pages that move in the time that it takes to flush.
pub(super) const MOVES_PER_FLUSH: u64 = 16;

/// What it takes to move `pages` pages at once, in moves.
pub(super) const fn work_of(pages: u64) -> u64 {
    pages + pages / SCANNED_PER_MOVE + MOVES_PER_FLUSH
}

/// What became of a stretch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Evacuated {
    /// Frames that are still allocated.
    pub(super) left: u64,
    /// Frames whose pages moved, or went by themselves.
    pub(super) moved: u64,
    /// Frames that were looked at for pages to claim.
    pub(super) scanned: u64,
    /// Batches that moved, each with a flush.
    batches: u64,
    /// What lay elsewhere was brought home.
    pub(super) drained_lists: bool,
    /// Why it ended before everything was tried, if it did.
    pub(super) early_end: Option<EarlyEnd>,
}

impl Evacuated {
    /// What it took, in moves.
    pub(super) fn work(&self) -> u64 {
        self.moved + self.scanned.div_ceil(SCANNED_PER_MOVE) + self.batches * MOVES_PER_FLUSH
    }

    /// The same and what came after it, together.
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

/// Why moving ends early.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum EarlyEnd {
    /// There is nothing to move to.
    NoTargets,
    /// Somebody has what has to be had first, or pages enough are claimed already.
    Contended,
    /// It has taken all that it may.
    BudgetSpent,
}

/// How a stretch is emptied.
#[derive(Clone, Copy, Debug)]
pub(super) struct EvacuationOptions {
    pub(super) effort: Effort,
    /// Nothing moves unless all of it can be claimed: at once, or part by part where the workspace is too small.
    pub(super) all_or_none: bool,
    /// What is free and lies elsewhere than in the zone may be brought home, if anything is left.
    pub(super) may_drain: bool,
    /// It takes so many moves, or few more: then it ends.
    pub(super) budget: u64,
    /// It is begun even if that will not do, and goes on another time.
    pub(super) may_be_partial: bool,
}

impl<'c, 'm, P: Platform> Compactor<'c, 'm, P> {
    /// Empties frames `start` to `end` as far as the embedder moves what is in them.
    pub(super) fn evacuate(
        &mut self,
        ctx: ZoneContext<'c, 'm, P>,
        (start, end): (u32, u32),
        options: EvacuationOptions,
        targets: &mut dyn Targets,
    ) -> Evacuated {
        let mut state =
            EvacuationState { ctx, start, end, options, count: 0, result: Evacuated::default() };
        for _ in 0..ROUNDS {
            let before = state.result.moved;
            self.round(&mut state, targets);
            targets.finish_frees();
            state.result.left = used_in(ctx, start, end);
            if state.result.left == 0 || state.result.early_end.is_some() {
                break;
            }
            if state.options.may_drain && self.has_undrained(ctx) {
                // What lies on the lists of CPUs, in the depot, or parked behind a flush looks
                // allocated, and nobody claims it. While the stretch is withheld the depot takes in
                // nothing more.
                self.drain_to_zone(ctx, &mut state.options);
                targets.after_drain();
                state.result.drained_lists = true;
                state.result.left = used_in(ctx, start, end);
            } else if state.result.moved == before {
                break;
            }
            if state.result.work() >= state.options.budget {
                // What is left was not tried in vain.
                state.result.early_end = Some(EarlyEnd::BudgetSpent);
            }
            if state.result.left == 0 || state.result.early_end.is_some() {
                break;
            }
        }
        state.result
    }

    /// Whether frames that are free lie elsewhere than in the zone.
    pub(super) fn has_undrained(&self, ctx: ZoneContext<'c, 'm, P>) -> bool {
        let memory = self.memory;
        memory.held_by_cpus() > 0 || ctx.on_cpu.zone.in_depot() > 0 || memory.tlb().parked() > 0
    }

    /// Has it given back to the zone, once; it is paid for before anything else moves. Who does not wait
    /// interrupts no CPU for it, which would be one flush of everybody for each pageblock that cannot be
    /// emptied.
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
            MigrateMode::Async => flusher.release_settled(free),
            _ => flusher.unpark_all_frames(free),
        };
        memory.drain_every_cpu(ctx.id);
    }

    /// Claims and moves everything once. Where it is all or nothing, what cannot be claimed at once is looked
    /// at to its end before any of it moves.
    fn round(&mut self, state: &mut EvacuationState<'c, 'm, P>, targets: &mut dyn Targets) {
        let mut check_only = state.options.all_or_none;
        while self.pass(state, check_only, targets) {
            check_only = false;
        }
    }

    /// Claims everything, a batch after the other, and moves each; who only `looks` moves it if it is one.
    /// Whether it is more, and could be claimed.
    fn pass(
        &mut self,
        state: &mut EvacuationState<'c, 'm, P>,
        check_only: bool,
        targets: &mut dyn Targets,
    ) -> bool {
        let (mut unclaimed, mut exceeds_batch) = (0, false);
        'all: for block in pageblocks(state.start, state.end) {
            let (first, last) = clip(block, state.start, state.end);
            let used = within(&contents(state.ctx, block).used, first, last);
            let mut at = first;
            while let Some((from, to)) = next_run(&used, block, at) {
                if self.moves().len() == state.count {
                    exceeds_batch = check_only;
                    self.end_batch(state, check_only, targets);
                }
                if state.result.early_end.is_none() {
                    let claimed = self.claim_run(state, from, to);
                    at = claimed.reached;
                    unclaimed += u64::from(at - from).saturating_sub(claimed.frames);
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

    /// Moves what is claimed, unless it `stays`.
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

    /// Claims pages in frames `from` to `to`, or the first of these, behind those that are claimed
    /// already.
    fn claim_run(
        &mut self,
        state: &mut EvacuationState<'c, 'm, P>,
        from: u32,
        to: u32,
    ) -> ClaimedRun {
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
        // A page may be larger than what was asked for.
        let reached = if is_full { last } else { last.max(stop) }.clamp(from + 1, to);
        let (first, claimed) = (state.count, claims.len());
        state.count += claimed;
        let claimed = self.moves()[first..first + claimed].iter();
        let frames = claimed.map(|at| at.order().frames()).sum();
        state.ctx.trace(|| CompactEvent::IsolatePages {
            by: Scanner::Migrate,
            range: self::range(state.ctx, from, reached),
            scanned: u64::from(reached - from),
            taken: frames,
        });
        state.ctx.hints.counters.compact_migrate_scanned.add(u64::from(reached - from));
        state.result.scanned += u64::from(reached - from);
        ClaimedRun { reached, frames }
    }

    /// Ends the claims on pages that there is no time to move, but for one; how many are left.
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
        // Who does not begin what it cannot pay for does not leave off what it has begun either.
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

/// A stretch that is being emptied.
struct EvacuationState<'s, 'm, P: Platform> {
    ctx: ZoneContext<'s, 'm, P>,
    start: u32,
    end: u32,
    options: EvacuationOptions,
    /// Pages that are claimed.
    count: usize,
    result: Evacuated,
}

/// What claiming a run came to.
struct ClaimedRun {
    /// Up to where.
    reached: u32,
    /// Frames that are claimed.
    frames: u64,
}

/// What a pageblock holds now.
pub(super) fn contents<P: Platform>(ctx: ZoneContext<'_, '_, P>, block: u32) -> Contents {
    ctx.hints.counters.compact_headers.add(1);
    ctx.on_cpu.zone.contents(ctx.on_cpu.platform, block)
}

/// Allocated frames from `start` to `end`.
pub(super) fn used_in<P: Platform>(ctx: ZoneContext<'_, '_, P>, start: u32, end: u32) -> u64 {
    let used = |block| {
        let (first, last) = clip(block, start, end);
        let used = within(&contents(ctx, block).used, first, last);
        used.iter().map(|word| u64::from(word.count_ones())).sum::<u64>()
    };
    pageblocks(start, end).map(used).sum()
}

/// Frames `from` to `to` of a zone.
pub(super) fn range<P: Platform>(ctx: ZoneContext<'_, '_, P>, from: u32, to: u32) -> FrameRange {
    let zone = ctx.on_cpu.zone;
    FrameRange::new(zone.pfn(from), zone.pfn(to)).unwrap_or(FrameRange::EMPTY)
}

/// The bits of a pageblock's map that stand for frames `first` to `last`, which lie in it.
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

/// The first run of set bits in the map of pageblock `block` at or behind frame `at`.
pub(super) fn next_run(map: &[u64; WORDS], block: u32, at: u32) -> Option<(u32, u32)> {
    let first = block << PAGEBLOCK_ORDER;
    let from = find(map, at.checked_sub(first)?, true)?;
    let to = find(map, from, false).unwrap_or(PAGEBLOCK_FRAMES as u32);
    Some((first + from, first + to))
}

/// The first bit at or behind `from` that is set or not.
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
            runs.push(run);
            at = run.1;
        }
        assert_eq!(runs, [(513, 515), (516, 517), (639, 642), (1023, 1024)]);
    }

    #[test]
    fn a_map_is_clipped_to_a_range_of_frames() {
        let kept = within(&[!0; WORDS], 512 + 3, 512 + 130);
        assert_eq!(kept[..3], [!0 << 3, !0, 0b11]);
        assert_eq!(kept[3..], [0; 5]);
        assert_eq!(within(&[!0; WORDS], 0, 512), [!0; WORDS]);
    }
}
