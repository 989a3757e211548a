//! Compaction by index (`compact.method=index`): isolates the emptiest movable pageblock, moves its pages
//! into fuller pageblocks, and captures the formed block for the request. The index is the lists of
//! pageblocks by fullness.
//!
//! Pages move only into pageblocks that are at least as full as their own. So the free frames of a zone are never
//! spread again, and compaction always makes progress. Pageblocks with unmovable frames are an exception: they will not
//! become free as a whole anyway, so they receive pages however empty they are. Pages of a run of
//! several pageblocks move into any movable pageblock. The search for the next pageblock to empty
//! ([`search`](super::search)) reads pageblock headers. It prefers the emptiest pageblock whose frames
//! were all requested as movable. If there is none, it returns a pageblock that seems to contain
//! unmovable frames, and, as a last resort, a full pageblock.

use core::ops::Range;

use super::{
    Caller, Compactor, Goal, Outcome,
    compactor::ZoneContext,
    cursor::{SearchCursor, Source},
    daemon::is_defragmented,
    evacuate::{EarlyEnd, EvacuationOptions, contents, used_in, within, work_of},
    search::{Found, SearchPass, cursor},
    suitable,
    target_frames::TargetFrames,
};
use crate::{
    buddy::{Buddy, Contents, SourceKind, TargetFilter, WORDS},
    platform::{Captured, Platform},
    types::{Block, MigrateType, Order, PAGEBLOCK_FRAMES, PAGEBLOCK_ORDER},
};

impl<'c, 'm, P: Platform> Compactor<'c, 'm, P> {
    /// Compacts a zone by index.
    pub(super) fn run_by_index(
        &mut self,
        ctx: ZoneContext<'c, 'm, P>,
        goal: Goal,
        captured: Option<Captured<'_>>,
    ) -> Outcome {
        let end = ctx.on_cpu.zone.spanned() as u32;
        let cursor = cursor(ctx, &goal);
        let first = cursor.progress().resume().map_or(0, |block| block << PAGEBLOCK_ORDER);
        ctx.trace_run(&goal, (first, end), None);
        let mut last = first;
        let mut outcome = Outcome::Complete;
        // An exhaustive run first searches to the end, then tries pageblocks with skip hints once
        // more.
        for pass in 0..=u32::from(goal.is_exhaustive()) {
            if pass > 0 {
                ctx.hints.skip.clear_all();
                cursor.restart(SourceKind::AllMovable);
            }
            outcome = self.empty_sources(ctx, &goal, captured, &mut last);
            if outcome != Outcome::Complete {
                break;
            }
        }
        ctx.trace_run(&goal, (last, end), Some(outcome));
        outcome
    }

    /// Empties one pageblock after another. Stores the first frame of the last one in `last`.
    fn empty_sources(
        &mut self,
        ctx: ZoneContext<'c, 'm, P>,
        goal: &Goal,
        captured: Option<Captured<'_>>,
        last: &mut u32,
    ) -> Outcome {
        let cursor = cursor(ctx, goal);
        let mut targets_were_lacking = false;
        let mut search_pass = SearchPass::of(cursor);
        loop {
            let budget = captured.map_or(u64::MAX, Captured::left);
            let finished = self.finished(ctx, goal, budget == 0);
            ctx.trace_check(goal, true, finished);
            if let Some(outcome) = finished {
                return outcome;
            }
            let source = match self.find_source(ctx, goal, &mut search_pass) {
                Found::Source(source) => source,
                Found::Later => return Outcome::Contended,
                Found::Nothing => return Outcome::Complete,
            };
            *last = source.index << PAGEBLOCK_ORDER;
            let options = evacuation_options(goal, captured);
            let emptied = self.empty(ctx, goal, source.index, options, captured);
            if let Some(captured) = captured {
                captured.spend(emptied.work);
                if emptied.drained_lists {
                    captured.charge_drain();
                }
            }
            if emptied.moved > 0 && emptied.outcome != Outcome::Success {
                cursor.add_partly_emptied(source);
            }
            match emptied.outcome {
                Outcome::PartialSkipped => {
                    // Targets are at least as full as the source. So if the emptiest source of a
                    // kind (`SourceKind`) lacks targets, all others of its kind lack them, too.
                    // This does not hold if the attempt moved pages or drained lists, because both
                    // make pageblocks emptier than they were during the search.
                    let untouched = emptied.work == 0 && !emptied.drained_lists;
                    let none_for_kind =
                        targets_were_lacking || search_pass.is_emptiest && untouched;
                    targets_were_lacking = !none_for_kind;
                    search_pass.lists_exhausted |= none_for_kind;
                    if !continues_without_targets(cursor, goal, source, none_for_kind) {
                        return Outcome::Complete;
                    }
                }
                Outcome::Contended => return Outcome::Contended,
                Outcome::Success => {
                    targets_were_lacking = false;
                    cursor.succeed();
                    if goal.order.is_some() && !goal.fills_huge_reserve {
                        return Outcome::Success;
                    }
                }
                // A skip hint concerns one pageblock, not a block of several pageblocks that begins
                // with it.
                _ if goal.wants_run() => {}
                _ => _ = ctx.hints.skip.set(source.index),
            }
        }
    }

    fn finished(&self, ctx: ZoneContext<'c, 'm, P>, goal: &Goal, spent: bool) -> Option<Outcome> {
        if self.has_formed(ctx, goal) {
            return Some(Outcome::Success);
        }
        if goal.caller == Caller::Proactive && is_defragmented(&self.memory.tuning().compact, ctx) {
            return Some(Outcome::Success);
        }
        if suitable::lacks_free_frames(ctx, goal, self.memory.tuning()) {
            return Some(Outcome::Skipped);
        }
        (goal.is_direct() && spent).then_some(Outcome::Contended)
    }

    fn has_formed(&self, ctx: ZoneContext<'c, 'm, P>, goal: &Goal) -> bool {
        if goal.fills_huge_reserve {
            return !ctx.on_cpu.zone.can_fill_huge_reserve(ctx.on_cpu.platform);
        }
        ctx.has_formed(goal)
    }

    /// Empties the frames for a block of the goal's order, unless that exceeds the budget.
    fn empty(
        &mut self,
        ctx: ZoneContext<'c, 'm, P>,
        goal: &Goal,
        source: u32,
        mut options: EvacuationOptions,
        captured: Option<Captured<'_>>,
    ) -> Emptied {
        let order = order_to_form(goal);
        let (first, pageblocks) =
            (source << PAGEBLOCK_ORDER, order.max(Order::PAGEBLOCK).pageblocks());
        let end = (source + pageblocks) << PAGEBLOCK_ORDER;
        let Ok(isolation) = self.memory.isolate_undrained(ctx.id, first, end) else {
            return Emptied::untried(Outcome::Complete, false);
        };
        // Read after the isolation. From then on this pageblock can only become emptier. So a
        // target that is at least as full as `before` is at least as full as the source when pages
        // move.
        let mut before = contents(ctx, source);
        let block = if order < Order::PAGEBLOCK { freest_part(&before.map, order) } else { 0 };
        let start = first + block;
        let frames = start..start + order.frames() as u32;
        if work_of(used_in(ctx, &frames)) > options.budget && !options.may_be_partial {
            return Emptied::untried(Outcome::Contended, false);
        }
        let mut drained = false;
        let mut target_frames = match order > Order::PAGEBLOCK {
            true => TargetFrames::in_zone(ctx.on_cpu),
            false => {
                let held = &mut before;
                if !self.check_targets(ctx, source, &frames, held, &mut options, &mut drained) {
                    return Emptied::untried(Outcome::PartialSkipped, drained);
                }
                TargetFrames::for_source(ctx.on_cpu, source, &before)
            }
        };
        let result = self.evacuate(ctx, frames, options, &mut target_frames);
        ctx.hints.counters.compact_isolated.add(target_frames.taken);
        ctx.count_headers(target_frames.looked_at);
        drop(target_frames);
        let emptied = |outcome| Emptied {
            outcome,
            work: result.work(),
            drained_lists: drained || result.drained_lists,
            moved: result.moved,
        };
        if result.left > 0 {
            drop(isolation);
            let outcome = match result.early_end {
                Some(EarlyEnd::NoTargets) => Outcome::PartialSkipped,
                Some(EarlyEnd::Contended) if goal.is_async() => Outcome::Contended,
                Some(EarlyEnd::BudgetSpent) => Outcome::Contended,
                _ => Outcome::Complete,
            };
            return emptied(outcome);
        }
        ctx.hints.counters.compact_pageblocks_emptied.add(1);
        // A block larger than a pageblock can only be taken from the lists, so its isolation ends
        // first.
        let _isolation = (!goal.wants_run()).then_some(isolation);
        self.hand_over(ctx, goal, start, captured);
        emptied(Outcome::Success)
    }

    /// Whether there may be targets for the pages in `frames` of a pageblock with contents `held`.
    /// Free frames on CPU lists, in the depot and in deferred frees look allocated; they become
    /// targets when they are returned to the zone. This is done once, if there are too few targets
    /// without these frames.
    fn check_targets(
        &self,
        ctx: ZoneContext<'c, 'm, P>,
        source: u32,
        frames: &Range<u32>,
        held: &mut Contents,
        options: &mut EvacuationOptions,
        drained: &mut bool,
    ) -> bool {
        let fits = |held: &Contents| {
            let used = within(&held.used, frames.start, frames.end);
            self.may_have_targets(ctx, count(&used), TargetFilter::for_source(held))
        };
        if fits(held) {
            return true;
        }
        if !options.may_drain || !self.has_undrained(ctx) {
            return false;
        }
        self.drain_to_zone(ctx, options);
        *drained = true;
        *held = contents(ctx, source);
        fits(held)
    }

    /// Whether pageblocks that `filter` accepts may have `frames` free frames. This check costs
    /// less than claiming pages that have no targets.
    fn may_have_targets(
        &self,
        ctx: ZoneContext<'c, 'm, P>,
        frames: u32,
        filter: TargetFilter,
    ) -> bool {
        let most = self.memory.tuning().compact.headers_per_piece;
        let look = |buddy: &mut Buddy<'_>| buddy.may_have_targets(frames, filter, most);
        let (may, headers) = ctx.on_cpu.zone.with(ctx.on_cpu.platform, look);
        ctx.count_headers(headers);
        may
    }

    /// Captures the formed block for the request, if it consists of whole pageblocks or the request
    /// is for movable memory.
    fn hand_over(
        &self,
        ctx: ZoneContext<'c, 'm, P>,
        goal: &Goal,
        start: u32,
        captured: Option<Captured<'_>>,
    ) {
        let (Some(order), Some(captured)) = (goal.order, captured) else { return };
        let suits = goal.migratetype == MigrateType::Movable || order >= Order::PAGEBLOCK;
        if order != order_to_form(goal) || !suits || !captured.lacks(order) {
            return;
        }
        if !ctx.on_cpu.take_block(start, order, goal.migratetype) {
            return;
        }
        let block = Block::new(self.memory.tag(), ctx.on_cpu.pfn(start), order);
        if let Err(block) = captured.keep(block) {
            let (_, order) = block.into_raw();
            ctx.on_cpu.free_to_zone(start, order);
        }
    }
}

/// The options for emptying a pageblock for the goal, and for the request that waits, if any. CPU
/// lists are drained once per request, not once per pageblock, because a drain takes as long as all
/// attempts of a request together.
fn evacuation_options(goal: &Goal, captured: Option<Captured<'_>>) -> EvacuationOptions {
    let (effort, left) = (goal.effort, captured.map_or(u64::MAX, Captured::left));
    EvacuationOptions {
        effort,
        all_or_none: true,
        may_drain: !captured.is_some_and(Captured::has_drained),
        // The last attempt must not fail for lack of budget.
        budget: if goal.is_exhaustive() { u64::MAX } else { left },
        // A partly emptied pageblock leaves little work for the next request. A larger block is not
        // emptied in part: its moves would be wasted if no such request comes.
        may_be_partial: !goal.wants_run() && captured.is_some_and(Captured::has_plenty_left),
    }
}

/// Restarts the cursor after `source` lacked targets, at the kind of source to try next. Returns
/// whether the search continues. `none_for_kind` says that all sources of its kind lack targets.
///
/// Free frames in pageblocks with unmovable frames are targets for pages from all other pageblocks.
/// So if no all-movable source has targets, no source has any, and the search ends. If no source with
/// unmovable frames has targets, full pageblocks may still have some, and are tried next. If the
/// goal is a run of several pageblocks, the cursor is not restarted.
fn continues_without_targets(
    cursor: &SearchCursor,
    goal: &Goal,
    source: Source,
    none_for_kind: bool,
) -> bool {
    if goal.wants_run() {
        return !none_for_kind;
    }
    let next = match source.kind {
        kind if !none_for_kind => kind,
        SourceKind::HasUnmovable if goal.empties_full() => SourceKind::Full,
        _ => SourceKind::AllMovable,
    };
    cursor.restart(next);
    next != SourceKind::AllMovable || !none_for_kind
}

/// Result of an attempt to empty a pageblock.
struct Emptied {
    outcome: Outcome,
    /// Its cost, in units of one page move.
    work: u64,
    /// Whether free frames from CPU lists, the depot and deferred frees were returned to the zone.
    drained_lists: bool,
    /// Frames that were moved.
    moved: u64,
}

impl Emptied {
    /// The attempt ended before any page was scanned.
    const fn untried(outcome: Outcome, drained_lists: bool) -> Self {
        Self { outcome, work: 0, drained_lists, moved: 0 }
    }
}

/// The order of the block to form. A request for memory that is not movable claims whole
/// pageblocks, so that types are not mixed.
fn order_to_form(goal: &Goal) -> Order {
    match goal.order {
        Some(order) if order >= Order::PAGEBLOCK || goal.migratetype == MigrateType::Movable => {
            order
        }
        _ => Order::PAGEBLOCK,
    }
}

fn count(map: &[u64; WORDS]) -> u32 {
    map.iter().map(|word| word.count_ones()).sum()
}

/// The offset in a pageblock of the block of `order` with the most free frames.
fn freest_part(map: &[u64; WORDS], order: Order) -> u32 {
    let size = order.frames() as u32;
    let free = |start: u32| -> u32 { count(&within(map, start, start + size)) };
    // `max_by_key` returns the last of equal elements: in descending order, the lowest start.
    let starts = (0..PAGEBLOCK_FRAMES as u32).step_by(size as usize);
    starts.rev().max_by_key(|&start| free(start)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_freest_part_of_a_pageblock_has_the_most_free_frames() {
        let mut map = [0u64; WORDS];
        (map[1], map[3]) = (0x0f0f, 0xffff_0000);
        let order = |number| Order::new(number).unwrap();
        assert_eq!(freest_part(&map, order(4)), 3 * 64 + 16);
        assert_eq!(freest_part(&map, order(6)), 3 * 64);
        assert_eq!(freest_part(&map, order(8)), 0);
    }
}
