//! Requests for blocks.

pub(crate) mod flags;
mod gfp;

use super::{MigrateType, NodeId, NodeMask, Order, ZoneKind};
use flags::*;

/// A request for a block: its order, its mobility, and its limits on waiting and on reserves.
///
/// Usually built as a constant:
///
/// ```
/// use framewright::{MigrateType, Order, Request};
/// const PAGE: Request = Request::new(Order::ZERO, MigrateType::Movable).zeroed();
/// ```
///
/// The value is two words, so it is passed in registers, and a constant request costs the hot path
/// nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Order, type, zone, preferred node and flags, each a bit field at the positions below.
    what: u32,
    /// The nodes that the request can use.
    nodes: NodeMask,
}

const ORDER: u32 = 0;
const TYPE: u32 = 5;
const HIGHEST: u32 = 8;
/// The number of the preferred node plus one; 0: the node of the CPU.
const NODE: u32 = 10;
const NODE_MASK: u32 = 0x7f << NODE;

/// Orders above this one are costly: requests for them do not wait long.
const COSTLY_ORDER: u8 = 3;

impl Request {
    /// A request that may wait for reclaim and compaction ([`Relief`](crate::platform::Relief)), retries
    /// within bounds, and may fail. Movable requests may use every kind of zone, other requests all but
    /// [`ZoneKind::Movable`]. The zones of the CPU's own node are tried first.
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

    /// The same request for another order.
    #[must_use]
    pub const fn of_order(mut self, order: Order) -> Self {
        self.what = self.what & !(0x1f << ORDER) | (order.get() as u32) << ORDER;
        self
    }

    /// Restricts the request to zones up to `highest`, for devices that can access only low
    /// addresses.
    #[must_use]
    pub const fn zone(mut self, highest: ZoneKind) -> Self {
        self.what = self.what & !(3 << HIGHEST) | (highest as u32) << HIGHEST;
        self
    }

    /// Prefers the zones of `node` to those of the CPU's own node.
    #[must_use]
    pub const fn on_node(mut self, node: NodeId) -> Self {
        self.what = self.what & !NODE_MASK | (node.get() as u32 + 1) << NODE;
        self
    }

    /// Restricts the request to the preferred node.
    #[must_use]
    pub const fn this_node(self) -> Self {
        self.with(THIS_NODE)
    }

    /// Restricts the request to these nodes.
    #[must_use]
    pub const fn nodes(mut self, nodes: NodeMask) -> Self {
        self.nodes = nodes;
        self.with(SOME_NODES)
    }

    /// Fills the frames with zeroes.
    #[must_use]
    pub const fn zeroed(self) -> Self {
        self.with(ZEROED)
    }

    /// The request cannot wait, and may use most of the reserve: the frames below the min
    /// watermark. For interrupt handlers.
    #[must_use]
    pub const fn atomic(self) -> Self {
        self.with(URGENT | NO_WAIT)
    }

    /// The request may use half of the reserve (the frames below the min watermark).
    #[must_use]
    pub const fn urgent(self) -> Self {
        self.with(URGENT)
    }

    /// The request cannot wait: no reclaim, no compaction, no draining of other CPUs.
    #[must_use]
    pub const fn no_wait(self) -> Self {
        self.with(NO_WAIT)
    }

    /// At most one round of reclaim and compaction: the caller prefers failure to a long wait.
    #[must_use]
    pub const fn no_retry(self) -> Self {
        self.with(NO_RETRY)
    }

    /// Retries even if the order is costly; may fail in the end.
    #[must_use]
    pub const fn retry_may_fail(self) -> Self {
        self.with(RETRY_MAYFAIL)
    }

    /// Never fails if a zone can serve the request: waits for memory as long as necessary. Ignored
    /// if the request cannot wait.
    #[must_use]
    pub const fn no_fail(self) -> Self {
        self.with(NO_FAIL)
    }

    /// The request may use the whole reserve: the caller is about to free more than it takes.
    #[must_use]
    pub const fn ignoring_watermarks(self) -> Self {
        self.with(IGNORING_WATERMARKS)
    }

    /// The request comes from inside [`Relief`](crate::platform::Relief), or from a task for which
    /// reclaim waits (`PF_MEMALLOC` in Linux). The request may use the whole reserve. It never calls
    /// [`Relief`](crate::platform::Relief) itself, because this would recurse without end.
    #[must_use]
    pub const fn inside_relief(self) -> Self {
        self.with(INSIDE_RELIEF)
    }

    /// The request may use neither the frames below the min watermark nor the high-atomic reserve,
    /// whatever its other flags allow, except [`Request::no_fail`]. The huge-page reserve is not
    /// concerned.
    #[must_use]
    pub const fn without_reserves(self) -> Self {
        self.with(WITHOUT_RESERVES)
    }

    /// The OOM killer has chosen the task of this request, and the task's memory becomes free at
    /// its exit. The request may use half of the reserve, so that the task can exit, and does not
    /// wait long.
    #[must_use]
    pub const fn oom_victim(self) -> Self {
        self.with(VICTIM)
    }

    /// Reclaim and compaction for the request may not start I/O, because the caller holds a
    /// resource that I/O would wait for. Implies [`Request::no_fs`].
    #[must_use]
    pub const fn no_io(self) -> Self {
        self.with(NO_IO | NO_FS)
    }

    /// Reclaim and compaction for the request may not call into file systems, because the caller is
    /// one.
    #[must_use]
    pub const fn no_fs(self) -> Self {
        self.with(NO_FS)
    }

    /// The request does not wake background reclaim.
    #[must_use]
    pub const fn no_wake(self) -> Self {
        self.with(NO_WAKE)
    }

    const fn with(mut self, flag: u32) -> Self {
        self.what |= flag;
        self
    }

    /// Whether the request has any of these [`flags`].
    pub(crate) const fn has(self, flag: u32) -> bool {
        self.what & flag != 0
    }

    /// The requested order.
    #[must_use]
    #[inline(always)]
    pub const fn order(self) -> Order {
        Order::from_low_bits((self.what >> ORDER & 0x1f) as u64)
    }

    /// The requested mobility.
    #[must_use]
    #[inline(always)]
    pub const fn migratetype(self) -> MigrateType {
        match MigrateType::from_number(self.type_number()) {
            Some(of) => of,
            None => MigrateType::Movable,
        }
    }

    /// The number of the requested mobility.
    #[inline(always)]
    pub(crate) const fn type_number(self) -> u8 {
        self.what as u8 >> TYPE
    }

    /// Whether the frames are filled with zeroes.
    #[must_use]
    pub const fn is_zeroed(self) -> bool {
        self.has(ZEROED)
    }

    /// Whether the request may wait for reclaim and compaction.
    #[must_use]
    pub const fn may_wait(self) -> bool {
        !self.has(NO_WAIT)
    }

    /// Whether reclaim for the request may start I/O.
    #[must_use]
    pub const fn may_io(self) -> bool {
        !self.has(NO_IO)
    }

    /// Whether reclaim for the request may call into file systems.
    #[must_use]
    pub const fn may_fs(self) -> bool {
        !self.has(NO_FS)
    }

    /// Whether the request comes from a task that the OOM killer has chosen.
    #[must_use]
    pub const fn is_oom_victim(self) -> bool {
        self.has(VICTIM)
    }

    /// Whether the order is costly. A request for a costly order does not wait long.
    #[must_use]
    pub const fn is_costly(self) -> bool {
        self.order().get() > COSTLY_ORDER
    }

    /// Whether the request waits for at most one round of reclaim and compaction.
    pub(crate) const fn has_one_round(self) -> bool {
        self.has(NO_RETRY)
    }

    pub(crate) const fn may_fail_after_retries(self) -> bool {
        self.has(RETRY_MAYFAIL)
    }

    pub(crate) const fn never_fails(self) -> bool {
        self.has(NO_FAIL) && self.may_wait()
    }

    /// Whether the request may call [`Relief`](crate::platform::Relief).
    pub(crate) const fn may_ask_for_relief(self) -> bool {
        self.may_wait() && !self.has(INSIDE_RELIEF)
    }

    pub(crate) const fn wants_one_node(self) -> bool {
        self.has(THIS_NODE)
    }

    pub(crate) const fn may_wake(self) -> bool {
        !self.has(NO_WAKE | INSIDE_RELIEF)
    }

    /// The highest kind of zone that the request can use.
    #[must_use]
    #[inline(always)]
    pub const fn highest(self) -> ZoneKind {
        ZoneKind::ALL[(self.what >> HIGHEST & 3) as usize]
    }

    /// The node that the request prefers; `None`: the node of the CPU.
    #[must_use]
    pub const fn node(self) -> Option<NodeId> {
        match (self.what & NODE_MASK) >> NODE {
            0 => None,
            node => NodeId::new(node as u8 - 1),
        }
    }

    /// Whether the request can use `node` if it prefers `preferred`.
    pub(crate) const fn allows(self, node: NodeId, preferred: NodeId) -> bool {
        self.nodes.contains(node) && (!self.has(THIS_NODE) || node.get() == preferred.get())
    }

    /// Whether the request can use the preferred node only.
    #[inline(always)]
    pub(crate) const fn stays_on_node(self) -> bool {
        self.has(THIS_NODE)
    }

    /// The zone that the request tries first, if the CPU's claim has looked it up.
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

/// The zone that a request tries first, in the zonelist of its CPU's node.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum FirstZone {
    /// The first zone of any kind.
    OfAny,
    /// The first zone of a kind up to [`ZoneKind::Normal`].
    OfNormal,
    /// Another zone: the zonelist is walked.
    Elsewhere,
}
