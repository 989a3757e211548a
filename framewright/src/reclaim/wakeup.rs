//! Waking background reclaim: its requests, and the test whether a node has enough free memory.

use crate::{
    platform::Platform,
    sync::{AtomicBool, AtomicU32, Ordering},
    types::{CpuId, NodeId, Order, VmscanEvent, Watermark, ZoneKind},
    zone::{AllocFlags, ZoneAccess},
};

use super::Reclaim;

/// The requests to background reclaim of a node, and its findings.
pub(crate) struct KswapdState {
    /// The highest order requested, plus 1; 0 if nothing is requested.
    order: AtomicU32,
    /// The highest kind of zone requested.
    highest: AtomicU32,
    /// Whether background reclaim was woken and has not begun yet.
    woken: AtomicBool,
    /// Whether background reclaim is working.
    awake: AtomicBool,
    /// Rounds in a row without progress.
    failures: AtomicU32,
    /// Whether all pages of a pass were under writeback.
    writing_back: AtomicBool,
    /// Whether all pages of a pass were dirty and not under writeback.
    dirty: AtomicBool,
}

impl KswapdState {
    pub(crate) fn new() -> Self {
        Self {
            order: AtomicU32::new(0),
            highest: AtomicU32::new(0),
            woken: AtomicBool::new(false),
            awake: AtomicBool::new(false),
            failures: AtomicU32::new(0),
            writing_back: AtomicBool::new(false),
            dirty: AtomicBool::new(false),
        }
    }

    /// Adds a request. Background reclaim works for the highest order and the highest zone of all
    /// requests.
    pub(super) fn request(&self, order: Order, highest: ZoneKind) {
        self.highest.fetch_max(highest as u32, Ordering::AcqRel);
        self.order.fetch_max(u32::from(order.get()) + 1, Ordering::AcqRel);
    }

    /// Removes and returns the requests.
    pub(super) fn take(&self) -> Option<(Order, ZoneKind)> {
        let order = self.order.swap(0, Ordering::AcqRel).checked_sub(1)?;
        let highest = self.highest.swap(0, Ordering::AcqRel) as usize;
        let order = Order::new(order as u8).unwrap_or_default();
        Some((order, ZoneKind::ALL[highest.min(ZoneKind::COUNT - 1)]))
    }

    pub(super) fn is_requested(&self) -> bool {
        self.order.load(Ordering::Acquire) != 0
    }

    /// Background reclaim starts to work.
    pub(super) fn begin(&self) {
        self.awake.store(true, Ordering::Release);
        self.woken.store(false, Ordering::Release);
    }

    /// Background reclaim sleeps, and can be woken again.
    pub(super) fn sleep(&self) {
        self.woken.store(false, Ordering::Release);
        self.awake.store(false, Ordering::SeqCst);
    }

    /// Whether background reclaim works or was woken.
    pub(super) fn is_running(&self) -> bool {
        // The order matters: `begin` sets `awake` before it clears `woken`, so one of them is seen
        // set.
        self.woken.load(Ordering::Acquire) || self.awake.load(Ordering::Acquire)
    }

    pub(super) fn failures(&self) -> u32 {
        self.failures.load(Ordering::Relaxed)
    }

    pub(super) fn set_failures(&self, failures: u32) {
        self.failures.store(failures, Ordering::Relaxed);
    }

    pub(super) fn is_writing_back(&self) -> bool {
        self.writing_back.load(Ordering::Relaxed)
    }

    pub(super) fn set_writing_back(&self, is: bool) {
        self.writing_back.store(is, Ordering::Relaxed);
    }

    pub(super) fn is_dirty(&self) -> bool {
        self.dirty.load(Ordering::Relaxed)
    }

    pub(super) fn set_dirty(&self, is: bool) {
        self.dirty.store(is, Ordering::Relaxed);
    }
}

impl<P: Platform> Reclaim<'_, '_, P> {
    /// Records that a request for `order` in zones up to `highest` found the node short of memory.
    /// Returns whether the embedder must wake background reclaim. Waking it is not necessary if it
    /// is working, if the node has enough free memory, or if the node is hopeless.
    pub fn wake(&self, node: NodeId, order: Order, highest: ZoneKind) -> bool {
        if !self.has_node(node) {
            return false;
        }
        let kswapd_state = &self.state.node(node).kswapd;
        kswapd_state.request(order, highest);
        if kswapd_state.awake.load(Ordering::Acquire) || self.is_hopeless(node) {
            return false;
        }
        if self.is_balanced(node, order, highest) && !self.is_boosted(node, highest) {
            return false;
        }
        kswapd_state.woken.store(true, Ordering::Release);
        self.trace(CpuId::default(), || VmscanEvent::WakeupKswapd { node, highest, order });
        true
    }

    /// Whether background reclaim has failed too often on a node, and is not woken for it.
    #[must_use]
    pub fn is_hopeless(&self, node: NodeId) -> bool {
        self.has_node(node)
            && self.state.node(node).kswapd.failures() >= self.memory.tuning().reclaim.max_failures
    }

    /// Whether a zone of the node up to `highest` is above *high* for the order, or there is no
    /// such zone.
    pub(super) fn is_balanced(&self, node: NodeId, order: Order, highest: ZoneKind) -> bool {
        self.passes_high(node, order, ZoneAccess::above(Watermark::High, highest))
    }

    /// As [`Reclaim::is_balanced`], without the boosts and the huge-page reserves in the
    /// watermarks.
    pub(super) fn is_balanced_unboosted(
        &self,
        node: NodeId,
        order: Order,
        highest: ZoneKind,
    ) -> bool {
        let access = ZoneAccess {
            flags: AllocFlags::PAST_BOOST,
            ..ZoneAccess::above(Watermark::High, highest)
        };
        self.passes_high(node, order, access)
    }

    fn passes_high(&self, node: NodeId, order: Order, access: ZoneAccess) -> bool {
        let mut zones = self.memory.zones_of(node).filter(|zone| zone.serves(access.highest));
        let mut any = false;
        zones.any(|zone| {
            any = true;
            // The lowmem reserve of a zone is not free for a request that could use a higher zone.
            zone.may_take(self.memory.platform(), order, access)
        }) || !any
    }

    fn is_boosted(&self, node: NodeId, highest: ZoneKind) -> bool {
        self.boosts(node, highest).into_iter().any(|boost| boost > 0)
    }

    /// The boosts of the zones of a node, by kind of zone.
    pub(super) fn boosts(&self, node: NodeId, highest: ZoneKind) -> [u64; ZoneKind::COUNT] {
        let mut boosts = [0; ZoneKind::COUNT];
        for zone in self.memory.zones_of(node).filter(|zone| zone.serves(highest)) {
            boosts[zone.kind() as usize] = zone.marks().boost();
        }
        boosts
    }
}
