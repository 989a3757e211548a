//! The library with a page cache on a machine: what CPUs share.

use std::cell::Cell;

use framewright::{
    CpuId, Memory, NodeId, Order, ZoneId, ZoneKind,
    compact::{Compactor, Workspace},
    migrate::Move,
    platform::{Captured, CompactPriority, Compacted, Need, Relief},
    reclaim::{PageOwner, Pause, Reclaim, Throttle},
    tlb::{BatchSlot, Flusher, Shootdown},
};

use super::{
    FlushCosts, PageCache, Seat, background::Background, hands::Hands, mover::PageMoves,
    owner::Owner, shootdown::Counted,
};
use crate::{
    engine::{Cpu, Machine, WaitQueue},
    platform::{LentRelief, Simulated},
};

/// What CPUs share. Made outside a run, lent to the machine for one.
pub struct Keep<'k, 'm> {
    pub(super) machine: &'k Machine,
    pub(super) memory: &'k Memory<'m, Simulated>,
    pub(super) cache: &'k PageCache,
    pub(super) shootdown: &'k Counted<'k, 'm>,
    pub(super) reclaim: Reclaim<'k, 'm, Simulated>,
    moves: PageMoves<'k, 'm>,
    /// CPUs that have nothing to do, by number.
    pub(super) idle: Vec<WaitQueue>,
    /// By CPU: the reason for which reclaim pauses the program on it, if it does.
    pub(super) paused: Vec<Cell<Option<(NodeId, Throttle)>>>,
    /// By node.
    pub(super) backgrounds: Vec<Background<'k, 'm>>,
    /// Requests that had to reclaim themselves.
    pub(super) stalls: Cell<u64>,
}

/// Parts of a [`Keep`] that it borrows.
pub struct Parts<'p, 'm> {
    /// The machine.
    pub machine: &'p Machine,
    /// Its memory, made with LRU lists.
    pub memory: &'p Memory<'m, Simulated>,
    /// The cache above it.
    pub cache: &'p PageCache,
    /// The place where the memory's platform looks for relief.
    pub relief: &'p LentRelief,
}

impl<'p, 'm> Parts<'p, 'm> {
    /// Runs `body` with the parts put together: interrupts are served, and requests that are short
    /// of memory reclaim.
    ///
    /// # Panics
    ///
    /// If the memory has no LRU lists, or if the cache was used with a memory before: it would free
    /// frames of that memory to this one.
    pub fn together<R>(&self, body: impl FnOnce(&Keep<'_, 'm>) -> R) -> R {
        assert!(!self.cache.has_memory.replace(true), "a page cache serves one memory, once");
        let owner = Owner::new(self.cache, self.machine);
        let owner: &dyn PageOwner<Simulated> = &owner;
        let shootdown = Counted::new(self.memory, self.cache.mmu());
        let dynamic: &dyn Shootdown = &shootdown;
        // SAFETY: the cache has its frames from this memory alone, as checked above, and the shootdown
        // flushes all translation caches that map its pages.
        #[allow(unsafe_code)]
        let reclaim = unsafe { Reclaim::new(self.memory, owner, dynamic) }.expect("LRU lists");
        let nodes = &self.machine.model().nodes;
        let last = nodes.iter().max().copied().unwrap_or_default();
        let keep = Keep {
            machine: self.machine,
            memory: self.memory,
            cache: self.cache,
            shootdown: &shootdown,
            reclaim,
            moves: PageMoves::new(self.cache, reclaim.lru(), self.machine),
            idle: nodes.iter().map(|_| WaitQueue::default()).collect(),
            paused: nodes.iter().map(|_| Cell::default()).collect(),
            backgrounds: (0..=last).map(|node| Background::new(reclaim, nodes, node)).collect(),
            stalls: Cell::new(0),
        };
        self.relief.lend(&keep, || body(&keep))
    }
}

impl<'k, 'm> Keep<'k, 'm> {
    /// The seat of a CPU.
    ///
    /// # Panics
    ///
    /// If somebody has it.
    #[must_use]
    pub fn seat(&self, cpu: CpuId) -> Seat<'_, 'k, 'm> {
        let token = self.memory.cpu(cpu).expect("a CPU of its own");
        Seat::new(Hands { keep: self, token }, self.background_of(cpu))
    }

    /// The background reclaim of the node, if this CPU runs steps of it.
    pub(super) fn background_of(&self, cpu: CpuId) -> Option<&Background<'k, 'm>> {
        self.backgrounds.iter().find(|background| background.cpus.contains(&cpu))
    }

    /// Reclaim, for who wants to look at its books.
    #[must_use]
    pub fn reclaim(&self) -> Reclaim<'k, 'm, Simulated> {
        self.reclaim
    }

    /// What flushes took so far.
    #[must_use]
    pub fn flush_costs(&self) -> FlushCosts {
        self.shootdown.costs()
    }

    /// Requests that had to reclaim themselves.
    #[must_use]
    pub fn stalls(&self) -> u64 {
        self.stalls.get()
    }

    /// Compacts on behalf of a CPU.
    pub(super) fn compacting<R>(
        &self,
        cpu: CpuId,
        body: impl FnOnce(&mut Compactor<'_, 'm, Simulated>) -> R,
    ) -> R {
        /// Pages that move at once, at the most.
        const BATCH: usize = 512;
        let (mut moves, mut slots) = ([Move::default(); BATCH], [BatchSlot::default(); BATCH]);
        let work = Workspace { moves: &mut moves, slots: &mut slots };
        // What CPUs have not put on lists yet could not be claimed.
        self.reclaim.lru().drain_all();
        // SAFETY: as for reclaim.
        #[allow(unsafe_code)]
        let mut compactor =
            unsafe { self.memory.compactor(cpu, &self.moves, self.shootdown, work) };
        body(&mut compactor)
    }

    pub(super) fn flusher(&self, cpu: CpuId) -> Flusher<'_, 'm, Simulated> {
        // SAFETY: as for reclaim.
        #[allow(unsafe_code)]
        unsafe {
            self.memory.flusher(cpu, self.shootdown)
        }
    }

    pub(super) fn current(&self) -> Cpu<'_> {
        self.machine.current().expect("on a CPU")
    }
}

impl Relief for Keep<'_, '_> {
    fn reclaims_in_background(&self) -> bool {
        true
    }

    fn wake(&self, node: NodeId, order: Order, highest: ZoneKind) {
        let Some(background) = self.backgrounds.get(node.index()) else { return };
        background.asked_for(order, highest);
        if self.reclaim.wake(node, order, highest) {
            let cpu = self.current();
            background.due.set(cpu.now());
            self.idle[background.turn().index()].wake_all(cpu);
        }
    }

    fn reclaim(&self, need: &Need, frames: u64) -> u64 {
        self.stalls.set(self.stalls.get() + 1);
        self.reclaim.direct(need, frames)
    }

    fn reclaimable(&self, zone: ZoneId) -> Option<u64> {
        Some(self.reclaim.reclaimable(zone))
    }

    fn pause(&self, pause: &Pause<'_>) {
        self.wait_for(pause);
    }

    fn resume(&self, node: NodeId, why: Throttle) {
        self.wake_paused(node, why);
    }

    fn compact(&self, need: &Need, priority: CompactPriority, captured: Captured<'_>) -> Compacted {
        self.compacting(need.cpu, |compactor| compactor.compact(need, priority, captured))
    }
}
