//! Stand-ins: small models of the code around the allocator, for scenarios that test the order of
//! the steps of that code.

mod file;
mod reclaimer;
mod stack;

pub(super) use file::File;
pub(super) use reclaimer::{Disk, Reclaimer};
pub(super) use stack::Stack;

use crate::engine::LockId;

/// A page that was unmapped for reclaim, and that CPUs may still access. Its lock is held.
struct Unmapped {
    page: u32,
    frame: u32,
    /// Whether the contents on the disk are outdated or missing.
    dirty: bool,
    lock: LockId,
}
