//! Events, counters and simulated costs of compaction in a zone.

use super::{Goal, Outcome, compactor::ZoneContext, deferral::Deferral};
use crate::{
    platform::{Cost, Platform},
    types::{CompactEvent, DeferStep, Event, Order},
};

impl<P: Platform> ZoneContext<'_, '_, P> {
    pub(super) fn trace(&self, event: impl FnOnce() -> CompactEvent) {
        if P::TRACING {
            self.on_cpu.platform.trace(self.on_cpu.id, &Event::Compaction(event()));
        }
    }

    /// Counts pageblock headers that were read under the zone lock.
    pub(super) fn count_headers(&self, headers: u32) {
        self.hints.counters.compact_headers_scanned.add(u64::from(headers));
        self.on_cpu.platform.cost(Cost::Search, headers);
    }

    /// Traces the beginning of a run, or its end with an outcome, with the scanners at these
    /// frames.
    pub(super) fn trace_run(
        &self,
        goal: &Goal,
        (migrate, free): (u32, u32),
        outcome: Option<Outcome>,
    ) {
        let zone = self.on_cpu.zone;
        self.trace(|| CompactEvent::Run {
            zone_start: zone.pfn(0),
            migrate: zone.pfn(migrate),
            free: zone.pfn(free),
            zone_end: zone.pfn(zone.spanned() as u32),
            sync: !goal.is_async(),
            status: outcome.map(Outcome::name),
        });
    }

    /// Traces whether a run starts or continues; `outcome` is the reason if it does not.
    pub(super) fn trace_check(&self, goal: &Goal, begun: bool, outcome: Option<Outcome>) {
        let (node, zone) = (self.on_cpu.zone.node(), self.on_cpu.zone.kind());
        let goes_on = if begun { "no_suitable_page" } else { "continue" };
        let result = outcome.map_or(goes_on, Outcome::name);
        self.trace(|| CompactEvent::Checked { begun, node, zone, order: goal.order, result });
    }

    /// Counts an attempt, and returns whether `deferral` refuses it.
    pub(super) fn is_deferred(&self, deferral: &Deferral, order: Order) -> bool {
        let refused = deferral.refuses(order);
        if refused {
            self.trace_deferral(DeferStep::Refused, deferral, order);
        }
        refused
    }

    /// Defers further attempts after a failure, and traces this.
    pub(super) fn defer(&self, deferral: &Deferral, order: Order) {
        deferral.defer(order);
        self.trace_deferral(DeferStep::Failed, deferral, order);
    }

    /// Ends the deferral after an attempt formed a block, and traces this.
    pub(super) fn succeed(&self, order: Order) {
        self.hints.deferral.end_up_to(order);
        self.trace_deferral(DeferStep::Reset, &self.hints.deferral, order);
    }

    fn trace_deferral(&self, step: DeferStep, deferral: &Deferral, order: Order) {
        let (node, zone) = (self.on_cpu.zone.node(), self.on_cpu.zone.kind());
        let (failed, considered, limit) = deferral.numbers();
        self.trace(|| CompactEvent::Deferral {
            step,
            node,
            zone,
            order,
            failed,
            considered,
            limit,
        });
    }
}
