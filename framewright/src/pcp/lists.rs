//! Moving blocks between the rings and the store of one CPU, for code inside the owner protocol.
//!
//! This module does not use the zone: blocks that must leave are appended to a batch, and the
//! caller frees the batch to the zone when it is outside again.

use super::{
    CpuPages, ListIndex, Lists, Sizing,
    index::RING,
    packing::{pack, unpack},
    pages::ListsContext,
    probes::{probe_joined, probe_packed, probe_stored, probe_unpacked},
    store::{BundleStore, Inserted},
};
use crate::{
    buddy::{Bundle, Bundles},
    platform::{Cost, Platform},
    types::Order,
    zone::{BlockKind, RefillDemand},
};

/// The maximum number of blocks that a refill takes from the depot for one list. Only a refill of
/// the list of single frames takes more for that list: up to a whole ring.
const REFILL_MAX: usize = 64;

/// The number of blocks that bypass the store after a spill of scattered blocks: the next blocks
/// are probably scattered, too, and the store would soon displace them.
pub(super) const BYPASSES: u16 = 1024;

fn bit(list: ListIndex) -> u32 {
    1 << list.get()
}

impl<'m> Lists<'m> {
    /// Sets new bounds, and opens or closes the rings accordingly.
    pub(crate) fn resize(&mut self, pages: &CpuPages<'m, impl Platform>, to: Sizing) {
        self.sizing.resize(to);
        pages.publish_bounds(&self.sizing);
        pages.open(&to);
    }

    /// Takes a block. An empty ring is filled from the store first.
    pub(super) fn pop(
        &mut self,
        context: ListsContext<'_, 'm, impl Platform>,
        list: ListIndex,
    ) -> Option<u32> {
        let mut len = context.pages.len(list);
        if len == 0 {
            len = self.fill(context, list)?;
        }
        context.pages.set_len(list, len - 1);
        Some(self.ring(list)[len - 1])
    }

    /// Fills an empty ring from the store, to more than a half if the store has as many blocks. A bundle of up to 64 blocks
    /// fits into the rest of the largest ring. Several bundles may be needed: a bundle of scattered frames has few blocks,
    /// and one of order 4 has four at most. Returns the number of blocks.
    fn fill(
        &mut self,
        context: ListsContext<'_, 'm, impl Platform>,
        list: ListIndex,
    ) -> Option<usize> {
        let wanted = context.pages.limit(list) / 2 + 1;
        let mut len = 0;
        while len < wanted
            && let Some(bundle) = self.store.pop(list)
        {
            let filled = unpack(bundle, self.ring(list), len);
            self.set_stored(context, self.stored - (((filled - len) as u64) << list.order().get()));
            probe_stored(context, &self.store, list, bundle);
            probe_unpacked(context, bundle);
            len = filled;
        }
        self.used |= bit(list);
        (len > 0).then_some(len)
    }

    /// The list whose blocks are to leave because the CPU holds too many: one with blocks in the store that
    /// was not used since the last call, or else `freed`. If blocks of `freed` always left, frames of past
    /// work would stay for ever, while each burst of frees sends its own blocks to the zone, and each burst
    /// of allocations fetches them again.
    pub(super) fn leaving(&mut self, freed: ListIndex) -> ListIndex {
        let used = core::mem::take(&mut self.used) | bit(freed);
        let is_idle = |list: &ListIndex| {
            !list.is_emptying() && used & bit(*list) == 0 && self.store.has_any(*list)
        };
        ListIndex::all().find(is_idle).unwrap_or(freed)
    }

    /// Empties the lists and leaks their frames.
    #[cold]
    pub(super) fn lose_all(&mut self, pages: &CpuPages<'m, impl Platform>) {
        for list in ListIndex::all() {
            pages.set_len(list, 0);
            while self.store.pop(list).is_some() {}
        }
        while self.quarantine.pop().is_some() {}
        self.stored = 0;
        pages.set_stored(0);
    }

    /// Puts a block on its ring. If the ring is full, its coldest blocks go to the store first;
    /// blocks that this displaces from the store are appended to `leaving`.
    pub(super) fn push(
        &mut self,
        context: ListsContext<'_, 'm, impl Platform>,
        list: ListIndex,
        frame: u32,
        leaving: &mut Bundles,
    ) -> Pushed {
        let limit = context.pages.limit(list);
        if limit == 0 {
            return Pushed::SwitchedOff;
        }
        let mut pushed = Pushed::Kept;
        if context.pages.len(list) >= limit {
            match list.is_emptying() {
                true => self.spill_emptying(context, list, leaving),
                false => self.spill_full(context, list, limit, leaving),
            }
            pushed = Pushed::Spilled;
        }
        let len = context.pages.len(list);
        self.ring(list)[len] = frame;
        context.pages.set_len(list, len + 1);
        pushed
    }

    /// Puts bundles from the zone on the ring of a list if that is empty, until it is half full, and the rest into the
    /// store. Bundles for which `stays` returns `false` are appended to `leaving`.
    pub(super) fn accept(
        &mut self,
        context: ListsContext<'_, 'm, impl Platform>,
        list: ListIndex,
        bundles: &Bundles,
        stays: impl Fn(Bundle) -> bool,
        leaving: &mut Bundles,
    ) {
        let bundles = bundles.as_slice();
        if list.order() == Order::PAGEBLOCK {
            return self.accept_pageblocks(context, list, bundles, stays, leaving);
        }
        let mut len = context.pages.len(list);
        let most = if len == 0 { context.pages.limit(list) as u32 / 2 } else { 0 };
        let mut blocks = 0;
        let fits = |bundle: &&Bundle| {
            blocks += bundle.blocks();
            blocks <= most
        };
        let fitting = bundles.iter().take_while(fits).count();
        let mut stored = self.stored;
        for &bundle in bundles.iter().skip(fitting).filter(|bundle| bundle.heads != 0) {
            if stays(bundle) {
                probe_stored(context, &self.store, list, bundle);
                stored += bundle.frame_count();
                stored -= insert(&mut self.store, list, bundle, leaving);
            } else {
                leave(leaving, bundle);
            }
        }
        self.set_stored(context, stored);
        // The lowest block of the first bundle is allocated first.
        for &bundle in bundles.iter().take(fitting).rev().filter(|bundle| bundle.heads != 0) {
            if stays(bundle) {
                probe_unpacked(context, bundle);
                len = unpack(bundle, self.ring(list), len);
            } else {
                leave(leaving, bundle);
            }
        }
        context.pages.set_len(list, len);
    }

    /// Puts pageblocks on their ring, in descending order, so that the lowest is allocated first. Pageblocks are kept
    /// on rings only.
    fn accept_pageblocks(
        &mut self,
        context: ListsContext<'_, 'm, impl Platform>,
        list: ListIndex,
        bundles: &[Bundle],
        stays: impl Fn(Bundle) -> bool,
        leaving: &mut Bundles,
    ) {
        let (mut len, limit) = (context.pages.len(list), context.pages.limit(list));
        let mut places = self.ring(list).get_mut(len..limit).unwrap_or_default().iter_mut();
        for &bundle in bundles.iter().rev().filter(|bundle| bundle.heads != 0) {
            let stays = stays(bundle);
            context.cost(Cost::RingFrames, u32::from(stays));
            match if stays { places.next() } else { None } {
                Some(place) => {
                    *place = bundle.word * 64;
                    len += 1;
                }
                None => _ = leave(leaving, bundle),
            }
        }
        context.pages.set_len(list, len);
    }

    /// The number of blocks of each order to take from the depot in a refill of `blocks` blocks for
    /// `list`, which is empty. Lists of other orders that ran out lately, and have space, are
    /// refilled as well, so that one hold of the zone lock serves all of them. They are not looked for in a zone
    /// without a depot.
    pub(super) fn refill_demand(
        &mut self,
        context: ListsContext<'_, 'm, impl Platform>,
        list: ListIndex,
        blocks: u32,
        has_depot: bool,
    ) -> RefillDemand {
        let mut wanted = RefillDemand::default();
        let (order, of) = (list.order(), list.migratetype());
        let own = if order == Order::ZERO { RING } else { REFILL_MAX };
        wanted.set(order, blocks.min(own as u32) as u8);
        if !has_depot {
            return wanted;
        }
        self.ran_out |= bit(list);
        if self.ran_out == bit(list) {
            return wanted;
        }
        let space = u64::from(self.sizing.high()).saturating_sub(context.pages.held());
        for order in wanted.others(order) {
            let Some(other) = ListIndex::serving(order, of) else { continue };
            if self.ran_out & bit(other) == 0 {
                continue;
            }
            let len = context.pages.len(other);
            let frames = (REFILL_MAX as u64) << order.get();
            if len >= REFILL_MAX {
                // No block of this list was requested since it was refilled.
                self.ran_out &= !bit(other);
            } else if frames <= space {
                wanted.set(order, (REFILL_MAX - len) as u8);
            }
        }
        wanted
    }

    /// Puts blocks on a ring; the last one is allocated first. Returns `false` if they do not fit,
    /// or if the ring is closed.
    #[inline(never)]
    pub(super) fn accept_run(
        &mut self,
        context: ListsContext<'_, 'm, impl Platform>,
        kind: BlockKind,
        blocks: &[u32],
    ) -> bool {
        let Some(list) = ListIndex::freeing(kind.order(), kind.type_number()) else { return false };
        let len = context.pages.len(list);
        let places = len..len + blocks.len();
        let is_open = context.pages.limit(list) > 0;
        let Some(places) = self.ring(list).get_mut(places).filter(|_| is_open) else {
            return false;
        };
        context.cost(Cost::RingRuns, (blocks.len() as u32).div_ceil(64));
        places.copy_from_slice(blocks);
        context.pages.set_len(list, len + blocks.len());
        true
    }

    /// Makes space on a full ring. A CPU that frees without allocating moves the whole ring, because more frees will
    /// follow; of a ring of pageblocks, which go to the zone, it moves half. Otherwise few blocks move, so that no free
    /// takes long.
    fn spill_full(
        &mut self,
        context: ListsContext<'_, 'm, impl Platform>,
        list: ListIndex,
        limit: usize,
        leaving: &mut Bundles,
    ) {
        let (allocated, _) = context.pages.traffic.frames();
        let mut count = if list.order() == Order::PAGEBLOCK { limit - limit / 2 } else { limit };
        if core::mem::replace(&mut self.allocated_before, allocated) != allocated {
            count = (limit - limit / 2).min(self.sizing.hold_pageblocks() as usize);
            // The store was last used long ago, and is probably not in the caches.
            let coldest = self.rings[list.get()].iter().take(count);
            self.store.prefetch(list.order(), coldest);
        }
        self.spill(context, list, count, leaving);
    }

    /// Moves up to `count` blocks of a ring, the coldest, into the store; pageblocks go to `leaving` instead.
    /// While blocks bypass the store, all of the ring may go to `leaving`. Ends early when `leaving` is full.
    pub(super) fn spill(
        &mut self,
        context: ListsContext<'_, 'm, impl Platform>,
        list: ListIndex,
        count: usize,
        leaving: &mut Bundles,
    ) {
        let len = context.pages.len(list);
        let count = count.min(len).min(RING);
        let order = list.order();
        self.used |= bit(list);
        if self.bypasses > 0 && order < Order::PAGEBLOCK {
            return self.leave_scattered(context, list, leaving);
        }
        let ring = &mut self.rings[list.get()];
        let mut stored = self.stored;
        let mut at = 0;
        if order == Order::PAGEBLOCK {
            // Pageblocks are not bundled with neighbours, so the store is of no use for them.
            at = leaving.push_pageblocks(ring[..count].iter().copied());
            context.cost(Cost::RingFrames, at as u32);
        }
        // If the store has as many frames as the CPU may hold, as many must leave as are added. The
        // spill then adds no more bundles than one hold of the zone lock may free.
        let is_full = stored >= u64::from(self.sizing.high());
        let mut new = if is_full { self.sizing.hold_pageblocks() } else { u32::MAX };
        while at < count && !leaving.is_full() && new > 0 {
            let joined = self.store.join(list, &ring[at..count]);
            probe_joined(context, &self.store, list, ring.iter().skip(at).take(joined));
            stored += (joined as u64) << order.get();
            at += joined;
            let Some((bundle, used)) = pack(&ring[at..count], order) else { break };
            probe_packed(context, ring.get(at..at + used));
            context.cost(Cost::StoreBundles, 1);
            if context.listens() {
                context.touch_store(self.store.line_of(list, bundle.word));
            }
            at += used;
            new -= 1;
            stored += (used as u64) << order.get();
            stored -= insert(&mut self.store, list, bundle, leaving);
        }
        ring.copy_within(at..len, 0);
        context.pages.set_len(list, len - at);
        self.set_stored(context, stored);
        // More than three bundles leave for every four blocks that were moved: frees are scattered
        // over more words than the store can hold.
        if order < Order::PAGEBLOCK && leaving.as_slice().len() * 4 > at * 3 {
            self.bypasses = BYPASSES;
        }
    }

    /// Moves the oldest blocks of a ring to `leaving`, a bundle each, until that is full: scattered blocks are not
    /// worth packing.
    fn leave_scattered(
        &mut self,
        context: ListsContext<'_, 'm, impl Platform>,
        list: ListIndex,
        leaving: &mut Bundles,
    ) {
        let len = context.pages.len(list);
        let ring = &mut self.rings[list.get()];
        let left = leaving.push_blocks(&ring[..len], list.order());
        context.cost(Cost::SelectBundles, left as u32);
        ring.copy_within(left..len, 0);
        context.pages.set_len(list, len - left);
        self.bypasses = self.bypasses.saturating_sub(left as u16);
    }

    pub(super) fn set_stored(&mut self, context: ListsContext<'_, 'm, impl Platform>, frames: u64) {
        self.stored = frames;
        self.trims.observe(frames);
        context.pages.set_stored(frames);
    }
}

/// The result of a push.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pushed {
    /// The block is on its ring.
    Kept,
    /// The block is on its ring, after some others were moved to the store.
    Spilled,
    /// The block is not on a ring: the lists are switched off.
    SwitchedOff,
}

/// Appends a bundle to a batch. Returns the number of its frames. The bundle fits, because the blocks that
/// one operation displaces never exceed a batch.
#[inline(always)]
pub(super) fn leave(leaving: &mut Bundles, bundle: Bundle) -> u64 {
    let frames = leaving.push(bundle);
    debug_assert!(frames.is_some(), "a bundle would be lost");
    frames.unwrap_or(0)
}

/// Puts a bundle into the store. A displaced bundle, or blocks of this bundle that were already
/// stored, are appended to `leaving`. Returns the number of their frames.
#[inline(never)]
fn insert(
    store: &mut BundleStore<'_>,
    list: ListIndex,
    bundle: Bundle,
    leaving: &mut Bundles,
) -> u64 {
    match store.insert(list, bundle) {
        Inserted::Stored => 0,
        // If blocks were freed twice, one copy leaves at once. The zone refuses and reports the
        // second copy that reaches it.
        Inserted::Displaced(out) | Inserted::Doubled(out) => leave(leaving, out),
    }
}
