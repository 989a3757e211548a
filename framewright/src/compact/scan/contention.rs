//! Whether somebody else wants what a run uses.
//!
//! Who waits for nothing takes locks all the same, each for a short time; but a lock that is held when he
//! comes to it says that others are at work here. He does what he has begun to the end of the pageblock,
//! and leaves it at that. Where faults take these locks often, runs end early, and fewer blocks form.
//!
//! The LRU lock is asked about every 32 frames that the migrate scanner looks at, as Linux does. The zone
//! lock Linux takes for every 32 frames that the free scanner looks at; here it is held once for all that is
//! taken from a pageblock, and for a look at its header, where Linux needs none: it is asked about once
//! before a pageblock is looked at, by either scanner, and before a short look at the lists.

use core::cell::Cell;

use super::Goal;
use crate::{compact::compactor::ZoneContext, memory::Memory, platform::Platform};

/// See the module.
pub(super) struct ContentionProbe {
    /// Who waits for locks anyway is no worse off.
    enabled: bool,
    seen: Cell<bool>,
}

impl ContentionProbe {
    pub(super) fn new(goal: &Goal) -> Self {
        Self { enabled: goal.is_async(), seen: Cell::new(false) }
    }

    /// Whether the run should end.
    pub(super) fn has_seen_contention(&self) -> bool {
        self.seen.get()
    }

    /// The zone lock will be taken now.
    pub(super) fn before_zone_lock<P: Platform>(&self, ctx: ZoneContext<'_, '_, P>) {
        self.probe(|| ctx.on_cpu.zone.is_contended(ctx.on_cpu.platform));
    }

    /// The LRU lock will be taken now, if the memory has LRU lists.
    pub(super) fn before_lru_lock<P: Platform>(
        &self,
        memory: &Memory<'_, P>,
        ctx: ZoneContext<'_, '_, P>,
    ) {
        self.probe(|| memory.is_lru_contended(ctx.on_cpu.zone.node()));
    }

    fn probe(&self, is_held: impl FnOnce() -> bool) {
        if self.enabled && !self.seen.get() {
            self.seen.set(is_held());
        }
    }
}
