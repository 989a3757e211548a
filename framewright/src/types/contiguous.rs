//! Requests for contiguous memory.

use super::{FrameRange, MigrateType, NodeId, NodeMask, Order, Request, ZoneKind};

/// A request for contiguous memory.
///
/// # Example
///
/// ```
/// # use framewright::Config;
/// use framewright::{Contiguous, FrameRange, MigrateType, Order, Pfn};
///
/// # use framewright_fakes::{FakePlatform, leaked};
/// # let map = [FrameRange::new(Pfn::new(0), Pfn::new(8192)).unwrap().into()];
/// # let memory = leaked(FakePlatform::default(), &Config::new(&map, 1));
/// // A buffer of 1000 frames for a device that can access the first 16 MiB.
/// let low = FrameRange::new(Pfn::new(0), Pfn::new(4096)).unwrap();
/// let wanted = Contiguous::new(1000, MigrateType::Unmovable).aligned(Order::new(4).unwrap()).within(low);
/// let buffer = memory.alloc_contiguous(&wanted)?;
/// assert!(buffer.range().frames() == 1000 && buffer.range().end() <= low.end());
/// memory.free_extent(buffer).expect("of this memory");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Contiguous {
    frames: u64,
    align: Order,
    within: Option<FrameRange>,
    request: Request,
}

impl Contiguous {
    /// A request for `frames` contiguous frames at any address.
    #[must_use]
    pub const fn new(frames: u64, migratetype: MigrateType) -> Self {
        let request = Request::new(Order::ZERO, migratetype);
        Self { frames, align: Order::ZERO, within: None, request }
    }

    /// Requires that the number of the first frame is a multiple of 2^align.
    #[must_use]
    pub const fn aligned(self, align: Order) -> Self {
        Self { align, ..self }
    }

    /// Requires all frames to be in `range`, for example in the addresses that a device can access.
    #[must_use]
    pub const fn within(self, range: FrameRange) -> Self {
        Self { within: Some(range), ..self }
    }

    /// Restricts the request to zones up to `highest`.
    #[must_use]
    pub const fn zone(self, highest: ZoneKind) -> Self {
        Self { request: self.request.zone(highest), ..self }
    }

    /// The request cannot wait: the lists of CPUs are not drained. For callers with interrupts disabled.
    #[must_use]
    pub const fn no_wait(self) -> Self {
        Self { request: self.request.no_wait(), ..self }
    }

    /// Prefers a node.
    #[must_use]
    pub const fn on_node(self, node: NodeId) -> Self {
        Self { request: self.request.on_node(node), ..self }
    }

    pub(crate) const fn frames(&self) -> u64 {
        self.frames
    }

    pub(crate) const fn align(&self) -> Order {
        self.align
    }

    pub(crate) const fn bounds(&self) -> Option<FrameRange> {
        self.within
    }

    pub(crate) const fn request(&self) -> Request {
        self.request
    }

    /// Restricts the request to these nodes.
    #[must_use]
    pub const fn nodes(self, nodes: NodeMask) -> Self {
        Self { request: self.request.nodes(nodes), ..self }
    }
}
