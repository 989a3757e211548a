//! What recordings count in: pageblocks, orders and types of this library's and of every kernel's.

use framewright::MigrateType;
use framewright::frame::{PAGEBLOCK_FRAMES, PAGEBLOCK_ORDER};

/// Frames in a pageblock.
pub(super) const PAGEBLOCK: u64 = PAGEBLOCK_FRAMES as u64;
/// Orders below a pageblock.
pub(super) const SMALL_ORDERS: usize = PAGEBLOCK_ORDER as usize;
/// Migratetypes that pageblocks may have.
pub(super) const TYPES: usize = MigrateType::REQUESTABLE.len();

/// The pageblock of a recorded frame.
pub(super) fn pageblock(pfn: u64) -> u64 {
    pfn >> PAGEBLOCK_ORDER
}

/// Whether the kernel keeps blocks of this order on per-CPU lists: the small ones, and huge pages.
pub(super) fn has_lists(order: u8) -> bool {
    order <= 3 || order == PAGEBLOCK_ORDER
}
