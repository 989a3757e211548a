//! What the library tells about itself, in the kernel's language.
//!
//! * [`Event`]: tracepoints, with the kernel's names and fields; built only where a platform
//!   asks for them;
//! * [`CpuStats`]: counters, kept per CPU where the owner writes them anyway, summed on read;
//! * [`NodeStats`]: counters of a node, those of `/proc/vmstat` that reclaim keeps;
//! * [`TlbStats`]: counters of flushes, likewise; [`CompactStats`]: those of compaction, by zone;
//! * [`text`]: `zoneinfo`, `buddyinfo`, `pagetypeinfo` and the indices of fragmentation, as the
//!   kernel prints them;
//! * [`Corruption`]: what hardening found.

mod compact;
mod compact_event;
mod counters;
mod event;
pub mod text;
mod tlb;
mod vmscan;
mod vmstat;

pub(crate) use compact::CompactCounters;
pub use compact::CompactStats;
pub use compact_event::{CompactEvent, DeferStep, Scanner};
pub(crate) use counters::CpuCounters;
pub use counters::{CpuStats, DrainReason};
pub use event::{Corruption, Event, Finding};
pub(crate) use tlb::TlbCounters;
pub use tlb::{FlushReason, TlbStats};
pub use vmscan::VmscanEvent;
pub use vmstat::{NodeStat, NodeStats};
