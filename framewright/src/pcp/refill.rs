//! Allocations that the hot path cannot serve: refills.

use super::{ListIndex, OwnedZoneOnCpu, cpu::ZoneOnCpu};
use crate::{
    buddy::{Bundle, Bundles, Want},
    platform::{self, Cost, Platform},
    tuning::Hardening,
    types::{MigrateType, Order},
    zone::{
        AllocFlags, BlockStack, DepotRefill, Fallbacks, FlushScope, RefillDemand, Refused,
        ZoneAccess,
    },
};

/// Maximum number of blocks in a refill while blocks of emptying pageblocks wait in the store or on
/// a long ring.
const SMALL_REFILL: u32 = 512;

/// The result of an attempt to allocate from the lists.
enum Answer {
    Frame(u32),
    /// The lists have no block: request this many blocks from the zone, or the given number of blocks of
    /// each order from its depot.
    Refill(u32, RefillDemand),
}

impl<P: Platform> OwnedZoneOnCpu<'_, '_, P> {
    /// Allocates a block for a list: from the ring, from the store behind it, or by a refill.
    pub(crate) fn alloc(&mut self, list: ListIndex, access: ZoneAccess) -> Result<u32, Refused> {
        self.platform.cost(Cost::SlowAlloc, 1);
        let mut emptying_waits = false;
        let answer = self.enter(|at, lists| {
            emptying_waits = lists.has_emptying(at.context());
            match lists.pop(at.context(), list) {
                Some(frame) => {
                    at.pages.traffic.count_alloc(list.order());
                    Answer::Frame(frame)
                }
                None => {
                    lists.sizing.observe(&at.pages.traffic);
                    let held = at.pages.held();
                    let mut blocks = lists.sizing.on_refill(list.order(), held, at.zone_free());
                    if emptying_waits {
                        // After a smaller refill the next one comes sooner, and returns more of
                        // the blocks of emptying pageblocks.
                        blocks = blocks.min(SMALL_REFILL);
                    }
                    at.pages.publish(&lists.sizing);
                    let has_depot = at.zone.has_depot();
                    let demand = lists.refill_demand(at.context(), list, blocks, has_depot);
                    Answer::Refill(blocks, demand)
                }
            }
        });
        if emptying_waits {
            self.return_emptying();
        }
        let frame = match answer {
            Some(Answer::Frame(frame)) => frame,
            Some(Answer::Refill(blocks, demand)) => self.refill(list, blocks, demand, access)?,
            None => return self.alloc_from_zone(list.order(), list.migratetype(), access),
        };
        self.handed_out(frame, list.order());
        Ok(frame)
    }

    /// Takes a batch from the zone, keeps one block and puts the others on the lists.
    #[inline(never)]
    fn refill(
        &mut self,
        list: ListIndex,
        blocks: u32,
        demand: RefillDemand,
        access: ZoneAccess,
    ) -> Result<u32, Refused> {
        let mut taken = Bundles::new();
        let mut stack = BlockStack::new();
        let at_most = blocks.saturating_add(64);
        let want =
            Want { blocks, at_most, ..self.want_one(list.order(), list.migratetype(), access) };
        self.take(want, access, &mut taken, Some(DepotRefill { demand, stack: &mut stack }))?;
        let counters = &self.pages.counters;
        counters.refills.add(1);
        counters.refilled_frames.add(taken.frames() + stack.frames());
        counters.from_depot.add(stack.frames());
        let frame = stack.pop().or_else(|| taken.pop_lowest()).ok_or(Refused::NoBlockOfOrder)?;
        let mut leaving = Bundles::new();
        let accepted = self.enter(|at, lists| {
            // Number and types are read inside: isolation changes the type of a pageblock, publishes the number of isolated
            // ones when it releases the zone lock, then waits until no owner is inside.
            let some_isolated = at.zone.has_isolated_pageblocks();
            let stays = |bundle: Bundle| !some_isolated || !at.zone.is_isolated(bundle.word * 64);
            if !some_isolated {
                stack.empty(|kind, blocks| lists.accept_run(at.context(), kind, blocks));
            }
            lists.accept(at.context(), list, &taken, stays, &mut leaving);
            at.pages.traffic.count_alloc(list.order());
            at.pages.counters.list_misses.add(1);
        });
        if accepted.is_some() {
            self.give(&leaving);
        } else {
            self.pages.counters.pgalloc.add(list.order().frames());
            self.give(&taken);
        }
        self.give_stack(&mut stack);
        self.trim_depot();
        Ok(frame)
    }
}

impl<P: Platform> ZoneOnCpu<'_, '_, P> {
    /// Whether allocations may use the lists of the CPU.
    #[inline]
    pub(crate) fn has_lists(&self) -> bool {
        self.tuning.hardening != Hardening::Paranoid
    }

    /// Allocates one block from the zone, bypassing the lists.
    pub(crate) fn alloc_from_zone(
        &self,
        order: Order,
        migratetype: MigrateType,
        access: ZoneAccess,
    ) -> Result<u32, Refused> {
        let mut taken = Bundles::new();
        self.take(self.want_one(order, migratetype, access), access, &mut taken, None)?;
        let frame = taken.pop_lowest().ok_or(Refused::NoBlockOfOrder)?;
        self.pages.counters.zone_allocs.add(1);
        self.pages.counters.pgalloc.add(order.frames());
        self.handed_out(frame, order);
        Ok(frame)
    }

    /// One block, with the settings and the access of a request.
    fn want_one(&self, order: Order, migratetype: MigrateType, access: ZoneAccess) -> Want {
        let visits = self.tuning.zone.refill_pageblocks;
        let reserve = access.reserve();
        let how = self.tuning.zone.bulk_take;
        let unmixed = access.flags.has(AllocFlags::NO_FRAGMENT);
        Want { order, migratetype, blocks: 1, at_most: 1, visits, reserve, how, unmixed }
    }

    /// Takes a batch from the zone. While the buddy cannot serve the request, blocks of the depot
    /// are returned to the buddy, one chunk at a time. All blocks of the requested type are
    /// returned before types are mixed, and all other blocks before the request is refused.
    fn take(
        &self,
        want: Want,
        access: ZoneAccess,
        taken: &mut Bundles,
        mut from_depot: Option<DepotRefill<'_>>,
    ) -> Result<(), Refused> {
        let (mut fallbacks, mut of) = (Fallbacks::AfterDepot, Some(want.migratetype));
        // The depot's size at the first check limits the frames to return, because other CPUs may
        // add to the depot for ever.
        let mut left = None;
        loop {
            let again = from_depot.as_mut().map(DepotRefill::again);
            let result = self.try_take(want, access, fallbacks, taken, again);
            let Err(refused) = result else { return Ok(()) };
            let left = left.get_or_insert_with(|| self.zone.in_depot());
            // While memory is short no CPU adds to the depot, so this loop ends.
            let may_gain = refused == Refused::BelowWatermark || *left > 0;
            let freed =
                if may_gain { self.shrink_depot(FlushScope::For(of, want.order)) } else { 0 };
            *left = left.saturating_sub(freed);
            if freed > 0 {
                continue;
            }
            if refused == Refused::DepotFirst || of.is_some() && self.zone.in_depot() > 0 {
                (fallbacks, of) = (Fallbacks::Now, None);
            } else {
                return Err(refused);
            }
        }
    }

    fn try_take(
        &self,
        want: Want,
        access: ZoneAccess,
        fallbacks: Fallbacks,
        taken: &mut Bundles,
        mut from_depot: Option<DepotRefill<'_>>,
    ) -> Result<(), Refused> {
        self.platform.cost(Cost::Refill, 1);
        self.zone.probe_words(self.platform, platform::Access::Read);
        if !self.zone.may_take(self.platform, want.order, access) {
            return Err(self.zone.refusal(want.order, access));
        }
        let once = from_depot.as_mut().map(DepotRefill::again);
        match self.zone.take(self.platform, want, access, fallbacks, taken, once) {
            Ok(fallback) => {
                let stack = from_depot.map(|refill| refill.stack);
                let held = BatchGuard { cpu: *self, taken, stack };
                self.account_take(&want, held.taken, held.stack.as_deref(), fallback, access);
                core::mem::forget(held);
                Ok(())
            }
            Err(error) => {
                self.count_lock(0);
                Err(error)
            }
        }
    }
}

/// Blocks on their way from the zone to the lists, or from the lists to the zone. Dropping the
/// value returns them to the zone, also while a panic of the embedder unwinds.
pub(super) struct BatchGuard<'t, 'c, 'm, P: Platform> {
    pub(super) cpu: ZoneOnCpu<'c, 'm, P>,
    pub(super) taken: &'t Bundles,
    pub(super) stack: Option<&'t mut BlockStack>,
}

impl<P: Platform> Drop for BatchGuard<'_, '_, '_, P> {
    fn drop(&mut self) {
        self.cpu.give(self.taken);
        if let Some(stack) = &mut self.stack {
            self.cpu.give_stack(stack);
        }
    }
}
