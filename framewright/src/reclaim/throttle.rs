//! Pauses of reclaim.
//!
//! If reclaim waits for the store or for other reclaimers, further scans only take CPU time from
//! them. Reclaim then pauses: the embedder waits
//! ([`Relief::pause`](crate::platform::Relief::pause)), and the library wakes it when the condition
//! of the pause is met ([`Relief::resume`](crate::platform::Relief::resume)). No decision depends
//! on the length of a pause.
//!
//! | kind | ends when | woken by |
//! |---|---|---|
//! | writeback | the first page seen under writeback is written, or as many pages as a cluster has | `Reclaim::written` |
//! | congested | as above | as above |
//! | isolated | the number of isolated pages is within its limit | putting pages back |
//! | no progress | a page of the node was reclaimed or written | `shrink_list`, `Reclaim::written` |
//! | reserve | half of the min watermarks of the node is free, or background reclaim sleeps | `Kswapd::step`, direct reclaim |
//!
//! (A cluster is the number of pages that reclaim isolates at once.)
//!
//! No wake-up is lost. The waiter increments the count in [`Waiters`](super::node::Waiters), then
//! checks its condition once more; the waker changes the condition, then reads the count. Each has a
//! full fence between the two. So the waker sees the waiter, or the waiter sees the condition.

use crate::{
    observe::NodeStat,
    platform::{Pause, Platform, Throttle},
    types::{CpuId, NodeId, PageKind, VmscanEvent, ZoneKind},
};

use super::{
    Reclaim,
    flags::Flags,
    scan::{Progress, ReclaimStat, Reclaimer, ScanControl},
};

impl<P: Platform> Reclaim<'_, '_, P> {
    /// Pauses until `is_over`, or until the time limit of its kind.
    #[inline(never)]
    fn pause(&self, cpu: CpuId, node: NodeId, why: Throttle, is_over: &dyn Fn() -> bool) {
        let (platform, of) = (self.memory.platform(), self.state.node(node));
        let _entered = of.waiters.enter(why);
        if !is_over() {
            let before = platform.now();
            platform.relief().pause(&Pause::new(cpu, node, why, is_over));
            of.count(why.expired(), u64::from(!is_over()));
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
    }

    /// The store is slow: pauses until the first page seen under writeback is written, or as many
    /// pages as a cluster has.
    #[inline(never)]
    pub(super) fn pause_for_writes(&self, scan: &ScanControl, why: Throttle, seen: &ReclaimStat) {
        let Some(first) = seen.first_writeback else { return };
        let node = self.state.node(scan.node);
        let enough = node.written() + u64::from(self.memory.tuning().reclaim.cluster);
        let is_written = || !self.state.flags_at(first).has(Flags::RECLAIM);
        self.pause(scan.cpu, scan.node, why, &|| is_written() || node.written() >= enough);
    }

    /// Other reclaimers have isolated many pages: pauses until some are put back.
    #[inline(never)]
    pub(super) fn pause_for_isolated(&self, scan: &ScanControl, kind: PageKind) {
        let is_over = || !self.too_many_isolated(scan, kind);
        self.pause(scan.cpu, scan.node, Throttle::Isolated, &is_over);
    }

    /// Nothing was reclaimed down to priority 1: pauses until another reclaimer or the store has made progress, if one of
    /// them can.
    #[inline(never)]
    pub(super) fn pause_without_progress(&self, scan: &ScanControl, progress: &Progress) {
        if scan.by != Reclaimer::Direct || self.is_hopeless(scan.node) {
            return;
        }
        let node = self.state.node(scan.node);
        let others_isolate = PageKind::ALL.iter().any(|&kind| node.isolated(kind) > 0);
        if !others_isolate && !node.kswapd.is_running() && progress.waiting == 0 {
            return;
        }
        let now = || (node.stolen(), node.written());
        let before = now();
        self.pause(scan.cpu, scan.node, Throttle::NoProgress, &|| now() != before);
    }

    /// Leaves the last free frames to callers that free memory. If less than half of the reserve of
    /// a node (its min watermarks together) is free, the request wakes background reclaim and
    /// pauses once.
    #[inline(never)]
    pub(super) fn wait_for_reserve(&self, cpu: CpuId, node: NodeId, highest: ZoneKind) {
        let relief = self.memory.platform().relief();
        if self.is_hopeless(node) || !relief.reclaims_in_background() || self.has_half_reserve(node)
        {
            return;
        }
        relief.wake(node, crate::types::Order::ZERO, highest);
        self.state.node(node).count(NodeStat::PgscanDirectThrottle, 1);
        self.pause(cpu, node, Throttle::Reserve, &|| self.reserve_wait_is_over(node));
    }

    /// Wakes the waiters for the reserve of a node, if their condition is met.
    #[inline(never)]
    pub(super) fn resume_for_reserve(&self, node: NodeId) {
        let of = self.state.node(node);
        if of.waiters.has(Throttle::Reserve) && self.reserve_wait_is_over(node) {
            self.memory.platform().relief().resume(node, Throttle::Reserve);
        }
    }

    /// Whether requests need not wait for the reserve of a node: half of it is free, or background reclaim
    /// does not run for it.
    fn reserve_wait_is_over(&self, node: NodeId) -> bool {
        let works = self.state.node(node).kswapd.is_running();
        !works || self.is_hopeless(node) || self.has_half_reserve(node)
    }

    fn has_half_reserve(&self, node: NodeId) -> bool {
        let zones = self.memory.zones_of(node).filter(|zone| zone.kind() <= ZoneKind::Normal);
        let (free, min) = zones.fold((0, 0), |(free, min), zone| {
            (free + zone.free(), min + zone.marks().levels().min)
        });
        min == 0 || free > min / 2
    }
}
