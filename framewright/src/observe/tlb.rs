//! Counters of flushes.

use super::counters::Counter;
use crate::types::FlushReason;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters of flushes of one CPU, or the sum over several.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct TlbStats {
            $($(#[$doc])* pub $name: u64,)*
            /// Most frames that were unmapped and not flushed at once: deferred, and those that the batches
            /// of all CPUs had or were about to unmap. Of the whole memory.
            pub unflushed_frames_max: u64,
        }

        impl core::ops::AddAssign for TlbStats {
            fn add_assign(&mut self, other: Self) {
                $(self.$name += other.$name;)*
                self.unflushed_frames_max = self.unflushed_frames_max.max(other.unflushed_frames_max);
            }
        }

        /// The same counters as their writer sees them.
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
    /// Flushes that concerned other CPUs (vmstat `nr_tlb_remote_flush`).
    nr_tlb_remote_flush,
    /// Requests of others that this CPU served (vmstat `nr_tlb_remote_flush_received`).
    nr_tlb_remote_flush_received,
    /// Times that this CPU forgot everything of its own accord (vmstat `nr_tlb_local_flush_all`).
    nr_tlb_local_flush_all,
    /// Pages that it forgot one by one of its own accord (vmstat `nr_tlb_local_flush_one`).
    nr_tlb_local_flush_one,
    /// Interrupts sent.
    interrupts,
    /// CPUs that were asked and not interrupted, since somebody else was about to.
    coalesced,
    /// CPUs that were not asked, since they were lazy.
    lazy_skipped,
    /// Translations that were removed through a batch.
    unmapped,
    /// Batches that were flushed.
    batches,
    /// Frames that were deferred.
    deferred,
    /// Deferred frames that were given back.
    deferred_freed,
    /// Flushes of deferred frames, with or without a batch.
    deferred_flushes,
}

impl TlbCounters {
    /// This CPU has flushed so many pages one by one, or everything.
    pub(crate) fn count(&self, pages: Option<u32>, reason: FlushReason) {
        match (reason, pages) {
            (FlushReason::RemoteShootdown, _) => self.nr_tlb_remote_flush_received.add(1),
            (_, None) => self.nr_tlb_local_flush_all.add(1),
            (_, Some(pages)) => self.nr_tlb_local_flush_one.add(u64::from(pages)),
        }
    }
}
