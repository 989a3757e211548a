//! The decision whether another round can help.

use super::{Slow, Stop};
use crate::{
    platform::{CompactPriority, Compacted, Platform},
    types::{Order, Pfn, Watermark},
    zone::{LastReserved, ZoneAccess},
};

/// Costly orders get a quarter of the retries of compaction.
const COSTLY_SHARE: u32 = 4;

impl<P: Platform> Slow<'_, '_, '_, P> {
    /// Decides on another round after one that did not serve the request.
    pub(super) fn decide_retry(&mut self) -> Result<Option<Pfn>, Stop> {
        let request = self.need.request;
        if request.has_one_round() {
            return Err(Stop);
        }
        if request.is_costly() && !(request.may_fail_after_retries() && self.has_compaction()) {
            return Err(Stop);
        }
        let may_retry = self.rounds_with_progress < self.memory.tuning().alloc.progress_retries;
        self.rounds_with_progress += u32::from(self.progressed);
        if may_retry
            && (self.should_reclaim_retry() || self.progressed && self.should_compact_retry())
        {
            return Ok(None);
        }
        self.check_unchanged()?;
        self.ask_verdict()
    }

    /// Changes one pageblock of the reserve to the type of the request. Returns whether there was
    /// one. It comes from the first zone that can release one.
    pub(super) fn unreserve(&self, last: LastReserved) -> bool {
        let request = self.need.request;
        let mut zones = self.candidates();
        zones.any(|(_, at)| at.zone.unreserve_highatomic(at.platform, request.migratetype(), last))
    }

    /// Whether compaction was tried for this request, and is available.
    pub(super) fn has_compaction(&self) -> bool {
        matches!(self.compacted, Some((_, result)) if result != Compacted::Unavailable)
    }

    /// Whether another round of reclaim can help. It can if the rounds without progress are within
    /// their limit and some zone could serve the request if all reclaimable frames were free.
    /// Otherwise it can if a pageblock of the high-atomic reserve is left; this method then
    /// releases it.
    fn should_reclaim_retry(&mut self) -> bool {
        if self.progressed && !self.need.request.is_costly() {
            self.rounds_without_progress = 0;
        } else {
            self.rounds_without_progress += 1;
        }
        let below_limit = self.rounds_without_progress <= self.memory.tuning().alloc.retries;
        below_limit && self.reclaim_could_serve() || self.unreserve(LastReserved::IsReleased)
    }

    fn reclaim_could_serve(&self) -> bool {
        let order = self.need.request.order();
        let access = ZoneAccess { mark: Watermark::Min, ..self.access };
        let mut zones = self.candidates();
        zones.any(|(id, at)| {
            let frames = self.relief.reclaimable(id);
            frames.is_none() && self.progressed
                || at.zone.could_take(order, access, frames.unwrap_or(0))
        })
    }

    /// Whether another round of compaction can help. Raises its priority if necessary.
    fn should_compact_retry(&mut self) -> bool {
        let request = self.need.request;
        if request.order() == Order::ZERO || request.is_oom_victim() {
            return false;
        }
        let Some((_, result)) = self.compacted else { return false };
        match result {
            Compacted::Unavailable => return false,
            Compacted::Skipped => return self.is_compaction_suitable(),
            Compacted::Success => {
                let share = if request.is_costly() { COSTLY_SHARE } else { 1 };
                self.compaction_retries += 1;
                let retries = self.memory.tuning().alloc.compaction_retries / share;
                if self.compaction_retries <= retries {
                    return true;
                }
            }
            Compacted::Deferred | Compacted::Contended | Compacted::Complete => {}
        }
        self.raise_priority()
    }

    /// Whether some zone would have enough free frames as targets of compaction, if reclaim freed
    /// one in 2^order of the reclaimable frames.
    fn is_compaction_suitable(&self) -> bool {
        let request = self.need.request;
        let order = request.order();
        let mark = if request.is_costly() { Watermark::Low } else { Watermark::Min };
        let access = ZoneAccess::above(mark, request.highest());
        let mut zones = self.candidates();
        zones.any(|(id, at)| {
            let frames = self.relief.reclaimable(id).unwrap_or(0) >> order.get();
            at.zone.could_compact(order, access, frames, &self.memory.tuning().compact)
        })
    }

    /// Raises the priority of compaction by one step, up to the highest for the order. Returns
    /// whether it was raised.
    fn raise_priority(&mut self) -> bool {
        let highest = if self.need.request.is_costly() {
            CompactPriority::SyncLight
        } else {
            CompactPriority::Sync
        };
        match self.priority.raised() {
            Some(raised) if raised <= highest => {
                (self.priority, self.compaction_retries) = (raised, 0);
                true
            }
            _ => false,
        }
    }
}
