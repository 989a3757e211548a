//! Updates of states and poison at the levels [`Hardening::Tracked`](crate::tuning::Hardening::Tracked)
//! and [`Hardening::Paranoid`](crate::tuning::Hardening::Paranoid). They happen whenever a block is
//! handed to a user or freed.
//!
//! Code that takes frames from the zone or a list for a user calls [`ZoneOnCpu::handed_out`]; code
//! that frees a user's block calls [`ZoneOnCpu::retire`] first. Both do nothing at the other
//! levels, where the zone has no states. The hot paths of the lists do not call them, because those
//! paths are not taken at these two levels: at *tracked* the lists are entered through a try-lock,
//! and at *paranoid* the lists are switched off. Frames are filled and checked outside of locks and
//! lists, because the embedder's code does it.
//!
//! The quarantine exists only at *paranoid*. Like the store, it is part of the lists of the CPU and
//! follows the same protocol. Its frames count as held by the CPU, drains empty it, and blocks of
//! isolated pageblocks do not enter it.

use core::ops::Range;

use super::{Lists, OwnedZoneOnCpu, cpu::ZoneOnCpu, pages::ListsContext};
use crate::{
    buddy::{Bundle, Bundles, Refusals},
    hardening::{States, Waiting},
    platform::Platform,
    tuning::Hardening,
    types::{Corruption, Finding, FreeError, MigrateType, Order, PAGEBLOCK_FRAMES, Refusal},
};

impl<'m, P: Platform> ZoneOnCpu<'_, 'm, P> {
    /// Records that a block from the zone or a list goes to a user. Reports writes to the block
    /// while it was free.
    #[inline]
    pub(crate) fn handed_out(&self, frame: u32, order: Order) {
        if let Some(states) = self.zone.states() {
            self.own(states, frame, order);
        }
    }

    #[inline(never)]
    fn own(&self, states: States<'_>, frame: u32, order: Order) {
        self.look_for_damage(states, frames(frame, order), order);
        states.own(frame, order);
    }

    /// Records that a user's block is about to be freed. With states, the block is refused if it is
    /// not allocated, else marked as free.
    #[inline]
    pub(crate) fn retire(&self, frame: u32, order: Order) -> Result<(), Refusals> {
        self.zone.states().map_or(Ok(()), |states| self.disown(states, frame, order))
    }

    #[inline(never)]
    fn disown(&self, states: States<'_>, frame: u32, order: Order) -> Result<(), Refusals> {
        states.disown(frame, order).map_err(|why| self.refuse(frame, order, why))?;
        self.poison(states, frame, order);
        Ok(())
    }

    /// As [`ZoneOnCpu::handed_out`], for an extent.
    pub(super) fn extent_handed_out(&self, start: u32, end: u32) {
        if let Some(states) = self.zone.states() {
            self.look_for_damage(states, start..end, Order::ZERO);
            states.own_extent(start..end);
        }
    }

    /// As [`ZoneOnCpu::retire`], for a part of an extent. Returns the first frame that was refused
    /// because it is no longer part of an extent, or `end`.
    pub(super) fn retire_extent(&self, start: u32, end: u32) -> u32 {
        let Some(states) = self.zone.states() else { return end };
        let refused = (start..end).find(|&frame| {
            let disowned = states.disown_of_extent(frame);
            disowned.map_err(|why| self.refuse(frame, Order::ZERO, why)).is_err()
        });
        let stop = refused.unwrap_or(end);
        for frame in start..stop {
            self.poison(states, frame, Order::ZERO);
        }
        stop
    }

    /// Records that a free block was taken out of the zone for the time of a report to the embedder
    /// (free page reporting). The embedder may discard the contents, so the poison is not checked
    /// any more.
    pub(super) fn begin_report(&self, frame: u32, order: Order) {
        if let Some(states) = self.zone.states() {
            states.take_poisoned(frames(frame, order)).for_each(drop);
            states.own(frame, order);
        }
    }

    /// Records that a reported block is about to return to the zone. The block has no user, so the
    /// check cannot fail.
    pub(super) fn end_report(&self, frame: u32, order: Order) {
        if let Some(states) = self.zone.states() {
            let _ = states.disown(frame, order);
        }
    }

    /// Checks that a user has a block of exactly `order` at `frame`; always passes without states.
    pub(crate) fn expect_block(&self, frame: u32, order: Order) -> Result<(), FreeError> {
        self.zone.states().map_or(Ok(()), |states| Ok(states.expect(frame, order)?))
    }

    /// Splits a user's block into two of order `half`. With states, the block is refused unless it
    /// is allocated.
    pub(crate) fn split_block(
        &self,
        frame: u32,
        order: Order,
        half: Order,
    ) -> Result<(), Refusals> {
        let states = self.zone.states();
        if let Some(states) = states {
            states.begin_split(frame, order).map_err(|why| self.refuse(frame, order, why))?;
        }
        self.zone.with(self.platform, |buddy| buddy.split_head(frame, half));
        if let Some(states) = states {
            states.split(frame, half);
        }
        Ok(())
    }

    /// Splits the allocated block at `frame` into blocks of order 0. The block is at most a
    /// pageblock.
    ///
    /// # Errors
    ///
    /// A raw free has freed the block before, or the block is being split; this was reported.
    #[inline(never)]
    pub(crate) fn split_into_frames(&self, frame: u32, order: Order) -> Result<(), Refusals> {
        let states = self.zone.states();
        if let Some(states) = states {
            states.begin_split(frame, order).map_err(|why| self.refuse(frame, order, why))?;
        }
        self.zone.with(self.platform, |buddy| buddy.split_block(frame, order));
        for (states, frame) in
            states.iter().flat_map(|states| frames(frame, order).map(move |frame| (states, frame)))
        {
            states.own(frame, Order::ZERO);
        }
        Ok(())
    }

    /// Counts and reports a free that is refused at the call.
    #[cold]
    #[inline(never)]
    pub(super) fn refuse(&self, frame: u32, order: Order, why: Refusal) -> Refusals {
        let mut refusals = Refusals::default();
        refusals.add(frame, order, why);
        self.report(refusals);
        refusals
    }

    fn is_paranoid(&self) -> bool {
        self.tuning.hardening == Hardening::Paranoid
    }

    /// Fills a free block with poison, if the settings say so.
    #[allow(unsafe_code)]
    fn poison(&self, states: States<'_>, frame: u32, order: Order) {
        if self.is_paranoid() && self.tuning.paranoid.poison {
            // SAFETY: the owner has freed the block, and it is on no list yet.
            unsafe { self.platform.poison(self.pfn(frame), order) };
            states.mark_poisoned(frames(frame, order));
        }
    }

    /// Reports frames that are marked as poisoned, but contain something else. The frames are about to be
    /// allocated as blocks of `order`.
    #[allow(unsafe_code)]
    fn look_for_damage(&self, states: States<'_>, frames: Range<u32>, order: Order) {
        if !self.is_paranoid() {
            return;
        }
        let mut first = None;
        let mut count = 0;
        for frame in states.take_poisoned(frames) {
            // SAFETY: the frame has left the zone, and nobody else has got it yet.
            let damage = unsafe { self.platform.verify_poison(self.pfn(frame)) };
            if let Some(offset) = damage {
                first.get_or_insert((self.pfn(frame), offset));
                count += 1;
            }
        }
        if let Some((pfn, offset)) = first {
            self.pages.counters.damaged_frames.add(u64::from(count));
            let what = Finding::WrittenWhileFree { offset };
            self.platform.corruption(&Corruption { pfn, order, what, count });
        }
    }

    /// Whether any pageblock of the block is isolated.
    fn is_isolated(&self, frame: u32, order: Order) -> bool {
        let isolated = MigrateType::Isolate as u8;
        let last = frame + (order.frames() - 1) as u32;
        (frame..=last).step_by(PAGEBLOCK_FRAMES).any(|at| self.zone.type_number(at) == isolated)
    }
}

impl<P: Platform> OwnedZoneOnCpu<'_, '_, P> {
    /// Frees a retired block, bypassing the rings: to the quarantine if there is one, else to the
    /// zone.
    pub(super) fn free_past_rings(&mut self, frame: u32, order: Order) -> Refusals {
        if self.is_paranoid() && self.quarantine_block(frame, order) {
            return Refusals::default();
        }
        self.give_one(frame, order)
    }

    /// Puts a free block into quarantine. Blocks that have waited long enough go to the zone.
    /// Returns `false` if the block is too large, its pageblock is isolated, or a drainer is
    /// inside.
    fn quarantine_block(&mut self, frame: u32, order: Order) -> bool {
        let mut leaving = Bundles::new();
        let quarantined = self.enter(|at, lists| {
            // The type is read inside: isolation changes the type of a pageblock, then waits until
            // no owner is inside.
            let stays = !at.is_isolated(frame, order)
                && lists.quarantine_block(at.context(), Waiting { frame, order }, &mut leaving);
            if stays {
                at.pages.counters.pgfree.add(order.frames());
            }
            stays
        });
        self.give(&leaving);
        quarantined.unwrap_or(false)
    }
}

/// The frames of a block.
fn frames(frame: u32, order: Order) -> Range<u32> {
    frame..frame + order.frames() as u32
}

impl<'m> Lists<'m> {
    /// Puts a block into quarantine, and moves the displaced blocks to `leaving`, which must be
    /// empty. Returns `false` for orders that do not enter the quarantine.
    fn quarantine_block(
        &mut self,
        context: ListsContext<'_, 'm, impl Platform>,
        block: Waiting,
        leaving: &mut Bundles,
    ) -> bool {
        if !self.quarantine.admits(block.order) {
            return false;
        }
        while self.quarantine.is_crowded(block.order) && !leaving.is_full() {
            let Some(bundle) = self.release(context) else { break };
            leaving.push(bundle);
        }
        let admitted = self.quarantine.push(block);
        if admitted {
            self.set_stored(context, self.stored + block.order.frames());
        }
        admitted
    }

    /// Takes the oldest block out of quarantine.
    pub(super) fn release(
        &mut self,
        context: ListsContext<'_, 'm, impl Platform>,
    ) -> Option<Bundle> {
        let Waiting { frame, order } = self.quarantine.pop()?;
        self.set_stored(context, self.stored - order.frames());
        Some(Bundle::of(frame, order))
    }
}
