//! Everything that was counted in one run.

use framewright::{observe::NodeStat, reclaim::Throttle};

use super::{kernel::Kernel, picture::Snapshot, world::World};

/// One of the three passes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// While builders build.
    First,
    /// The same at once again.
    Second,
    /// On the idle machine.
    Idle,
}

impl Phase {
    /// In order.
    pub const ALL: [Self; 3] = [Self::First, Self::Second, Self::Idle];
}

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What the library counts, and the kernel around it; in frames and times.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub(crate) struct Counts {
            $($(#[$doc])* pub(crate) $name: u64,)*
        }

        impl std::ops::Sub for Counts {
            type Output = Self;

            fn sub(self, before: Self) -> Self {
                Self { $($name: self.$name - before.$name,)* }
            }
        }
    };
}

counts! {
    /// Looked at by the migrate scanner.
    migrate_scanned,
    /// Looked at by the free scanner.
    free_scanned,
    /// The parts of these in the background.
    daemon_migrate_scanned,
    daemon_free_scanned,
    /// Claimed or taken.
    isolated,
    /// Headers of pageblocks that were looked at.
    headers,
    moved,
    not_moved,
    /// Requests that waited for compaction, and what came of it.
    stalls,
    stalls_served,
    stalls_failed,
    /// Requests that reclaimed themselves.
    allocstall,
    kswapd_scanned,
    kswapd_reclaimed,
    direct_scanned,
    direct_reclaimed,
    /// Pages of programs that were written to the swap area, and read from it.
    swapped_out,
    swapped_in,
    /// Faults of builders.
    faults,
    /// Requests of builders that failed.
    out_of_memory,
    /// Pageblocks that were claimed for another type, and blocks that were stolen.
    claims,
    steals,
    /// Pauses of reclaim that ended before their condition was met, by kind.
    expired_writeback,
    expired_isolated,
    expired_noprogress,
    expired_congested,
    expired_reserve,
}

impl Counts {
    /// As they are now.
    pub(super) fn of<W: World>(kernel: &Kernel<'_, '_, W>) -> Self {
        let (compact, stats) = (kernel.memory.compact_stats(), kernel.memory.stats());
        let lru = kernel.reclaim.lru().stats();
        Self {
            migrate_scanned: compact.compact_migrate_scanned,
            free_scanned: compact.compact_free_scanned,
            daemon_migrate_scanned: compact.compact_daemon_migrate_scanned,
            daemon_free_scanned: compact.compact_daemon_free_scanned,
            isolated: compact.compact_isolated,
            headers: compact.compact_headers_scanned,
            moved: compact.pgmigrate_success,
            not_moved: compact.pgmigrate_fail,
            stalls: stats.compact_stall,
            stalls_served: stats.compact_success,
            stalls_failed: stats.compact_fail,
            allocstall: stats.allocstall,
            kswapd_scanned: lru.get(NodeStat::PgscanKswapd),
            kswapd_reclaimed: lru.get(NodeStat::PgstealKswapd),
            direct_scanned: lru.get(NodeStat::PgscanDirect),
            direct_reclaimed: lru.get(NodeStat::PgstealDirect),
            swapped_out: kernel.state.swap.written.get(),
            swapped_in: kernel.state.swap.read.get(),
            faults: kernel.faults.get(),
            out_of_memory: kernel.out_of_memory.get(),
            claims: stats.claims,
            steals: stats.steals,
            expired_writeback: lru.get(Throttle::WriteBack.expired()),
            expired_isolated: lru.get(Throttle::Isolated.expired()),
            expired_noprogress: lru.get(Throttle::NoProgress.expired()),
            expired_congested: lru.get(Throttle::Congested.expired()),
            expired_reserve: lru.get(Throttle::Reserve.expired()),
        }
    }
}

/// What came of a pass.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Pass {
    pub(crate) attempts: u64,
    pub(crate) successes: u64,
    /// Huge pages that there were or could have been at its end.
    pub(crate) formable: u64,
    /// What each attempt took, in nanoseconds.
    pub(crate) latencies: Vec<u64>,
    /// From its begin to its end.
    pub(crate) nanos: u64,
    pub(crate) counts: Counts,
}

impl Pass {
    pub(crate) fn success_pct(&self) -> f64 {
        100.0 * self.successes as f64 / self.attempts.max(1) as f64
    }

    pub(crate) fn achievable_pct(&self) -> f64 {
        100.0 * self.formable.min(self.attempts) as f64 / self.attempts.max(1) as f64
    }
}

/// One side, one seed.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Outcome {
    /// In the order of [`Phase::ALL`].
    pub(crate) phases: Vec<Pass>,
    /// Those who build in the first two.
    pub(crate) builders: u64,
    /// From the start of the machine on.
    pub(crate) counts: Counts,
    /// The longest time of a memory request and of a device request, in nanoseconds.
    pub(crate) stall: u64,
    pub(crate) device: u64,
    /// Memory at some moments, if it was watched.
    pub(crate) seen: Vec<Snapshot>,
}
