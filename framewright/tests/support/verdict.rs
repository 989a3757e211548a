//! Whether what a memory did was right.
//!
//! After every step the memory checks itself (I1, I2, I9), frames and counters are balanced
//! against the oracle, and whenever nothing is on the lists of any CPU the free blocks must be
//! exactly those that the oracle would merge (I2).

use framewright::{AllocError, FreeError, MigrateType, Order, Pfn, ZoneId};

use super::{
    oracle::Frame,
    steps::{Action, Step},
    world::World,
};

impl World<'_, '_> {
    /// Invariant I4: whoever took from the zone left what it had to leave.
    pub(super) fn check_watermark(&self, step: Step) {
        let zone = self.memory.zone(ZoneId::default()).unwrap();
        assert!(
            i128::from(zone.free) >= self.reserve(step),
            "{} frames are free after a request that must leave {}",
            zone.free,
            self.reserve(step)
        );
    }

    /// Frames that a request must leave free at the least.
    fn reserve(&self, step: Step) -> i128 {
        let min = i128::from(self.memory.zone(ZoneId::default()).unwrap().min);
        match step.flags >> 3 & 7 {
            1 => min - min / 2,
            2 => min - min / 2 - (min - min / 2) / 4,
            _ => min,
        }
    }

    /// A request that may do everything is refused only if nothing could have served it.
    pub(super) fn check_refusal(&self, step: Step, error: AllocError) {
        let request = step.request();
        if !request.may_wait() {
            return;
        }
        let zone = self.memory.zone(ZoneId::default()).unwrap();
        assert_eq!(zone.held_by_cpus, 0, "refused while CPUs hold free frames");
        let too_little =
            i128::from(zone.free) - i128::from(request.order().frames()) < self.reserve(step);
        let too_small = !self.oracle.has_block(request.order());
        match error {
            AllocError::BelowWatermark(_) => assert!(too_little, "{request:?}: {error}"),
            AllocError::NoBlockOfOrder(_) => assert!(too_small, "{request:?}: {error}"),
            AllocError::NotRequestable(_) | AllocError::NoZone => panic!("{request:?}: {error}"),
        }
    }

    // ---- checks -----------------------------------------------------------------------------

    pub(super) fn check(&self) {
        let memory = self.memory;
        memory.check().unwrap_or_else(|violation| panic!("{violation}"));
        let (zone, used) =
            (memory.zone(ZoneId::default()).unwrap(), self.oracle.count(Frame::Used));
        assert_eq!(zone.managed, self.oracle.managed());
        let counts = memory.block_counts(ZoneId::default());
        assert_eq!(counts.free_frames() + zone.held_by_cpus + used, zone.managed, "I1");
        let stats = memory.stats();
        assert_eq!(stats.pgalloc - stats.pgfree, used, "I9");
        let reports = memory.platform().take_reports();
        assert!(reports.is_empty(), "nobody did wrong: {reports:?}");
        if zone.held_by_cpus > 0 {
            return;
        }
        assert_eq!(zone.free + self.oracle.withheld() + used, zone.managed, "I1");
        let isolated = counts.free[MigrateType::Isolate as usize];
        assert_eq!(isolated, self.oracle.blocks(true), "I2, isolated pageblocks");
        let listed = Order::all().map(|order| counts.free_of_order(order)).zip(isolated);
        let listed: Vec<u64> = listed.map(|(all, isolated)| all - isolated).collect();
        let expected = self.oracle.blocks(false);
        assert_eq!(listed, expected, "I2, unmerged or lost blocks");
        let largest = Order::all().rev().find(|order| expected[usize::from(order.get())] > 0);
        assert_eq!(memory.largest_free_order(), largest);
    }

    /// Everything comes back, and all of it merges.
    pub(super) fn end(mut self) {
        while let Some(i) = self.isolated.len().checked_sub(1) {
            let step =
                Step { action: Action::UndoIsolate, cpu: 0, order: 0, flags: 0, pick: i as u16 };
            self.step(step);
        }
        while let Some(block) = self.disown(0) {
            let step = Step { action: Action::Free, cpu: 0, order: 0, flags: 0, pick: 0 };
            self.token(step).free(block).expect("the block is of this memory");
        }
        self.tokens.clear();
        self.drain_all();
        self.check();
        assert_eq!(self.memory.free(), self.oracle.managed());
    }

    // ---- abuse, at `checked` and `paranoid` --------------------------------------------------

    pub(super) fn free_twice(&mut self, step: Step) {
        let Some(i) = usize::from(step.pick).checked_rem(self.freed.len()) else { return };
        let (pfn, order) = self.freed[i];
        // Handed out again in the meantime it would be somebody else's, and right.
        if !(0..order.frames()).any(|i| self.oracle.at(pfn.get() + i) == Frame::Used) {
            self.abuse(step, pfn, order);
        }
    }

    pub(super) fn free_wrong_order(&mut self, step: Step) {
        let Some(i) = usize::from(step.pick).checked_rem(self.blocks.len()) else { return };
        let (pfn, order) = (self.blocks[i].pfn(), self.blocks[i].order());
        if step.order() != order {
            self.abuse(step, pfn, step.order());
        }
    }

    pub(super) fn free_anywhere(&mut self, step: Step) {
        let first = self.oracle.pageblocks().next().unwrap_or(0);
        let pfn = Pfn::new((first + u64::from(step.pick) % 4000).saturating_sub(300));
        let order = step.order();
        let is_right = self.blocks.iter().any(|b| b.pfn() == pfn && b.order() == order);
        if !is_right {
            self.abuse(step, pfn, order);
        }
    }

    /// A raw free that must be refused: at once, or at `checked` when it reaches the zone.
    fn abuse(&mut self, step: Step, pfn: Pfn, order: Order) {
        self.memory.platform().take_reports();
        // SAFETY: there is no excuse, but at `checked` the library says it will notice; and
        // these frames exist in arithmetic only.
        let result = unsafe { self.token(step).free_raw(pfn, order) };
        assert!(!self.paranoid || result.is_err(), "{order:?} at {pfn} was not refused at once");
        self.drain_all();
        let reports = self.memory.platform().take_reports();
        let in_map = (0..order.frames()).all(|i| self.oracle.at(pfn.get() + i) != Frame::Hole);
        if !pfn.is_aligned(order) {
            assert_eq!(result, Err(FreeError::Misaligned));
        } else if !in_map {
            assert_eq!(result, Err(FreeError::NotOurs));
        } else {
            let reported: u32 = reports.iter().map(|report| report.count).sum();
            assert_eq!(reported, 1, "{order:?} at {pfn}: {result:?}, {reports:?}");
        }
    }
}
