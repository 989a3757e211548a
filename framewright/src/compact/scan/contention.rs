//! Lock contention, which ends an asynchronous run early.
//!
//! Asynchronous compaction takes locks, each for a short time. A lock that is held when the run is about to take it is
//! needed by other CPUs. The run then finishes its pageblock and ends. If page faults take these locks often, runs end
//! early, and fewer blocks form.
//!
//! The LRU lock is probed every 32 frames that the migrate scanner examines, as in Linux. The zone lock is probed less
//! often. Linux takes it for every 32 frames that the free scanner examines. This library takes it once for all frames
//! of a pageblock, and once to read a pageblock header, which Linux reads without a lock. So the zone lock is probed
//! once before either scanner examines a pageblock, and before a fast search of the lists.

use core::cell::Cell;

use super::Goal;
use crate::{compact::compactor::ZoneContext, platform::Platform, reclaim::LruState};

/// Records whether a run has found a lock held.
pub(super) struct ContentionProbe {
    /// Set in asynchronous mode only: a run that waits for locks anyway need not end early.
    enabled: bool,
    seen: Cell<bool>,
}

impl ContentionProbe {
    pub(super) fn new(goal: &Goal) -> Self {
        Self { enabled: goal.is_async(), seen: Cell::new(false) }
    }

    /// Whether a lock was found held, so that the run should end.
    pub(super) fn has_seen_contention(&self) -> bool {
        self.seen.get()
    }

    /// Probes the zone lock, which will be taken next.
    pub(super) fn before_zone_lock<P: Platform>(&self, ctx: ZoneContext<'_, '_, P>) {
        self.probe(|| ctx.on_cpu.zone.is_locked(ctx.on_cpu.platform));
    }

    /// Probes the LRU lock, which will be taken next, if the memory has LRU lists.
    pub(super) fn before_lru_lock<P: Platform>(
        &self,
        lru: Option<&LruState<'_, P>>,
        ctx: ZoneContext<'_, '_, P>,
    ) {
        let (platform, node) = (ctx.on_cpu.platform, ctx.on_cpu.zone.node());
        self.probe(|| lru.is_some_and(|lru| lru.nodes[node.index()].is_contended(platform)));
    }

    fn probe(&self, is_held: impl FnOnce() -> bool) {
        if self.enabled && !self.seen.get() {
            self.seen.set(is_held());
        }
    }
}
