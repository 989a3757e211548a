//! Compaction for a waiting request, and of a whole node on demand.

use super::{Caller, Compactor, Goal, Outcome, suitable};
use crate::{
    alloc::Capture,
    migrate::MigrateMode,
    platform::{Captured, CompactPriority, Compacted, Need, Platform},
    types::{Block, CompactEvent, Event, NodeId, Request},
};

impl<'m, P: Platform> Compactor<'_, 'm, P> {
    /// Forms a block for a request; implements
    /// [`Relief::compact`](crate::platform::Relief::compact). The block is in `captured` if it
    /// could be captured for the request. Otherwise it is on the lists, where any request may take
    /// it. Returns [`Compacted::Unavailable`] if compaction is switched off, or if `need` has a
    /// migratetype that requests cannot name.
    ///
    /// # Panics
    ///
    /// If the memory does not have the CPU of `need`.
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
            // The priority `Sync` is thorough, but does not wait for everything.
            CompactPriority::SyncLight | CompactPriority::Sync => MigrateMode::SyncLight,
        };
        let thorough = priority == CompactPriority::Sync;
        let goal = Goal::for_request(need, mode, thorough);
        let order = goal.order.unwrap_or_default();
        if thorough {
            // The last attempt must not fail because earlier attempts have spent the budget.
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
                // Without the repair, a meeting of the scanners cannot be distinguished from
                // contention. So both defer compaction, as in Linux before the repair.
                Outcome::Contended
                    if !goal.is_async() && !memory.tuning().compact.detects_meeting() =>
                {
                    ctx.defer(&ctx.hints.deferral, order);
                }
                _ => {}
            }
        }
        result.into()
    }

    /// Forms a block for the caller, without a token, for instance for a background thread that
    /// replaces small pages by huge ones. There may be no block even after `Compacted::Success`: a
    /// block that was not captured is on the lists, where any request may take it.
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
            self.zones.helped(block.pfn(), block.order());
        }
        (result, block)
    }

    /// Compacts all zones of a node as thoroughly as possible without using their reserves. Returns
    /// the number of frames of the memory that moved meanwhile.
    pub fn compact_node(&mut self, node: NodeId) -> u64 {
        let memory = self.memory;
        let before = self.zones.stats().pgmigrate_success;
        memory.drain_all();
        let goal = Goal::for_movable(None, MigrateMode::Sync, Caller::Node);
        for (id, _) in memory.numbered_zones_of(node).filter(|(_, zone)| zone.managed() > 0) {
            let ctx = self.zone_context(id);
            self.run(ctx, goal, None);
        }
        self.zones.stats().pgmigrate_success - before
    }
}
