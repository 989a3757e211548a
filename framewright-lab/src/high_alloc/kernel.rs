//! The kernel around the library: the state that CPUs share.

use std::cell::{Cell, RefCell, RefMut};

use framewright::{
    AllocError, Block, CpuId, CpuToken, Memory, MigrateType, NodeId, Order, Pfn, Request,
    compact::{Compactor, Workspace},
    migrate::{Move, Mover},
    observe::NodeStat,
    reclaim::Reclaim,
    tlb::BatchSlot,
};
use framewright_sim::file::{FileCosts, KswapdSteps};

use super::{
    environment::{Environment, FairAllocation},
    files::Files,
    frames::{Frames, Holds},
    program::{Program, SwapArea},
    slab::{Kind, Slabs},
    world::{OnCpu, World},
};

/// Maximum number of pages that are migrated in one batch.
const BATCH: usize = 512;

/// The use of frames, and their owners. No borrow of a cell lasts across a call of the library,
/// because other CPUs may run meanwhile.
pub(super) struct State<'m, W: World> {
    pub(super) frames: Frames,
    pub(super) files: Files,
    pub(super) slabs: Slabs<'m>,
    pub(super) programs: Vec<Program<W>>,
    pub(super) swap: SwapArea,
    pub(super) environment: Environment,
    /// The fair zone allocation policy, if the environment has it.
    pub(super) fair: FairAllocation,
    pub(super) costs: FileCosts,
    /// The longest time of a device request, in ticks.
    pub(super) slowest: Cell<u64>,
    pub(super) random: RefCell<fastrand::Rng>,
    /// Seed of the random choices of the kernel.
    pub(super) seed: u64,
}

impl<W: World> State<'_, W> {
    /// The state of empty memory.
    pub(super) fn new(
        frames: u64,
        files: Files,
        programs: Vec<Program<W>>,
        costs: FileCosts,
        mut random: fastrand::Rng,
    ) -> Self {
        Self {
            seed: random.u64(..),
            frames: Frames::new(frames),
            files,
            slabs: Slabs::default(),
            programs,
            swap: SwapArea::default(),
            environment: Environment::default(),
            fair: FairAllocation::default(),
            costs,
            slowest: Cell::new(0),
            random: RefCell::new(random),
        }
    }

    /// Records the time of a device request, in ticks.
    pub(super) fn record_device_time(&self, ticks: u64) {
        self.slowest.set(self.slowest.get().max(ticks));
    }

    /// The number of the program that runs besides the builders: the last one.
    pub(super) fn system(&self) -> u32 {
        self.programs.len() as u32 - 1
    }

    pub(super) fn system_pages(&self) -> RefMut<'_, Vec<u32>> {
        self.programs[self.programs.len() - 1].pages.borrow_mut()
    }
}

/// The kernel: the state, the library, and background work.
pub(super) struct Kernel<'k, 'm, W: World> {
    pub(super) world: &'k W,
    pub(super) memory: &'k Memory<'m, W::Platform>,
    pub(super) state: &'k State<'m, W>,
    pub(super) reclaim: Reclaim<'k, 'm, W::Platform>,
    pub(super) moves: &'k dyn Mover<W::Platform>,
    /// Background reclaim.
    pub(super) kswapd: KswapdSteps<'k, 'm, W::Platform>,
    /// Whether a request for a huge page is in progress.
    pub(super) asking: Cell<bool>,
    /// The fraction of a file that the shrinker still has to examine, in thousandths.
    pub(super) shrink_debt: Cell<u64>,
    /// Pages that reclaim had scanned at the last shrinker run.
    pub(super) shrunk_for: Cell<u64>,
    /// The longest time of a request, in nanoseconds.
    pub(super) longest: Cell<u64>,
    /// Requests of builders that failed.
    pub(super) out_of_memory: Cell<u64>,
    /// Whether the current request for a costly block has reclaimed, and not compacted since.
    pub(super) asked_before: Cell<bool>,
    /// Whether background reclaim was woken for a huge page, and is to reset the skip hints of the
    /// scanners.
    pub(super) hints_expire: Cell<bool>,
    /// Faults of builders.
    pub(super) faults: Cell<u64>,
}

impl<'k, 'm, W: World> Kernel<'k, 'm, W> {
    /// A kernel without work.
    pub(super) fn new(
        world: &'k W,
        memory: &'k Memory<'m, W::Platform>,
        state: &'k State<'m, W>,
        reclaim: Reclaim<'k, 'm, W::Platform>,
        moves: &'k dyn Mover<W::Platform>,
    ) -> Self {
        Self {
            world,
            memory,
            state,
            reclaim,
            moves,
            kswapd: KswapdSteps::new(reclaim.kswapd(memory.node_of(CpuId::new(0)))),
            asking: Cell::new(false),
            shrink_debt: Cell::new(0),
            shrunk_for: Cell::new(0),
            longest: Cell::new(0),
            out_of_memory: Cell::new(0),
            asked_before: Cell::new(false),
            hints_expire: Cell::new(false),
            faults: Cell::new(0),
        }
    }

    /// Checks that no page is claimed or locked, that the library's state is consistent, and that
    /// each frame is free or in use.
    ///
    /// # Errors
    ///
    /// The first violation.
    pub(super) fn check(&self) -> Result<(), String> {
        let Self { memory, state, reclaim, .. } = self;
        if let Some(frame) = state.frames.left_behind() {
            return Err(format!("frame {frame} is still claimed or locked"));
        }
        let lists = || reclaim.lru().check();
        memory.check().and_then(|()| lists()).map_err(|violation| violation.to_string())?;
        let (allocated, deferred) = (memory.in_use(), memory.tlb().deferred());
        let used = state.frames.count(|holds| holds != Holds::Nothing);
        if allocated == used + deferred {
            return Ok(());
        }
        Err(format!(
            "{used} frames are in use and {deferred} wait for a flush, but {allocated} are allocated"
        ))
    }

    /// The CPU that runs this code.
    pub(super) fn current(&self) -> W::Cpu {
        self.world.current().expect("on a CPU")
    }

    /// Nanoseconds in ticks of the world.
    pub(super) fn ticks(&self, nanos: u64) -> u64 {
        self.world.ticks(nanos)
    }

    /// Compacts on behalf of a CPU. Called without the kernel's lock, because the library calls the
    /// mover, which takes the lock.
    pub(super) fn compacting<R>(
        &self,
        cpu: CpuId,
        body: impl FnOnce(&mut Compactor<'_, 'm, W::Platform>) -> R,
    ) -> R {
        let mut moves = [Move::default(); BATCH];
        let mut slots = [BatchSlot::default(); BATCH];
        let work = Workspace { moves: &mut moves, slots: &mut slots };
        // Pages in the per-CPU LRU batches could not be claimed.
        self.reclaim.lru().drain_all();
        // SAFETY: the workload has its frames from this memory, and maps them only in its world.
        #[allow(unsafe_code)]
        let mut compactor =
            unsafe { self.memory.compactor(cpu, self.moves, self.world.shootdown(), work) };
        body(&mut compactor)
    }

    /// Records the time of a request, in nanoseconds.
    pub(super) fn record_request_time(&self, nanos: u64) {
        self.longest.set(self.longest.get().max(nanos));
    }

    /// Marks a block as the kernel's.
    fn own(&self, block: Block<'m>) -> Block<'m> {
        let first = block.pfn().get() as u32;
        self.state.frames.set_block(first, block.order(), Holds::Kernel);
        block
    }

    /// Frees an object, and its slab if that is empty.
    pub(super) fn free_object(&self, slab: u32) {
        if let Some(block) = self.state.slabs.put(slab) {
            self.free_block(block);
        }
    }

    /// Frees a block of the kernel.
    pub(super) fn free_block(&self, block: Block<'m>) {
        let first = block.pfn().get() as u32;
        self.state.frames.set_block(first, block.order(), Holds::Nothing);
        let freed = self.memory.free_bypassing_lists(block);
        debug_assert!(freed.is_ok(), "the block is of another memory");
    }

    /// Pages that reclaim has scanned so far.
    pub(super) fn scanned(&self) -> u64 {
        let stats = self.reclaim.lru().stats();
        stats.get(NodeStat::PgscanKswapd) + stats.get(NodeStat::PgscanDirect)
    }

    /// Pages on the LRU lists.
    pub(super) fn reclaimable_pages(&self) -> u64 {
        self.memory.zones().map(|zone| self.reclaim.reclaimable(zone.id)).sum()
    }

    /// The node of a CPU.
    pub(super) fn node(&self, cpu: CpuId) -> NodeId {
        self.memory.node_of(cpu)
    }
}

/// The context of a CPU that runs code of the kernel.
pub(super) struct CpuContext<'c, 'k, 'm, W: World> {
    pub(super) kernel: &'c Kernel<'k, 'm, W>,
    pub(super) cpu: W::Cpu,
    pub(super) token: CpuToken<'k, 'm, W::Platform>,
}

impl<'c, 'k, 'm, W: World> CpuContext<'c, 'k, 'm, W> {
    /// The context of a CPU.
    ///
    /// # Panics
    ///
    /// If the CPU has a context already.
    pub(super) fn new(kernel: &'c Kernel<'k, 'm, W>, cpu: W::Cpu) -> Self {
        let token = kernel.memory.cpu(cpu.id()).expect("each CPU has one context");
        Self { kernel, cpu, token }
    }

    /// Allocates a block, and records the time if it is the longest so far.
    pub(super) fn alloc(&mut self, request: Request) -> Result<Block<'m>, AllocError> {
        let Kernel { world, .. } = self.kernel;
        let since = world.watch();
        let State { environment, fair, .. } = self.kernel.state;
        let lower = if environment.fair_zones { fair.lower(request) } else { None };
        let block = world.without_lock(|| {
            let served = lower.and_then(|request| self.token.alloc(request).ok());
            served.map_or_else(|| self.token.alloc(request), Ok)
        });
        self.kernel.record_request_time(world.elapsed(since));
        block
    }

    /// As [`CpuContext::alloc`]; counts requests that fail.
    pub(super) fn alloc_counted(&mut self, request: Request) -> Option<Block<'m>> {
        let block = self.alloc(request).ok();
        if block.is_none() {
            self.kernel.out_of_memory.update(|times| times + 1);
        }
        block
    }

    /// Allocates an object of a kind; `None` without memory.
    pub(super) fn new_object(&mut self, kind: Kind) -> Option<u32> {
        let slabs = &self.kernel.state.slabs;
        if let Some(slab) = slabs.take(kind) {
            return Some(slab);
        }
        let block = self.slab(kind)?;
        Some(slabs.grow(kind, block))
    }

    /// Allocates a block for a slab: a large one if that needs no reclaim and no fallback,
    /// otherwise a single frame, as SLUB does.
    fn slab(&mut self, kind: Kind) -> Option<Block<'m>> {
        if kind.order() > Order::ZERO {
            let request = Request::new(kind.order(), kind.migratetype());
            let request = request.no_wait().no_wake().without_reserves();
            if let Ok(block) = self.alloc(request) {
                return Some(self.kernel.own(block));
            }
        }
        self.block(Order::ZERO, kind.migratetype())
    }

    /// Allocates a block for the kernel's own use.
    pub(super) fn block(&mut self, order: Order, of: MigrateType) -> Option<Block<'m>> {
        let block = self.alloc_counted(Request::new(order, of))?;
        Some(self.kernel.own(block))
    }
}

/// The frame number.
pub(super) fn pfn(frame: u32) -> Pfn {
    Pfn::new(frame.into())
}
