//! The value that the embedder calls.

use core::ops::Range;

use super::{Caller, Goal, Outcome, ZoneCompaction};
use crate::{
    memory::Memory,
    migrate::{Effort, Migration, Move, Moved, Mover, Targets},
    observe::CompactStats,
    pcp::ZoneOnCpu,
    platform::{Captured, Platform},
    sync::Ordering,
    tlb::{BatchSlot, Flusher, Shootdown},
    tuning::CompactMethod,
    types::{CompactEvent, CpuId, Order, Pfn, ZoneId},
};

/// What compaction writes on while it works: from the embedder, because there is too much of it for
/// the stack of a kernel. 512 of each are used at the most; fewer make smaller batches.
#[derive(Debug)]
pub struct Workspace<'w> {
    /// Pages on their way, at least one: without, nothing moves.
    pub moves: &'w mut [Move],
    /// What a flush batch knows of them.
    pub slots: &'w mut [BatchSlot],
}

/// Compaction on behalf of one CPU: made where it is needed ([`Memory::compactor`]), and as short-lived.
///
/// Called on that CPU, with interrupts enabled and no lock of the library held; the CPU's token may be
/// claimed, and need not be.
pub struct Compactor<'c, 'm, P: Platform> {
    pub(super) memory: &'c Memory<'m, P>,
    pub(super) cpu: CpuId,
    mover: &'c dyn Mover<P>,
    shootdown: &'c dyn Shootdown,
    work: Workspace<'c>,
}

impl<'m, P: Platform> Memory<'m, P> {
    /// Compaction on behalf of `cpu`, with pages that `mover` moves and CPUs that `shootdown`
    /// flushes.
    ///
    /// # Panics
    ///
    /// The memory was made for fewer CPUs.
    ///
    /// # Safety
    ///
    /// `mover` keeps the promises of [`Mover`] for this memory: it claims only blocks of this memory.
    /// `shootdown` is as [`Memory::flusher`] demands, for the translations that `mover` removes.
    #[must_use]
    #[allow(unsafe_code)]
    pub unsafe fn compactor<'c>(
        &'c self,
        cpu: CpuId,
        mover: &'c dyn Mover<P>,
        shootdown: &'c dyn Shootdown,
        work: Workspace<'c>,
    ) -> Compactor<'c, 'm, P> {
        self.assert_cpu(cpu);
        Compactor { memory: self, cpu, mover, shootdown, work }
    }

    /// A request has got the block of `order` at `pfn` after compaction: it is worth while again.
    pub(crate) fn compaction_helped(&self, pfn: Pfn, order: Order) {
        let Some((zone, _)) = self.find(pfn, order) else { return };
        let hints = &self.compaction()[zone.index()];
        hints.deferral.reset(order, true);
        hints.flush_hints.store(false, Ordering::Relaxed);
    }

    /// Counters of compaction of one zone; all 0 if there is no such zone.
    #[must_use]
    pub fn zone_compact_stats(&self, zone: ZoneId) -> CompactStats {
        let zone = self.compaction().get(zone.index());
        zone.map_or(CompactStats::default(), |zone| zone.counters.read())
    }

    /// Counters of compaction of all zones.
    #[must_use]
    pub fn compact_stats(&self) -> CompactStats {
        let mut sum = CompactStats::default();
        self.compaction().iter().for_each(|zone| sum += zone.counters.read());
        sum
    }
}

/// A zone that is compacted.
pub(super) struct ZoneContext<'s, 'm, P: Platform> {
    pub(super) id: ZoneId,
    pub(super) at: ZoneOnCpu<'s, 'm, P>,
    pub(super) hints: &'m ZoneCompaction<'m>,
}

impl<P: Platform> Clone for ZoneContext<'_, '_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Platform> Copy for ZoneContext<'_, '_, P> {}

impl<P: Platform> ZoneContext<'_, '_, P> {
    /// Whether a block is there already, as far as lists tell.
    pub(super) fn has_formed(&self, goal: &Goal) -> bool {
        self.on_cpu.zone.with(self.on_cpu.platform, |buddy| goal.has_formed(buddy))
    }
}

impl<'c, 'm, P: Platform> Compactor<'c, 'm, P> {
    /// A zone, as seen from the CPU.
    pub(super) fn zone_context(&self, id: ZoneId) -> ZoneContext<'c, 'm, P> {
        let memory = self.memory;
        ZoneContext {
            id,
            on_cpu: memory.context(id, self.cpu),
            hints: &memory.compaction()[id.index()],
        }
    }

    /// Compacts a zone by the method that is set.
    pub(super) fn run(
        &mut self,
        ctx: ZoneContext<'c, 'm, P>,
        goal: Goal,
        captured: Option<Captured<'_>>,
    ) -> Outcome {
        if self.work.moves.is_empty() {
            // Nothing could ever be claimed.
            return Outcome::Skipped;
        }
        // What lies there is allocated to the maps, and keeps its neighbours from merging.
        ctx.on_cpu.empty_depot();
        let counters = &ctx.hints.counters;
        let before = counters.read();
        let outcome = match self.memory.tuning().compact.method {
            CompactMethod::Index => self.run_by_index(ctx, goal, captured),
            #[cfg(feature = "scanners")]
            CompactMethod::Scan => self.run_by_scanners(ctx, goal, captured),
            CompactMethod::Off => Outcome::Skipped,
        };
        if matches!(goal.caller, Caller::Daemon | Caller::Proactive) {
            let after = counters.read();
            let scanned = after.compact_migrate_scanned - before.compact_migrate_scanned;
            counters.compact_daemon_migrate_scanned.add(scanned);
            let scanned = after.compact_free_scanned - before.compact_free_scanned;
            counters.compact_daemon_free_scanned.add(scanned);
        }
        outcome
    }

    /// Whether nothing is compacted.
    pub(super) fn is_off(&self) -> bool {
        self.memory.tuning().compact.method == CompactMethod::Off
    }

    /// The embedder's side.
    pub(super) fn mover(&self) -> &'c dyn Mover<P> {
        self.mover
    }

    /// Where pages that are claimed go.
    pub(super) fn moves(&mut self) -> &mut [Move] {
        let most = self.work.moves.len().min(512);
        &mut self.work.moves[..most]
    }

    /// Moves the first `count` claimed pages.
    pub(super) fn migrate(
        &mut self,
        ctx: ZoneContext<'_, 'm, P>,
        count: usize,
        effort: &Effort,
        targets: &mut dyn Targets,
    ) -> Moved {
        let migration = self.migration();
        let moved = migration.run(&mut self.work.moves[..count], self.work.slots, effort, targets);
        let counters = &ctx.hints.counters;
        counters.pgmigrate_success.add(moved.moved);
        counters.pgmigrate_fail.add(moved.failed);
        ctx.trace(|| CompactEvent::MigratePages { moved: moved.moved, failed: moved.failed });
        moved
    }

    /// Ends the claims on some of the claimed pages.
    pub(super) fn abandon(&mut self, claimed: Range<usize>, targets: &mut dyn Targets) {
        self.migration().abandon(&mut self.work.moves[claimed], targets);
    }

    pub(super) fn flusher(&self) -> Flusher<'c, 'm, P> {
        self.memory.flusher_by(self.cpu, self.shootdown)
    }

    fn migration(&self) -> Migration<'c, 'm, P> {
        let flusher = self.flusher();
        Migration { flusher, platform: self.memory.platform(), mover: self.mover }
    }
}
