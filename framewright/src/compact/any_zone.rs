//! Target frames for pages of a given range: in the zone of the range down to its reserve, else in
//! any zone of the memory.

use super::target_frames::TargetFrames;
use crate::{
    core::MemoryCore,
    migrate::Targets,
    pcp::ZoneOnCpu,
    platform::Platform,
    types::{MigrateType, Order, Pfn, Request},
};

/// Targets in the zone of the range first, then in any zone.
pub(super) struct AnyZoneTargets<'r, 'm, P: Platform> {
    on_cpu: ZoneOnCpu<'r, 'm, P>,
    own_zone: TargetFrames<'r, 'm, P>,
    memory: &'r MemoryCore<'m, P>,
}

impl<'r, 'm, P: Platform> AnyZoneTargets<'r, 'm, P> {
    pub(super) fn new(at: ZoneOnCpu<'r, 'm, P>, memory: &'r MemoryCore<'m, P>) -> Self {
        Self { on_cpu: at, own_zone: TargetFrames::above_reserve(at), memory }
    }

    fn take_in_any_zone(&self, order: Order) -> Option<Pfn> {
        let request = Request::new(order, MigrateType::Movable).no_wait().no_wake();
        let block = self.memory.alloc_bypassing_lists(request).ok()?;
        Some(block.into_raw().0)
    }
}

impl<P: Platform> Targets for AnyZoneTargets<'_, '_, P> {
    fn take(&mut self, order: Order) -> Option<Pfn> {
        self.own_zone.take(order).or_else(|| self.take_in_any_zone(order))
    }

    fn put_back(&mut self, pfn: Pfn, order: Order) {
        if let Some((zone, frame)) = self.memory.find(pfn, order) {
            self.memory.context(zone, self.on_cpu.id).free_to_zone(frame, order);
        }
    }

    fn free_source(&mut self, pfn: Pfn, order: Order) {
        self.own_zone.free_source(pfn, order);
    }

    fn finish_frees(&mut self) {
        self.own_zone.finish_frees();
    }
}
