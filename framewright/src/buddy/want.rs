//! Requests to the buddy: the number of blocks, their order and migratetype, and the permitted fallbacks.

use super::MigrateType;
use crate::{tuning::BulkTake, types::Order};

/// The blocks to take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Want {
    pub(crate) order: Order,
    pub(crate) migratetype: MigrateType,
    /// Number of blocks requested.
    pub(crate) blocks: u32,
    /// Maximum number of blocks. Within this maximum, a word with few blocks left is taken
    /// completely, so that the next batch starts on another word.
    pub(crate) at_most: u32,
    /// Maximum number of pageblocks to take from. A batch ends there, even if it is not complete.
    pub(crate) visits: u32,
    /// Whether the high-atomic reserve may be used.
    pub(crate) reserve: Reserve,
    /// The method of taking a batch.
    pub(crate) how: BulkTake,
    /// Whether the only fallback is to claim a wholly free pageblock of another type.
    pub(crate) unmixed: bool,
}

/// Whether a request may use the high-atomic reserve.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Reserve {
    /// The request may not use the reserve.
    #[default]
    None,
    /// The request uses the reserve first.
    First,
    /// The request uses the reserve last.
    Last,
}
