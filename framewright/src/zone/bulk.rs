//! What crosses the zone lock: batches on their way from the lists of a CPU and to them, through
//! the buddy or through the [`Depot`].

use super::{BlockKind, BlockStack, Depot, FlushScope, RefillDemand, Refused, Zone, ZoneAccess};
use crate::{
    buddy::{Buddy, Bundle, Bundles, Fallback, Refusals, Want},
    platform::{Cost, Platform, Site},
    sync::{Address, Ordering},
    types::Order,
};

/// Kinds of work of a batch that is taken: per bundle and per frame.
const TAKE: (Cost, Cost) = (Cost::TakeBundles, Cost::TakeFrames);
/// The same of one that is given.
const GIVE: (Cost, Cost) = (Cost::GiveBundles, Cost::GiveFrames);

/// In the word that says how many frames are in the depot: some of them are surplus.
pub(super) const SURPLUS: u64 = 1 << 63;

/// What nobody needed for so many nanoseconds is surplus: far longer than any burst, and as often as
/// Linux looks after the lists of its CPUs.
const INTERVAL: u64 = 1_000_000_000;

/// What a taker does where pageblocks of its type have no block left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fallbacks {
    /// It is refused ([`Refused::DepotFirst`]) while the depot has any of that type: they may merge
    /// to what is wanted.
    AfterDepot,
    /// It falls back to other types.
    Now,
}

impl<'m, P: Platform> Zone<'m, P> {
    /// Takes up to `want.blocks` blocks as far as `access` allows, appended to `out`. What the depot
    /// has of `depot_demand` comes from there, first of all in the order that is wanted; with that it is
    /// done, unless the depot has next to nothing of it.
    ///
    /// The watermark is tested under the lock: after the call no fewer frames are free than
    /// the mark says, whoever else was taking.
    pub(crate) fn take(
        &self,
        platform: &P,
        mut want: Want,
        (access, fallbacks): (ZoneAccess, Fallbacks),
        out: &mut Bundles,
        depot_demand: Option<(RefillDemand, &mut BlockStack)>,
    ) -> Result<Option<Fallback>, Refused> {
        platform.point(Site::Refill);
        if platform.force(Site::Refill) {
            return Err(Refused::NoBlockOfOrder);
        }
        let mut from_depot = 0;
        let fallback = self.with_depot(platform, |buddy, depot| {
            let allowed = self.allowance(buddy, access) >> want.order.get();
            if allowed < 1 {
                return Err(Refused::BelowWatermark);
            }
            if let Some((wanted, stack)) = depot_demand {
                from_depot = self.take_from_depot(platform, depot, want, wanted, stack);
                // What fills half a ring will do.
                let enough = u32::from(wanted.of(want.order)).min(want.blocks) / 2;
                if from_depot > 0 && from_depot >= enough {
                    return Ok(None);
                }
                want.blocks -= from_depot.min(want.blocks);
            }
            if (from_depot > 0 || depot.frames() > 0) && !buddy.has_own(&want) {
                if from_depot > 0 {
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
            self.probe_bundles(platform, TAKE, out.as_slice());
            Ok(fallback)
        })?;
        if out.is_empty() && from_depot == 0 { Err(Refused::NoBlockOfOrder) } else { Ok(fallback) }
    }

    /// Takes blocks of the wanted type out of the depot, if there are any of the wanted order;
    /// returns how many of that.
    fn take_from_depot(
        &self,
        platform: &P,
        depot: &mut Depot<'m>,
        want: Want,
        wanted: RefillDemand,
        stack: &mut BlockStack,
    ) -> u32 {
        let mut take = |order: Order| {
            let most = usize::from(wanted.of(order));
            BlockKind::of(order, want.migratetype as u8)
                .filter(|_| most > 0)
                .map_or(0, |kind| depot.take(kind, most, stack, self.hooks(platform)))
        };
        let own = take(want.order);
        if own > 0 {
            for order in wanted.others(want.order) {
                take(order);
            }
        }
        own as u32
    }

    /// Gives back blocks.
    pub(crate) fn give(&self, platform: &P, bundles: &[Bundle]) -> Refusals {
        platform.point(Site::BulkFree);
        self.with(platform, |buddy| self.give_under_lock(platform, buddy, bundles))
    }

    /// As [`Zone::give`], and puts `stack` into the depot, which is empty then. It is not if there
    /// is no room, or a pageblock is withheld: whoever has_isolated_pageblocks it looks into the depot once.
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

    /// Gives back blocks that `choose` picks under the lock, one bundle at a time.
    pub(crate) fn give_chosen(
        &self,
        platform: &P,
        mut choose: impl FnMut() -> Option<Bundle>,
    ) -> Refusals {
        platform.point(Site::BulkFree);
        self.with(platform, |buddy| {
            let mut refusals = Refusals::default();
            while let Some(bundle) = choose() {
                refusals.merge(self.give_under_lock(platform, buddy, &[bundle]));
            }
            refusals
        })
    }

    #[inline(always)]
    fn give_under_lock(&self, platform: &P, buddy: &mut Buddy<'m>, bundles: &[Bundle]) -> Refusals {
        self.probe_bundles(platform, GIVE, bundles);
        // Where nobody listens this is the code that everything else gives by, once.
        if P::LISTENING {
            buddy.give_bundles(bundles, self.hooks(platform))
        } else {
            buddy.give_bundles(bundles, ())
        }
    }

    /// Asks for the metadata of bundles that are about to be given, before the lock is taken.
    /// Whole pageblocks come and go without a look at theirs.
    #[inline]
    pub(crate) fn prefetch(&self, platform: &P, bundles: &[Bundle]) {
        self.probe_prefetch(platform, bundles);
        for bundle in bundles.iter().filter(|bundle| bundle.order < Order::PAGEBLOCK) {
            self.pageblocks.prefetch(bundle.pageblock());
            Address::of(self.heads).prefetch(bundle.pageblock());
        }
    }

    /// Frames in the depot, possibly stale by one critical section.
    pub(crate) fn in_depot(&self) -> u64 {
        self.in_depot.load(Ordering::Relaxed) & !SURPLUS
    }

    /// Whether some of them are surplus, to the same precision.
    #[inline]
    pub(crate) fn depot_has_surplus(&self) -> bool {
        self.in_depot.load(Ordering::Relaxed) & SURPLUS != 0
    }

    /// Whether what has lain in the depot all the time has done so for long enough. Says so once.
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

    /// What has lain in the depot all the time is surplus from now on.
    pub(crate) fn end_depot_interval(&self, platform: &P) {
        self.with_depot(platform, |_, depot| depot.end_interval());
    }

    /// Frames that the depot seems to have room for.
    #[inline]
    pub(crate) fn depot_free_frames(&self) -> u64 {
        if self.has_isolated_pageblocks() { 0 } else { self.depot_limit - self.in_depot() }
    }

    /// Whether pageblocks are withheld: as exact as [`Zone::type_number`] is.
    #[inline]
    pub(crate) fn has_isolated_pageblocks(&self) -> bool {
        self.isolated.load(Ordering::Relaxed) > 0
    }

    /// Moves some blocks out of the depot that are to go home to `out`, which is empty.
    pub(crate) fn take_from_depot(&self, platform: &P, which: FlushScope, out: &mut BlockStack) {
        self.with_depot(platform, |_, depot| {
            depot.take_coldest(which, out, self.hooks(platform));
        });
    }
}
