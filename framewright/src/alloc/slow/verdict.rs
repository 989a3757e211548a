//! When nothing helps: having the embedder judge.

use super::{Slow, Stop};
use crate::{
    platform::{OutOfMemory, Platform, Spare, Verdict},
    sync::{AtomicBool, Ordering},
    types::{AllocError, Pfn, Request, Watermark, ZoneKind},
    zone::{Access, Rights},
};

/// Who may judge: one request at a time. Others trust that it frees something, and wait.
pub(crate) struct Judge(AtomicBool);

impl Judge {
    pub(crate) fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    fn sit(&self) -> Option<Sitting<'_>> {
        let is_free = !self.0.swap(true, Ordering::Acquire);
        is_free.then(|| Sitting(self))
    }
}

/// The right to judge.
struct Sitting<'j>(&'j Judge);

impl Drop for Sitting<'_> {
    fn drop(&mut self) {
        self.0.0.store(false, Ordering::Release);
    }
}

impl<P: Platform> Slow<'_, '_, '_, P> {
    /// Asks the embedder what shall become of the request, unless memory has turned up.
    pub(super) fn judge(&mut self) -> Result<Option<Pfn>, Stop> {
        let request = self.need.request;
        let memory = self.memory;
        let Some(_sitting) = memory.judge().sit() else {
            self.take_heart();
            return Ok(None);
        };
        // Who judged before may have freed plenty. Only that counts: whoever is killed should
        // not be killed for a frame more or less.
        let error = self.error;
        if !request.is_huge()
            && self.give_up_stocks()
            && let Some(pfn) = self.walk(self.access)
        {
            return Ok(Some(pfn));
        }
        let rights = Rights::NONE.with_if(request.is_huge(), Rights::STOCK);
        let plenty = Access { rights, ..Access::above(Watermark::High, request.highest()) };
        if let Some(pfn) = self.walk(plenty) {
            return Ok(Some(pfn));
        }
        self.error = error;
        self.preferred.pages.counters.out_of_memory.add(1);
        let verdict = self.relief.out_of_memory(&self.report());
        // A victim has had its share of the reserve; it may end without more.
        if verdict == Verdict::GiveUp || request.is_victim() {
            return Err(Stop::Failed);
        }
        self.take_heart();
        Ok(None)
    }

    /// Nobody is killed for what is kept ready for others. Whether there was any.
    fn give_up_stocks(&self) -> bool {
        let zones = self.memory.candidates(self.need.cpu, self.need.request);
        zones.fold(false, |any, (_, at)| at.zone.give_up_stock(at.platform) | any)
    }

    fn report(&self) -> OutOfMemory {
        let zone = self.preferred.zone;
        OutOfMemory {
            need: self.need,
            zone: self.zone,
            free: zone.free(),
            must_leave: zone.marks().reserve(self.access).max(0) as u64,
            error: self.final_error(),
            reclaimed: self.reclaimed,
            compacted: self.compacted,
            spare: spare(self.need.request),
        }
    }
}

/// Why the field would not kill for a request.
fn spare(request: Request) -> Option<Spare> {
    if request.is_costly() {
        Some(Spare::CostlyOrder)
    } else if request.may_fail_late() {
        Some(Spare::MayFail)
    } else if request.highest() < ZoneKind::Normal {
        Some(Spare::LowZone)
    } else if request.wants_one_node() {
        Some(Spare::OneNode)
    } else if !request.may_fs() {
        Some(Spare::NoFileSystem)
    } else {
        None
    }
}

impl AllocError {
    /// The same after so many rounds of relief.
    pub(super) const fn after(mut self, rounds: u16) -> Self {
        if let AllocError::BelowWatermark(shortage) | AllocError::NoBlockOfOrder(shortage) =
            &mut self
        {
            shortage.rounds = rounds;
        }
        self
    }
}
