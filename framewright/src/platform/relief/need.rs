//! A request that is short of memory, and the effort and the result of compaction for it.

use crate::types::{CpuId, NodeId, Request, ZoneKind};

/// A request that is short of memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Need {
    /// The request.
    pub request: Request,
    /// The CPU that makes the request.
    pub cpu: CpuId,
    /// The node that the request prefers.
    pub node: NodeId,
    /// Whether types must not be mixed for the request: only a block of its own type, or a pageblock that
    /// is free as a whole, can serve it.
    pub unmixed: bool,
}

impl Need {
    /// Whether a zone of this kind on this node can serve the request. Freeing memory elsewhere
    /// does not help the request.
    #[must_use]
    pub const fn can_use(&self, node: NodeId, kind: ZoneKind) -> bool {
        self.request.allows(node, self.node) && kind as u8 <= self.request.highest() as u8
    }
}

/// The effort of compaction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum CompactPriority {
    /// Does not wait for anything: ends at the first contention.
    Async,
    /// Waits for locks, but not for pages to be written.
    SyncLight,
    /// Full effort: ignores deferral and earlier failures.
    Sync,
}

impl CompactPriority {
    /// The priority with the next higher effort.
    pub(crate) const fn raised(self) -> Option<Self> {
        match self {
            Self::Async => Some(Self::SyncLight),
            Self::SyncLight => Some(Self::Sync),
            Self::Sync => None,
        }
    }
}

/// The result of a round of compaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Compacted {
    /// There is no compaction.
    Unavailable,
    /// Not begun, because there are too few free frames to move pages to. Reclaim may change that.
    Skipped,
    /// Not begun, because it failed lately and is deferred.
    Deferred,
    /// Ended early, because of a contended lock, or because the request's budget or a time limit
    /// was exceeded.
    Contended,
    /// Ended after examining everything, without forming a block.
    Complete,
    /// Formed a block of the order. It was [captured](super::Captured::keep), or another request may have taken
    /// it since.
    Success,
}
