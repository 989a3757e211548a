//! Compaction by two scanners, as in Linux.
//!
//! # Theory of operation
//!
//! The migrate scanner moves up through the zone, pageblock by pageblock, and claims up to 32 pages. The free scanner
//! moves down and takes as many free frames. Then the pages move. This repeats until a block has formed, or the
//! scanners are in the same pageblock. Both scanners start at the positions where the last run ended.
//! They first make a fast search of the lists of free blocks, which may save a long scan. A thorough
//! run starts at the ends of the zone, without a fast search.
//!
//! **Skip hints**: a pageblock gets a skip hint when a run begins to claim its pages (so that other runs skip it), when
//! no page could be claimed, and when all of its free frames were taken. A run that skips a pageblock because of its
//! type sets no hint, because other runs may use the pageblock.
//!
//! **Finishing a pageblock**: if some page did not move, no block will form in its pageblock. The
//! rest of the pageblock is scanned at once nevertheless, because later runs skip it: it has a skip
//! hint.
//!
//! **Shortcuts** ([`shortcuts`](crate::tuning::CompactTuning::shortcuts)): the fast search of the lists, and the
//! capture of the formed block, have been in Linux since 2019. The fast search corrects scanners at wrong positions, so
//! the old faults have their full effect only without it.
//!
//! **Repairs**: rules that were wrong in Linux can be restored; see
//! [`CompactRepairs`](crate::tuning::CompactRepairs).

mod contention;
mod finish;
mod free;
mod migrate;
mod reset;
mod state;
mod view;

pub(super) use reset::reset_hints;
pub(super) use state::ScanState;
pub use view::ScannersView;

use super::{Caller, Compactor, Goal, Outcome, compactor::ZoneContext};
use crate::{
    migrate::MigrateMode,
    platform::{Captured, Cost, Platform},
    tuning::{CompactRepairs, CompactTuning},
    types::{Block, Order, PAGEBLOCK_ORDER},
};
use contention::ContentionProbe;
use free::FreeScanner;
use state::FRAMES;

/// Pages that are claimed before they are moved.
const CLUSTER: usize = 32;

impl<'c, 'm, P: Platform> Compactor<'c, 'm, P> {
    /// Compacts a zone by two scanners.
    pub(super) fn run_by_scanners(
        &mut self,
        ctx: ZoneContext<'c, 'm, P>,
        goal: Goal,
        captured: Option<Captured<'_>>,
    ) -> Outcome {
        let tag = self.memory.tag();
        let shortcuts = self.memory.tuning().compact.shortcuts;
        let lacks = |captured: &Captured<'_>| goal.order.is_some_and(|order| captured.lacks(order));
        let captures = shortcuts && captured.as_ref().is_some_and(lacks);
        let mut run = Run::begin(self, ctx, goal, captures);
        ctx.trace_run(&goal, run.positions(), None);
        let outcome = run.go();
        run.end(outcome);
        let Some((frame, order)) = run.free.take_captured() else { return outcome };
        let block = Block::new(tag, ctx.on_cpu.pfn(frame), order);
        let kept = match captured {
            Some(captured) => captured.keep(block),
            None => Err(block),
        };
        if let Err(block) = kept {
            let _ = block.into_raw();
            ctx.on_cpu.free_to_zone(frame, order);
        }
        Outcome::Success
    }
}

impl Goal {
    /// Whether skip hints are ignored, and the run covers the whole zone.
    fn is_thorough(&self) -> bool {
        match self.caller {
            Caller::Request { thorough } => thorough,
            Caller::Daemon => false,
            Caller::Proactive | Caller::Node => true,
        }
    }
}

impl<P: Platform> ZoneContext<'_, '_, P> {
    /// Counts frames that were scanned for pages to move.
    fn count_page_scan(&self, frames: u64) {
        self.hints.counters.compact_migrate_scanned.add(frames);
        self.on_cpu.platform.cost(Cost::ScanFrames, frames as u32);
    }

    /// Counts frames that were scanned for free frames to move pages to.
    fn count_free_scan(&self, frames: u32) {
        self.hints.counters.compact_free_scanned.add(u64::from(frames));
        self.on_cpu.platform.cost(Cost::ScanFrames, frames);
    }
}

/// One run over a zone, or over a part of it.
struct Run<'r, 'c, 'm, P: Platform> {
    compactor: &'r mut Compactor<'c, 'm, P>,
    ctx: ZoneContext<'c, 'm, P>,
    goal: Goal,
    repair: CompactRepairs,
    shortcuts: bool,
    /// The frame that the migrate scanner examines next.
    migrate: u32,
    free: FreeScanner<'c, 'm, P>,
    /// Contention for the locks that the migrate scanner takes.
    contention: ContentionProbe,
    /// Whether the run ignores cached positions, or its migrate scanner began where the last reset
    /// had placed it.
    is_whole: bool,
    /// Whether all of the pageblock is scanned, even if pages were found.
    finishing: bool,
    /// The pageblock that got a skip hint when its first pages were claimed.
    started_block: Option<u32>,
    /// The frame after the last page that was claimed.
    last: Option<u32>,
    /// Fast searches in a row that found nothing.
    failed_searches: u32,
    /// Whether the cached positions of all modes are the same, and no page was claimed so far.
    modes_agree: bool,
}

/// Result of the migrate scanner.
enum Isolated {
    /// The run must end.
    Abort,
    /// This number of pages is claimed.
    Pages(usize),
}

impl<'r, 'c, 'm, P: Platform> Run<'r, 'c, 'm, P> {
    fn begin(
        compactor: &'r mut Compactor<'c, 'm, P>,
        ctx: ZoneContext<'c, 'm, P>,
        goal: Goal,
        captures: bool,
    ) -> Self {
        let tuning = compactor.memory.tuning().compact;
        let CompactTuning { repair, shortcuts, .. } = tuning;
        let positions = &ctx.hints.scan.positions;
        let is_restarting = goal.order.is_some_and(|at| ctx.hints.deferral.is_restarting(at));
        if is_restarting {
            ctx.hints.counters.scan_restarts.add(1);
        }
        if is_restarting && repair.reset_before_read {
            reset_hints(ctx);
        }
        let end = ctx.on_cpu.zone.spanned() as u32;
        let mut is_whole = goal.is_thorough();
        let (mut migrate, mut free) = (0, end);
        if !is_whole {
            (migrate, free) = (positions.migrate(goal.is_async()), positions.free());
            if migrate >= end || free > end || free == 0 {
                (migrate, free) = (0, end);
                positions.reset(migrate, free);
            }
            is_whole = migrate <= positions.start();
        }
        if is_restarting && !repair.reset_before_read {
            // Without the repair, this run uses the positions from before the reset.
            reset_hints(ctx);
        }
        let modes_agree = positions.migrate(true) == positions.migrate(false);
        let free = FreeScanner::new(ctx, goal, &tuning, free >> PAGEBLOCK_ORDER, captures);
        Self {
            compactor,
            ctx,
            goal,
            repair,
            shortcuts,
            migrate,
            free,
            contention: ContentionProbe::new(&goal),
            is_whole,
            finishing: false,
            started_block: None,
            last: None,
            failed_searches: 0,
            modes_agree,
        }
    }

    fn go(&mut self) -> Outcome {
        loop {
            if let Some(outcome) = self.finished() {
                return outcome;
            }
            let block = self.migrate >> PAGEBLOCK_ORDER;
            self.finishing = self.last.is_some_and(|last| (last - 1) >> PAGEBLOCK_ORDER == block);
            if let Some(outcome) = self.step() {
                return outcome;
            }
            self.drain_after_part();
        }
    }

    /// Claims and moves some pages. Returns the outcome if the run is over.
    fn step(&mut self) -> Option<Outcome> {
        loop {
            let count = match self.isolate() {
                Isolated::Abort => return Some(Outcome::Contended),
                Isolated::Pages(0) => return None,
                Isolated::Pages(count) => count,
            };
            self.free.prepare(count as u32, self.migrate >> PAGEBLOCK_ORDER);
            let effort = self.goal.effort;
            let moved = self.compactor.migrate(self.ctx, count, &effort, &mut self.free);
            if self.free.has_captured() {
                return Some(Outcome::Success);
            }
            let have_met = self.repair.detect_meeting && self.have_met();
            if moved.lacked_targets && !have_met {
                return Some(Outcome::Contended);
            }
            let inside = !self.migrate.is_multiple_of(FRAMES);
            let waits = self.goal.effort.mode == MigrateMode::Sync;
            let sets_skip_hints = !self.goal.is_thorough();
            if moved.failed == 0 || waits || !inside || !sets_skip_hints || self.finishing {
                return None;
            }
            self.finishing = true;
        }
    }

    /// Called when the migrate scanner may have left an aligned range of the requested size. If it
    /// has, drains this CPU's lists and the depot into the zone: they may contain frames of that range,
    /// and a block may form there.
    fn drain_after_part(&mut self) {
        let (Some(last), Some(order)) = (self.last, self.goal.order) else { return };
        let size = order.min(Order::PAGEBLOCK).frames() as u32;
        if self.migrate / size > (last - 1) / size {
            let _ = self.compactor.memory.drain_cpu(self.compactor.cpu);
            self.ctx.on_cpu.empty_depot();
            self.last = None;
        }
    }

    /// Returns target frames that were not needed, and stores the positions for later runs.
    fn end(&mut self, outcome: Outcome) {
        let highest = self.free.give_back();
        if let Some(block) = highest {
            self.ctx.hints.scan.positions.raise_free((block + 1) << PAGEBLOCK_ORDER);
        }
        self.ctx.trace_run(&self.goal, self.positions(), Some(outcome));
    }
}
