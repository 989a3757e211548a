//! Stand-ins: small versions of the parts around the allocator, for scenarios about the order of
//! their steps.

mod file;
mod reclaimer;
mod stack;

pub(super) use file::File;
pub(super) use reclaimer::{Disk, Reclaimer};
pub(super) use stack::Stack;
