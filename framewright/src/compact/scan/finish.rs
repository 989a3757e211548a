//! The test whether a run of the scanners is over, and the outcome of the run.

use super::{FRAMES, Outcome, Run};
use crate::{
    compact::{Caller, daemon::is_defragmented, suitable},
    platform::Platform,
    sync::Ordering,
    types::PAGEBLOCK_ORDER,
};

impl<P: Platform> Run<'_, '_, '_, P> {
    /// The outcome of the run, if it is over.
    pub(super) fn finished(&self) -> Option<Outcome> {
        let finished = self.check();
        self.ctx.trace_check(&self.goal, true, finished);
        finished
    }

    fn check(&self) -> Option<Outcome> {
        if self.have_met() {
            return Some(self.end_at_meeting());
        }
        if self.goal.caller == Caller::Proactive
            && is_defragmented(&self.compactor.memory.tuning().compact, self.ctx)
        {
            return Some(Outcome::Success);
        }
        if suitable::lacks_free_frames(self.ctx, &self.goal, self.compactor.memory.tuning()) {
            return Some(Outcome::Skipped);
        }
        let order = self.goal.order?;
        if !self.migrate.is_multiple_of(FRAMES) {
            return None;
        }
        let at = self.ctx.on_cpu;
        if self.goal.fills_huge_reserve {
            return (!at.zone.can_fill_huge_reserve(at.platform)).then_some(Outcome::Success);
        }
        if self.ctx.has_formed(&self.goal) && at.zone.ends_compaction(at.platform, order) {
            return Some(Outcome::Success);
        }
        let contended =
            self.contention.has_seen_contention() || self.free.contention().has_seen_contention();
        contended.then_some(Outcome::Contended)
    }

    /// Whether the scanners are in the same pageblock; without the repair `detect_meeting`, at the
    /// same frame.
    pub(super) fn have_met(&self) -> bool {
        if self.repair.detect_meeting {
            self.free.below() <= (self.migrate >> PAGEBLOCK_ORDER) + 1
        } else {
            self.free.below() << PAGEBLOCK_ORDER <= self.migrate
        }
    }

    fn end_at_meeting(&self) -> Outcome {
        let hints = self.ctx.hints;
        hints.counters.scan_meetings.add(1);
        if self.repair.reset_on_meeting {
            hints.scan.positions.reset(0, self.ctx.on_cpu.zone.spanned() as u32);
        }
        if self.goal.is_direct() {
            hints.scan.flush_hints.store(true, Ordering::Relaxed);
        }
        if self.is_whole { Outcome::Complete } else { Outcome::PartialSkipped }
    }

    /// The positions of both scanners.
    pub(super) fn positions(&self) -> (u32, u32) {
        (self.migrate, self.free.below() << PAGEBLOCK_ORDER)
    }
}
