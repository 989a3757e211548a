//! Stand-ins: small models of the code around the allocator, for scenarios that test the order of the
//! steps of that code.

mod file;
mod reclaimer;
mod stack;

pub(super) use file::File;
pub(super) use reclaimer::{Disk, Reclaimer};
pub(super) use stack::Stack;
