//! Bounded waits for other callers while a given range is emptied.
//!
//! Other callers of compaction may have isolated pageblocks of the range, to empty them. The
//! embedder may refuse to claim pages, because a lock is taken or too many pages are isolated
//! already. Both end soon. So the caller waits for a time slice, as Linux does when too many pages
//! are isolated, and tries again. It fails after several slices in a row in which nothing moved.
//! The wait is bounded because a pageblock may also be isolated for an unlimited time, by an
//! [`IsolatedBlock`](crate::IsolatedBlock), and the caller cannot tell the two cases apart.

use crate::platform::{Platform, Wait};

/// The number of slices in a row without success after which the caller fails.
const SLICES: u32 = 8;

/// Length of a slice in nanoseconds.
const SLICE_NS: u64 = 20_000_000;

/// Polls after which a slice ends early, because the clock may not advance.
const POLLS: u32 = 500;

/// The number of slices that the caller may still wait.
pub(super) struct RetryBudget {
    /// Slices that are left.
    left: u32,
}

impl RetryBudget {
    pub(super) const fn new() -> Self {
        Self { left: SLICES }
    }

    /// Waits for a slice, if any is left. Returns `false` if none was left.
    pub(super) fn wait_slice<P: Platform>(&mut self, platform: &P) -> bool {
        let Some(left) = self.left.checked_sub(1) else { return false };
        self.left = left;
        let end = platform.now().saturating_add(SLICE_NS);
        let polls = (0..POLLS).take_while(|_| platform.now() < end);
        polls.for_each(|poll| platform.wait(Wait::Memory, poll));
        true
    }
}
