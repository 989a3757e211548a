//! Raw frees, which no [`Block`](crate::Block) vouches for: what the level *checked* looks at before
//! one reaches a list.
//!
//! Only raw frees pay for it. The lists of the CPU are searched first, then the zone is asked: a
//! drainer moves blocks from those lists to the zone and never back, so that it cannot carry a
//! block past both looks.

use super::{ListIndex, Lists, OwnedCpu, pages::Here};
use crate::{
    alloc::FreeError, buddy::Refusal, frame::Order, platform::Platform, tuning::Hardening,
};

/// Where a raw free goes that is not refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RawFree {
    /// Wherever a block goes.
    AsBlock,
    /// To the zone, which is exact: the lists could not be searched.
    ToZone,
}

impl<P: Platform> OwnedCpu<'_, '_, P> {
    /// Judges a raw free of the block at `frame`. At *checked* it is refused if the block is on a list
    /// of this CPU, or is none for the maps of the zone; at *off* it is trusted, and at the higher
    /// levels its state decides when it is freed.
    pub(crate) fn judge_raw(&mut self, frame: u32, order: Order) -> Result<RawFree, FreeError> {
        if self.tuning.hardening != Hardening::Checked {
            return Ok(RawFree::AsBlock);
        }
        let held = self.enter(|at, lists| lists.holds(at.here(), frame, order));
        let judged = match held {
            Some(true) => Err(Refusal::AlreadyFree),
            Some(false) | None => self.ask_zone(frame, order),
        };
        if let Err(why) = judged {
            self.refuse(frame, order, why);
            return Err(why.into());
        }
        // A drainer that is inside may have the block in hand.
        Ok(if held.is_some() { RawFree::AsBlock } else { RawFree::ToZone })
    }

    /// Whether the maps of the zone know a block: without its lock where they tell at a glance.
    fn ask_zone(&self, frame: u32, order: Order) -> Result<(), Refusal> {
        if self.zone.confirms(self.platform, frame, order) {
            return Ok(());
        }
        self.count_lock(0);
        self.zone.judge(self.platform, frame, order)
    }
}

impl<'m> Lists<'m> {
    /// Whether a block is on a list of its order, of whatever type: its pageblock may have had
    /// another when it came.
    #[inline(never)]
    fn holds(&mut self, here: Here<'_, 'm, impl Platform>, frame: u32, order: Order) -> bool {
        ListIndex::all().filter(|list| list.order() == order).any(|list| {
            let len = here.pages.len(list);
            let on_ring = self.ring(list).get(..len).is_some_and(|ring| ring.contains(&frame));
            on_ring || self.store.holds(list, frame)
        })
    }
}
