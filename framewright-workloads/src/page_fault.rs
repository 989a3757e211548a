//! Sizes of `page-fault`: every task maps pages, stores to each in ascending order, and unmaps
//! them, as will-it-scale's page_fault1 does.

/// Pages of a burst: 128 MiB.
pub const BURST: u32 = 32_768;

/// Rounds before the measured ones. They make the lists of CPUs grow.
pub const WARM_UP: usize = 1;
