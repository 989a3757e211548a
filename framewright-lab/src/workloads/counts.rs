//! Counters of allocators, in terms that both designs share; and counters of CPUs.
//!
//! Each CPU adds to its own counters, with plain loads and stores. The measurement reads all of
//! them at its start and its end.

use crate::report::figure::counters;
use framewright::observe::{CpuStats, DrainReason};
use framewright_peers::list_buddy;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

counters! {
    /// Counters of an allocator, so far or within a window.
    pub(crate) struct Counts;
    /// Acquisitions of zone locks by allocations and frees.
    acquisitions,
    /// Frames moved under these locks.
    lock_frames,
    list_hits,
    requests,
    refills,
    refilled_frames,
    drains,
    drains_threshold,
    drains_high_order,
    /// Drains because a CPU's store had no slot; only the library has them.
    drains_capacity,
    /// Drains of frames in pageblocks that are emptying; only the library has them.
    drains_emptying,
    drained_frames,
    /// Drains of lists that held blocks of other types than movable; only list-buddy counts them.
    mixed_drains,
    zone_allocs,
    zone_frees,
    claims,
    steals,
    slow_paths,
}

impl From<CpuStats> for Counts {
    fn from(stats: CpuStats) -> Self {
        Self {
            acquisitions: stats.zone_lock_acquisitions,
            lock_frames: stats.zone_lock_frames,
            list_hits: stats.list_hits,
            requests: stats.list_hits + stats.list_misses + stats.zone_allocs,
            refills: stats.refills,
            refilled_frames: stats.refilled_frames,
            drains: stats.drains.iter().sum(),
            drains_threshold: stats.drains[DrainReason::Threshold as usize],
            drains_high_order: stats.drains[DrainReason::HighOrder as usize],
            drains_capacity: stats.drains[DrainReason::Capacity as usize],
            drains_emptying: stats.drains[DrainReason::Emptying as usize],
            drained_frames: stats.drained_frames,
            mixed_drains: 0,
            zone_allocs: stats.zone_allocs,
            zone_frees: stats.zone_frees,
            claims: stats.claims,
            steals: stats.steals,
            slow_paths: stats.slow_paths,
        }
    }
}

impl From<list_buddy::Stats> for Counts {
    fn from(list_buddy::Stats { cpus, zone }: list_buddy::Stats) -> Self {
        use list_buddy::DrainReason as Reason;
        Self {
            acquisitions: zone.lock_acquisitions,
            lock_frames: zone.lock_frames,
            list_hits: cpus.allocs - cpus.refills.min(cpus.allocs),
            requests: cpus.allocs + zone.direct_allocs,
            refills: cpus.refills,
            refilled_frames: cpus.refilled_frames,
            drains: cpus.drains.iter().sum(),
            drains_threshold: cpus.drains[Reason::Threshold as usize],
            drains_high_order: cpus.drains[Reason::HighOrder as usize],
            drains_capacity: 0,
            drains_emptying: 0,
            drained_frames: cpus.drained_frames,
            mixed_drains: cpus.mixed_drains,
            zone_allocs: zone.direct_allocs,
            zone_frees: zone.direct_frees,
            claims: zone.claims,
            steals: zone.steals,
            slow_paths: 0,
        }
    }
}

/// Counters of one CPU.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct CpuCounters {
    /// Frames that the work needed, without page tables and other kernel memory.
    pub(crate) pages: Count,
    /// The longest time of a request, in nanoseconds, if it is known.
    pub(crate) longest: Count,
    /// Processes that exited.
    pub(crate) exits: Count,
    /// Bytes sent to another CPU.
    pub(crate) bytes: Count,
    /// Allocated frames that were looked up in the caches.
    pub(crate) checked: Count,
    /// Checked frames that were in the cache of the core.
    pub(crate) hot: Count,
    /// Checked frames that were in the cache of the core or in the one that the cores of a socket
    /// share.
    pub(crate) warm: Count,
    /// Messages that tasks read here.
    pub(crate) reads: Count,
    /// Of these, those that were written on this CPU.
    pub(crate) same_cpu: Count,
    /// Of these, those that were written on a CPU of this socket.
    pub(crate) same_socket: Count,
}

/// A number that one CPU adds to and others may read.
#[derive(Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    /// Adds to it. Only its own CPU calls this.
    #[inline]
    pub(crate) fn add(&self, more: u64) {
        self.0.store(self.0.load(Relaxed) + more, Relaxed);
    }

    /// Raises the value to at least `least`. Only its own CPU calls this.
    #[inline]
    pub(crate) fn raise(&self, least: u64) {
        if least > self.0.load(Relaxed) {
            self.0.store(least, Relaxed);
        }
    }

    fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// A sum of counters at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Done {
    pub(crate) pages: u64,
    /// The maximum of the whole run, not of a period.
    pub(crate) longest: u64,
    pub(crate) exits: u64,
    pub(crate) bytes: u64,
    pub(crate) checked: u64,
    pub(crate) hot: u64,
    pub(crate) warm: u64,
    pub(crate) reads: u64,
    pub(crate) same_cpu: u64,
    pub(crate) same_socket: u64,
}

impl Done {
    /// The sum of `counters`.
    pub(crate) fn sum(counters: &[CpuCounters]) -> Self {
        let mut done = Self::default();
        for counters in counters {
            done.pages += counters.pages.get();
            done.longest = done.longest.max(counters.longest.get());
            done.exits += counters.exits.get();
            done.bytes += counters.bytes.get();
            done.checked += counters.checked.get();
            done.hot += counters.hot.get();
            done.warm += counters.warm.get();
            done.reads += counters.reads.get();
            done.same_cpu += counters.same_cpu.get();
            done.same_socket += counters.same_socket.get();
        }
        done
    }

    /// The difference to `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            pages: self.pages - before.pages,
            longest: self.longest,
            exits: self.exits - before.exits,
            bytes: self.bytes - before.bytes,
            checked: self.checked - before.checked,
            hot: self.hot - before.hot,
            warm: self.warm - before.warm,
            reads: self.reads - before.reads,
            same_cpu: self.same_cpu - before.same_cpu,
            same_socket: self.same_socket - before.same_socket,
        }
    }
}
