//! A slot for the relief of a memory.
//!
//! The relief borrows the memory, and the memory contains the platform, which has to call the
//! relief. So the platform has a slot, which is filled while a machine runs.

use std::{ptr::NonNull, rc::Rc};

use framewright::{
    NodeId, Order, ZoneId, ZoneKind,
    platform::{
        Captured, CompactPriority, Compacted, Need, NoRelief, OutOfMemory, Relief, Verdict,
    },
    reclaim::{Pause, Throttle},
};

use crate::lent::Lent;

/// A slot for the relief of a memory. Clones are handles of the same slot. An empty slot relieves
/// nothing.
#[derive(Clone)]
pub struct LentRelief(Rc<Lent<dyn Relief>>);

impl Default for LentRelief {
    fn default() -> Self {
        Self(Rc::new(Lent::new()))
    }
}

impl LentRelief {
    /// Puts `relief` into the slot while `body` runs.
    ///
    /// # Panics
    ///
    /// If the slot is not empty.
    pub fn lend<R>(&self, relief: &dyn Relief, body: impl FnOnce() -> R) -> R {
        let relief: NonNull<dyn Relief + '_> = NonNull::from(relief);
        // SAFETY: only the lifetime changes, and the pointer is used only through `lend`.
        let relief: NonNull<dyn Relief> = unsafe { std::mem::transmute(relief) };
        // SAFETY: `relief` is borrowed until `body` has returned.
        unsafe { self.0.lend(relief, body) }
    }

    fn with<R>(&self, body: impl FnOnce(&dyn Relief) -> R) -> R {
        self.0.with(|relief| body(relief.unwrap_or(&NoRelief)))
    }
}

impl Relief for LentRelief {
    fn reclaims_in_background(&self) -> bool {
        self.with(|relief| relief.reclaims_in_background())
    }

    fn wake(&self, node: NodeId, order: Order, highest: ZoneKind) {
        self.with(|relief| relief.wake(node, order, highest));
    }

    fn reclaim(&self, need: &Need, frames: u64) -> u64 {
        self.with(|relief| relief.reclaim(need, frames))
    }

    fn reclaimable(&self, zone: ZoneId) -> Option<u64> {
        self.with(|relief| relief.reclaimable(zone))
    }

    fn pause(&self, pause: &Pause<'_>) {
        self.with(|relief| relief.pause(pause));
    }

    fn resume(&self, node: NodeId, why: Throttle) {
        self.with(|relief| relief.resume(node, why));
    }

    fn compact(&self, need: &Need, priority: CompactPriority, captured: Captured<'_>) -> Compacted {
        self.with(|relief| relief.compact(need, priority, captured))
    }

    fn out_of_memory(&self, report: &OutOfMemory) -> Verdict {
        self.with(|relief| relief.out_of_memory(report))
    }
}
