//! The kernel's counters of huge pages, stalls, compaction and TLB shootdowns.

use crate::trace::Snapshot;

/// A counter of the kernel, which only grows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counter {
    /// Its name in `/proc/vmstat`; or one of ours, for a sum and for TLB shootdowns.
    pub name: &'static str,
    /// The event that it counts.
    pub meaning: &'static str,
    /// Its value since boot.
    pub value: u64,
}

/// The name of the sum of the counters `allocstall_*`, one for each zone.
const ALLOCSTALL: &str = "allocstall";
/// The name of the TLB shootdowns in `/proc/interrupts`.
const SHOOTDOWNS: &str = "tlb_shootdowns";

/// The counters that are shown, in order.
const SHOWN: [(&str, &str); 12] = [
    ("thp_fault_alloc", "page faults that allocated a huge page"),
    ("thp_fault_fallback", "page faults that fell back to pages of order 0"),
    ("thp_collapse_alloc", "huge pages that khugepaged allocated"),
    ("thp_collapse_alloc_failed", "huge pages that khugepaged could not allocate"),
    ("compact_stall", "requests that waited for compaction"),
    ("compact_success", "of these, requests that compaction served"),
    ("compact_fail", "of these, requests that compaction could not serve"),
    ("compact_daemon_wake", "runs of background compaction"),
    ("pgmigrate_success", "pages moved"),
    (ALLOCSTALL, "requests that waited for reclaim"),
    ("pgsteal_direct", "pages freed by requests that waited"),
    (SHOOTDOWNS, "TLB shootdowns received, over all CPUs"),
];

/// The counters that the tables have.
#[must_use]
pub fn counters(tables: &Snapshot) -> Vec<Counter> {
    let shown = SHOWN.into_iter();
    shown
        .filter_map(|(name, meaning)| Some(Counter { name, meaning, value: value(tables, name)? }))
        .collect()
}

fn value(tables: &Snapshot, name: &str) -> Option<u64> {
    match name {
        SHOOTDOWNS => tables.tlb_shootdowns,
        ALLOCSTALL => {
            let zones = tables.vmstat.iter().filter(|(key, _)| key.starts_with("allocstall_"));
            zones.map(|(_, value)| *value).reduce(u64::saturating_add)
        }
        _ => tables.vmstat.get(name).copied(),
    }
}
