//! Room for what leaves a given range: in its zone as far as that has some to spare, else anywhere in the
//! memory.

use super::room::Room;
use crate::{
    alloc::{MigrateType, Request},
    frame::{Order, Pfn},
    memory::Memory,
    migrate::Targets,
    pcp::ZoneOnCpu,
    platform::Platform,
};

/// See the module.
pub(super) struct Anywhere<'r, 'm, P: Platform> {
    at: ZoneOnCpu<'r, 'm, P>,
    near: Room<'r, 'm, P>,
    memory: &'r Memory<'m, P>,
}

impl<'r, 'm, P: Platform> Anywhere<'r, 'm, P> {
    pub(super) fn new(at: ZoneOnCpu<'r, 'm, P>, memory: &'r Memory<'m, P>) -> Self {
        Self { at, near: Room::to_spare(at), memory }
    }

    fn take_far(&self, order: Order) -> Option<Pfn> {
        let request = Request::new(order, MigrateType::Movable).no_wait().no_wake();
        let block = self.memory.alloc_bypassing_lists(request).ok()?;
        Some(block.into_raw().0)
    }
}

impl<P: Platform> Targets for Anywhere<'_, '_, P> {
    fn take(&mut self, order: Order) -> Option<Pfn> {
        self.near.take(order).or_else(|| self.take_far(order))
    }

    fn put(&mut self, pfn: Pfn, order: Order) {
        if let Some((zone, frame)) = self.memory.find(pfn, order) {
            self.memory.context(zone, self.at.id).free_to_zone(frame, order);
        }
    }

    fn left(&mut self, pfn: Pfn, order: Order) {
        self.near.left(pfn, order);
    }

    fn settle(&mut self) {
        self.near.settle();
    }
}
