//! Counters of a page cache.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counters of a page cache, in pages unless noted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PagingStats {
    /// Accesses to pages that were not in memory.
    pub misses: u64,
    /// Pages that were read from a store.
    pub read: u64,
    /// Pages that were used again before their memory was freed.
    pub rescued: u64,
    /// Pages that reclaim unmapped.
    pub unmapped: u64,
    /// Pages whose memory the kernel has freed.
    pub evicted: u64,
    /// Flushes that freed the memory of pages.
    pub flushes: u64,
    /// System calls of these flushes.
    pub calls: u64,
    /// Processor time of the calling threads in these calls, in nanoseconds.
    pub call_nanos: u64,
    /// Pages whose memory the kernel refused to free.
    pub refused: u64,
    /// Pages that became dirty.
    pub dirtied: u64,
    /// Pages that were written to a store.
    pub written: u64,
    /// Failed attempts to write a page.
    pub write_failed: u64,
}

/// The counters as atomics.
#[derive(Default)]
pub(super) struct Counters {
    pub(super) misses: AtomicU64,
    pub(super) read: AtomicU64,
    pub(super) rescued: AtomicU64,
    pub(super) unmapped: AtomicU64,
    pub(super) evicted: AtomicU64,
    pub(super) flushes: AtomicU64,
    pub(super) calls: AtomicU64,
    pub(super) call_nanos: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) dirtied: AtomicU64,
    pub(super) written: AtomicU64,
    pub(super) write_failed: AtomicU64,
}

impl Counters {
    pub(super) fn read(&self) -> PagingStats {
        let Self {
            misses,
            read,
            rescued,
            unmapped,
            evicted,
            flushes,
            calls,
            call_nanos,
            refused,
            dirtied,
            written,
            write_failed,
        } = self;
        let of = |counter: &AtomicU64| counter.load(Relaxed);
        PagingStats {
            misses: of(misses),
            read: of(read),
            rescued: of(rescued),
            unmapped: of(unmapped),
            evicted: of(evicted),
            flushes: of(flushes),
            calls: of(calls),
            call_nanos: of(call_nanos),
            refused: of(refused),
            dirtied: of(dirtied),
            written: of(written),
            write_failed: of(write_failed),
        }
    }
}

pub(super) fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Relaxed);
}
