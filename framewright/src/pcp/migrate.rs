//! Blocks that migration takes from a zone, and returns to that zone, on behalf of a CPU, bypassing
//! the lists.

use super::cpu::ZoneOnCpu;
use crate::{
    buddy::{Buddy, Bundles},
    platform::Platform,
    types::{MigrateType, Order, PAGEBLOCK_ORDER},
};

impl<'m, P: Platform> ZoneOnCpu<'_, 'm, P> {
    /// Takes blocks of one order, which `take` selects under the lock, and appends them to `out`.
    pub(crate) fn take_blocks<R>(
        &self,
        out: &mut Bundles,
        take: impl FnOnce(&mut Buddy<'m>, &mut Bundles) -> R,
    ) -> R {
        let before = out.as_slice().len();
        let result = self.zone.with(self.platform, |buddy| take(buddy, out));
        let taken = &out.as_slice()[before..];
        let frames = taken.iter().map(|bundle| bundle.frame_count()).sum();
        self.count_lock(frames);
        self.pages.counters.pgalloc.add(frames);
        for bundle in taken {
            bundle.frames().for_each(|frame| self.handed_out(frame, bundle.order));
        }
        result
    }

    /// Frees blocks under one hold of the lock, and empties `blocks`.
    pub(crate) fn give_blocks(&self, blocks: &mut Bundles) {
        let mut given = Bundles::new();
        for bundle in blocks.as_slice() {
            let mut bundle = *bundle;
            for frame in bundle.frames() {
                if self.retire(frame, bundle.order).is_err() {
                    bundle.heads &= !(1 << (frame % 64));
                }
            }
            // A large block has only its head bit.
            if bundle.heads != 0 {
                given.push(bundle);
            }
        }
        blocks.clear();
        if given.is_empty() {
            return;
        }
        let frames = given.frames();
        self.count_lock(frames);
        let refusals = self.zone.give(self.platform, given.as_slice());
        self.report(refusals);
        self.pages.counters.pgfree.add(frames - refusals.frames);
    }

    /// Takes the block at `frame` for a request of type `of`; `false` if it is not free. An
    /// isolated pageblock that is taken as a whole gets this type when its isolation ends.
    pub(crate) fn take_block(&self, frame: u32, order: Order, of: MigrateType) -> bool {
        let end = frame + order.frames() as u32;
        let take = |buddy: &mut Buddy<'_>| {
            let taken = buddy.take_specific(frame, order, of);
            if taken && order == Order::PAGEBLOCK {
                buddy.set_type_after_isolation(frame >> PAGEBLOCK_ORDER, of);
            }
            taken
        };
        let taken = self.zone.with_range(self.platform, (frame, end), take);
        self.count_lock(if taken { order.frames() } else { 0 });
        if taken {
            self.pages.counters.zone_allocs.add(1);
            self.pages.counters.pgalloc.add(order.frames());
            self.handed_out(frame, order);
        }
        taken
    }
}
