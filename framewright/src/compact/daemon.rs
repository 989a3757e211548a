//! Background compaction: for requests that could not wait, for the huge-page reserve, and
//! proactively.

use super::{
    Caller, Compactor, Goal, Outcome, compactor::ZoneContext, deferral::Deferral, suitable,
};
use crate::{
    memory::Memory,
    migrate::MigrateMode,
    platform::Platform,
    tuning::{CompactMethod, CompactTuning},
    types::{CompactEvent, CpuId, Event, NodeId, Order, Watermark, ZoneId, ZoneKind},
    zone::{Zone, ZoneAccess},
};

impl<'m, P: Platform> Memory<'m, P> {
    /// Whether a zone of the node has fewer free pageblocks than it should keep ready for huge
    /// pages, and enough free frames to form more. [`Compactor::background`] forms them, also when
    /// called for order 0. Background reclaim asks this between its steps. After attempts without
    /// success the answer is `false` for a while.
    #[must_use]
    pub fn can_fill_huge_reserve(&self, node: NodeId) -> bool {
        let is_off = self.tuning().compact.method == CompactMethod::Off;
        !is_off
            && self.numbered_zones_of(node).any(|(id, zone)| self.may_fill_huge_reserve(id, zone))
    }

    /// Whether a zone needs pageblocks formed ahead, and earlier failures do not defer that. Each
    /// call for a zone in need counts as an attempt and so shortens the deferral.
    fn may_fill_huge_reserve(&self, id: ZoneId, zone: &Zone<'_, P>) -> bool {
        let deferral = &self.compaction()[id.index()].huge_reserve;
        zone.can_fill_huge_reserve(self.platform()) && !deferral.refuses(Order::PAGEBLOCK)
    }

    /// Whether it is worth waking background compaction of a node for blocks of `order` in zones up
    /// to `highest`: some zone has enough free frames to form one, or needs pageblocks formed ahead
    /// for huge pages. `cpu` asks this before it wakes the thread that calls
    /// [`Compactor::background`].
    #[must_use]
    pub fn wakes_compaction(
        &self,
        cpu: CpuId,
        node: NodeId,
        order: Order,
        highest: ZoneKind,
    ) -> bool {
        let tuning = &self.tuning().compact;
        let above_min = ZoneAccess::above(Watermark::Min, highest);
        let has_work = |(id, zone): (ZoneId, &Zone<'_, P>)| {
            zone.could_compact(order, above_min, 0, tuning)
                || zone.can_fill_huge_reserve(self.platform()) && !self.huge_reserve_is_deferred(id)
        };
        let mut zones = self.numbered_zones_of(node).filter(|(_, zone)| zone.kind() <= highest);
        let wakes = tuning.method != CompactMethod::Off && zones.any(has_work);
        if P::TRACING && wakes {
            let event = CompactEvent::DaemonWakeup { node, order, highest };
            self.platform().trace(cpu, &Event::Compaction(event));
        }
        wakes
    }

    /// Whether recent attempts to form pageblocks ahead failed.
    pub(crate) fn huge_reserve_is_deferred(&self, id: ZoneId) -> bool {
        self.compaction()[id.index()].huge_reserve.is_deferring(Order::PAGEBLOCK)
    }

    /// Fragmentation of a node in percent: the share of its free memory that is in pieces smaller
    /// than a pageblock, averaged over the zones, weighted by their size. It needs no walk over
    /// free memory.
    #[must_use]
    pub fn fragmentation_score(&self, node: NodeId) -> u64 {
        let zones = || self.numbered_zones_of(node).map(|(_, zone)| zone);
        let present: u64 = zones().map(Zone::managed).sum();
        let weighed = |zone| Zone::managed(zone) * scattered_percent(self, zone);
        zones().map(weighed).sum::<u64>() / (present + 1)
    }
}

impl<'c, 'm, P: Platform> Compactor<'c, 'm, P> {
    /// One wake-up of the background compaction thread. It is called after a request asked the node
    /// for `order` in zones up to `highest` and could not wait, or when background reclaim goes to
    /// sleep. Returns whether a block of the order has formed, or all pageblocks that are kept
    /// ready for huge pages.
    pub fn background(&mut self, node: NodeId, order: Order, highest: ZoneKind) -> bool {
        if self.is_off() {
            return false;
        }
        let memory = self.memory;
        let goal = Goal::for_movable(Some(order), MigrateMode::SyncLight, Caller::Daemon);
        let mut formed = false;
        self.trace(CompactEvent::DaemonWake { node, order, highest });
        for (nth, (id, zone)) in memory.numbered_zones_of(node).enumerate() {
            let ctx = self.zone_context(id);
            ctx.hints.counters.compact_daemon_wake.add(u64::from(nth == 0));
            if zone.kind() > highest {
                continue;
            }
            formed |= self.fill_huge_reserve(ctx);
            let deferral = self.background_deferral(ctx);
            if order == Order::ZERO || ctx.is_deferred(deferral, order) {
                continue;
            }
            let outcome = suitable::refuse(ctx, &goal, highest, memory.tuning())
                .unwrap_or_else(|| self.run(ctx, goal, None));
            match outcome {
                Outcome::Success => {
                    formed = true;
                    ctx.succeed(order);
                    ctx.hints.background.reset(order, true);
                }
                Outcome::Complete | Outcome::PartialSkipped => {
                    memory.drain_every_cpu(id);
                    ctx.defer(deferral, order);
                }
                _ => {}
            }
        }
        self.trace(CompactEvent::DaemonSleep { node });
        formed
    }

    /// The deferral for failures of background compaction. By scanners it holds for requests as
    /// well, because scanning costs much. By index it holds only for the background: a request
    /// still searches, which costs little.
    fn background_deferral(&self, ctx: ZoneContext<'c, 'm, P>) -> &'m Deferral {
        match self.memory.tuning().compact.method {
            CompactMethod::Index => &ctx.hints.background,
            _ => &ctx.hints.deferral,
        }
    }

    /// Forms the pageblocks that a zone should keep ready for huge pages, as far as its free frames
    /// allow. Returns whether all of them are there now.
    fn fill_huge_reserve(&mut self, ctx: ZoneContext<'c, 'm, P>) -> bool {
        let deferral = &ctx.hints.huge_reserve;
        let (zone, platform) = (ctx.on_cpu.zone, ctx.on_cpu.platform);
        if !self.memory.may_fill_huge_reserve(ctx.id, zone) {
            return false;
        }
        self.run(ctx, Goal::for_huge_reserve(), None);
        let formed = zone.has_formed_huge_reserve(platform);
        if formed {
            deferral.reset(Order::PAGEBLOCK, true);
        } else {
            deferral.defer(Order::PAGEBLOCK);
        }
        formed
    }

    fn trace(&self, event: CompactEvent) {
        if P::TRACING {
            self.memory.platform().trace(self.cpu, &Event::Compaction(event));
        }
    }

    /// Resets the skip hints and positions of the scanners in the zones of a node where scanners
    /// have met in a run for a request since the last reset. To be called when background reclaim
    /// of the node goes to sleep.
    pub fn reset_skip_hints(&mut self, node: NodeId) {
        let memory = self.memory;
        for zone in memory.zones().filter(|zone| zone.node == node && zone.managed > 0) {
            self.reset_hints(self.zone_context(zone.id));
        }
    }

    #[cfg(feature = "compare")]
    fn reset_hints(&self, ctx: ZoneContext<'_, 'm, P>) {
        super::scan::reset_hints(ctx);
    }

    /// By index, the search itself resets skip hints after an empty round.
    #[cfg(not(feature = "compare"))]
    fn reset_hints(&self, _: ZoneContext<'_, 'm, P>) {}

    /// Proactive compaction: if a node is too fragmented, compacts it until it no longer is,
    /// without using its reserve. To be called every 500 ms while background reclaim is idle.
    /// Returns `None` if there was nothing to do, else the decrease of
    /// [`Memory::fragmentation_score`]. If that is 0, the caller should pause for 30 s.
    pub fn proactive(&mut self, node: NodeId) -> Option<u64> {
        let memory = self.memory;
        let tuning = memory.tuning().compact;
        if self.is_off() {
            return None;
        }
        let before = memory.fragmentation_score(node);
        if tuning.proactiveness == 0 || before <= start_score(&tuning) {
            return None;
        }
        let goal = Goal::for_movable(None, MigrateMode::SyncLight, Caller::Proactive);
        for zone in memory.zones().filter(|zone| zone.node == node && zone.managed > 0) {
            let ctx = self.zone_context(zone.id);
            if !is_defragmented(memory, ctx) {
                ctx.on_cpu.empty_depot();
                self.run(ctx, goal, None);
            }
        }
        Some(before.saturating_sub(memory.fragmentation_score(node)))
    }
}

/// Whether fragmentation of a zone is low enough for proactive compaction to end.
pub(super) fn is_defragmented<P: Platform>(
    memory: &Memory<'_, P>,
    ctx: ZoneContext<'_, '_, P>,
) -> bool {
    scattered_percent(memory, ctx.on_cpu.zone) <= stop_score(&memory.tuning().compact)
}

/// Share of a zone's free memory that is in pieces smaller than a pageblock, in percent.
fn scattered_percent<P: Platform>(memory: &Memory<'_, P>, zone: &Zone<'_, P>) -> u64 {
    zone.with(memory.platform(), |buddy| buddy.scattered_percent())
}

fn stop_score(tuning: &CompactTuning) -> u64 {
    u64::from(100 - tuning.proactiveness.min(95))
}

fn start_score(tuning: &CompactTuning) -> u64 {
    (stop_score(tuning) + 10).min(100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_match_linux() {
        let of = |proactiveness| {
            let tuning = CompactTuning { proactiveness, ..CompactTuning::default() };
            (stop_score(&tuning), start_score(&tuning))
        };
        assert_eq!(of(20), (80, 90));
        assert_eq!(of(100), (5, 15));
        assert_eq!(of(1), (99, 100));
    }
}
