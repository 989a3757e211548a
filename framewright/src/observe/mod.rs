//! Trace events, counters and text tables, with the kernel's names and formats.
//!
//! * [`Event`]: tracepoints, with the kernel's names and fields; built only where a platform
//!   asks for them;
//! * [`CpuStats`]: counters of allocation per CPU, in cache lines that the owner writes anyway,
//!   summed on read;
//! * [`NodeStats`]: counters of reclaim per node, as in `/proc/vmstat`;
//! * [`TlbStats`]: counters of flushes per CPU; [`CompactStats`]: counters of compaction per zone;
//! * [`text`]: `zoneinfo`, `buddyinfo`, `pagetypeinfo` and the indices of fragmentation, as the
//!   kernel prints them;
//! * [`Corruption`]: a bad free or damage that hardening found.

mod compact;
mod counters;
pub mod text;
mod tlb;
mod vmstat;

pub use crate::types::{
    CompactEvent, Corruption, DeferStep, Event, Finding, FlushReason, Scanner, VmscanEvent,
};
pub(crate) use compact::CompactCounters;
pub use compact::CompactStats;
pub(crate) use counters::CpuCounters;
pub use counters::{CpuStats, DrainReason};
pub(crate) use tlb::TlbCounters;
pub use tlb::TlbStats;
pub use vmstat::{NodeStat, NodeStats};
