//! Raw frees. A raw free has no [`Block`](crate::Block) as proof of ownership, so the level
//! *checked* checks the free before the block reaches a list.
//!
//! Only raw frees have this cost. The lists of the CPU are searched first, then the zone. A drainer
//! moves blocks from the lists to the zone and never back, so a block that it moves meanwhile is
//! found. Blocks on the lists of other CPUs and in the depot are not found.

use super::{ListIndex, Lists, OwnedZoneOnCpu, pages::ListsContext};
use crate::{
    platform::Platform,
    types::{FreeError, Order, Refusal},
};

/// The next step of a raw free that is not refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RawFree {
    /// Free like a [`Block`](crate::Block).
    AsBlock,
    /// Free to the zone, because the lists could not be searched; the check in the zone is exact.
    ToZone,
}

impl<P: Platform> OwnedZoneOnCpu<'_, '_, P> {
    /// Checks a raw free of the block at `frame`, at *checked*: it is refused if the block is on a
    /// list of this CPU, or is not allocated according to the maps of the zone. (At *off* there is
    /// no check. At the higher levels the state of the block decides when it is freed.)
    #[inline(never)]
    pub(crate) fn check_raw(&mut self, frame: u32, order: Order) -> Result<RawFree, FreeError> {
        let held = self.enter(|at, lists| lists.holds(at.context(), frame, order));
        let checked = match held {
            Some(true) => Err(Refusal::AlreadyFree),
            Some(false) | None => self.ask_zone(frame, order),
        };
        if let Err(why) = checked {
            self.refuse(frame, order, why);
            return Err(why.into());
        }
        // A drainer that is inside may have taken the block off the lists already.
        Ok(if held.is_some() { RawFree::AsBlock } else { RawFree::ToZone })
    }

    /// Whether the block is allocated according to the maps of the zone. The zone lock is taken
    /// only if a lockless read cannot confirm it.
    fn ask_zone(&self, frame: u32, order: Order) -> Result<(), Refusal> {
        if self.zone.confirms(self.platform, frame, order) {
            return Ok(());
        }
        self.count_lock(0);
        self.zone.check_allocated(self.platform, frame, order)
    }
}

impl<'m> Lists<'m> {
    /// Whether a block is on a list of its order. Lists of all types are searched, because the type
    /// of its pageblock may have changed since it was freed.
    #[inline(never)]
    fn holds(
        &self,
        context: ListsContext<'_, 'm, impl Platform>,
        frame: u32,
        order: Order,
    ) -> bool {
        let mut lists = ListIndex::of_order(order);
        let is_on_ring = |list| {
            let len = context.pages.len(list);
            self.rings[list.get()].get(..len).is_some_and(|ring| ring.contains(&frame))
        };
        self.store.holds(order, frame) || lists.any(is_on_ring)
    }
}
