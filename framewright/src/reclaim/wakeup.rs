//! Waking background reclaim, and the test whether a node has enough free memory.

use crate::{
    platform::Platform,
    sync::Ordering,
    types::{CpuId, NodeId, Order, VmscanEvent, Watermark, ZoneKind},
    zone::{AllocFlags, ZoneAccess},
};

use super::Reclaim;

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
