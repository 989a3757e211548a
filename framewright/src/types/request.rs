//! Requests.

pub(crate) mod flags;
mod gfp;

use super::{MigrateType, NodeId, NodeMask, Order, ZoneKind};
use flags::*;

/// What is wanted: an order, a mobility, and how hard to try.
///
/// A plain value, best built as a constant:
///
/// ```
/// use framewright::{MigrateType, Order, Request};
/// const PAGE: Request = Request::new(Order::ZERO, MigrateType::Movable).zeroed();
/// ```
///
/// Two words, so that it travels in registers and a constant one costs the hot path nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Order, type, zone, preferred node and flags: a field each at these positions.
    what: u32,
    /// The nodes that it can use.
    nodes: NodeMask,
}

const ORDER: u32 = 0;
const TYPE: u32 = 5;
const HIGHEST: u32 = 8;
/// The number of the node plus one; 0: that of the CPU.
const NODE: u32 = 10;
const NODE_MASK: u32 = 0x7f << NODE;

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
        let what = (order.get() as u32) << ORDER
            | (migratetype as u32) << TYPE
            | (highest as u32) << HIGHEST;
        Self { what, nodes: NodeMask::ALL }
    }

    /// The same for blocks of another order.
    #[must_use]
    pub const fn of_order(mut self, order: Order) -> Self {
        self.what = self.what & !(0x1f << ORDER) | (order.get() as u32) << ORDER;
        self
    }

    /// Can use zones up to `highest` only: devices that reach only low addresses.
    #[must_use]
    pub const fn zone(mut self, highest: ZoneKind) -> Self {
        self.what = self.what & !(3 << HIGHEST) | (highest as u32) << HIGHEST;
        self
    }

    /// Prefers the zones of `node` to those of the CPU's own.
    #[must_use]
    pub const fn on_node(mut self, node: NodeId) -> Self {
        self.what = self.what & !NODE_MASK | (node.get() as u32 + 1) << NODE;
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

    /// One round of reclaim and compaction, no more: it would rather do without than wait long.
    #[must_use]
    pub const fn no_retry(self) -> Self {
        self.with(NO_RETRY)
    }

    /// Retries even where the order is costly; may fail in the end.
    #[must_use]
    pub const fn retry_may_fail(self) -> Self {
        self.with(RETRY_MAYFAIL)
    }

    /// Never fails where a zone can serve it: waits for memory as long as it takes. Ignored if it cannot wait.
    #[must_use]
    pub const fn no_fail(self) -> Self {
        self.with(NO_FAIL)
    }

    /// May use the whole reserve: who is about to free more than it takes, soon.
    #[must_use]
    pub const fn ignoring_watermarks(self) -> Self {
        self.with(IGNORING_WATERMARKS)
    }

    /// Comes from inside [`Relief`](crate::platform::Relief), or from anybody whom reclaim waits
    /// for: may use the whole reserve, and never asks for relief itself, which would not end.
    #[must_use]
    pub const fn inside_relief(self) -> Self {
        self.with(INSIDE_RELIEF)
    }

    /// May not use any reserve, whatever else it says.
    #[must_use]
    pub const fn without_reserves(self) -> Self {
        self.with(WITHOUT_RESERVES)
    }

    /// Comes from who was told to end so that its memory becomes free: may use half of the
    /// reserve for it, and does not wait long.
    #[must_use]
    pub const fn victim(self) -> Self {
        self.with(VICTIM)
    }

    /// Relief for it may start no I/O: the caller holds what I/O would wait for. Implies
    /// [`Request::no_fs`].
    #[must_use]
    pub const fn no_io(self) -> Self {
        self.with(NO_IO | NO_FS)
    }

    /// Relief for it may not call into file systems: the caller is one.
    #[must_use]
    pub const fn no_fs(self) -> Self {
        self.with(NO_FS)
    }

    /// Does not wake background reclaim.
    #[must_use]
    pub const fn no_wake(self) -> Self {
        self.with(NO_WAKE)
    }

    const fn with(mut self, flag: u32) -> Self {
        self.what |= flag;
        self
    }

    /// Whether it has any of these [`flags`].
    pub(crate) const fn has(self, flag: u32) -> bool {
        self.what & flag != 0
    }

    /// The order wanted.
    #[must_use]
    #[inline(always)]
    pub const fn order(self) -> Order {
        match Order::new((self.what >> ORDER & 0x1f) as u8) {
            Some(order) => order,
            None => Order::PAGEBLOCK,
        }
    }

    /// The mobility wanted.
    #[must_use]
    #[inline(always)]
    pub const fn migratetype(self) -> MigrateType {
        match MigrateType::from_number((self.what >> TYPE & 7) as u8) {
            Some(of) => of,
            None => MigrateType::Movable,
        }
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

    /// Whether relief for it may start I/O.
    #[must_use]
    pub const fn may_io(self) -> bool {
        !self.has(NO_IO)
    }

    /// Whether relief for it may call into file systems.
    #[must_use]
    pub const fn may_fs(self) -> bool {
        !self.has(NO_FS)
    }

    /// Whether it comes from who was told to end.
    #[must_use]
    pub const fn is_oom_victim(self) -> bool {
        self.has(VICTIM)
    }

    /// Whether nobody waits long for its order.
    #[must_use]
    pub const fn is_costly(self) -> bool {
        self.order().get() > COSTLY_ORDER
    }

    /// Whether one round of relief is all it waits for.
    pub(crate) const fn has_one_round(self) -> bool {
        self.has(NO_RETRY)
    }

    pub(crate) const fn may_fail_after_retries(self) -> bool {
        self.has(RETRY_MAYFAIL)
    }

    pub(crate) const fn never_fails(self) -> bool {
        self.has(NO_FAIL) && self.may_wait()
    }

    /// Whether relief may be asked to help it.
    pub(crate) const fn may_ask_for_relief(self) -> bool {
        self.may_wait() && !self.has(INSIDE_RELIEF)
    }

    pub(crate) const fn wants_one_node(self) -> bool {
        self.has(THIS_NODE)
    }

    pub(crate) const fn may_wake(self) -> bool {
        !self.has(NO_WAKE | INSIDE_RELIEF)
    }

    /// The highest kind of zone it can use.
    #[must_use]
    #[inline(always)]
    pub const fn highest(self) -> ZoneKind {
        ZoneKind::ALL[(self.what >> HIGHEST & 3) as usize]
    }

    /// The node it prefers; `None`: that of the CPU.
    #[must_use]
    pub const fn node(self) -> Option<NodeId> {
        match (self.what & NODE_MASK) >> NODE {
            0 => None,
            node => NodeId::new(node as u8 - 1),
        }
    }

    /// Whether it can use `node` if it prefers `preferred`.
    pub(crate) const fn allows(self, node: NodeId, preferred: NodeId) -> bool {
        self.nodes.contains(node) && (!self.has(THIS_NODE) || node.get() == preferred.get())
    }

    /// Whether it can use the preferred node only.
    #[inline(always)]
    pub(crate) const fn stays_on_node(self) -> bool {
        self.has(THIS_NODE)
    }

    /// Which of the zones that a CPU has at hand it tries first.
    #[inline(always)]
    pub(crate) const fn first_zone(self) -> FirstZone {
        match self.highest() {
            _ if self.what & (NODE_MASK | SOME_NODES) != 0 => FirstZone::Elsewhere,
            ZoneKind::Movable => FirstZone::OfAny,
            ZoneKind::Normal => FirstZone::OfNormal,
            ZoneKind::Dma | ZoneKind::Dma32 => FirstZone::Elsewhere,
        }
    }
}

/// The zone that a request tries first, as seen from its CPU.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum FirstZone {
    /// The first zone of any kind.
    OfAny,
    /// The first zone which is at most [`ZoneKind::Normal`].
    OfNormal,
    /// Another one: the zones have to be walked.
    Elsewhere,
}
