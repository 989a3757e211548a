//! Stand-ins: small, plain versions of parts around the allocator, for scenarios about their
//! order of steps.

mod file;
mod reclaimer;
mod stack;

pub(super) use file::File;
pub(super) use reclaimer::{Disk, Reclaimer};
pub(super) use stack::Stack;
