//! The kernel without compaction: nothing moves, and nobody is asked to.

use framewright::{
    NodeId, Order,
    platform::{Captured, CompactPriority, Compacted, Need},
};

use crate::boot::early::EarlyMemory;

/// Whether pages move at all.
pub(crate) const BUILT_IN: bool = false;

/// Nothing to prepare.
pub(crate) fn prepare(_: &mut EarlyMemory) {}

/// Nothing is done for a request.
pub(crate) fn for_request(_: &Need, _: CompactPriority, _: Captured<'_>) -> Compacted {
    Compacted::Unavailable
}

/// Nobody is told.
pub(crate) fn want(_: NodeId, _: Order) {}

/// Nobody is woken for it.
pub(crate) fn is_wanted(_: NodeId) -> bool {
    false
}

/// kcompactd sleeps for ever.
pub(crate) fn first_look() -> u64 {
    0
}

/// It has nothing to do.
pub(crate) fn work(_: NodeId) -> u64 {
    0
}
