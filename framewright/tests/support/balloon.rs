//! Allocation of the largest blocks, and free page reporting.

use framewright::{FrameRange, Order, Pfn};

use super::{steps::Step, world::World, zone::Frame};

impl World<'_, '_> {
    /// Allocates the largest block that the zones allow.
    pub(super) fn alloc_largest(&mut self, step: Step) {
        let by = self.online_cpu(step);
        let request = step.placement().of(step.request());
        let eligible = self.eligible(step, by, request);
        let predicted = self.lists_are_empty().then(|| self.predict_largest(step, &eligible));
        if predicted.is_some() {
            self.tally.stale[usize::from(by)] = false;
        }
        let result = self.token(step).alloc_largest(request);
        self.memory.platform().take_cleared();
        let found = result.ok().map(|block| {
            let order = block.order();
            assert!(order <= request.order());
            (order, self.own(block, by, &eligible))
        });
        assert!(
            predicted.is_none_or(|predicted| predicted == found),
            "{found:?}, not {predicted:?}"
        );
    }

    fn predict_largest(&self, step: Step, eligible: &[usize]) -> Option<(Order, usize)> {
        let mut orders = Order::all().filter(|order| *order <= step.order()).rev();
        orders.find_map(|order| {
            let step = step.of_order(order).without_waiting();
            Some((order, self.predict(step, eligible).ok()?))
        })
    }

    /// Reports free blocks. Every free block is reported only once, and stays free.
    pub(super) fn report_free(&mut self, step: Step) {
        let order = Order::new(9 + step.order % 4).expect("an order");
        let memory = self.memory;
        let mut ranges = Vec::new();
        let frames = memory.report_free(order, &mut |range| {
            memory.check().unwrap_or_else(|violation| panic!("{violation}"));
            ranges.push(range);
        });
        assert_eq!(frames.ok(), Some(ranges.iter().map(|range| range.frames()).sum()));
        for range in ranges {
            self.check_report(range, order);
        }
        let again = memory.report_free(order, &mut |range| panic!("{range:?} was reported"));
        assert_eq!(again, Ok(0));
        if self.lists_are_empty() {
            self.check_all_reported(order);
        }
    }

    fn check_report(&mut self, range: FrameRange, order: Order) {
        assert!(range.start().is_aligned(order) && range.frames() == order.frames());
        assert!(self.oracle.all(range.start(), order, Frame::Free), "{range:?} is not free");
        for pageblock in pageblocks(range.start(), order) {
            assert!(!self.oracle.is_isolated(pageblock));
            self.reported.insert(pageblock);
        }
    }

    /// Checks that every free block was reported since it was last used.
    fn check_all_reported(&self, order: Order) {
        let firsts = self.oracle.zones.iter().flat_map(|zone| zone.pageblocks()).map(Pfn::new);
        for first in firsts.filter(|first| first.is_aligned(order)) {
            let mut blocks = pageblocks(first, order);
            let may_serve = |pageblock: Pfn| !self.oracle.is_isolated(pageblock);
            if self.oracle.all(first, order, Frame::Free) && blocks.clone().all(may_serve) {
                assert!(blocks.all(|block| self.reported.contains(&block)), "{first} is missing");
            }
        }
    }
}

/// The first frames of a block's pageblocks.
fn pageblocks(first: Pfn, order: Order) -> impl Iterator<Item = Pfn> + Clone {
    (0..order.frames()).step_by(512).map(move |i| first.offset(i))
}
