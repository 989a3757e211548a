//! Requests.

use core::fmt;

use super::MigrateType;
use crate::{
    frame::Order,
    pcp::ListIndex,
    zone::{Access, Depth, NodeId, NodeMask, Watermark, ZoneKind},
};

/// What is wanted: an order, a mobility, and how hard to try.
///
/// A plain value, best built as a constant:
///
/// ```
/// use framewright::{MigrateType, Order, Request};
/// const PAGE: Request = Request::new(Order::ZERO, MigrateType::Movable).zeroed();
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Request {
    order: Order,
    migratetype: MigrateType,
    flags: u8,
    highest: ZoneKind,
    node: Option<NodeId>,
    nodes: NodeMask,
}

const ZEROED: u8 = 1 << 0;
const URGENT: u8 = 1 << 1;
const NO_WAIT: u8 = 1 << 2;
const NO_RETRY: u8 = 1 << 3;
const RETRY_MAYFAIL: u8 = 1 << 4;
const NO_FAIL: u8 = 1 << 5;
const THIS_NODE: u8 = 1 << 6;
const SOME_NODES: u8 = 1 << 7;

/// Orders above this are costly: nobody waits long for them.
const COSTLY_ORDER: u8 = 3;

impl Request {
    /// A request that may wait for relief, retries within bounds, and may fail. Movable
    /// requests may use every kind of zone, others all but [`ZoneKind::Movable`]; the zones of
    /// the CPU's own node are tried first.
    #[must_use]
    pub const fn new(order: Order, migratetype: MigrateType) -> Self {
        let highest = match migratetype {
            MigrateType::Movable => ZoneKind::Movable,
            _ => ZoneKind::Normal,
        };
        Self { order, migratetype, flags: 0, highest, node: None, nodes: NodeMask::ALL }
    }

    /// Can use zones up to `highest` only: devices that reach only low addresses.
    #[must_use]
    pub const fn zone(mut self, highest: ZoneKind) -> Self {
        self.highest = highest;
        self
    }

    /// Prefers the zones of `node` to those of the CPU's own.
    #[must_use]
    pub const fn on_node(mut self, node: NodeId) -> Self {
        self.node = Some(node);
        self
    }

    /// Can use the preferred node only.
    #[must_use]
    pub const fn this_node(self) -> Self {
        self.with(THIS_NODE)
    }

    /// Can use these nodes only.
    #[must_use]
    pub const fn nodes(mut self, nodes: NodeMask) -> Self {
        self.nodes = nodes;
        self.with(SOME_NODES)
    }

    /// The frames shall be filled with zeroes.
    #[must_use]
    pub const fn zeroed(self) -> Self {
        self.with(ZEROED)
    }

    /// Cannot wait and may use most of the reserve: interrupt handlers.
    #[must_use]
    pub const fn atomic(self) -> Self {
        self.with(URGENT | NO_WAIT)
    }

    /// May use half of the reserve.
    #[must_use]
    pub const fn urgent(self) -> Self {
        self.with(URGENT)
    }

    /// Cannot wait: no reclaim, no compaction, no draining of other CPUs.
    #[must_use]
    pub const fn no_wait(self) -> Self {
        self.with(NO_WAIT)
    }

    /// One round of compaction and reclaim, no more.
    #[must_use]
    pub const fn no_retry(self) -> Self {
        self.with(NO_RETRY)
    }

    /// Retries even where the order is costly; may fail in the end.
    #[must_use]
    pub const fn retry_may_fail(self) -> Self {
        self.with(RETRY_MAYFAIL)
    }

    /// Never fails: waits for memory as long as it takes. Ignored if it cannot wait.
    #[must_use]
    pub const fn no_fail(self) -> Self {
        self.with(NO_FAIL)
    }

    const fn with(mut self, flag: u8) -> Self {
        self.flags |= flag;
        self
    }

    const fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// The order wanted.
    #[must_use]
    pub const fn order(self) -> Order {
        self.order
    }

    /// The mobility wanted.
    #[must_use]
    pub const fn migratetype(self) -> MigrateType {
        self.migratetype
    }

    /// Whether the frames shall be zeroed.
    #[must_use]
    pub const fn is_zeroed(self) -> bool {
        self.has(ZEROED)
    }

    /// Whether it may wait for relief.
    #[must_use]
    pub const fn may_wait(self) -> bool {
        !self.has(NO_WAIT)
    }

    pub(super) const fn may_retry(self) -> bool {
        let costly = self.order.get() > COSTLY_ORDER;
        self.may_wait() && !self.has(NO_RETRY) && (!costly || self.has(RETRY_MAYFAIL))
    }

    pub(super) const fn never_fails(self) -> bool {
        self.has(NO_FAIL) && self.may_wait()
    }

    /// The highest kind of zone it can use.
    #[must_use]
    pub const fn highest(self) -> ZoneKind {
        self.highest
    }

    /// The node it prefers; `None`: that of the CPU.
    #[must_use]
    pub const fn node(self) -> Option<NodeId> {
        self.node
    }

    /// Whether it can use `node` if it prefers `preferred`.
    pub(crate) const fn allows(self, node: NodeId, preferred: NodeId) -> bool {
        self.nodes.contains(node) && (!self.has(THIS_NODE) || node.get() == preferred.get())
    }

    /// What it may take at first.
    pub(super) const fn first_access(self) -> Access {
        Access::above(Watermark::Low, self.highest)
    }

    /// What it may take when the low watermark stood in its way.
    pub(super) const fn last_access(self) -> Access {
        let depth = match (self.has(URGENT), self.has(NO_WAIT)) {
            (true, true) => Depth::Atomic,
            (true, false) => Depth::HalfOfMin,
            (false, _) => Depth::Above(Watermark::Min),
        };
        Access { depth, highest: self.highest }
    }

    /// Whether the first zone of the CPU's own node will do for it.
    #[inline(always)]
    pub(super) const fn is_at_home(self) -> bool {
        self.node.is_none() && !self.has(SOME_NODES)
    }

    /// The per-CPU list that serves it.
    #[inline(always)]
    pub(crate) fn list(self) -> Option<ListIndex> {
        ListIndex::serving(self.order, self.migratetype)
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Request({:?}, {}, {self})", self.order, self.migratetype)
    }
}

/// The flags as the kernel would name them (`gfp_flags` of its trace events).
impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.migratetype, self.has(URGENT), self.has(NO_WAIT)) {
            (_, true, true) => "GFP_ATOMIC",
            (_, false, true) => "GFP_NOWAIT",
            (MigrateType::Movable, ..) => "GFP_HIGHUSER_MOVABLE",
            (MigrateType::Reclaimable, ..) => "GFP_KERNEL|__GFP_RECLAIMABLE",
            _ => "GFP_KERNEL",
        })?;
        match self.highest {
            ZoneKind::Dma => f.write_str("|GFP_DMA")?,
            ZoneKind::Dma32 => f.write_str("|GFP_DMA32")?,
            ZoneKind::Normal | ZoneKind::Movable => {}
        }
        let urgent_only = self.has(URGENT) && !self.has(NO_WAIT);
        for (on, name) in [
            (urgent_only, "|__GFP_HIGH"),
            (self.has(RETRY_MAYFAIL), "|__GFP_RETRY_MAYFAIL"),
            (self.has(NO_FAIL), "|__GFP_NOFAIL"),
            (self.has(NO_RETRY), "|__GFP_NORETRY"),
            (self.has(ZEROED), "|__GFP_ZERO"),
            (self.has(THIS_NODE), "|__GFP_THISNODE"),
        ] {
            if on {
                f.write_str(name)?;
            }
        }
        Ok(())
    }
}
