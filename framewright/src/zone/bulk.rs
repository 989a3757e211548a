//! Batches between the lists of a CPU and the zone, under the zone lock: through the buddy or
//! through the [`Depot`].

use super::{
    BlockKind, BlockStack, Depot, FlushScope, RefillDemand, Refused, SURPLUS, Zone, ZoneAccess,
};
use crate::{
    buddy::{Buddy, Bundle, Bundles, Fallback, Refusals, Want, Watch},
    platform::{Access, Miss, Platform, Site},
    sync::{Address, Ordering},
    types::{Order, PAGEBLOCK_ORDER},
};

/// Length of the depot's interval in nanoseconds: far longer than any burst, and the interval at
/// which Linux trims the lists of CPUs.
const INTERVAL: u64 = 1_000_000_000;

/// The behaviour of a take if no pageblock of the requested type has a free block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fallbacks {
    /// The take is refused ([`Refused::DepotFirst`]) while the depot contains blocks of that type,
    /// because these may merge into the requested block.
    AfterDepot,
    /// The take falls back to other types.
    Now,
}

/// The part of a refill that is taken from the depot.
pub(crate) struct DepotRefill<'s> {
    /// The blocks to take, by order.
    pub(crate) demand: RefillDemand,
    /// The blocks that were taken.
    pub(crate) stack: &'s mut BlockStack,
}

impl DepotRefill<'_> {
    /// The same demand and stack, for another attempt.
    pub(crate) fn again(&mut self) -> DepotRefill<'_> {
        DepotRefill { demand: self.demand, stack: self.stack }
    }
}

impl<'m, P: Platform> Zone<'m, P> {
    /// Takes about `want.blocks` blocks, at most `want.at_most`, as far as `access` allows, and
    /// appends them to `out`. With `from_depot`, the depot is used first, for the requested order
    /// and then for the others. If the depot has less than half of the wanted blocks of the
    /// requested order, the rest is taken from the buddy.
    ///
    /// The watermark is tested under the lock. So at least as many frames as it demands are free
    /// after the call, even if other CPUs take blocks at the same time.
    pub(crate) fn take(
        &self,
        platform: &P,
        mut want: Want,
        access: ZoneAccess,
        fallbacks: Fallbacks,
        out: &mut Bundles,
        from_depot: Option<DepotRefill<'_>>,
    ) -> Result<Option<Fallback>, Refused> {
        platform.point(Site::Refill);
        if platform.force(Site::Refill) {
            return Err(Refused::NoBlockOfOrder);
        }
        let mut depot_blocks = 0;
        let fallback = self.with_depot(platform, |buddy, depot| {
            let allowed = self.allowance(buddy, access) >> want.order.get();
            if allowed < 1 {
                return Err(Refused::BelowWatermark);
            }
            if let Some(refill) = from_depot {
                let demand = refill.demand;
                depot_blocks = self.take_from_depot(platform, depot, want, refill);
                // Half of the wanted blocks is enough: then the buddy is not used.
                let enough = u32::from(demand.of(want.order)).min(want.blocks) / 2;
                if depot_blocks > 0 && depot_blocks >= enough {
                    return Ok(None);
                }
                want.blocks -= depot_blocks.min(want.blocks);
            }
            if (depot_blocks > 0 || depot.frames() > 0) && !buddy.has_own(&want) {
                if depot_blocks > 0 {
                    return Ok(None);
                }
                if fallbacks == Fallbacks::AfterDepot && depot.has(want.migratetype) {
                    return Err(Refused::DepotFirst);
                }
            }
            want.at_most = want.at_most.min(u32::try_from(allowed).unwrap_or(u32::MAX));
            want.blocks = want.blocks.min(want.at_most);
            let fallback = if P::LISTENING {
                buddy.take_bundles(want, out, self.hooks(platform))
            } else {
                buddy.take_bundles(want, out, ())
            };
            self.probe_taken(platform, out.as_slice());
            Ok(fallback)
        })?;
        if out.is_empty() && depot_blocks == 0 {
            Err(Refused::NoBlockOfOrder)
        } else {
            Ok(fallback)
        }
    }

    /// Takes blocks of the requested type from the depot if it has any of the requested order.
    /// Returns the number of blocks of that order.
    fn take_from_depot(
        &self,
        platform: &P,
        depot: &mut Depot<'m>,
        want: Want,
        refill: DepotRefill<'_>,
    ) -> u32 {
        let DepotRefill { demand, stack } = refill;
        let mut take = |order: Order| {
            let most = usize::from(demand.of(order));
            BlockKind::of(order, want.migratetype as u8)
                .filter(|_| most > 0)
                .map_or(0, |kind| depot.take(kind, most, stack, self.hooks(platform)))
        };
        let own = take(want.order);
        if own > 0 {
            for order in demand.others(want.order) {
                take(order);
            }
        }
        own as u32
    }

    /// Frees blocks.
    pub(crate) fn give(&self, platform: &P, bundles: &[Bundle]) -> Refusals {
        platform.point(Site::BulkFree);
        self.with_depot(platform, |buddy, _| self.give_under_lock(platform, buddy, bundles))
    }

    /// As [`Zone::give`]. Also moves the blocks of `stack` into the depot. They stay in `stack` if
    /// the depot has no space, or while a pageblock is isolated: the isolating CPU empties the
    /// depot once, and no frame of that pageblock may enter the depot afterwards.
    pub(crate) fn give_with_depot(
        &self,
        platform: &P,
        bundles: &[Bundle],
        stack: &mut BlockStack,
    ) -> Refusals {
        platform.point(Site::BulkFree);
        self.with_depot(platform, |buddy, depot| {
            if buddy.isolated() == 0 && depot.give(stack, self.hooks(platform)) {
                stack.clear();
            }
            self.give_under_lock(platform, buddy, bundles)
        })
    }

    #[inline(always)]
    pub(super) fn give_under_lock(
        &self,
        platform: &P,
        buddy: &mut Buddy<'m>,
        bundles: &[Bundle],
    ) -> Refusals {
        self.probe_given(platform, bundles);
        // If the platform has no simulator hooks, all callers share one compiled `give_bundles`.
        if P::LISTENING {
            buddy.give_bundles(bundles, self.hooks(platform))
        } else {
            buddy.give_bundles(bundles, ())
        }
    }

    /// Prefetches the metadata of bundles that are about to be freed, before the lock is taken.
    /// Frees of whole pageblocks do not access that metadata.
    #[inline(never)]
    pub(crate) fn prefetch(&self, platform: &P, batch: &Bundles) {
        // Most batches have blocks of one order: these are whole pageblocks.
        if batch.frames() != u64::from(batch.blocks()) << PAGEBLOCK_ORDER {
            let pageblocks = batch.as_slice().iter().map(|bundle| bundle.pageblock());
            self.prefetch_pageblocks(platform, pageblocks);
        }
    }

    /// Prefetches the metadata of frames that will be freed soon.
    #[inline(never)]
    pub(crate) fn prefetch_frames(&self, platform: &P, frames: &[u32]) {
        self.prefetch_pageblocks(platform, frames.iter().map(|frame| frame >> PAGEBLOCK_ORDER));
    }

    #[inline(always)]
    fn prefetch_pageblocks(&self, platform: &P, pageblocks: impl Iterator<Item = u32>) {
        let heads = Address::of(self.heads);
        let mut last = None;
        for index in pageblocks {
            self.pageblocks.prefetch(index);
            heads.prefetch(index);
            if P::LISTENING && last.replace(index) != Some(index) {
                self.hooks(platform).pageblock(index, Miss::Independent, true, Access::Prefetch);
            }
        }
    }

    /// Whether the zone has a depot.
    #[inline]
    pub(crate) fn has_depot(&self) -> bool {
        self.depot_limit > 0
    }

    /// Frames in the depot, possibly stale by one critical section.
    pub(crate) fn in_depot(&self) -> u64 {
        self.in_depot.load(Ordering::Relaxed) & !SURPLUS
    }

    /// Whether some of the frames in the depot are surplus, possibly stale by one critical section.
    #[inline]
    pub(crate) fn depot_has_surplus(&self) -> bool {
        self.in_depot.load(Ordering::Relaxed) & SURPLUS != 0
    }

    /// Whether the depot's interval is over. If so, the next interval starts. Usually one call per
    /// interval returns `true`; calls on several CPUs at once may all do. Always `false` if the
    /// depot is empty.
    #[inline]
    pub(crate) fn depot_interval_ended(&self, platform: &P) -> bool {
        if self.in_depot() == 0 {
            return false;
        }
        let now = platform.now();
        let ends = now >= self.interval_ends.load(Ordering::Relaxed);
        if ends {
            self.interval_ends.store(now + INTERVAL, Ordering::Relaxed);
        }
        ends
    }

    /// Ends the interval of the depot: blocks that were not used in it are surplus from now on.
    pub(crate) fn end_depot_interval(&self, platform: &P) {
        self.with_depot(platform, |_, depot| depot.end_interval());
    }

    /// Frames that the depot can still take, possibly stale by one critical section.
    #[inline]
    pub(crate) fn depot_free_frames(&self) -> u64 {
        if self.has_isolated_pageblocks() { 0 } else { self.depot_limit - self.in_depot() }
    }

    /// Whether any pageblock is isolated: exact under the zone lock, a hint without it.
    #[inline]
    pub(crate) fn has_isolated_pageblocks(&self) -> bool {
        self.isolated.load(Ordering::Relaxed) > 0
    }

    /// Moves selected blocks of the depot to `out`, at most a chunk. `which` selects their kinds,
    /// and `out` must be empty.
    pub(crate) fn flush_depot(&self, platform: &P, which: FlushScope, out: &mut BlockStack) {
        self.with_depot(platform, |_, depot| {
            depot.take_coldest(which, out, self.hooks(platform));
        });
    }
}
