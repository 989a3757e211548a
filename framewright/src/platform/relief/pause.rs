//! Pauses of reclaim, which the embedder implements.

use crate::types::{CpuId, NodeId};

/// The reason why reclaim pauses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum Throttle {
    /// More pages are under writeback than the store can write quickly: waits for some of them.
    WriteBack,
    /// Other reclaimers have isolated too many pages, compared with those left on the list: waits
    /// for pages to be put back.
    Isolated,
    /// No page could be reclaimed at any priority down to 1: waits for another reclaimer, or for the end of a write. There
    /// is no such pause if no other reclaimer works and no page waits for the store.
    NoProgress,
    /// All scanned dirty pages have been waiting for the store since an earlier scan.
    Congested,
    /// Free memory is so low that requests must leave it to background reclaim.
    Reserve,
}

impl Throttle {
    /// All reasons, in order.
    pub const ALL: [Self; Self::COUNT] =
        [Self::WriteBack, Self::Isolated, Self::NoProgress, Self::Congested, Self::Reserve];
    /// The number of reasons.
    pub const COUNT: usize = 5;

    /// The longest pause, in nanoseconds (one tick is taken as 4 ms).
    #[must_use]
    pub const fn at_most(self) -> u64 {
        match self {
            Throttle::WriteBack => 100_000_000,
            Throttle::Isolated => 20_000_000,
            Throttle::NoProgress | Throttle::Congested => 4_000_000,
            Throttle::Reserve => 1_000_000_000,
        }
    }

    /// The name of the reason in the kernel's trace events.
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
}

/// A pause of reclaim, which [`Relief::pause`](crate::platform::Relief::pause) implements.
#[derive(Clone, Copy)]
pub struct Pause<'p> {
    cpu: CpuId,
    node: NodeId,
    why: Throttle,
    is_over: &'p dyn Fn() -> bool,
}

impl<'p> Pause<'p> {
    /// A pause of reclaim on `cpu` until `is_over`.
    pub(crate) const fn new(
        cpu: CpuId,
        node: NodeId,
        why: Throttle,
        is_over: &'p dyn Fn() -> bool,
    ) -> Self {
        Self { cpu, node, why, is_over }
    }

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

    /// The maximum length of the pause, in nanoseconds.
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
