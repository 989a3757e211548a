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

        /// The counters themselves, which CPUs add to.
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
    /// Frames that were scanned for pages to move (vmstat `compact_migrate_scanned`).
    compact_migrate_scanned,
    /// Frames that were scanned for free frames to move pages to (vmstat `compact_free_scanned`).
    compact_free_scanned,
    /// Frames that were claimed as sources or taken as targets (vmstat `compact_isolated`).
    compact_isolated,
    /// Frames that background compaction scanned for pages to move (vmstat
    /// `compact_daemon_migrate_scanned`).
    compact_daemon_migrate_scanned,
    /// Frames that background compaction scanned for free frames (vmstat
    /// `compact_daemon_free_scanned`).
    compact_daemon_free_scanned,
    /// Wake-ups of background compaction (vmstat `compact_daemon_wake`), counted at the first zone of
    /// the node.
    compact_daemon_wake,
    /// Headers of pageblocks that were examined.
    compact_headers_scanned,
    /// Pageblocks that compaction by index has emptied. For another order than that of a pageblock:
    /// blocks of this order.
    compact_pageblocks_emptied,
    /// Runs of scanners that were the first after the longest deferral. They begin with a reset of skip
    /// hints and positions if the scanners have met (`compact.method=scan`, as the three below).
    scan_restarts,
    /// Searches of the free scanner that found no free frame up to the other scanner.
    scan_without_targets,
    /// Pageblocks that the migrate scanner passed over for their type.
    scan_unsuitable,
    /// Runs that ended because the scanners had met.
    scan_meetings,
    /// Frames whose pages moved (vmstat `pgmigrate_success`).
    pgmigrate_success,
    /// Frames whose pages could not be moved (vmstat `pgmigrate_fail`).
    pgmigrate_fail,
}
