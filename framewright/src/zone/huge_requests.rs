//! Requests for huge pages in a zone, by which the size of the
//! [huge-page reserve](super::huge_reserve) adapts.

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Requests in a row that find a huge page before the reserve shrinks by one. In a steady stream
/// about one request in this many has to wait.
pub(super) const SERVED: u32 = 256;

/// Nanoseconds without a request after which the reserve is halved.
const IDLE_TIME: u64 = 10_000_000_000;

/// Counts of requests for huge pages in a zone. The size of the reserve is one of the
/// [watermarks](super::Marks) and changes under the zone lock. The words here are written without
/// the lock and in no order: a request that races with another is not counted, or is counted twice.
pub(super) struct HugeRequests {
    /// The limit of the reserve in pageblocks; 0: no reserve.
    pub(super) limit: AtomicU64,
    /// Requests in a row that found a huge page.
    served: AtomicU32,
    /// The time when a huge page was last requested or the reserve was last halved.
    asked: AtomicU64,
}

impl HugeRequests {
    pub(super) fn new() -> Self {
        Self { limit: AtomicU64::new(0), served: AtomicU32::new(0), asked: AtomicU64::new(0) }
    }

    pub(super) fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    /// Records a request that found a huge page. Returns whether the reserve is to shrink by one.
    pub(super) fn record_served(&self, now: u64) -> bool {
        let served = self.served.load(Ordering::Relaxed) + 1;
        self.record(served % SERVED, now);
        served >= SERVED
    }

    /// The number of times that the reserve is to be halved because no huge page was requested. If
    /// it is not 0, a new idle period begins.
    pub(super) fn halves(&self, now: u64) -> u32 {
        let idle = now.saturating_sub(self.asked.load(Ordering::Relaxed));
        let halves = u32::try_from(idle / IDLE_TIME).unwrap_or(u32::MAX);
        if halves > 0 {
            self.record(0, now);
        }
        halves
    }

    pub(super) fn record(&self, served: u32, now: u64) {
        self.served.store(served, Ordering::Relaxed);
        self.asked.store(now, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_256th_served_request_in_a_row_shrinks_the_reserve() {
        let requests = HugeRequests::new();
        let shrunk = |times: u32| (0..times).filter(|_| requests.record_served(0)).count();
        assert_eq!(shrunk(SERVED - 1), 0);
        requests.record(0, 0);
        assert_eq!(shrunk(SERVED - 1), 0, "not in a row");
        assert_eq!((shrunk(1), shrunk(2 * SERVED)), (1, 2));
    }

    #[test]
    fn idle_time_halves_the_reserve() {
        let requests = HugeRequests::new();
        requests.record(0, 1);
        assert_eq!(requests.halves(IDLE_TIME), 0);
        assert_eq!(requests.halves(IDLE_TIME + 1), 1);
        assert_eq!(requests.halves(IDLE_TIME + 2), 0, "no new idle period has begun");
        assert_eq!(requests.halves(3 * IDLE_TIME + 1), 2);
        assert!(requests.halves(u64::MAX) > u64::BITS, "a part of the reserve is left");
    }
}
