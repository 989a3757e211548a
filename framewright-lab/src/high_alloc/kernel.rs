//! The kernel around the library: what CPUs share.

use std::cell::{Cell, RefCell, RefMut};

use framewright::{
    Block, CpuId, Memory, MigrateType, NodeId, Order, Pfn, Request, ZoneKind,
    compact::{Compactor, Workspace},
    migrate::Move,
    observe::NodeStat,
    reclaim::Reclaim,
    tlb::{BatchSlot, Shootdown},
};
use framewright_sim::{
    engine::{Cpu, Machine, WaitQueue},
    file::FileCosts,
    platform::Simulated,
    process::{Process, Shooter},
};

use super::{
    files::Files,
    frames::{Frames, Holds},
    mover::Moves,
    slab::{Kind, Slabs},
};

/// Pages that move at once, at the most.
const BATCH: usize = 512;

/// What frames hold, and whose it is. Borrows of what is inside never last longer than a call of the
/// library: others run meanwhile.
pub(super) struct State<'m> {
    pub(super) frames: Frames,
    pub(super) files: Files,
    pub(super) slabs: Slabs<'m>,
    pub(super) programs: Vec<Program>,
    pub(super) costs: FileCosts,
    pub(super) random: RefCell<fastrand::Rng>,
}

/// A builder's program: the compiler that runs.
pub(super) struct Program {
    pub(super) process: Process,
    /// The frame of each of its pages.
    pub(super) pages: RefCell<Vec<u32>>,
}

impl State<'_> {
    /// The number of what runs besides the builders, behind theirs.
    pub(super) fn system(&self) -> u32 {
        self.programs.len() as u32 - 1
    }

    pub(super) fn system_pages(&self) -> RefMut<'_, Vec<u32>> {
        self.programs[self.programs.len() - 1].pages.borrow_mut()
    }

    /// Whether something happens that happens one time in so many.
    pub(super) fn rarely(&self, one_in: u32) -> bool {
        self.random.borrow_mut().u32(..one_in) == 0
    }
}

/// See the module.
pub(super) struct Kernel<'k, 'm> {
    pub(super) machine: &'k Machine,
    pub(super) memory: &'k Memory<'m, Simulated>,
    pub(super) state: &'k State<'m>,
    pub(super) shooter: &'k Shooter<'k, 'm>,
    pub(super) reclaim: Reclaim<'k, 'm, Simulated>,
    pub(super) moves: &'k Moves<'k, 'm>,
    /// Who does the kernel's own work, while it has nothing to do.
    pub(super) idle: WaitQueue,
    pub(super) woken: Cell<Woken>,
    /// What is left of objects to look at, in thousandths.
    pub(super) shrink_debt: Cell<u64>,
    /// Requests of builders that failed.
    pub(super) out_of_memory: Cell<u64>,
    /// Faults of builders.
    pub(super) faults: Cell<u64>,
}

/// What background work is to be done.
#[derive(Clone, Copy, Debug)]
pub(super) struct Woken {
    /// When reclaim has something to do.
    pub(super) due: u64,
    /// The largest order that was asked for since compaction looked last.
    pub(super) order: Order,
    pub(super) highest: ZoneKind,
}

impl<'k, 'm> Kernel<'k, 'm> {
    /// The CPU that runs.
    pub(super) fn current(&self) -> Cpu<'k> {
        self.machine.current().expect("on a CPU")
    }

    /// Nanoseconds in cycles.
    pub(super) fn cycles(&self, nanos: u64) -> u64 {
        nanos * 1000 / self.machine.model().nanos_per_1000_cycles.max(1)
    }

    /// Cycles in nanoseconds.
    pub(super) fn nanos(&self, cycles: u64) -> u64 {
        (u128::from(cycles) * u128::from(self.machine.model().nanos_per_1000_cycles) / 1000) as u64
    }

    /// Compacts on behalf of a CPU.
    pub(super) fn compacting<R>(
        &self,
        cpu: CpuId,
        body: impl FnOnce(&mut Compactor<'_, 'm, Simulated>) -> R,
    ) -> R {
        let mut moves = [Move::default(); BATCH];
        let mut slots = [BatchSlot::default(); BATCH];
        let work = Workspace { moves: &mut moves, slots: &mut slots };
        let shootdown: &dyn Shootdown = self.shooter;
        // What CPUs have not put on lists yet could not be claimed.
        self.reclaim.lru().drain_all();
        body(&mut self.memory.compactor(cpu, self.moves, shootdown, work))
    }

    /// An object of a kind; none if there is no memory for it.
    pub(super) fn new_object(&self, token: &mut Token<'_, 'm>, kind: Kind) -> Option<u32> {
        if let Some(slab) = self.state.slabs.take(kind) {
            return Some(slab);
        }
        let block = self.block(token, kind.order(), kind.migratetype())?;
        Some(self.state.slabs.grow(kind, block))
    }

    /// A block for the kernel's own use.
    pub(super) fn block(
        &self,
        token: &mut Token<'_, 'm>,
        order: Order,
        of: MigrateType,
    ) -> Option<Block<'m>> {
        let block = token.alloc(Request::new(order, of)).ok();
        match &block {
            Some(block) => {
                let first = block.pfn().get() as u32;
                self.state.frames.set_block(first, order, Holds::Kernel);
            }
            None => self.out_of_memory.set(self.out_of_memory.get() + 1),
        }
        block
    }

    /// An object is gone. Its slab may be.
    pub(super) fn free_object(&self, slab: u32) {
        if let Some(block) = self.state.slabs.put(slab) {
            self.free_block(block);
        }
    }

    /// A block of the kernel's is not needed any more.
    pub(super) fn free_block(&self, block: Block<'m>) {
        let first = block.pfn().get() as u32;
        self.state.frames.set_block(first, block.order(), Holds::Nothing);
        let freed = self.memory.free_unlisted(block);
        debug_assert!(freed.is_ok(), "it is this memory's");
    }

    /// Pages that were reclaimed in the background so far.
    pub(super) fn reclaimed_in_background(&self) -> u64 {
        self.reclaim.lru().stats().get(NodeStat::PgstealKswapd)
    }

    /// The node that everything happens on.
    pub(super) fn node(&self, cpu: CpuId) -> NodeId {
        self.memory.node_of(cpu)
    }
}

/// The token of a CPU.
pub(super) type Token<'t, 'm> = framewright::CpuToken<'t, 'm, Simulated>;

/// The frame of a number.
pub(super) fn pfn(frame: u32) -> Pfn {
    Pfn::new(frame.into())
}
