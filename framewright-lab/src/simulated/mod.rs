//! Allocators and workloads on simulated machines.

mod lists;

pub use lists::SimLists;
