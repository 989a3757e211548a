//! Pauses.
//!
//! Reclaim that is ahead of the store, or of others who reclaim, only takes the CPU from them. How
//! to wait is the owner's business ([`PageOwner::pause`](super::PageOwner::pause)); nothing is
//! decided by how long it took.

use crate::{
    observe::{NodeStat, VmscanEvent},
    platform::{CpuId, Platform},
    zone::{NodeId, ZoneKind},
};

use super::{
    Reclaim, Throttle,
    scan::{By, Scan},
};

impl<P: Platform> Reclaim<'_, '_, P> {
    pub(super) fn pause(&self, scan: &Scan, why: Throttle) {
        self.pause_on(scan.cpu, scan.node, why);
    }

    fn pause_on(&self, cpu: CpuId, node: NodeId, why: Throttle) {
        let platform = self.memory.platform();
        let before = platform.now();
        self.owner.pause(why);
        if P::TRACING {
            let usec = |nanos: u64| nanos / 1000;
            let event = VmscanEvent::Throttled {
                node,
                usec_timeout: usec(why.at_most()),
                usec_delayed: usec(platform.now().saturating_sub(before)),
                reason: why.name(),
            };
            platform.trace(cpu, &event.into());
        }
    }

    /// Nothing was reclaimed although everything was looked at.
    pub(super) fn pause_without_progress(&self, scan: &Scan) {
        let node = self.state.node(scan.node);
        let hopeless = node.kswapd.failures() >= self.memory.tuning().reclaim.hopeless;
        if scan.by == By::Direct && !hopeless {
            self.pause(scan, Throttle::NoProgress);
        }
    }

    /// Who needs memory leaves what little there is to those who free some: while not even half of
    /// the reserve of a node is free, it wakes background reclaim and pauses, once.
    pub(super) fn wait_for_reserve(&self, cpu: CpuId, node: NodeId, highest: ZoneKind) {
        let relief = self.memory.platform().relief();
        let words = &self.state.node(node).kswapd;
        let hopeless = words.failures() >= self.memory.tuning().reclaim.hopeless;
        if hopeless || !relief.reclaims_in_background() || self.has_reserve(node) {
            return;
        }
        relief.wake(node, crate::frame::Order::ZERO, highest);
        self.state.node(node).count(NodeStat::PgscanDirectThrottle, 1);
        self.pause_on(cpu, node, Throttle::Reserve);
    }

    fn has_reserve(&self, node: NodeId) -> bool {
        let zones = self.memory.zones_of(node).filter(|zone| zone.kind() <= ZoneKind::Normal);
        let (free, min) = zones.fold((0, 0), |(free, min), zone| {
            (free + zone.free(), min + zone.marks().levels().min)
        });
        min == 0 || free > min / 2
    }
}
