//! The classic design of general-purpose kernels.
//!
//! Every frame has a 64-byte descriptor. Free blocks of orders 0 to 10 are on doubly linked lists,
//! one per order and migratetype. Buddies are merged one by one under the zone lock. In front of
//! the zone, each CPU has a set of lists under a spinlock. The CPU itself never waits for that
//! lock: it only *tries* to take it. This allocator is a baseline for comparison, on real threads
//! and in simulation, written from a description of the mechanism.
//!
//! ```text
//! allocator  allocate, free, drain                    row      implements Peer
//!   |
//!  pcp        sizes of refills and of bulk frees        tuning   sizes, historical rules
//!   |
//!  bulk       refill and bulk free under the zone lock
//!   |
//!  fallback   claim a pageblock, steal a block
//!   |
//!  zone       split, merge
//!   |
//!  lists      the page array                            lock     the interface to the machine
//!                                                       state    an initial state, block by block
//! ```
//!
//! Lock order: a CPU's lists, then the zone.

#![deny(unsafe_code)]

mod allocator;
mod bulk;
mod fallback;
mod lists;
mod lock;
mod pcp;
mod row;
mod state;
mod stats;
mod tuning;
mod zone;

pub use allocator::{BadFree, ListBuddy, OutOfMemory};
pub use lists::{Descriptor, Links, MAX_ORDER, ORDERS, Page};
pub use lock::{Lock, LockName, Machine, Padded, Threads, Touch, Work};
pub use pcp::Pressure;
pub use row::ListWorker;
pub use stats::{CpuStats, DrainReason, Stats, ZoneStats};
pub use tuning::{BulkFree, DrainAfter, HighOrderDrain, ListTurns, Sizing, Tuning};

/// The mobility of a block: frames of one type are grouped in pageblocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum MigrateType {
    /// Stays at its address until it is freed.
    Unmovable = 0,
    /// Its contents can be moved to other frames.
    Movable = 1,
    /// Can be freed on demand.
    Reclaimable = 2,
}

impl MigrateType {
    /// All of them, by number.
    pub const ALL: [Self; lists::TYPES] = [Self::Unmovable, Self::Movable, Self::Reclaimable];
}
