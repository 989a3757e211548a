//! The kernel without compaction: no page is migrated.

use framewright::{
    NodeId, Order,
    platform::{Captured, CompactPriority, Compacted, Need},
};

use crate::boot::early::EarlyMemory;

/// Whether compaction is built in.
pub(crate) const BUILT_IN: bool = false;

/// Does nothing.
pub(crate) fn prepare(_: &mut EarlyMemory) {}

/// Reports that there is no compaction.
pub(crate) fn for_request(_: &Need, _: CompactPriority, _: Captured<'_>) -> Compacted {
    Compacted::Unavailable
}

/// Does nothing.
pub(crate) fn want(_: NodeId, _: Order) {}

/// No request waits for compaction.
pub(crate) fn is_wanted(_: NodeId) -> bool {
    false
}

/// kcompactd never checks.
pub(crate) fn first_check() -> u64 {
    0
}

/// Does nothing.
pub(crate) fn work(_: NodeId) -> u64 {
    0
}
