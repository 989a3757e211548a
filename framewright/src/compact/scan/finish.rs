//! Whether a run is over, and what it tells.

use super::{FRAMES, Outcome, Run};
use crate::{
    compact::{Caller, daemon::is_good_enough},
    frame::PAGEBLOCK_ORDER,
    observe::{CompactEvent, Event},
    platform::Platform,
    sync::Ordering,
};

impl<P: Platform> Run<'_, '_, '_, P> {
    /// What the run came to, if it is over.
    pub(super) fn finished(&mut self) -> Option<Outcome> {
        if self.have_met() {
            return Some(self.meet());
        }
        if self.goal.caller == Caller::Proactive && is_good_enough(self.compactor.memory, self.site)
        {
            return Some(Outcome::Success);
        }
        let order = self.goal.order?;
        if !self.migrate.is_multiple_of(FRAMES) {
            return None;
        }
        let of = self.goal.of;
        let (zone, platform) = (self.site.at.zone, self.site.at.platform);
        if zone.with(platform, |buddy| buddy.has_formed(order, of)) {
            return Some(Outcome::Success);
        }
        self.contended.then_some(Outcome::Contended)
    }

    /// Whether the scanners are in the same pageblock; as it was: at the same frame.
    pub(super) fn have_met(&self) -> bool {
        if self.repair.detect_meeting {
            self.free.below() <= (self.migrate >> PAGEBLOCK_ORDER) + 1
        } else {
            self.free.below() << PAGEBLOCK_ORDER <= self.migrate
        }
    }

    fn meet(&self) -> Outcome {
        let hints = self.site.hints;
        if self.repair.reset_on_meeting {
            hints.positions.reset(0, self.site.at.zone.spanned() as u32);
        }
        if self.goal.is_direct() {
            hints.flush_hints.store(true, Ordering::Relaxed);
        }
        if self.is_whole { Outcome::Complete } else { Outcome::PartialSkipped }
    }

    pub(super) fn trace_begin(&self) {
        self.trace(|run| run.bounds(None));
    }

    pub(super) fn trace_end(&self, outcome: Outcome) {
        self.trace(|run| run.bounds(Some(outcome.name())));
    }

    pub(super) fn trace_moved(&self, moved: u64, failed: u64) {
        self.trace(|_| CompactEvent::MigratePages { moved, failed });
    }

    fn bounds(&self, status: Option<&'static str>) -> CompactEvent {
        let zone = self.site.at.zone;
        CompactEvent::Run {
            zone_start: zone.pfn(0),
            migrate: zone.pfn(self.migrate),
            free: zone.pfn(self.free.below() << PAGEBLOCK_ORDER),
            zone_end: zone.pfn(zone.spanned() as u32),
            sync: !self.goal.is_async(),
            status,
        }
    }

    pub(super) fn trace(&self, event: impl FnOnce(&Self) -> CompactEvent) {
        if P::TRACING {
            let event = Event::Compaction(event(self));
            self.site.at.platform.trace(self.site.at.id, &event);
        }
    }
}
