//! The parts of a machine's memory: nodes, zone kinds, zones.

use core::fmt;

/// A NUMA node: CPUs and memory that are close to one another. A node may have CPUs only, or memory
/// only.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(transparent)]
pub struct NodeId(u8);

impl NodeId {
    /// The maximum number of nodes.
    pub const LIMIT: usize = 64;

    /// The node with this number; `None` from [`NodeId::LIMIT`] on.
    #[must_use]
    pub const fn new(number: u8) -> Option<Self> {
        if (number as usize) < Self::LIMIT { Some(Self(number)) } else { None }
    }

    /// The number of the node.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }

    /// The number of the node as an index, below [`NodeId::LIMIT`].
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A set of nodes.
///
/// # Example
///
/// ```
/// use framewright::{MigrateType, NodeId, NodeMask, Order, Request};
///
/// let [near, far] = [0, 1].map(|number| NodeId::new(number).expect("below the limit"));
/// let allowed = NodeMask::NONE.with(far);
/// assert!(allowed.contains(far) && !allowed.contains(near));
/// let page = Request::new(Order::ZERO, MigrateType::Movable).nodes(allowed);
/// # let _ = page;
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct NodeMask(u64);

impl NodeMask {
    /// Every node.
    pub const ALL: NodeMask = NodeMask(u64::MAX);
    /// No node.
    pub const NONE: NodeMask = NodeMask(0);

    /// The set with `node` added.
    #[must_use]
    pub const fn with(self, node: NodeId) -> Self {
        Self(self.0 | 1 << node.0)
    }

    /// Whether `node` is in the set.
    #[must_use]
    pub const fn contains(self, node: NodeId) -> bool {
        self.0 >> node.0 & 1 == 1
    }
}

impl fmt::Debug for NodeMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeMask({:#x})", self.0)
    }
}

/// The use that the frames of a zone are restricted to, the most restricted first.
///
/// A request names the highest kind that it can use. It may be served from that kind and from all
/// lower ones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(u8)]
pub enum ZoneKind {
    /// Frames that devices with 24 address bits can access: below 16 MiB.
    Dma = 0,
    /// Frames that devices with 32 address bits can access: below 4 GiB.
    Dma32 = 1,
    /// Frames for every use, also by the kernel itself.
    #[default]
    Normal = 2,
    /// Frames for movable contents only, so that the zone can be emptied.
    Movable = 3,
}

impl ZoneKind {
    /// The number of kinds.
    pub const COUNT: usize = 4;
    /// All kinds, lowest first.
    pub const ALL: [ZoneKind; Self::COUNT] = [Self::Dma, Self::Dma32, Self::Normal, Self::Movable];

    /// The name that Linux prints.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dma => "DMA",
            Self::Dma32 => "DMA32",
            Self::Normal => "Normal",
            Self::Movable => "Movable",
        }
    }

    /// Whether the kernel itself can use the zone (Linux's lowmem).
    pub(crate) const fn is_lowmem(self) -> bool {
        !matches!(self, Self::Movable)
    }
}

impl fmt::Display for ZoneKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A zone of a memory. Zones are numbered by node, and within a node by kind.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(transparent)]
pub struct ZoneId(u8);

impl ZoneId {
    /// The maximum number of zones.
    pub(crate) const LIMIT: usize = NodeId::LIMIT * ZoneKind::COUNT;

    /// Zone `index`, which is below [`ZoneId::LIMIT`].
    pub(crate) const fn new(index: usize) -> Self {
        debug_assert!(index < Self::LIMIT);
        Self(index as u8)
    }

    /// The number of the zone as an index.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}
