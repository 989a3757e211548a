//! The slow path: each of its exits and each of its bounds, with a `Relief` that follows a script.
#![cfg(not(framewright_loom))]

mod boost;
mod bounds;
mod changes;
mod defrag;
mod exits;
mod high_atomic;
mod huge_reserve;
mod reserves;
mod script;
mod verdict;
