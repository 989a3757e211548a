//! The library with a page cache on a machine: the state that CPUs share.

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
    CpuContext, FlushCosts, PageCache, background::Background, fault_allocator::FaultAllocator,
    mover::PageMoves, owner::Owner, shootdown::Counted,
};
use crate::{
    engine::{Activity, Cpu, Machine, WaitQueue},
    platform::{LentRelief, Simulated},
};

/// The state of a kernel that its CPUs share. It is made outside a run, and the machine borrows it
/// for one run.
pub struct KernelState<'k, 'm> {
    pub(super) machine: &'k Machine,
    pub(super) memory: &'k Memory<'m, Simulated>,
    pub(super) cache: &'k PageCache,
    pub(super) shootdown: &'k Counted<'k, 'm>,
    pub(super) reclaim: Reclaim<'k, 'm, Simulated>,
    moves: PageMoves<'k, 'm>,
    /// Wait queues of idle CPUs, by number.
    pub(super) idle: Vec<WaitQueue>,
    /// By CPU: the reason of the pause that reclaim imposed on its program, if there is one.
    pub(super) paused: Vec<Cell<Option<(NodeId, Throttle)>>>,
    /// By node.
    pub(super) backgrounds: Vec<Background<'k, 'm>>,
    /// Requests that entered direct reclaim.
    pub(super) stalls: Cell<u64>,
}

/// The parts that a [`KernelState`] borrows.
pub struct Parts<'p, 'm> {
    /// The machine.
    pub machine: &'p Machine,
    /// Its memory, which has LRU lists.
    pub memory: &'p Memory<'m, Simulated>,
    /// The page cache in this memory.
    pub cache: &'p PageCache,
    /// The slot in which the memory's platform looks for its [`Relief`].
    pub relief: &'p LentRelief,
}

impl<'p, 'm> Parts<'p, 'm> {
    /// Runs `body` with the parts connected: interrupts are served, and requests that find no
    /// memory enter reclaim.
    ///
    /// # Panics
    ///
    /// If the memory has no LRU lists, or if the cache was used with another memory: it would free
    /// frames of that memory to this one.
    pub fn together<R>(&self, body: impl FnOnce(&KernelState<'_, 'm>) -> R) -> R {
        assert!(!self.cache.has_memory.replace(true), "a page cache serves one memory, once");
        let owner = Owner::new(self.cache, self.machine);
        let owner: &dyn PageOwner<Simulated> = &owner;
        let shootdown = Counted::new(self.memory, self.cache.mmu());
        let dynamic: &dyn Shootdown = &shootdown;
        // SAFETY: all frames of the cache come from this memory, as checked above, and the
        // shootdown flushes all TLBs that may hold translations of its pages.
        #[allow(unsafe_code)]
        let reclaim = unsafe { Reclaim::new(self.memory, owner, dynamic) }.expect("LRU lists");
        let nodes = &self.machine.model().nodes;
        let last = nodes.iter().max().copied().unwrap_or_default();
        let kernel = KernelState {
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
        self.relief.lend(&kernel, || body(&kernel))
    }
}

impl<'k, 'm> KernelState<'k, 'm> {
    /// The context of a CPU.
    ///
    /// # Panics
    ///
    /// If the CPU has a context already.
    #[must_use]
    pub fn cpu_context(&self, cpu: CpuId) -> CpuContext<'_, 'k, 'm> {
        let token = self.memory.cpu(cpu).expect("the token of the CPU is free");
        CpuContext::new(FaultAllocator { kernel: self, token }, self.background_of(cpu))
    }

    /// Background reclaim of the CPU's node, if this CPU runs steps of it.
    pub(super) fn background_of(&self, cpu: CpuId) -> Option<&Background<'k, 'm>> {
        self.backgrounds.iter().find(|background| background.cpus.contains(&cpu))
    }

    /// The reclaim of the memory, for its statistics.
    #[must_use]
    pub fn reclaim(&self) -> Reclaim<'k, 'm, Simulated> {
        self.reclaim
    }

    /// The costs of flushes so far.
    #[must_use]
    pub fn flush_costs(&self) -> FlushCosts {
        self.shootdown.costs()
    }

    /// Requests that entered direct reclaim.
    #[must_use]
    pub fn stalls(&self) -> u64 {
        self.stalls.get()
    }

    /// Runs `body` with a compactor of a CPU.
    pub(super) fn compacting<R>(
        &self,
        cpu: CpuId,
        body: impl FnOnce(&mut Compactor<'_, 'm, Simulated>) -> R,
    ) -> R {
        /// Pages that are migrated together, at most.
        const BATCH: usize = 512;
        let (mut moves, mut slots) = ([Move::default(); BATCH], [BatchSlot::default(); BATCH]);
        let work = Workspace { moves: &mut moves, slots: &mut slots };
        // Pages in the per-CPU batches are not on the LRU lists yet, and could not be isolated.
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

    /// Runs `body`, which an observer sees as this activity of the running CPU, if one runs.
    fn during<R>(&self, activity: Activity, body: impl FnOnce() -> R) -> R {
        match self.machine.current() {
            Some(cpu) => cpu.during(activity, body),
            None => body(),
        }
    }

    pub(super) fn current(&self) -> Cpu<'_> {
        self.machine.current().expect("on a CPU")
    }
}

impl Relief for KernelState<'_, '_> {
    fn reclaims_in_background(&self) -> bool {
        true
    }

    fn wake(&self, node: NodeId, order: Order, highest: ZoneKind) {
        let Some(background) = self.backgrounds.get(node.index()) else { return };
        background.steps.record_request(order, highest);
        if self.reclaim.wake(node, order, highest) {
            let cpu = self.current();
            background.steps.wake(cpu.now());
            self.idle[background.turn().index()].wake_all(cpu);
        }
    }

    fn reclaim(&self, need: &Need, frames: u64) -> u64 {
        self.stalls.set(self.stalls.get() + 1);
        let direct = || self.reclaim.direct(need, frames);
        self.during(Activity::DirectReclaim, direct)
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
        self.during(Activity::DirectCompaction, || {
            self.compacting(need.cpu, |compactor| compactor.compact(need, priority, captured))
        })
    }
}
