//! The compactor: the type that the embedder calls.

use core::ops::Range;

use super::{Caller, CompactZones, Goal, Outcome, ZoneCompaction};
use crate::{
    core::MemoryCore,
    migrate::{Effort, Migration, Move, Moved, Mover, Targets},
    pcp::ZoneOnCpu,
    platform::{Captured, Platform},
    reclaim::LruState,
    tlb::{BatchSlot, Flusher, Shootdown, Tlb},
    tuning::CompactMethod,
    types::{CompactEvent, CpuId, ZoneId},
};

/// Buffers for compaction. They are too large for the stack of a kernel, so the embedder provides
/// them. At most 512 entries of each are used; shorter buffers make smaller batches.
#[derive(Debug)]
pub struct Workspace<'w> {
    /// Pages that are being moved. Without at least one entry nothing moves.
    pub moves: &'w mut [Move],
    /// Entries of the flush batch for these pages.
    pub slots: &'w mut [BatchSlot],
}

/// Compaction on behalf of one CPU, created for a few calls by
/// [`Memory::compactor`](crate::Memory::compactor).
///
/// The caller runs on that CPU, with interrupts enabled, and holds no lock of the library. The
/// token of the CPU may be in use.
pub struct Compactor<'c, 'm, P: Platform> {
    pub(super) memory: &'c MemoryCore<'m, P>,
    pub(super) zones: CompactZones<'c, 'm, P>,
    pub(super) tlb: &'c Tlb<'m, P>,
    /// `None` if the memory has no LRU lists.
    #[cfg_attr(not(feature = "compare"), expect(dead_code, reason = "scanners ask for its lock"))]
    pub(super) lru: Option<&'c LruState<'m, P>>,
    pub(super) cpu: CpuId,
    mover: &'c dyn Mover<P>,
    shootdown: &'c dyn Shootdown,
    work: Workspace<'c>,
}

/// A zone during compaction, from the perspective of the compacting CPU.
pub(super) struct ZoneContext<'s, 'm, P: Platform> {
    pub(super) id: ZoneId,
    pub(super) on_cpu: ZoneOnCpu<'s, 'm, P>,
    /// State of compaction in this zone that is kept between calls.
    pub(super) hints: &'m ZoneCompaction<'m>,
}

impl<P: Platform> Clone for ZoneContext<'_, '_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Platform> Copy for ZoneContext<'_, '_, P> {}

impl<P: Platform> ZoneContext<'_, '_, P> {
    /// Whether the lists already contain a block for the goal.
    pub(super) fn has_formed(&self, goal: &Goal) -> bool {
        self.on_cpu.zone.with(self.on_cpu.platform, |buddy| goal.has_formed(buddy))
    }
}

impl<'c, 'm, P: Platform> Compactor<'c, 'm, P> {
    /// A compactor for `cpu`.
    ///
    /// # Panics
    ///
    /// If the memory does not have the CPU.
    ///
    /// # Safety
    ///
    /// `tlb` and `lru` belong to the memory of the zones. The rest is the contract of
    /// [`Memory::compactor`](crate::Memory::compactor).
    #[allow(unsafe_code)]
    pub(crate) unsafe fn of(
        zones: CompactZones<'c, 'm, P>,
        tlb: &'c Tlb<'m, P>,
        lru: Option<&'c LruState<'m, P>>,
        cpu: CpuId,
        mover: &'c dyn Mover<P>,
        shootdown: &'c dyn Shootdown,
        work: Workspace<'c>,
    ) -> Self {
        zones.memory.assert_cpu(cpu);
        Self { memory: zones.memory, zones, tlb, lru, cpu, mover, shootdown, work }
    }

    /// The context of a zone on this CPU.
    pub(super) fn zone_context(&self, id: ZoneId) -> ZoneContext<'c, 'm, P> {
        let memory = self.memory;
        ZoneContext { id, on_cpu: memory.context(id, self.cpu), hints: self.zones.state(id) }
    }

    /// Compacts a zone by the configured method.
    pub(super) fn run(
        &mut self,
        ctx: ZoneContext<'c, 'm, P>,
        goal: Goal,
        captured: Option<Captured<'_>>,
    ) -> Outcome {
        if self.work.moves.is_empty() {
            // Without an entry, no page could be claimed.
            return Outcome::Skipped;
        }
        // Frames in the depot count as allocated in the buddy maps, so their buddies cannot merge
        // with them.
        ctx.on_cpu.empty_depot();
        let counters = &ctx.hints.counters;
        let before = counters.read();
        let outcome = match self.memory.tuning().compact.method {
            CompactMethod::Index => self.run_by_index(ctx, goal, captured),
            #[cfg(feature = "compare")]
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

    /// Whether compaction is switched off.
    pub(super) fn is_off(&self) -> bool {
        self.memory.tuning().compact.method == CompactMethod::Off
    }

    /// The embedder's page mover.
    pub(super) fn mover(&self) -> &'c dyn Mover<P> {
        self.mover
    }

    /// The buffer for claimed pages.
    pub(super) fn moves(&mut self) -> &mut [Move] {
        let most = self.work.moves.len().min(512);
        &mut self.work.moves[..most]
    }

    /// Moves the first `count` claimed pages as far as possible, and ends their claims.
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

    /// Ends the claims on the pages in these entries without moving them.
    pub(super) fn abandon(&mut self, claimed: Range<usize>, targets: &mut dyn Targets) {
        self.migration().abandon(&mut self.work.moves[claimed], targets);
    }

    pub(super) fn flusher(&self) -> Flusher<'c, 'm, P> {
        Flusher::new(self.memory, self.tlb, self.shootdown, self.cpu)
    }

    fn migration(&self) -> Migration<'c, 'm, P> {
        let flusher = self.flusher();
        Migration { flusher, platform: self.memory.platform(), mover: self.mover }
    }
}
