//! The last step: asking the embedder for a verdict, in the place of Linux's OOM killer.

use super::{Slow, Stop};
use crate::{
    platform::{NoKillReason, OutOfMemory, Platform, Verdict},
    types::{AllocError, Pfn, Request, Watermark, ZoneKind},
    zone::{AllocFlags, ZoneAccess},
};

impl<P: Platform> Slow<'_, '_, '_, P> {
    /// Asks the embedder for a verdict on the request, unless memory has become free meanwhile.
    /// While another request asks, this one retries.
    pub(super) fn ask_verdict(&mut self) -> Result<Option<Pfn>, Stop> {
        let request = self.need.request;
        let memory = self.memory;
        let Some(_guard) = memory.oom_lock().try_lock() else {
            self.reset_retries();
            return Ok(None);
        };
        let error = self.totals.error;
        if !request.is_huge()
            && self.release_huge_reserves()
            && let Some(pfn) = self.walk(self.access)
        {
            return Ok(Some(pfn));
        }
        // An earlier verdict may have freed much memory. The zones are tried once more before the
        // embedder is asked. As in Linux, the zone must stay above its high watermark, so that the
        // attempt succeeds only after a large free.
        let flags = AllocFlags::NONE.with_if(request.is_huge(), AllocFlags::HUGE_RESERVE);
        let plenty = ZoneAccess { flags, ..ZoneAccess::above(Watermark::High, request.highest()) };
        if let Some(pfn) = self.walk(plenty) {
            return Ok(Some(pfn));
        }
        self.totals.error = error;
        self.preferred.pages.counters.out_of_memory.add(1);
        let verdict = self.relief.out_of_memory(&self.report());
        // A victim has used its share of the reserve. It can exit without more memory.
        if verdict == Verdict::GiveUp || request.is_oom_victim() {
            return Err(Stop);
        }
        self.reset_retries();
        Ok(None)
    }

    /// Releases the huge-page reserves, so that no task is killed because of them. Returns whether
    /// there were any.
    fn release_huge_reserves(&self) -> bool {
        let zones = self.candidates();
        zones.fold(false, |any, (_, at)| at.zone.release_huge_reserve(at.platform) | any)
    }

    fn report(&self) -> OutOfMemory {
        let zone = self.preferred.zone;
        OutOfMemory {
            need: self.need,
            zone: self.zone,
            free: zone.free(),
            must_leave: zone.marks().reserve(self.access).max(0) as u64,
            error: self.final_error(),
            reclaimed: self.totals.reclaimed,
            compacted: self.compacted,
            no_kill: no_kill_reason(self.need.request),
        }
    }
}

/// The reason why Linux would not kill a task for a request; `None` if it would.
fn no_kill_reason(request: Request) -> Option<NoKillReason> {
    if request.is_costly() {
        Some(NoKillReason::CostlyOrder)
    } else if request.may_fail_after_retries() {
        Some(NoKillReason::MayFail)
    } else if request.highest() < ZoneKind::Normal {
        Some(NoKillReason::LowZone)
    } else if request.wants_one_node() {
        Some(NoKillReason::OneNode)
    } else if !request.may_fs() {
        Some(NoKillReason::NoFileSystem)
    } else {
        None
    }
}

impl AllocError {
    /// The same error with this number of rounds of reclaim and compaction.
    pub(super) const fn after(mut self, rounds: u16) -> Self {
        if let AllocError::BelowWatermark(shortage) | AllocError::NoBlockOfOrder(shortage) =
            &mut self
        {
            shortage.rounds = rounds;
        }
        self
    }
}
