//! A zone as seen from a CPU, with the CPU's lists for it.

use super::{CpuPages, pages::ListsContext, sizing::ZoneFree};
use crate::{
    buddy::{Buddy, Bundle, Bundles, Capture, Fallback, Refusals, Reserve, Want},
    platform::{self, Cost, Platform},
    tuning::{BulkTake, Hardening, Tuning},
    types::{Corruption, CpuId, Event, Finding, MigrateType, Order, Pfn, Refusal, Watermark},
    zone::{AllocFlags, BlockStack, Zone, ZoneAccess},
};

/// A zone as seen from a CPU, for operations that do not enter the CPU's lists. Operations that
/// enter them need an [`OwnedZoneOnCpu`](super::OwnedZoneOnCpu).
pub(crate) struct ZoneOnCpu<'c, 'm, P: Platform> {
    pub(crate) platform: &'c P,
    pub(crate) zone: &'c Zone<'m, P>,
    pub(crate) pages: &'c CpuPages<'m, P>,
    pub(crate) tuning: &'c Tuning,
    pub(crate) id: CpuId,
}

impl<P: Platform> Clone for ZoneOnCpu<'_, '_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Platform> Copy for ZoneOnCpu<'_, '_, P> {}

impl<'m, P: Platform> ZoneOnCpu<'_, 'm, P> {
    /// The free memory of the zone. Below the high watermark, lists should shrink.
    pub(super) fn zone_free(&self) -> ZoneFree {
        self.zone.probe_words(self.platform, platform::Access::Read);
        let frames = self.zone.free();
        ZoneFree { frames, is_low: frames < self.zone.marks().get(Watermark::High) }
    }

    /// The context for work on the lists.
    pub(super) fn context(&self) -> ListsContext<'_, 'm, P> {
        ListsContext { platform: self.platform, pages: self.pages }
    }

    /// The frame number of a zone-relative frame.
    pub(crate) fn pfn(&self, frame: u32) -> Pfn {
        self.zone.pfn(frame)
    }

    /// Takes the frames from `start` to `end` if all are free and none is isolated.
    pub(crate) fn take_range(&self, start: u32, end: u32, of: MigrateType) -> bool {
        self.take_range_if(start, end, of, || !self.zone.has_isolated(start, end))
    }

    /// Takes `frames` frames, at most as many as a block of `order` has, from the start of a free
    /// block. The caller tests the watermark.
    pub(crate) fn take_start_of_block(
        &self,
        order: Order,
        frames: u32,
        (of, access): (MigrateType, ZoneAccess),
    ) -> Option<u32> {
        let want = Want {
            order,
            migratetype: of,
            blocks: 1,
            at_most: 1,
            visits: 1,
            reserve: Reserve::None,
            how: BulkTake::default(),
            unmixed: false,
        };
        let taken = self.zone.take_start_of_block(self.platform, &want, frames);
        let Some((start, fallback)) = taken else {
            self.count_lock(0);
            return None;
        };
        self.account_take(&want, &Bundles::new(), None, fallback, access);
        self.pages.counters.zone_lock_frames.add(u64::from(frames));
        self.pages.counters.pgalloc.add(u64::from(frames));
        self.extent_handed_out(start, start + frames);
        Some(start)
    }

    /// As [`ZoneOnCpu::take_range`], but takes isolated frames. The caller has isolated them.
    pub(crate) fn take_isolated(&self, start: u32, end: u32, of: MigrateType) -> bool {
        self.take_range_if(start, end, of, || true)
    }

    fn take_range_if(
        &self,
        start: u32,
        end: u32,
        of: MigrateType,
        may: impl FnOnce() -> bool,
    ) -> bool {
        let take = |buddy: &mut Buddy<'_>| may() && buddy.take_range(start, end, of);
        let taken = self.zone.with_range(self.platform, (start, end), take);
        let frames = if taken { u64::from(end - start) } else { 0 };
        self.count_lock(frames);
        self.pages.counters.pgalloc.add(frames);
        if taken {
            self.extent_handed_out(start, end);
        }
        taken
    }

    /// Checks that [`ZoneOnCpu::give_range`] may free the frames from `start` to `end`. If not, reports and returns the
    /// first frame that may not be freed. Without hardening there is no check.
    pub(crate) fn check_range(&self, start: u32, end: u32) -> Result<(), (u32, Refusal)> {
        let checked = match (self.zone.states(), self.tuning.hardening) {
            (Some(states), _) => states.expect_extent(start..end),
            (None, Hardening::Off) => Ok(()),
            (None, _) => {
                self.count_lock(0);
                self.zone
                    .with_range(self.platform, (start, end), |buddy| buddy.check_range(start, end))
            }
        };
        if let Err((frame, why)) = checked {
            self.refuse(frame, Order::ZERO, why);
        }
        checked
    }

    /// Marks the frames from `start` to `end`, which [`ZoneOnCpu::take_range`] has taken, as blocks of
    /// order 0. [`ZoneOnCpu::unfold_range`] must follow.
    ///
    /// # Errors
    ///
    /// Some frame is no longer part of an extent. That was reported, and nothing has changed.
    pub(crate) fn mark_split(&self, start: u32, end: u32) -> Result<(), Refusals> {
        let Some(states) = self.zone.states() else { return Ok(()) };
        let split = states.split_extent(start..end);
        split.map_err(|(frame, why)| self.refuse(frame, Order::ZERO, why))
    }

    /// Makes every frame from `start` to `end` a block of order 0 in the maps of the zone. This
    /// needs the zone lock even for a part of a pageblock, because the pageblock may have been
    /// allocated as one block, which only the maps tell.
    pub(crate) fn unfold_range(&self, start: u32, end: u32) {
        self.count_lock(0);
        self.zone.with_range(self.platform, (start, end), |buddy| buddy.split_range(start, end));
    }

    /// Frees frames that [`ZoneOnCpu::take_range`] has taken: a range, or a part of it.
    pub(crate) fn give_range(&self, start: u32, end: u32) {
        let mut from = start;
        while from < end {
            let stop = self.retire_extent(from, end);
            if from < stop {
                self.give_retired(from, stop);
            }
            // The frame at `stop` was refused: it is not part of an extent.
            from = stop.saturating_add(1);
        }
    }

    fn give_retired(&self, start: u32, end: u32) {
        let give = |buddy: &mut Buddy<'_>| buddy.give_range(start, end);
        let refusals = self.zone.with_range(self.platform, (start, end), give);
        let frames = u64::from(end - start);
        self.count_lock(frames);
        self.report(refusals);
        self.pages.counters.pgfree.add(frames - refusals.frames);
    }

    /// Takes from a gigablock (1 GiB) a free block of `order` that is not yet reported to the
    /// hypervisor as free; `None` if there is none.
    pub(crate) fn take_unreported(&self, gigablock: u32, order: Order) -> Option<u32> {
        let take = |buddy: &mut Buddy<'_>| buddy.take_unreported(gigablock, order);
        let frame = self.zone.with(self.platform, take)?;
        self.pages.counters.pgalloc.add(order.frames());
        self.begin_report(frame, order);
        Some(frame)
    }

    /// Frees a block taken by [`ZoneOnCpu::take_unreported`]. It counts as reported until it is
    /// allocated.
    pub(crate) fn give_reported(&self, frame: u32, order: Order) {
        self.end_report(frame, order);
        self.zone.with(self.platform, |buddy| buddy.give_reported(frame, order));
        self.pages.counters.pgfree.add(order.frames());
    }

    /// Frees bundles to the zone under one hold of its lock, updates the counters, and reports
    /// refused frees. The caller must not be inside the lists, because the report calls the
    /// embedder.
    pub(crate) fn give(&self, bundles: &Bundles) {
        if !bundles.is_empty() {
            self.give_and_report(bundles);
        }
    }

    #[inline(never)]
    fn give_and_report(&self, bundles: &Bundles) {
        let refusals = self.give_and_count(bundles);
        self.report(refusals);
    }

    /// As [`ZoneOnCpu::give`], but leaves the report to the caller.
    pub(super) fn give_and_count(&self, bundles: &Bundles) -> Refusals {
        if bundles.is_empty() {
            return Refusals::default();
        }
        self.count_lock(bundles.frames());
        self.platform.cost(Cost::BulkFree, 1);
        self.zone.prefetch(self.platform, bundles);
        let refusals = self.zone.give(self.platform, bundles.as_slice());
        self.pages.counters.refused_frames.add(refusals.frames);
        refusals
    }

    /// Takes the block at `frame` out of the zone, if it is free.
    pub(crate) fn take_specific(&self, frame: u32, order: Order, of: MigrateType) -> bool {
        let taken = self.zone.take_specific(self.platform, frame, order, of);
        self.count_lock(if taken { order.frames() } else { 0 });
        if taken {
            self.pages.counters.zone_allocs.add(1);
            self.pages.counters.pgalloc.add(order.frames());
            self.handed_out(frame, order);
        }
        taken
    }

    /// Frees one block to the zone. If this completes a free block of order `wanted`, takes that block and returns it.
    pub(crate) fn free_capturing(
        &self,
        frame: u32,
        order: Order,
        wanted: Order,
        migratetype: MigrateType,
    ) -> Option<u32> {
        self.retire(frame, order).ok()?;
        let mut capture = Capture { order: wanted, migratetype, taken: None };
        let refusals = self.zone.give_or_capture(self.platform, frame, order, &mut capture);
        self.count_lock(order.frames());
        self.report(refusals);
        let counters = &self.pages.counters;
        if refusals.count == 0 {
            counters.zone_frees.add(1);
            counters.pgfree.add(order.frames());
        }
        if let Some(captured) = capture.taken {
            self.handed_out(captured, wanted);
            counters.zone_allocs.add(1);
            counters.pgalloc.add(wanted.frames());
        }
        capture.taken
    }

    /// Counts one acquisition of the zone lock that moved `frames`.
    pub(super) fn count_lock(&self, frames: u64) {
        self.pages.counters.zone_lock_acquisitions.add(1);
        self.pages.counters.zone_lock_frames.add(frames);
    }

    /// Counts refused frees and reports the first to the embedder.
    #[inline]
    pub(crate) fn report(&self, refusals: Refusals) {
        if refusals.first.is_some() {
            self.report_some(&refusals);
        }
    }

    #[cold]
    #[inline(never)]
    fn report_some(&self, refusals: &Refusals) {
        let Some((frame, order, why)) = refusals.first else { return };
        self.pages.counters.refused_frees.add(u64::from(refusals.count));
        self.platform.corruption(&Corruption {
            pfn: self.pfn(frame),
            order,
            what: Finding::BadFree(why.into()),
            count: refusals.count,
        });
    }

    /// Updates counters and traces after blocks were taken under the zone lock, and wakes
    /// background reclaim if the watermarks were boosted.
    pub(super) fn account_take(
        &self,
        want: &Want,
        taken: &Bundles,
        stack: Option<&BlockStack>,
        fallback: Option<Fallback>,
        access: ZoneAccess,
    ) {
        self.count_lock(taken.frames() + stack.map_or(0, BlockStack::frames));
        if want.order == Order::PAGEBLOCK {
            self.zone.huge_page_served(self.platform);
        }
        if P::TRACING {
            let percpu_refill = want.blocks > 1;
            let stack = stack.into_iter().flat_map(|stack| self.blocks_of_stack(stack));
            for (pfn, order) in stack.chain(self.blocks_of(taken.as_slice())) {
                let migratetype = want.migratetype;
                let event = Event::PageAllocZoneLocked { pfn, order, migratetype, percpu_refill };
                self.platform.trace(self.id, &event);
            }
        }
        let Some(fallback) = fallback else { return };
        let boosted = self.zone.is_boosted_for(self.platform, fallback);
        if boosted && self.zone.raise_boost(self.platform) {
            self.count_lock(0);
        }
        if boosted && access.flags.has(AllocFlags::KSWAPD) {
            self.platform.relief().wake(self.zone.node(), Order::ZERO, access.highest);
        }
        let counters = &self.pages.counters;
        let counter = if fallback.claimed { &counters.claims } else { &counters.steals };
        counter.add(1);
        if P::TRACING
            && let Some(bundle) = taken.as_slice().first()
        {
            let event = Event::PageAllocExtfrag {
                pfn: self.pfn(bundle.word * 64 + bundle.heads.trailing_zeros()),
                alloc_order: want.order,
                fallback_order: fallback.found_order,
                alloc_migratetype: want.migratetype,
                fallback_migratetype: fallback.from,
                change_ownership: fallback.claimed,
            };
            self.platform.trace(self.id, &event);
        }
    }

    /// Frame numbers and orders of the blocks in `stack`.
    pub(super) fn blocks_of_stack(&self, stack: &BlockStack) -> impl Iterator<Item = (Pfn, Order)> {
        stack.runs().flat_map(move |(kind, blocks)| {
            blocks.iter().map(move |&frame| (self.pfn(frame), kind.order()))
        })
    }

    /// Frame numbers and orders of the blocks in bundles.
    pub(crate) fn blocks_of(&self, bundles: &[Bundle]) -> impl Iterator<Item = (Pfn, Order)> {
        bundles.iter().flat_map(move |bundle| {
            bundle.frames().map(move |frame| (self.pfn(frame), bundle.order))
        })
    }
}
