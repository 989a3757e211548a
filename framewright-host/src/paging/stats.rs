//! Counters of a page cache.

use std::ops::Sub;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! counters {
    ($($(#[$about:meta])+ $name:ident,)+) => {
        /// Counters of a page cache, in pages unless noted.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct PagingStats {
            $($(#[$about])+ pub $name: u64,)+
        }

        impl Sub for PagingStats {
            type Output = Self;

            /// The change since `before`.
            fn sub(self, before: Self) -> Self {
                Self { $($name: self.$name - before.$name,)+ }
            }
        }

        /// The same, as atomics.
        #[derive(Default)]
        pub(super) struct Counters {
            $(pub(super) $name: AtomicU64,)+
        }

        impl Counters {
            pub(super) fn read(&self) -> PagingStats {
                PagingStats { $($name: self.$name.load(Relaxed),)+ }
            }
        }
    };
}

counters! {
    /// Accesses to pages without a frame: pages to be read or rescued.
    misses,
    /// Pages that were read from a store.
    read,
    /// Pages that were used again before their memory was freed.
    rescued,
    /// Pages that reclaim unmapped.
    unmapped,
    /// Pages whose memory the kernel has freed.
    evicted,
    /// Flushes that freed the memory of pages.
    flushes,
    /// System calls of these flushes.
    calls,
    /// Processor time of the calling threads in these calls, in nanoseconds.
    call_nanos,
    /// Pages whose memory the kernel refused to free.
    refused,
    /// Pages that became dirty.
    dirtied,
    /// Pages that were written to a store.
    written,
    /// Failed attempts to write a page.
    write_failed,
}

pub(super) fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Relaxed);
}
