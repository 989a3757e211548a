//! Compaction in the background: for who could not wait, and before anybody asks.

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
    /// Whether a zone of the node has fewer pageblocks ready for huge pages than shall be there, and room
    /// to form some: [`Compactor::background`] does that, also for order 0. To be asked between steps of
    /// who reclaims in the background; after attempts in vain the answer is no for a while.
    #[must_use]
    pub fn can_fill_huge_reserve(&self, node: NodeId) -> bool {
        let is_off = self.tuning().compact.method == CompactMethod::Off;
        !is_off
            && self.numbered_zones_of(node).any(|(id, zone)| self.may_fill_huge_reserve(id, zone))
    }

    /// Whether a zone wants pageblocks formed ahead, and rests no longer after attempts in vain. Each time that
    /// it wants some counts towards the end of its rest, whoever asks.
    fn may_fill_huge_reserve(&self, id: ZoneId, zone: &Zone<'_, P>) -> bool {
        let deferral = &self.compaction()[id.index()].huge_reserve;
        zone.can_fill_huge_reserve(self.platform()) && !deferral.refuses(Order::PAGEBLOCK)
    }

    /// Whether it is worth while to wake who compacts a node in the background, for blocks of `order` in
    /// zones up to `highest`: in one of them there is room to form some, or what is to be ready for huge
    /// pages. To be asked by `cpu` before it wakes whoever calls [`Compactor::background`].
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

    /// Whether attempts to form pageblocks ahead were in vain lately.
    pub(crate) fn huge_reserve_is_deferred(&self, id: ZoneId) -> bool {
        self.compaction()[id.index()].huge_reserve.is_deferring(Order::PAGEBLOCK)
    }

    /// How fragmented a node is, in hundredths: the share of its free memory that is in pieces smaller
    /// than a pageblock, zone by zone weighted with their size. Without a walk.
    #[must_use]
    pub fn fragmentation_score(&self, node: NodeId) -> u64 {
        let zones = || self.numbered_zones_of(node).map(|(_, zone)| zone);
        let present: u64 = zones().map(Zone::managed).sum();
        let weighed = |zone| Zone::managed(zone) * scattered_percent(self, zone);
        zones().map(weighed).sum::<u64>() / (present + 1)
    }
}

impl<'c, 'm, P: Platform> Compactor<'c, 'm, P> {
    /// The body of a background thread, when somebody has asked a node for `order` in zones up to
    /// `highest` and could not wait, or when who reclaims in the background goes to sleep. Returns
    /// whether there is a block of the order now, or what is to be ready for huge pages.
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

    /// Who is given a rest when the background forms nothing: by scanners everybody, since it has cost much;
    /// by index only the background, and a request still looks for itself, which costs little.
    fn background_deferral(&self, ctx: ZoneContext<'c, 'm, P>) -> &'m Deferral {
        match self.memory.tuning().compact.method {
            CompactMethod::Index => &ctx.hints.background,
            _ => &ctx.hints.deferral,
        }
    }

    /// Forms the pageblocks that a zone is to keep ready for huge pages, as far as there is room.
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

    /// Who reclaims in the background on a node is about to sleep: pageblocks that were skipped since
    /// a request looked at everything in vain may be looked at again.
    pub fn reset_skip_hints(&mut self, node: NodeId) {
        let memory = self.memory;
        for zone in memory.zones().filter(|zone| zone.node == node && zone.managed > 0) {
            self.reset_hints(self.zone_context(zone.id));
        }
    }

    #[cfg(feature = "scanners")]
    fn reset_hints(&self, ctx: ZoneContext<'_, 'm, P>) {
        super::scan::reset_hints(ctx);
    }

    /// By index hints are forgotten after a round in vain.
    #[cfg(not(feature = "scanners"))]
    fn reset_hints(&self, _: ZoneContext<'_, 'm, P>) {}

    /// Compacts a node if it is fragmented enough for that, until it is not, and leaves its reserve alone. To
    /// be called every half second while nobody reclaims in the background; says whether it had anything to
    /// do, and how much less fragmented the node is. Without improvement, half a minute's rest is in order.
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

/// Whether a zone is so little fragmented that proactive work ends.
pub(super) fn is_defragmented<P: Platform>(
    memory: &Memory<'_, P>,
    ctx: ZoneContext<'_, '_, P>,
) -> bool {
    scattered_percent(memory, ctx.on_cpu.zone) <= stop_score(&memory.tuning().compact)
}

/// The share of a zone's free memory that is in pieces smaller than a pageblock, in hundredths.
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
