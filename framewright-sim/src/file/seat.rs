//! The context of a CPU: its accesses for programs, and the kernel's work on it.

use framewright::{Block, FrameRange, MigrateType, Pfn, Request};

use super::{AreaId, FileTrouble, Keep, Supply, Touched, background::Background, hands::Hands};
use crate::{
    engine::Cpu,
    process::{Access, SpaceId},
};

/// Duration of one round of write-back, in cycles: about 0.4 ms.
const WRITES: u64 = 1_000_000;

/// The context of one CPU.
pub struct Seat<'s, 'k, 'm> {
    hands: Hands<'s, 'k, 'm>,
    /// Background reclaim of the node.
    background: Option<&'s Background<'k, 'm>>,
    /// The address space of the running program; `None` while the kernel works for itself.
    running: Option<SpaceId>,
}

impl<'s, 'k, 'm> Seat<'s, 'k, 'm> {
    pub(super) fn new(
        hands: Hands<'s, 'k, 'm>,
        background: Option<&'s Background<'k, 'm>>,
    ) -> Self {
        Self { hands, background, running: None }
    }

    /// Accesses page `page` of an area for the program on the CPU.
    ///
    /// # Errors
    ///
    /// [`FileTrouble`].
    #[inline]
    pub fn touch(
        &mut self,
        cpu: Cpu<'_>,
        area: AreaId,
        page: u32,
        access: Access,
    ) -> Result<Touched, FileTrouble> {
        let cache = self.hands.keep.cache;
        let space = cache.space(area);
        if self.running != Some(space.id()) {
            let masked = cpu.mask_interrupts();
            // SAFETY: the unit compares generations, and flushes its TLB if it is behind.
            #[allow(unsafe_code)]
            unsafe {
                self.hands.keep.flusher(cpu.id()).record_full_flush(|| space.load(cpu));
            }
            cpu.restore_interrupts(masked);
            self.running = Some(space.id());
        }
        cache.touch(cpu, area, page, access, &mut self.hands)
    }

    /// Allocates a block for the program on the CPU, other than for file pages. The flag says
    /// whether the request entered direct reclaim or compaction.
    pub fn block(&mut self, cpu: Cpu<'_>, request: Request) -> (Option<Block<'m>>, bool) {
        let Keep { memory, reclaim, .. } = self.hands.keep;
        reclaim.tick(cpu.id());
        let stalls = || {
            let stats = memory.cpu_stats(cpu.id()).unwrap_or_default();
            stats.allocstall + stats.compact_stall
        };
        let before = stalls();
        let block = self.hands.token.alloc(request).ok();
        (block, stalls() > before)
    }

    /// Frees a block.
    pub fn give_block(&mut self, block: Block<'m>) {
        let freed = self.hands.token.free(block);
        debug_assert!(freed.is_ok(), "it is this memory's");
    }

    /// Does a bounded part of the kernel's pending work on this CPU. Returns whether there was any.
    pub fn tend(&mut self, cpu: Cpu<'_>) -> bool {
        let keep = self.hands.keep;
        keep.hear_of_writes(cpu);
        let reclaims = self.wants_kswapd(cpu);
        let writes = keep.wants_writer(cpu.id());
        if reclaims || writes {
            self.rest(cpu);
        }
        if reclaims && let Some(background) = self.background {
            background.step(keep, cpu, &mut self.hands.token);
        }
        let until = cpu.now() + WRITES;
        while cpu.now() < until && keep.wants_writer(cpu.id()) {
            keep.write_back(cpu);
            keep.hear_of_writes(cpu);
        }
        reclaims || writes
    }

    /// Whether the kernel has urgent work on this CPU.
    #[inline]
    #[must_use]
    pub fn is_wanted(&self, cpu: Cpu<'_>) -> bool {
        self.wants_kswapd(cpu) || self.hands.keep.wants_writer(cpu.id())
    }

    /// Idles until `time`, until the kernel has work here, or until a write ends.
    pub fn idle(&mut self, cpu: Cpu<'_>, time: u64) {
        if self.is_wanted(cpu) {
            return;
        }
        self.rest(cpu);
        let keep = self.hands.keep;
        cpu.wait_on_until(&keep.idle[cpu.id().index()], time.min(keep.next_event(cpu)));
    }

    /// Reclaims up to `frames` frames of the CPU's node, regardless of its watermarks. Returns
    /// their number.
    pub fn shrink(&mut self, cpu: Cpu<'_>, frames: u64) -> u64 {
        self.rest(cpu);
        let keep = self.hands.keep;
        keep.reclaim.shrink_node(cpu.id(), keep.memory.node_of(cpu.id()), frames)
    }

    /// Empties a range of frames by migration, allocates and frees it. Returns whether that
    /// succeeded.
    pub fn empty(&mut self, cpu: Cpu<'_>, frames: FrameRange) -> bool {
        self.rest(cpu);
        let keep = self.hands.keep;
        let taken = keep.compacting(cpu.id(), |compactor| {
            compactor.alloc_range(frames, MigrateType::Movable, &mut |_| {})
        });
        let freed = taken.map(|extent| keep.memory.free_extent(extent).is_ok());
        freed.unwrap_or(false)
    }

    /// Wakes all idle CPUs.
    pub fn wake_all(&self, cpu: Cpu<'_>) {
        self.hands.keep.idle.iter().for_each(|queue| queue.wake_all(cpu));
    }

    /// Pages added to the cache so far, by all CPUs.
    #[must_use]
    pub fn brought(&self) -> u64 {
        self.hands.keep.cache.stats().cached
    }

    /// Frees all frames of the cache, after all programs have ended. Other CPUs still serve
    /// interrupts.
    pub fn clear_away(&mut self, cpu: Cpu<'_>) {
        let keep = self.hands.keep;
        let lru = keep.reclaim.lru();
        lru.drain_all();
        let frames = keep.cache.dissolve();
        for &frame in &frames {
            lru.remove(Pfn::new(frame.into()));
        }
        self.hands.give(cpu, &frames);
        let mut deferred = Vec::new();
        keep.flusher(cpu.id()).drain_deferred(&mut |blocks| deferred.extend(blocks));
        let number = |block: Block<'_>| block.into_raw().0.get() as u32;
        let deferred: Vec<u32> = deferred.into_iter().map(number).collect();
        self.hands.give(cpu, &deferred);
    }

    /// Enters lazy TLB mode: the address space stays loaded, but flushes need no interrupt to this
    /// CPU.
    fn rest(&mut self, cpu: Cpu<'_>) {
        if self.running.take().is_some() {
            self.hands.keep.cache.mmu().rest(cpu);
        }
    }

    /// Writes some dirty pages back; see [`PageCache::pick_dirty`](super::PageCache::pick_dirty).
    #[cfg(test)]
    pub(super) fn write_back(&self, cpu: Cpu<'_>) {
        self.hands.keep.write_back(cpu);
    }

    /// Reports to the library the pages whose writes have ended or failed.
    #[cfg(test)]
    pub(super) fn hear_of_writes(&self, cpu: Cpu<'_>) {
        self.hands.keep.hear_of_writes(cpu);
    }

    fn wants_kswapd(&self, cpu: Cpu<'_>) -> bool {
        self.background.is_some_and(|background| background.wants(cpu.id(), cpu.now()))
    }
}
