//! [`ReliefSlot`]: a place for the [`Relief`] of a platform that is constructed before its relief.

use super::{
    Captured, CompactPriority, Compacted, Need, OutOfMemory, Pause, Relief, Throttle, Verdict,
};
use crate::types::{NodeId, Order, ZoneId, ZoneKind};

/// A slot that may contain a [`Relief`]. A relief refers to its memory, but the memory's platform, which returns the
/// relief, exists before the memory. So the platform has a slot that is filled later. The slot implements [`Relief`]
/// itself, and forwards each call to its contents.
///
/// ```
/// use framewright::{ZoneId, platform::{NoRelief, Relief, ReliefSlot}};
/// use std::sync::OnceLock;
///
/// #[derive(Default)]
/// struct Slot(OnceLock<&'static (dyn Relief + Sync)>);
///
/// impl ReliefSlot for Slot {
///     fn with_relief<R>(&self, call: impl FnOnce(&dyn Relief) -> R) -> R {
///         match self.0.get() {
///             Some(relief) => call(*relief),
///             None => call(&NoRelief),
///         }
///     }
/// }
///
/// let slot = Slot::default();
/// assert_eq!(slot.reclaimable(ZoneId::default()), None, "there is no relief yet");
/// ```
pub trait ReliefSlot {
    /// Calls `call` with the relief in the slot; with [`NoRelief`](super::NoRelief) if there is none.
    fn with_relief<R>(&self, call: impl FnOnce(&dyn Relief) -> R) -> R;
}

impl<S: ReliefSlot> Relief for S {
    fn reclaims_in_background(&self) -> bool {
        self.with_relief(|relief| relief.reclaims_in_background())
    }

    fn wake(&self, node: NodeId, order: Order, highest: ZoneKind) {
        self.with_relief(|relief| relief.wake(node, order, highest));
    }

    fn reclaim(&self, need: &Need, frames: u64) -> u64 {
        self.with_relief(|relief| relief.reclaim(need, frames))
    }

    fn reclaimable(&self, zone: ZoneId) -> Option<u64> {
        self.with_relief(|relief| relief.reclaimable(zone))
    }

    fn pause(&self, pause: &Pause<'_>) {
        self.with_relief(|relief| relief.pause(pause));
    }

    fn resume(&self, node: NodeId, why: Throttle) {
        self.with_relief(|relief| relief.resume(node, why));
    }

    fn compact(&self, need: &Need, priority: CompactPriority, captured: Captured<'_>) -> Compacted {
        self.with_relief(|relief| relief.compact(need, priority, captured))
    }

    fn out_of_memory(&self, report: &OutOfMemory) -> Verdict {
        self.with_relief(|relief| relief.out_of_memory(report))
    }
}
