//! Everything that was counted in one run.

use framewright::reclaim::Throttle;

use super::course::{Hour, Huge};

/// One side, one seed. Times are in seconds of the machine, cycles in those of all CPUs together.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Outcome {
    /// From the start until everything was done.
    pub(crate) elapsed: f64,
    /// What CPUs spent on it, but for what programs did with their pages.
    pub(crate) system: f64,
    /// The longest that a program waited for a page, in nanoseconds.
    pub(crate) stall: f64,
    /// The longest time of a store request, in nanoseconds.
    pub(crate) device: f64,
    /// Pauses of reclaim that ended before their condition was met, by kind.
    pub(crate) expired: [u64; Throttle::COUNT],
    /// Pages that programs used.
    pub(crate) pages: u64,
    /// Pages that were reclaimed.
    pub(crate) reclaimed: u64,
    /// Of these, in the background.
    pub(crate) by_kswapd: u64,
    /// Pages that reclaim looked at.
    pub(crate) scanned: u64,
    /// Pages that had to be read again soon.
    pub(crate) refaults: u64,
    /// Requests that had to reclaim themselves.
    pub(crate) direct: u64,
    /// Entries taken out of page tables by reclaim.
    pub(crate) unmapped: u64,
    /// Flushes that went to other CPUs.
    pub(crate) flushes: u64,
    /// Interrupts that were sent for them.
    pub(crate) interrupts: u64,
    /// CPUs that nobody had to interrupt, since somebody else was about to.
    pub(crate) coalesced: u64,
    /// Frames that were unmapped, unflushed and kept back at a time, at the most.
    pub(crate) unflushed: u64,
    /// Pages that were written to the store.
    pub(crate) written: u64,
    /// Page faults.
    pub(crate) faults: u64,
    /// Entries that they filled in.
    pub(crate) mapped: u64,
    /// Cycles that CPUs worked, or waited for one another.
    pub(crate) busy_cycles: u64,
    /// Of these, for flushes: sending, waiting for answers, serving.
    pub(crate) flush_cycles: u64,
    /// Of these, waiting for zone locks, and holding them.
    pub(crate) zone_lock_cycles: u64,
    /// Of these, the same for the locks of LRU lists, and of deferred frees.
    pub(crate) lru_lock_cycles: u64,
    /// Requests for huge pages.
    pub(crate) huge: Huge,
    /// Rounds of compaction that requests waited for.
    pub(crate) compact_stalls: u64,
    /// Pages that compaction moved.
    pub(crate) moved: u64,
    /// Frames that its scanners looked at, and headers of pageblocks.
    pub(crate) frames_scanned: u64,
    pub(crate) headers_scanned: u64,
    /// It came to its end by itself.
    pub(crate) ends: bool,
    /// What happened when.
    pub(crate) hours: Vec<Hour>,
    /// Cycles in a second.
    pub(crate) frequency: f64,
}
