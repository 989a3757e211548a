//! Waiting for what somebody else has for a moment.
//!
//! Who empties a given range meets pageblocks that compaction withholds while it empties them, and an
//! embedder that claims no more pages for now, because a lock is somebody's or too many are claimed already.
//! All that passes: it waits in slices, as Linux does where too many pages are isolated, and tries again. It
//! gives up after a number of slices in a row in which nothing has moved, for what is withheld for good, by an
//! [`IsolatedBlock`](crate::IsolatedBlock), is not to be told from the rest.

use crate::platform::{Platform, Wait};

/// Slices in a row, without success, before it gives up.
const SLICES: u32 = 8;

/// Nanoseconds of a slice.
const SLICE_NS: u64 = 20_000_000;

/// Turns of waiting that end a slice earlier: clocks may stand still.
const POLLS: u32 = 500;

/// See the module.
pub(super) struct RetryBudget {
    /// Slices that are left.
    left: u32,
}

impl RetryBudget {
    pub(super) const fn new() -> Self {
        Self { left: SLICES }
    }

    /// Waits for a slice, if any is left.
    pub(super) fn wait_slice<P: Platform>(&mut self, platform: &P) -> bool {
        let Some(left) = self.left.checked_sub(1) else { return false };
        self.left = left;
        let end = platform.now().saturating_add(SLICE_NS);
        let polls = (0..POLLS).take_while(|_| platform.now() < end);
        polls.for_each(|poll| platform.wait(Wait::Memory, poll));
        true
    }
}
