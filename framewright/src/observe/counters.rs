//! Counters of one CPU.
//!
//! The hot path counts only the blocks allocated and freed, with plain loads and stores next to the lists
//! (`crate::pcp`). The counters in this module change off the hot path: once per batch, or once per
//! request that leaves it. They need atomic additions, because a remote drainer adds to them, too. That
//! is cheap enough there.

use crate::sync::{AtomicU64, Ordering};

/// The reason why frames were drained from a CPU's lists to the zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum DrainReason {
    /// The lists held more frames than their limit.
    Threshold,
    /// A free of order 1 to 4 drained them.
    HighOrder,
    /// The store had no slot for more scattered frames.
    Capacity,
    /// The frames were in pageblocks that are emptying (`zone.emptying_above`).
    Emptying,
    /// The owner of the lists requested the drain.
    Local,
    /// Another CPU requested the drain.
    Remote,
    /// The CPU went offline.
    Offline,
    /// The frames were not needed for some time.
    Trim,
}

impl DrainReason {
    /// The number of reasons.
    pub const COUNT: usize = 8;
    /// All reasons, in order.
    pub const ALL: [DrainReason; Self::COUNT] = [
        DrainReason::Threshold,
        DrainReason::HighOrder,
        DrainReason::Capacity,
        DrainReason::Emptying,
        DrainReason::Local,
        DrainReason::Remote,
        DrainReason::Offline,
        DrainReason::Trim,
    ];

    /// The name of the reason, for figures.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            DrainReason::Threshold => "threshold",
            DrainReason::HighOrder => "high-order",
            DrainReason::Capacity => "capacity",
            DrainReason::Emptying => "emptying",
            DrainReason::Local => "local",
            DrainReason::Remote => "remote",
            DrainReason::Offline => "offline",
            DrainReason::Trim => "trim",
        }
    }
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters of one CPU, or the sum over several. All count from construction.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct CpuStats {
            $($(#[$doc])* pub $name: u64,)*
            /// Drains by [`DrainReason`].
            pub drains: [u64; DrainReason::COUNT],
            /// Requests served by a zone of the node they preferred (vmstat `numa_hit`).
            pub numa_hit: u64,
            /// Requests served by a zone of the node of their CPU (vmstat `numa_local`).
            pub numa_local: u64,
            /// Requests served by a zone of another node than that of their CPU (vmstat
            /// `numa_other`).
            pub numa_other: u64,
        }

        impl core::ops::AddAssign for CpuStats {
            fn add_assign(&mut self, other: Self) {
                $(self.$name += other.$name;)*
                self.numa_hit += other.numa_hit;
                self.numa_local += other.numa_local;
                self.numa_other += other.numa_other;
                for (sum, more) in self.drains.iter_mut().zip(other.drains) {
                    *sum += more;
                }
            }
        }

        /// The counters themselves, which CPUs add to.
        pub(crate) struct CpuCounters {
            $(pub(crate) $name: Counter,)*
            pub(crate) drains: [Counter; DrainReason::COUNT],
        }

        impl CpuCounters {
            pub(crate) fn new() -> Self {
                Self {
                    $($name: Counter::new(),)*
                    drains: core::array::from_fn(|_| Counter::new()),
                }
            }

            /// The values of the counters. Fields that are not counters stay 0; `Memory::stats_of` computes them
            /// from the counters and from the nodes of CPU and zone.
            pub(crate) fn read(&self) -> CpuStats {
                CpuStats {
                    $($name: self.$name.get(),)*
                    drains: core::array::from_fn(|i| self.drains[i].get()),
                    ..CpuStats::default()
                }
            }
        }
    };
}

counters! {
    /// Requests that preferred another node, counted at the zone that served them (vmstat `numa_miss`).
    numa_miss,
    /// Requests served by another node than the preferred one, counted at the preferred zone
    /// (vmstat `numa_foreign`).
    numa_foreign,
    /// Frames allocated (vmstat `pgalloc`).
    pgalloc,
    /// Frames freed (vmstat `pgfree`). The count of one CPU includes frames that the zone refused later.
    pgfree,
    /// Requests served from the CPU's lists without touching the zone.
    list_hits,
    /// Requests for which the lists had to be refilled.
    list_misses,
    /// Refills from the zone.
    refills,
    /// Frames that refills took.
    refilled_frames,
    /// Refilled frames that came from the depot.
    from_depot,
    /// Frames that went back to the zone from the lists.
    drained_frames,
    /// Drained frames that went to the depot.
    to_depot,
    /// Blocks allocated from the zone directly.
    zone_allocs,
    /// Blocks freed to the zone directly.
    zone_frees,
    /// Acquisitions of the zone lock by allocations and frees. Splits, isolation and queries are not
    /// counted.
    zone_lock_acquisitions,
    /// Frames that moved under the zone lock.
    zone_lock_frames,
    /// Pageblocks claimed for another type.
    claims,
    /// The number of times that frames were stolen from a pageblock of another type.
    steals,
    /// Frees that were refused as bad.
    refused_frees,
    /// Frames of refused blocks that a list had accepted before the zone refused them.
    refused_frames,
    /// Free frames that were written to, found when they were allocated again.
    damaged_frames,
    /// Requests that entered the slow path.
    slow_paths,
    /// Rounds of reclaim that requests waited for (vmstat `allocstall`).
    allocstall,
    /// Rounds of compaction that requests waited for, deferred ones included (vmstat
    /// `compact_stall`).
    compact_stall,
    /// Rounds of compaction after which the request was served (vmstat `compact_success`).
    compact_success,
    /// Rounds of compaction after which the request was not served (vmstat `compact_fail`).
    compact_fail,
    /// Calls of [`Relief::out_of_memory`](crate::platform::Relief::out_of_memory).
    out_of_memory,
    /// Requests that failed.
    failures,
}

/// One counter.
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Adds nothing without an access: most amounts that are not 1 are usually 0.
    pub(crate) fn add(&self, amount: u64) {
        if amount > 0 {
            self.0.fetch_add(amount, Ordering::Relaxed);
        }
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
