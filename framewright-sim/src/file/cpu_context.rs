//! The context of a CPU: its accesses for programs, and the kernel's work on it.

use framewright::{Block, FrameRange, MigrateType, Pfn, Request};

use super::{
    AreaId, FileAccessError, KernelState, Supply, Touched, background::Background,
    fault_allocator::FaultAllocator,
};
use crate::{
    engine::Cpu,
    process::{Access, SpaceId},
};

/// Duration of one round of write-back, in cycles: about 0.4 ms.
const WRITES: u64 = 1_000_000;

/// The context of one CPU.
pub struct CpuContext<'s, 'k, 'm> {
    allocator: FaultAllocator<'s, 'k, 'm>,
    /// Background reclaim of the node.
    background: Option<&'s Background<'k, 'm>>,
    /// The address space of the running program; `None` while the kernel works for itself.
    running: Option<SpaceId>,
}

impl<'s, 'k, 'm> CpuContext<'s, 'k, 'm> {
    pub(super) fn new(
        allocator: FaultAllocator<'s, 'k, 'm>,
        background: Option<&'s Background<'k, 'm>>,
    ) -> Self {
        Self { allocator, background, running: None }
    }

    /// Accesses page `page` of an area for the program on the CPU.
    ///
    /// # Errors
    ///
    /// [`FileAccessError`].
    #[inline]
    pub fn touch(
        &mut self,
        cpu: Cpu<'_>,
        area: AreaId,
        page: u32,
        access: Access,
    ) -> Result<Touched, FileAccessError> {
        let cache = self.allocator.kernel.cache;
        let space = cache.space(area);
        if self.running != Some(space.id()) {
            let masked = cpu.mask_interrupts();
            // SAFETY: `load` compares generations, and flushes the TLB of this CPU if it is
            // outdated.
            #[allow(unsafe_code)]
            unsafe {
                self.allocator.kernel.flusher(cpu.id()).record_full_flush(|| space.load(cpu));
            }
            cpu.restore_interrupts(masked);
            self.running = Some(space.id());
        }
        cache.touch(cpu, area, page, access, &mut self.allocator)
    }

    /// Allocates a block for the program on the CPU, other than for file pages. The flag says
    /// whether the request entered direct reclaim or compaction.
    pub fn block(&mut self, cpu: Cpu<'_>, request: Request) -> (Option<Block<'m>>, bool) {
        let KernelState { memory, reclaim, .. } = self.allocator.kernel;
        reclaim.tick(cpu.id());
        let stalls = || {
            let stats = memory.cpu_stats(cpu.id()).unwrap_or_default();
            stats.allocstall + stats.compact_stall
        };
        let before = stalls();
        let block = self.allocator.token.alloc(request).ok();
        (block, stalls() > before)
    }

    /// Frees a block.
    pub fn free_block(&mut self, block: Block<'m>) {
        let freed = self.allocator.token.free(block);
        debug_assert!(freed.is_ok(), "a block of another memory");
    }

    /// Does a bounded part of the kernel's pending work on this CPU. Returns whether there was any.
    pub fn do_kernel_work(&mut self, cpu: Cpu<'_>) -> bool {
        let kernel = self.allocator.kernel;
        kernel.report_writes(cpu);
        let reclaims = self.wants_kswapd(cpu);
        let writes = kernel.wants_writer(cpu.id());
        if reclaims || writes {
            self.enter_lazy_mode(cpu);
        }
        if reclaims && let Some(background) = self.background {
            background.step(kernel, cpu, &mut self.allocator.token);
        }
        let until = cpu.now() + WRITES;
        while cpu.now() < until && kernel.wants_writer(cpu.id()) {
            kernel.write_back(cpu);
            kernel.report_writes(cpu);
        }
        reclaims || writes
    }

    /// Whether the kernel has urgent work on this CPU.
    #[inline]
    #[must_use]
    pub fn has_kernel_work(&self, cpu: Cpu<'_>) -> bool {
        self.wants_kswapd(cpu) || self.allocator.kernel.wants_writer(cpu.id())
    }

    /// Idles until `time`, until the kernel has work here, or until a write ends.
    pub fn idle(&mut self, cpu: Cpu<'_>, time: u64) {
        if self.has_kernel_work(cpu) {
            return;
        }
        self.enter_lazy_mode(cpu);
        let kernel = self.allocator.kernel;
        cpu.wait_on_until(&kernel.idle[cpu.id().index()], time.min(kernel.next_event(cpu)));
    }

    /// Reclaims up to `frames` frames of the CPU's node, regardless of its watermarks. Returns
    /// their number.
    pub fn shrink(&mut self, cpu: Cpu<'_>, frames: u64) -> u64 {
        self.enter_lazy_mode(cpu);
        let kernel = self.allocator.kernel;
        kernel.reclaim.shrink_node(cpu.id(), kernel.memory.node_of(cpu.id()), frames)
    }

    /// Empties a range of frames by migration, allocates and frees it. Returns whether that
    /// succeeded.
    pub fn empty_range(&mut self, cpu: Cpu<'_>, frames: FrameRange) -> bool {
        self.enter_lazy_mode(cpu);
        let kernel = self.allocator.kernel;
        let taken = kernel.compacting(cpu.id(), |compactor| {
            compactor.alloc_range(frames, MigrateType::Movable, &mut |_| {})
        });
        let freed = taken.map(|extent| kernel.memory.free_extent(extent).is_ok());
        freed.unwrap_or(false)
    }

    /// Wakes all idle CPUs.
    pub fn wake_all(&self, cpu: Cpu<'_>) {
        self.allocator.kernel.idle.iter().for_each(|queue| queue.wake_all(cpu));
    }

    /// Pages added to the cache so far, by all CPUs.
    #[must_use]
    pub fn pages_cached(&self) -> u64 {
        self.allocator.kernel.cache.stats().cached
    }

    /// Frees all frames of the cache, after all programs have ended. Other CPUs still serve
    /// interrupts.
    pub fn free_all(&mut self, cpu: Cpu<'_>) {
        let kernel = self.allocator.kernel;
        let lru = kernel.reclaim.lru();
        lru.drain_all();
        let frames = kernel.cache.dissolve();
        for &frame in &frames {
            lru.remove(Pfn::new(frame.into()));
        }
        self.allocator.give(cpu, &frames);
        let mut deferred = Vec::new();
        kernel.flusher(cpu.id()).drain_deferred(&mut |blocks| deferred.extend(blocks));
        let number = |block: Block<'_>| block.into_raw().0.get() as u32;
        let deferred: Vec<u32> = deferred.into_iter().map(number).collect();
        self.allocator.give(cpu, &deferred);
    }

    /// Enters lazy TLB mode: the address space stays loaded, but flushes need no interrupt to this
    /// CPU.
    fn enter_lazy_mode(&mut self, cpu: Cpu<'_>) {
        if self.running.take().is_some() {
            self.allocator.kernel.cache.mmu().enter_lazy_mode(cpu);
        }
    }

    /// Writes some dirty pages back; see [`PageCache::pick_dirty`](super::PageCache::pick_dirty).
    #[cfg(test)]
    pub(super) fn write_back(&self, cpu: Cpu<'_>) {
        self.allocator.kernel.write_back(cpu);
    }

    /// Reports to the library the pages whose writes have ended or failed.
    #[cfg(test)]
    pub(super) fn report_writes(&self, cpu: Cpu<'_>) {
        self.allocator.kernel.report_writes(cpu);
    }

    fn wants_kswapd(&self, cpu: Cpu<'_>) -> bool {
        self.background.is_some_and(|background| background.wants(cpu.id(), cpu.now()))
    }
}
