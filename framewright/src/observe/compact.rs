//! Counters of compaction and migration.

use super::counters::Counter;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters of compaction and migration of one zone, or the sum over several.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct CompactStats {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl core::ops::AddAssign for CompactStats {
            fn add_assign(&mut self, other: Self) {
                $(self.$name += other.$name;)*
            }
        }

        /// The same counters as their writer sees them.
        pub(crate) struct CompactCounters {
            $(pub(crate) $name: Counter,)*
        }

        impl CompactCounters {
            pub(crate) fn new() -> Self {
                Self { $($name: Counter::new(),)* }
            }

            pub(crate) fn read(&self) -> CompactStats {
                CompactStats { $($name: self.$name.get(),)* }
            }
        }
    };
}

counters! {
    /// Frames that were looked at for pages to move (vmstat `compact_migrate_scanned`).
    compact_migrate_scanned,
    /// Frames that were looked at for room to move to (vmstat `compact_free_scanned`).
    compact_free_scanned,
    /// Frames that were claimed or taken for moving (vmstat `compact_isolated`).
    compact_isolated,
    /// Frames that background compaction looked at for pages to move (vmstat
    /// `compact_daemon_migrate_scanned`).
    compact_daemon_migrate_scanned,
    /// Frames that background compaction looked at for room (vmstat `compact_daemon_free_scanned`).
    compact_daemon_free_scanned,
    /// Times that background compaction was awake (vmstat `compact_daemon_wake`); the first zone of the node
    /// counts them.
    compact_daemon_wake,
    /// Headers of pageblocks that were looked at.
    compact_headers_scanned,
    /// Pageblocks that were emptied by index.
    compact_pageblocks_emptied,
    /// Frames whose pages moved (vmstat `pgmigrate_success`).
    pgmigrate_success,
    /// Frames whose pages did not (vmstat `pgmigrate_fail`).
    pgmigrate_fail,
}
