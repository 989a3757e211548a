//! Pauses of reclaim.
//!
//! If reclaim runs ahead of the store or of other reclaimers, it only takes CPU time from them. So it pauses:
//! the embedder waits ([`Relief::pause`](crate::platform::Relief::pause)), and the library wakes it when the
//! condition of the pause is met ([`Relief::resume`](crate::platform::Relief::resume)). No decision depends
//! on the length of a pause.
//!
//! | kind | ends when | woken by |
//! |---|---|---|
//! | write-back | the first page seen under write-back is written, or as many pages as a cluster has | `Reclaim::written` |
//! | congested | as above | as above |
//! | isolated | fewer pages are isolated than the lists allow | putting pages back |
//! | no progress | a page of the node was reclaimed | `shrink_list` |
//! | reserve | half of the reserve is free, or background reclaim sleeps | `Kswapd::step`, direct reclaim |
//!
//! No wake-up is lost. The waiter increments the count in [`Waiters`], then checks its condition once more;
//! the waker changes the condition, then reads the count. Each has a full fence between the two. So the waker
//! sees the waiter, or the waiter sees the condition.

use crate::{
    observe::{NodeStat, VmscanEvent},
    platform::{CpuId, Platform},
    sync::{AtomicU32, Ordering, fence},
    zone::{NodeId, ZoneKind},
};

use super::{
    Reclaim,
    flags::Flags,
    kind::PageKind,
    node::Node,
    scan::{ReclaimStat, Reclaimer, ScanControl},
};

/// Why reclaim pauses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum Throttle {
    /// Pages become dirty faster than the store can write them: wait until some are written.
    WriteBack,
    /// Others have too many pages isolated: wait until some are put back.
    Isolated,
    /// Nothing could be reclaimed at any priority.
    NoProgress,
    /// Every dirty page that was scanned is under write-back.
    Congested,
    /// So little memory is free that requests must leave it to background reclaim.
    Reserve,
}

impl Throttle {
    /// All reasons, in order.
    pub const ALL: [Self; Self::COUNT] =
        [Self::WriteBack, Self::Isolated, Self::NoProgress, Self::Congested, Self::Reserve];
    /// The number of reasons.
    pub const COUNT: usize = 5;

    /// The longest pause, in nanoseconds (a tick counts as 4 ms).
    #[must_use]
    pub const fn at_most(self) -> u64 {
        match self {
            Throttle::WriteBack => 100_000_000,
            Throttle::Isolated => 20_000_000,
            Throttle::NoProgress | Throttle::Congested => 4_000_000,
            Throttle::Reserve => 1_000_000_000,
        }
    }

    /// The name in Linux's trace events.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Throttle::WriteBack => "VMSCAN_THROTTLE_WRITEBACK",
            Throttle::Isolated => "VMSCAN_THROTTLE_ISOLATED",
            Throttle::NoProgress => "VMSCAN_THROTTLE_NOPROGRESS",
            Throttle::Congested => "VMSCAN_THROTTLE_CONGESTED",
            Throttle::Reserve => "VMSCAN_THROTTLE_RESERVE",
        }
    }

    /// The counter of pauses that ended before their condition was met.
    #[must_use]
    pub const fn expired(self) -> NodeStat {
        match self {
            Throttle::WriteBack => NodeStat::ExpiredWriteBack,
            Throttle::Isolated => NodeStat::ExpiredIsolated,
            Throttle::NoProgress => NodeStat::ExpiredNoProgress,
            Throttle::Congested => NodeStat::ExpiredCongested,
            Throttle::Reserve => NodeStat::ExpiredReserve,
        }
    }
}

/// A pause that reclaim asks for: [`Relief::pause`](crate::platform::Relief::pause).
#[derive(Clone, Copy)]
pub struct Pause<'p> {
    cpu: CpuId,
    node: NodeId,
    why: Throttle,
    is_over: &'p dyn Fn() -> bool,
}

impl Pause<'_> {
    /// The CPU that pauses. Its token is in use.
    #[must_use]
    pub const fn cpu(&self) -> CpuId {
        self.cpu
    }

    /// The node whose pages are reclaimed.
    #[must_use]
    pub const fn node(&self) -> NodeId {
        self.node
    }

    /// The reason for the pause.
    #[must_use]
    pub const fn why(&self) -> Throttle {
        self.why
    }

    /// The longest that the pause may take, in nanoseconds.
    #[must_use]
    pub const fn at_most(&self) -> u64 {
        self.why.at_most()
    }

    /// Whether the condition of the pause is met. Takes no lock and does not wait.
    #[must_use]
    pub fn is_over(&self) -> bool {
        (self.is_over)()
    }
}

impl core::fmt::Debug for Pause<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { cpu, node, why, .. } = self;
        let mut f = f.debug_struct("Pause");
        f.field("cpu", cpu).field("node", node).field("why", why).finish_non_exhaustive()
    }
}

/// The number of waiters on a node, by reason.
pub(super) struct Waiters([AtomicU32; Throttle::COUNT]);

impl Waiters {
    pub(super) fn new() -> Self {
        Self(core::array::from_fn(|_| AtomicU32::new(0)))
    }

    /// Counts a waiter. The waiter must check its condition after this, so that either the waiter
    /// sees the change or the waker sees the waiter.
    fn enter(&self, why: Throttle) -> WaiterGuard<'_> {
        let count = &self.0[why as usize];
        count.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        WaiterGuard(count)
    }

    /// Whether there may be a waiter that has not seen the caller's changes before this call.
    fn has(&self, why: Throttle) -> bool {
        fence(Ordering::SeqCst);
        self.0[why as usize].load(Ordering::Relaxed) > 0
    }
}

/// A pause in progress. Dropping the guard ends it, also if the embedder panics.
struct WaiterGuard<'p>(&'p AtomicU32);

impl Drop for WaiterGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<P: Platform> Node<'_, P> {
    /// Wakes the waiters for these reasons, if there are any. Called after a change that may meet their
    /// condition, not under a lock of the library.
    #[inline(never)]
    pub(super) fn resume(&self, platform: &P, reasons: &[Throttle]) {
        for &why in reasons {
            if self.waiters.has(why) {
                platform.relief().resume(self.id(), why);
            }
        }
    }
}

impl<P: Platform> Reclaim<'_, '_, P> {
    /// Pauses until `is_over`, or until the time limit of its kind.
    #[inline(never)]
    fn pause(&self, cpu: CpuId, node: NodeId, why: Throttle, is_over: &dyn Fn() -> bool) {
        let (platform, of) = (self.memory.platform(), self.state.node(node));
        let _entered = of.waiters.enter(why);
        if !is_over() {
            let before = platform.now();
            platform.relief().pause(&Pause { cpu, node, why, is_over });
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

    /// The store is slow: pauses until the first page seen under write-back is written, or as many
    /// pages as a cluster has.
    #[inline(never)]
    pub(super) fn pause_for_writes(&self, scan: &ScanControl, why: Throttle, seen: &ReclaimStat) {
        let Some(first) = seen.first_writeback else { return };
        let node = self.state.node(scan.node);
        let enough = node.written() + u64::from(self.memory.tuning().reclaim.cluster);
        let is_written = || !self.state.flags_at(first).has(Flags::RECLAIM);
        self.pause(scan.cpu, scan.node, why, &|| is_written() || node.written() >= enough);
    }

    /// Others have many pages isolated: pauses until some are put back.
    #[inline(never)]
    pub(super) fn pause_for_isolated(&self, scan: &ScanControl, kind: PageKind) {
        let is_over = || !self.too_many_isolated(scan, kind);
        self.pause(scan.cpu, scan.node, Throttle::Isolated, &is_over);
    }

    /// Everything was scanned and nothing was reclaimed: pauses until another reclaimer has made
    /// progress.
    #[inline(never)]
    pub(super) fn pause_without_progress(&self, scan: &ScanControl) {
        if scan.by != Reclaimer::Direct || self.is_hopeless(scan.node) {
            return;
        }
        let node = self.state.node(scan.node);
        let before = node.stolen();
        self.pause(scan.cpu, scan.node, Throttle::NoProgress, &|| node.stolen() != before);
    }

    /// Leaves the last free memory to those that free some. If less than half of the reserve of a
    /// node is free, the request wakes background reclaim and pauses once.
    #[inline(never)]
    pub(super) fn wait_for_reserve(&self, cpu: CpuId, node: NodeId, highest: ZoneKind) {
        let relief = self.memory.platform().relief();
        if self.is_hopeless(node) || !relief.reclaims_in_background() || self.has_half_reserve(node)
        {
            return;
        }
        relief.wake(node, crate::frame::Order::ZERO, highest);
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
