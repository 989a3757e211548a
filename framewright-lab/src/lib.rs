//! Placeholder.

pub mod micro;
pub mod record;
pub mod replay;
pub mod report;
pub mod trace;
pub mod workloads;
