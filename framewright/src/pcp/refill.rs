//! Allocating where the hot path found nothing.

use super::{ListIndex, cpu::Cpu};
use crate::{
    buddy::{Bundle, Bundles, MigrateType, Want},
    frame::Order,
    platform::{self, Cost, Platform},
    zone::{Access, Refused, Rights},
};

/// What the lists say to a request.
enum Answer {
    Frame(u32),
    /// Nothing there: ask the zone for so many blocks.
    Refill(u32),
}

impl<P: Platform> Cpu<'_, '_, P> {
    /// Whether allocations may use the lists of the CPU at all.
    #[inline]
    pub(crate) fn has_lists(&self) -> bool {
        self.zone.states().is_none()
    }

    /// Allocates a block for a list: from the ring, from the store behind it, or by a refill.
    pub(crate) fn alloc(&self, list: ListIndex, access: Access) -> Result<u32, Refused> {
        self.platform.cost(Cost::SlowAlloc, 1);
        let answer =
            self.pages.as_owner(self.platform, |lists| match lists.pop(self.here(), list) {
                Some(frame) => {
                    self.pages.count_alloc(list);
                    Answer::Frame(frame)
                }
                None => {
                    lists.sizing.observe(self.pages.traffic());
                    let held = self.pages.held();
                    let blocks = lists.sizing.on_refill(list.order(), held, self.zone_is_low());
                    self.pages.publish(&lists.sizing);
                    Answer::Refill(blocks)
                }
            });
        match answer {
            Some(Answer::Frame(frame)) => Ok(frame),
            Some(Answer::Refill(blocks)) => self.refill(list, blocks, access),
            None => self.alloc_from_zone(list.order(), list.migratetype(), access),
        }
    }

    /// Takes a batch from the zone, keeps one block and puts the others on the lists.
    fn refill(&self, list: ListIndex, blocks: u32, access: Access) -> Result<u32, Refused> {
        let at_most = blocks.saturating_add(64);
        let mut taken = Bundles::new();
        self.take(list.order(), list.migratetype(), (blocks, at_most), access, &mut taken)?;
        let counters = &self.pages.counters;
        counters.refills.add(1);
        counters.refilled_frames.add(taken.frames());
        let frame = taken.pop_lowest().ok_or(Refused::NoBlockOfOrder)?;
        let mut leaving = Bundles::new();
        let accepted = self.pages.as_owner(self.platform, |lists| {
            // Read inside: see `CpuToken::type_of`.
            let stays = |bundle: Bundle| {
                self.zone.type_number(bundle.word * 64) != MigrateType::Isolate as u8
            };
            lists.accept(self.here(), list, taken.as_slice(), stays, &mut leaving);
            self.pages.count_alloc(list);
            counters.list_misses.add(1);
        });
        if accepted.is_some() {
            self.give(&leaving);
        } else {
            counters.pgalloc.add(list.order().frames());
            self.give(&taken);
        }
        Ok(frame)
    }

    /// Allocates one block from the zone, past the lists.
    pub(crate) fn alloc_from_zone(
        &self,
        order: Order,
        migratetype: MigrateType,
        access: Access,
    ) -> Result<u32, Refused> {
        let mut taken = Bundles::new();
        self.take(order, migratetype, (1, 1), access, &mut taken)?;
        let frame = taken.pop_lowest().ok_or(Refused::NoBlockOfOrder)?;
        self.pages.counters.zone_allocs.add(1);
        self.pages.counters.pgalloc.add(order.frames());
        self.handed_out(frame, order);
        Ok(frame)
    }

    fn take(
        &self,
        order: Order,
        migratetype: MigrateType,
        (blocks, at_most): (u32, u32),
        access: Access,
        taken: &mut Bundles,
    ) -> Result<(), Refused> {
        self.platform.cost(Cost::Refill, 1);
        self.zone.tell_of_words(self.platform, platform::Access::Read);
        if !self.zone.may_take(order, access) {
            return Err(self.zone.refusal(order, access));
        }
        let visits = self.tuning.zone.refill_pageblocks;
        let reserve = access.reserve();
        let how = self.tuning.zone.bulk_take;
        let unmixed = access.rights.has(Rights::UNMIXED);
        let want = Want { order, migratetype, blocks, at_most, visits, reserve, how, unmixed };
        let mixed = match self.zone.take(self.platform, want, access, taken) {
            Ok(mixed) => mixed,
            Err(error) => {
                self.count_lock(0);
                return Err(error);
            }
        };
        self.account_take(&want, taken, mixed, access);
        Ok(())
    }
}
