//! Compaction on behalf of a request that waits, and of people who ask for a node.

use super::{Caller, Compactor, Goal, Outcome, suitable};
use crate::{
    alloc::Capture,
    migrate::MigrateMode,
    platform::{Captured, CompactPriority, Compacted, Need, Platform},
    tuning::{CompactMethod, Tuning},
    types::{Block, CompactEvent, Event, NodeId, Request},
};

/// Whether a run can tell that scanners have met from that somebody was in the way.
fn detects_meeting(tuning: &Tuning) -> bool {
    tuning.compact.method == CompactMethod::Index || tuning.compact.repair.detect_meeting
}

impl<'m, P: Platform> Compactor<'_, 'm, P> {
    /// Forms a block for a request: what [`Relief::compact`](crate::platform::Relief::compact) is to
    /// do. The block is in `captured` if it could be kept for the request; else whoever is first has
    /// it. [`Compacted::Unavailable`] also if requests may not ask for the type of `need`.
    ///
    /// # Panics
    ///
    /// The memory was made for fewer CPUs than `need` names.
    pub fn compact(
        &mut self,
        need: &Need,
        priority: CompactPriority,
        captured: Captured<'_>,
    ) -> Compacted {
        self.memory.assert_cpu(need.cpu);
        if self.is_off() || !need.request.migratetype().is_requestable() {
            return Compacted::Unavailable;
        }
        let mode = match priority {
            CompactPriority::Async => MigrateMode::Async,
            // Thorough is not the same as waiting for everything.
            CompactPriority::SyncLight | CompactPriority::Sync => MigrateMode::SyncLight,
        };
        let thorough = priority == CompactPriority::Sync;
        let goal = Goal::for_request(need, mode, thorough);
        let order = goal.order.unwrap_or_default();
        if thorough {
            // It is the last try, and not to fail for what others were in vain.
            captured.renew();
        }
        let memory = self.memory;
        let mut result = Outcome::Skipped;
        if P::TRACING {
            let event = CompactEvent::TryPages {
                request: need.request,
                priority: CompactPriority::Sync as u8 - priority as u8,
            };
            memory.platform().trace(self.cpu, &Event::Compaction(event));
        }
        for (id, _) in memory.candidates(need.cpu, need.request) {
            let ctx = self.zone_context(id);
            if !thorough && ctx.is_deferred(&ctx.hints.deferral, order) {
                result = result.max(Outcome::Deferred);
                continue;
            }
            let highest = need.request.highest();
            let outcome = suitable::refuse(ctx, &goal, highest, memory.tuning())
                .unwrap_or_else(|| self.run(ctx, goal, Some(captured)));
            result = result.max(outcome);
            match outcome {
                Outcome::Success => {
                    ctx.succeed(order);
                    break;
                }
                Outcome::Complete | Outcome::PartialSkipped if !goal.is_async() => {
                    ctx.defer(&ctx.hints.deferral, order);
                }
                // As it was: whoever failed was given a rest, also who did not notice why.
                Outcome::Contended if !goal.is_async() && !detects_meeting(memory.tuning()) => {
                    ctx.defer(&ctx.hints.deferral, order);
                }
                _ => {}
            }
        }
        result.into()
    }

    /// Forms a block for the caller itself, who need not hold a token: what a background thread does
    /// that puts huge pages where small ones are. Whoever frees memory at the same time may be
    /// served first; then there is no block even after [`Compacted::Success`].
    pub fn form(
        &mut self,
        request: Request,
        priority: CompactPriority,
    ) -> (Compacted, Option<Block<'m>>) {
        let node = request.node().unwrap_or_else(|| self.memory.node_of(self.cpu));
        let need = Need { request, cpu: self.cpu, node, unmixed: false };
        let captured = Capture::new(self.memory, request.order());
        let result = self.compact(&need, priority, captured.handle());
        let block = captured.take();
        if let Some(block) = &block {
            self.memory.compaction_helped(block.pfn(), block.order());
        }
        (result, block)
    }

    /// Compacts all zones of a node, as far as that goes, whatever it takes but their reserves. Returns the
    /// frames that moved.
    pub fn compact_node(&mut self, node: NodeId) -> u64 {
        let memory = self.memory;
        let before = memory.compact_stats().pgmigrate_success;
        memory.drain_all();
        let goal = Goal::for_movable(None, MigrateMode::Sync, Caller::Node);
        for zone in memory.zones().filter(|zone| zone.node == node && zone.managed > 0) {
            let ctx = self.zone_context(zone.id);
            self.run(ctx, goal, None);
        }
        memory.compact_stats().pgmigrate_success - before
    }
}
