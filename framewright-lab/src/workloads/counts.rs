//! What allocators count, in words that both designs share.
//!
//! What CPUs have done so far.
//!
//! Each CPU adds to a tally of its own, with plain loads and stores; whoever measures reads them
//! all, at the beginning and at the end of what is measured.

use framewright::observe::{CpuStats, DrainReason};
use framewright_peers::list_buddy;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What an allocator has counted so far, or within a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Counts {
    /// Acquisitions of zone locks by allocations and frees.
    pub(crate) acquisitions: u64,
    /// Frames moved under them.
    pub(crate) lock_frames: u64,
    pub(crate) list_hits: u64,
    pub(crate) requests: u64,
    pub(crate) refills: u64,
    pub(crate) refilled_frames: u64,
    pub(crate) drains: u64,
    pub(crate) drains_threshold: u64,
    pub(crate) drains_high_order: u64,
    /// The library's only: lists whose store was full.
    pub(crate) drains_capacity: u64,
    pub(crate) drained_frames: u64,
    pub(crate) zone_allocs: u64,
    pub(crate) zone_frees: u64,
    pub(crate) claims: u64,
    pub(crate) steals: u64,
    pub(crate) slow_paths: u64,
}

impl Counts {
    /// What was counted since `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        self.with(before, |after, before| after - before)
    }

    /// What both counted.
    pub(crate) fn plus(self, other: Self) -> Self {
        self.with(other, |one, other| one + other)
    }

    fn with(self, other: Self, of: fn(u64, u64) -> u64) -> Self {
        Self {
            acquisitions: of(self.acquisitions, other.acquisitions),
            lock_frames: of(self.lock_frames, other.lock_frames),
            list_hits: of(self.list_hits, other.list_hits),
            requests: of(self.requests, other.requests),
            refills: of(self.refills, other.refills),
            refilled_frames: of(self.refilled_frames, other.refilled_frames),
            drains: of(self.drains, other.drains),
            drains_threshold: of(self.drains_threshold, other.drains_threshold),
            drains_high_order: of(self.drains_high_order, other.drains_high_order),
            drains_capacity: of(self.drains_capacity, other.drains_capacity),
            drained_frames: of(self.drained_frames, other.drained_frames),
            zone_allocs: of(self.zone_allocs, other.zone_allocs),
            zone_frees: of(self.zone_frees, other.zone_frees),
            claims: of(self.claims, other.claims),
            steals: of(self.steals, other.steals),
            slow_paths: of(self.slow_paths, other.slow_paths),
        }
    }
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
            drained_frames: stats.drained_frames,
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
            drained_frames: cpus.drained_frames,
            zone_allocs: zone.direct_allocs,
            zone_frees: zone.direct_frees,
            claims: zone.claims,
            steals: zone.steals,
            slow_paths: 0,
        }
    }
}

/// What one CPU has done so far.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Tally {
    /// Frames that the work needed; page tables and the like not counted.
    pub(crate) pages: Count,
    /// The longest time of a request, in nanoseconds, where that is known.
    pub(crate) longest: Count,
    /// Processes that came to their end.
    pub(crate) exits: Count,
    /// Bytes handed over to another CPU.
    pub(crate) bytes: Count,
    /// Frames handed out whose heat was looked at.
    pub(crate) looked_at: Count,
    /// Those that were in the cache of the core.
    pub(crate) hot: Count,
    /// Those that were in the cache that the cores of a socket share.
    pub(crate) warm: Count,
}

/// A number that one CPU adds to and anybody reads.
#[derive(Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    /// Adds to it. Only the CPU that it belongs to does.
    #[inline]
    pub(crate) fn add(&self, more: u64) {
        self.0.store(self.0.load(Relaxed) + more, Relaxed);
    }

    /// Raises the value to at least this one. Called only by the CPU that it belongs to.
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

/// A sum of tallies at some moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Done {
    pub(crate) pages: u64,
    /// The maximum of the whole run, not of a period.
    pub(crate) longest: u64,
    pub(crate) exits: u64,
    pub(crate) bytes: u64,
    pub(crate) looked_at: u64,
    pub(crate) hot: u64,
    pub(crate) warm: u64,
}

impl Done {
    /// What all of `tallies` say.
    pub(crate) fn sum(tallies: &[Tally]) -> Self {
        let mut done = Self::default();
        for tally in tallies {
            done.pages += tally.pages.get();
            done.longest = done.longest.max(tally.longest.get());
            done.exits += tally.exits.get();
            done.bytes += tally.bytes.get();
            done.looked_at += tally.looked_at.get();
            done.hot += tally.hot.get();
            done.warm += tally.warm.get();
        }
        done
    }

    /// What was done since `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            pages: self.pages - before.pages,
            longest: self.longest,
            exits: self.exits - before.exits,
            bytes: self.bytes - before.bytes,
            looked_at: self.looked_at - before.looked_at,
            hot: self.hot - before.hot,
            warm: self.warm - before.warm,
        }
    }
}
