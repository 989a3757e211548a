//! Placeholder.

mod clock;
pub mod large_memory;
pub mod micro;
pub mod record;
pub mod replay;
pub mod report;
pub mod trace;
pub mod workloads;
