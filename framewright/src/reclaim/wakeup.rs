//! When background reclaim is to work: what its waker tells it, and when a node has enough.

use crate::{
    frame::Order,
    observe::VmscanEvent,
    platform::{CpuId, Platform},
    sync::{AtomicBool, AtomicU32, Ordering},
    zone::{Access, NodeId, Rights, Watermark, ZoneKind},
};

use super::Reclaim;

/// What the waker tells the sleeper, and what it knows of its node.
pub(crate) struct KswapdState {
    /// The highest order wanted, plus 1; 0: nothing.
    order: AtomicU32,
    /// The highest zone wanted.
    highest: AtomicU32,
    /// Whether background reclaim was woken and has not begun yet.
    woken: AtomicBool,
    /// Whether it works at the moment.
    awake: AtomicBool,
    /// Rounds without any progress.
    failures: AtomicU32,
    /// All pages of a pass were under write-back.
    writing_back: AtomicBool,
    /// All pages of a pass were dirty, and nobody wrote them.
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

    /// Adds a wish to what is wanted.
    pub(super) fn request(&self, order: Order, highest: ZoneKind) {
        self.highest.fetch_max(highest as u32, Ordering::AcqRel);
        self.order.fetch_max(u32::from(order.get()) + 1, Ordering::AcqRel);
    }

    /// Takes what is wanted.
    pub(super) fn take(&self) -> Option<(Order, ZoneKind)> {
        let order = self.order.swap(0, Ordering::AcqRel).checked_sub(1)?;
        let highest = self.highest.swap(0, Ordering::AcqRel) as usize;
        let order = Order::new(order as u8).unwrap_or_default();
        Some((order, ZoneKind::ALL[highest.min(ZoneKind::COUNT - 1)]))
    }

    pub(super) fn is_requested(&self) -> bool {
        self.order.load(Ordering::Acquire) != 0
    }

    /// Background reclaim begins to work.
    pub(super) fn begin(&self) {
        self.awake.store(true, Ordering::Release);
        self.woken.store(false, Ordering::Release);
    }

    /// Background reclaim sleeps. A later request wakes it.
    pub(super) fn sleep(&self) {
        self.woken.store(false, Ordering::Release);
        self.awake.store(false, Ordering::SeqCst);
    }

    /// Whether background reclaim works, or was woken.
    pub(super) fn is_running(&self) -> bool {
        // In this order: `begin` sets `awake` before it clears `woken`, so one of them is seen set.
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
    /// A request for `order` that can use zones up to `highest` found the node short of memory:
    /// remembers that. Says whether background reclaim has to be woken for it; it need not if it
    /// works, if enough is free after all, or if it is hopeless.
    pub fn wake(&self, node: NodeId, order: Order, highest: ZoneKind) -> bool {
        if !self.has_node(node) {
            return false;
        }
        let words = &self.state.node(node).kswapd;
        words.request(order, highest);
        if words.awake.load(Ordering::Acquire) || self.is_hopeless(node) {
            return false;
        }
        if self.is_balanced(node, order, highest) && !self.is_boosted(node, highest) {
            return false;
        }
        words.woken.store(true, Ordering::Release);
        self.trace(CpuId::default(), || VmscanEvent::WakeupKswapd { node, highest, order });
        true
    }

    /// Whether background reclaim has given up on a node.
    #[must_use]
    pub fn is_hopeless(&self, node: NodeId) -> bool {
        self.has_node(node)
            && self.state.node(node).kswapd.failures() >= self.memory.tuning().reclaim.hopeless
    }

    /// Whether a zone of the node up to `highest` has enough free, for the order; or there is none.
    pub(super) fn is_balanced(&self, node: NodeId, order: Order, highest: ZoneKind) -> bool {
        self.passes_high(node, order, Access::above(Watermark::High, highest))
    }

    /// The same without regard to boosts.
    pub(super) fn is_balanced_unboosted(
        &self,
        node: NodeId,
        order: Order,
        highest: ZoneKind,
    ) -> bool {
        let access =
            Access { rights: Rights::PAST_BOOST, ..Access::above(Watermark::High, highest) };
        self.passes_high(node, order, access)
    }

    fn passes_high(&self, node: NodeId, order: Order, access: Access) -> bool {
        let mut zones = self.memory.zones_of(node).filter(|zone| zone.serves(access.highest));
        let mut any = false;
        zones.any(|zone| {
            any = true;
            // What a lower zone keeps back is not free for who could use a higher one.
            zone.may_take(order, access)
        }) || !any
    }

    fn is_boosted(&self, node: NodeId, highest: ZoneKind) -> bool {
        self.boosts(node, highest).into_iter().any(|boost| boost > 0)
    }

    /// The boosts of the zones of a node, by kind.
    pub(super) fn boosts(&self, node: NodeId, highest: ZoneKind) -> [u64; ZoneKind::COUNT] {
        let mut boosts = [0; ZoneKind::COUNT];
        for zone in self.memory.zones_of(node).filter(|zone| zone.serves(highest)) {
            boosts[zone.kind() as usize] = zone.marks().boost();
        }
        boosts
    }
}
