//! Deferral of compaction after failures: each failure in a row doubles the number of attempts that
//! are refused, up to 63.
//!
//! The words are read and written without a lock. A race costs at most one attempt.

use crate::{
    sync::{AtomicU32, Ordering},
    types::Order,
};

/// Of 2^6 attempts, 63 are refused, and the 64th runs.
const MAX_SHIFT: u32 = 6;

/// Greater than every order.
const NONE: u32 = u32::MAX;

/// Recent failures of compaction in a zone.
pub(crate) struct Deferral {
    /// Attempts since the last failure.
    considered: AtomicU32,
    /// The binary logarithm of the length of a deferral, in attempts.
    shift: AtomicU32,
    /// The lowest order that failed.
    failed: AtomicU32,
}

impl Deferral {
    pub(crate) fn new() -> Self {
        Self {
            considered: AtomicU32::new(0),
            shift: AtomicU32::new(0),
            failed: AtomicU32::new(NONE),
        }
    }

    /// Records that compaction for `order` failed.
    pub(crate) fn defer(&self, order: Order) {
        self.considered.store(0, Ordering::Relaxed);
        self.shift.store((self.shift() + 1).min(MAX_SHIFT), Ordering::Relaxed);
        self.failed.store(self.failed().min(order.get().into()), Ordering::Relaxed);
    }

    /// Counts an attempt for `order`, and returns whether it is refused.
    pub(crate) fn refuses(&self, order: Order) -> bool {
        let most = 1 << self.shift();
        if u32::from(order.get()) < self.failed() {
            return false;
        }
        let considered = self.considered.load(Ordering::Relaxed).saturating_add(1).min(most);
        self.considered.store(considered, Ordering::Relaxed);
        considered < most
    }

    /// Whether attempts for `order` are being deferred. This does not count as an attempt.
    pub(crate) fn is_deferring(&self, order: Order) -> bool {
        u32::from(order.get()) >= self.failed()
            && self.considered.load(Ordering::Relaxed) < 1 << self.shift()
    }

    /// Records success for `order`: orders up to this one are no longer deferred, and the next
    /// deferral starts with the shortest length.
    pub(crate) fn reset(&self, order: Order) {
        self.considered.store(0, Ordering::Relaxed);
        self.shift.store(0, Ordering::Relaxed);
        self.end_up_to(order);
    }

    /// Records that a block of `order` has formed: orders up to this one are no longer deferred.
    pub(crate) fn end_up_to(&self, order: Order) {
        let order = u32::from(order.get());
        if self.failed() != NONE && order >= self.failed() {
            self.failed.store(order + 1, Ordering::Relaxed);
        }
    }

    /// Whether this attempt for `order` is the first one after the longest deferral.
    #[cfg(any(test, feature = "compare"))]
    pub(crate) fn is_restarting(&self, order: Order) -> bool {
        u32::from(order.get()) >= self.failed()
            && self.shift() == MAX_SHIFT
            && self.considered.load(Ordering::Relaxed) >= 1 << MAX_SHIFT
    }

    /// For trace events: the lowest failed order, the attempts since then, and the length of a
    /// deferral in attempts.
    pub(super) fn numbers(&self) -> (u32, u32, u32) {
        let failed = if self.failed() == NONE { 0 } else { self.failed() };
        (failed, self.considered.load(Ordering::Relaxed), 1 << self.shift())
    }

    fn shift(&self) -> u32 {
        self.shift.load(Ordering::Relaxed)
    }

    fn failed(&self) -> u32 {
        self.failed.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused_in_a_row(deferral: &Deferral, order: Order) -> u32 {
        (0..1000).take_while(|_| deferral.refuses(order)).count() as u32
    }

    #[test]
    fn each_failure_doubles_the_refused_attempts_up_to_63() {
        let (deferral, order) = (Deferral::new(), Order::PAGEBLOCK);
        assert!(!deferral.refuses(order));
        for refused in [1, 3, 7, 15, 31, 63, 63, 63] {
            deferral.defer(order);
            assert!(deferral.is_deferring(order));
            assert!(!deferral.is_restarting(order));
            assert_eq!(refused_in_a_row(&deferral, order), refused);
            assert_eq!(deferral.is_restarting(order), refused == 63);
            assert!(!deferral.refuses(order), "the attempt after the deferral was refused");
            assert!(!deferral.is_deferring(order));
        }
    }

    #[test]
    fn smaller_orders_are_not_refused_and_success_ends_the_deferral() {
        let deferral = Deferral::new();
        let order = |number| Order::new(number).unwrap();
        deferral.defer(order(5));
        assert!(!deferral.refuses(order(4)) && deferral.refuses(order(5)));
        deferral.end_up_to(order(5));
        assert!(
            !deferral.refuses(order(5)),
            "order 5 was refused after a block of order 5 had formed"
        );
        deferral.defer(order(6));
        deferral.reset(order(6));
        assert!(!deferral.refuses(order(9)));
    }
}
