//! The rule by which a free of order 1 to 4 drains the lists of its CPU
//! ([`HighOrderDrain`](crate::tuning::HighOrderDrain)).
//!
//! Blocks of these orders that a CPU frees were often allocated on another CPU, which needs them again, as with the two
//! ends of a network socket. A free of order 1 to 4 drains the lists if all of this holds:
//!
//! | condition | only with |
//! |---|---|
//! | the free before it, through the same lists, was of order 1 to 4, too | second-consecutive |
//! | at least a burst of frames was freed in a row | |
//! | the CPU has freed at least a burst more frames than it has allocated | second-consecutive |
//! | the lists hold at least a batch; tested only if the CPU's cache is large (`keep_batch`) | |
//!
//! *Frames freed in a row* (`free_count`): each frame allocated halves the count, then each frame freed beyond the
//! allocated ones adds one, up to the maximum of a bulk free. *More freed than allocated* (`surplus`): each frame freed
//! adds one, each frame allocated subtracts one; the least value is minus the frames that the CPU may hold, the greatest
//! a burst. So the frees of a CPU that has allocated the frames itself do not drain them: it will soon allocate them
//! again. With second-consecutive, a drain resets both to 0.
//!
//! A drain is up to a bulk free of `batch << scale_max` frames, scattered in memory. With second-consecutive, the free
//! returns one batch of them; each further free of order 1 to 4, and each spill, returns another one. So no free waits
//! for all.
//!
//! Both are updated from the frames allocated and freed since the last update: when a list is refilled from the zone,
//! when a ring spills, and when a free of order 1 to 4 would complete a burst if no frame had been
//! allocated since the last update. Until then no free can drain. So the hot path only compares the
//! frames freed so far with a limit, [`Sizing::may_drain_from`].

use super::Sizing;
use crate::{
    observe::DrainReason,
    pcp::{ListIndex, traffic::Traffic},
    tuning::HighOrderDrain,
    types::Order,
};

impl Sizing {
    /// Counts a free to a list of `order`. Returns the number of frames that the rule of high-order frees has still to
    /// move to the zone; 0: none. `spilled`: the ring of the list has spilled. `held`: the frames that the CPU holds.
    pub(in crate::pcp) fn on_free(
        &mut self,
        traffic: &Traffic,
        (list, order): (ListIndex, Order),
        spilled: bool,
        held: impl FnOnce() -> u64,
    ) -> u64 {
        let may_drain = traffic.may_drain(list, order);
        let consecutive = traffic.last_free_was_high_order();
        traffic.count_free(list, order);
        if !may_drain && !spilled {
            return self.owed.into();
        }
        self.observe(traffic);
        let is_second = consecutive || self.rule == HighOrderDrain::EveryFree;
        if may_drain && is_second && self.missing() == 0 {
            self.drain_burst(held());
        }
        self.owed.into()
    }

    /// Records that a drain has moved `frames` frames to the zone; 0: the lists are empty.
    pub(in crate::pcp) fn drained(&mut self, reason: DrainReason, frames: u64) {
        if reason == DrainReason::HighOrder {
            let left = if frames == 0 { 0 } else { u64::from(self.owed).saturating_sub(frames) };
            self.owed = left as u32;
        }
    }

    /// Whether one free returns all frames of a burst.
    pub(in crate::pcp) fn drains_at_once(&self) -> bool {
        self.drains_at_once
    }

    /// A free of order 1 to 4 may drain once this number of frames has been freed through the lists.
    pub(in crate::pcp) fn may_drain_from(&self) -> u64 {
        if self.owed > 0 { 0 } else { self.seen.1 + self.missing() }
    }

    /// Frames that must still be freed before a free of order 1 to 4 may drain, if no frame is allocated meanwhile.
    fn missing(&self) -> u64 {
        let in_a_row = u64::from(self.burst.saturating_sub(self.free_count));
        match self.rule {
            HighOrderDrain::EveryFree => in_a_row,
            HighOrderDrain::SecondConsecutive => {
                // The surplus is at most a burst, so the difference is not negative.
                in_a_row.max((i64::from(self.burst) - self.surplus) as u64)
            }
        }
    }

    /// Ends a burst: lowers `high`, and sets the number of frames to move to the zone. The CPU holds `held` frames.
    fn drain_burst(&mut self, held: u64) {
        if self.keep_batch && held < u64::from(self.batch) {
            return;
        }
        if self.rule == HighOrderDrain::SecondConsecutive {
            // The burst was drained, so the next drain needs another burst. The older rule, kept
            // for comparison, does not reset the count.
            self.free_count = 0;
            self.surplus = 0;
        }
        let most = self.batch << self.scale_max;
        // Lists that are drained after a burst must have space for a burst.
        let least = self.burst.min(self.high_max).max(self.high_min);
        self.high = self.high.saturating_sub(most).max(least);
        self.owed = held.min(u64::from(most)) as u32;
    }
}

#[cfg(test)]
mod tests;
