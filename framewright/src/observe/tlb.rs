//! Counters of flushes.

use super::counters::Counter;
use crate::types::FlushReason;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters of flushes of one CPU, or the sum over several.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct TlbStats {
            $($(#[$doc])* pub $name: u64,)*
            /// The maximum number of unmapped and not flushed frames in the whole memory. These are
            /// deferred frames, and frames that the batches of all CPUs had unmapped or reserved.
            pub unflushed_frames_max: u64,
        }

        impl core::ops::AddAssign for TlbStats {
            fn add_assign(&mut self, other: Self) {
                $(self.$name += other.$name;)*
                self.unflushed_frames_max = self.unflushed_frames_max.max(other.unflushed_frames_max);
            }
        }

        /// The counters themselves, which CPUs add to.
        pub(crate) struct TlbCounters {
            $(pub(crate) $name: Counter,)*
        }

        impl TlbCounters {
            pub(crate) fn new() -> Self {
                Self { $($name: Counter::new(),)* }
            }

            pub(crate) fn read(&self) -> TlbStats {
                TlbStats { $($name: self.$name.get(),)* unflushed_frames_max: 0 }
            }
        }
    };
}

counters! {
    /// Flushes for which this CPU sent requests to other CPUs (vmstat `nr_tlb_remote_flush`).
    nr_tlb_remote_flush,
    /// Requests of other CPUs that this CPU served (vmstat `nr_tlb_remote_flush_received`).
    nr_tlb_remote_flush_received,
    /// Full flushes of this CPU that no other CPU requested (vmstat `nr_tlb_local_flush_all`).
    nr_tlb_local_flush_all,
    /// Pages that this CPU flushed one by one without a request of another CPU (vmstat
    /// `nr_tlb_local_flush_one`).
    nr_tlb_local_flush_one,
    /// Interrupts sent.
    interrupts,
    /// CPUs that got a request but no interrupt, because another CPU was about to interrupt them.
    coalesced,
    /// CPUs that got no request, because they were lazy.
    lazy_skipped,
    /// Translations that were removed through a batch.
    unmapped,
    /// Batches that were flushed.
    batches,
    /// Frames whose free was deferred until a flush.
    deferred,
    /// Deferred frames that were freed.
    deferred_freed,
    /// Flushes made for deferred frames, with or without a batch.
    deferred_flushes,
}

impl TlbCounters {
    /// Counts a flush of this CPU: `pages` pages one by one, or everything if `None`.
    pub(crate) fn count(&self, pages: Option<u32>, reason: FlushReason) {
        match (reason, pages) {
            (FlushReason::RemoteShootdown, _) => self.nr_tlb_remote_flush_received.add(1),
            (_, None) => self.nr_tlb_local_flush_all.add(1),
            (_, Some(pages)) => self.nr_tlb_local_flush_one.add(u64::from(pages)),
        }
    }
}
