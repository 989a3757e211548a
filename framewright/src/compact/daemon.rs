//! Background compaction: for requests that could not wait, to fill the huge-page reserve, and
//! proactively.

use super::{
    Caller, CompactZones, Compactor, Goal, Outcome, compactor::ZoneContext, deferral::Deferral,
    suitable,
};
use crate::{
    migrate::MigrateMode,
    platform::Platform,
    tuning::{CompactMethod, CompactTuning},
    types::{CompactEvent, CpuId, Event, NodeId, Order, Watermark, ZoneId, ZoneKind},
    zone::{Zone, ZoneAccess},
};

impl<P: Platform> CompactZones<'_, '_, P> {
    /// Whether a zone of the node has fewer free pageblocks than its huge-page reserve requires, and
    /// enough free frames to form more. `false` while earlier failures defer this; each call shortens
    /// the deferral.
    pub(crate) fn can_fill_huge_reserve(&self, node: NodeId) -> bool {
        let is_off = self.memory.tuning().compact.method == CompactMethod::Off;
        let mut zones = self.memory.numbered_zones_of(node);
        !is_off && zones.any(|(id, zone)| self.may_fill_huge_reserve(id, zone))
    }

    /// Whether a zone needs pageblocks for its huge-page reserve, and earlier failures do not defer
    /// forming them. Each call for such a zone counts as an attempt, and so shortens the deferral.
    fn may_fill_huge_reserve(&self, id: ZoneId, zone: &Zone<'_, P>) -> bool {
        let deferral = &self.state(id).huge_reserve;
        zone.can_fill_huge_reserve(self.memory.platform()) && !deferral.refuses(Order::PAGEBLOCK)
    }

    /// Whether background compaction of a node should be woken for blocks of `order` in zones up to
    /// `highest`: some zone has enough free frames to form one, or needs pageblocks for its
    /// huge-page reserve.
    pub(crate) fn wakes_compaction(
        &self,
        cpu: CpuId,
        node: NodeId,
        order: Order,
        highest: ZoneKind,
    ) -> bool {
        let tuning = &self.memory.tuning().compact;
        let above_min = ZoneAccess::above(Watermark::Min, highest);
        let has_work = |(id, zone): (ZoneId, &Zone<'_, P>)| {
            zone.could_compact(order, above_min, 0, tuning)
                || zone.can_fill_huge_reserve(self.memory.platform())
                    && !self.huge_reserve_is_deferred(id)
        };
        let zones = self.memory.numbered_zones_of(node);
        let mut zones = zones.filter(|(_, zone)| zone.kind() <= highest);
        let wakes = tuning.method != CompactMethod::Off && zones.any(has_work);
        if P::TRACING && wakes {
            let event = CompactEvent::DaemonWakeup { node, order, highest };
            self.memory.platform().trace(cpu, &Event::Compaction(event));
        }
        wakes
    }

    /// Whether recent attempts to form pageblocks for the huge-page reserve failed.
    pub(crate) fn huge_reserve_is_deferred(&self, id: ZoneId) -> bool {
        self.state(id).huge_reserve.is_deferring(Order::PAGEBLOCK)
    }

    /// Fragmentation of a node in percent: the share of the free memory in blocks smaller than a
    /// pageblock, averaged over the zones, weighted by their size.
    pub(crate) fn fragmentation_score(&self, node: NodeId) -> u64 {
        let zones = || self.memory.numbered_zones_of(node).map(|(_, zone)| zone);
        let present: u64 = zones().map(Zone::managed).sum();
        let weighed = |zone| Zone::managed(zone) * scattered_percent(self.memory.platform(), zone);
        zones().map(weighed).sum::<u64>() / (present + 1)
    }
}

impl<'c, 'm, P: Platform> Compactor<'c, 'm, P> {
    /// One wake-up of the background compaction thread. It is called after a request asked the node
    /// for `order` in zones up to `highest` and could not wait, or when background reclaim goes to
    /// sleep. Returns whether a block of the order has formed, or all pageblocks of a huge-page
    /// reserve.
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
                    ctx.hints.background.reset(order);
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

    /// The deferral for failures of background compaction. With scanners it also applies to requests, because scanning
    /// is expensive. With the index it applies only to background compaction: a request still searches, because that is
    /// cheap.
    fn background_deferral(&self, ctx: ZoneContext<'c, 'm, P>) -> &'m Deferral {
        match self.memory.tuning().compact.method {
            CompactMethod::Index => &ctx.hints.background,
            _ => &ctx.hints.deferral,
        }
    }

    /// Forms the pageblocks that the huge-page reserve of a zone lacks, as far as its free frames
    /// allow. Returns whether this call formed the last of them.
    fn fill_huge_reserve(&mut self, ctx: ZoneContext<'c, 'm, P>) -> bool {
        let deferral = &ctx.hints.huge_reserve;
        let (zone, platform) = (ctx.on_cpu.zone, ctx.on_cpu.platform);
        if !self.zones.may_fill_huge_reserve(ctx.id, zone) {
            return false;
        }
        self.run(ctx, Goal::for_huge_reserve(), None);
        let formed = zone.has_formed_huge_reserve(platform);
        if formed {
            deferral.reset(Order::PAGEBLOCK);
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

    /// For the scanners: resets their positions and the skip hints in each zone of a node in which
    /// a run for a request has ended with a meeting of the scanners since the last reset. To be
    /// called when background reclaim of the node goes to sleep.
    pub fn reset_skip_hints(&mut self, node: NodeId) {
        let zones = self.memory.numbered_zones_of(node);
        for (id, _) in zones.filter(|(_, zone)| zone.managed() > 0) {
            self.reset_hints(self.zone_context(id));
        }
    }

    #[cfg(feature = "compare")]
    fn reset_hints(&self, ctx: ZoneContext<'_, 'm, P>) {
        super::scan::reset_hints(ctx);
    }

    /// With the index, the search itself resets skip hints after an empty round.
    #[cfg(not(feature = "compare"))]
    fn reset_hints(&self, _: ZoneContext<'_, 'm, P>) {}

    /// Proactive compaction: if a node is too fragmented, compacts it until it is not, without
    /// using its reserve. To be called every 500 ms while background reclaim is idle. Returns
    /// `None` if there was nothing to do, else the decrease of
    /// [`Memory::fragmentation_score`](crate::Memory::fragmentation_score). If that is 0, the
    /// caller should pause for 30 s.
    pub fn proactive(&mut self, node: NodeId) -> Option<u64> {
        let memory = self.memory;
        let tuning = memory.tuning().compact;
        if self.is_off() {
            return None;
        }
        let before = self.zones.fragmentation_score(node);
        if tuning.proactiveness == 0 || before <= start_score(&tuning) {
            return None;
        }
        let goal = Goal::for_movable(None, MigrateMode::SyncLight, Caller::Proactive);
        for (id, _) in memory.numbered_zones_of(node).filter(|(_, zone)| zone.managed() > 0) {
            let ctx = self.zone_context(id);
            if !is_defragmented(&tuning, ctx) {
                ctx.on_cpu.empty_depot();
                self.run(ctx, goal, None);
            }
        }
        Some(before.saturating_sub(self.zones.fragmentation_score(node)))
    }
}

/// Whether fragmentation of a zone is low enough for proactive compaction to end.
pub(super) fn is_defragmented<P: Platform>(
    tuning: &CompactTuning,
    ctx: ZoneContext<'_, '_, P>,
) -> bool {
    scattered_percent(ctx.on_cpu.platform, ctx.on_cpu.zone) <= stop_score(tuning)
}

/// Share of a zone's free memory in blocks smaller than a pageblock, in percent.
fn scattered_percent<P: Platform>(platform: &P, zone: &Zone<'_, P>) -> u64 {
    zone.with(platform, |buddy| buddy.scattered_percent())
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
