//! The context of a workload's body: an allocator, a world, and counters.

use framewright::{MigrateType, Order, Request};
use std::fmt;

use super::{
    counts::CpuCounters,
    heat::{CpuHeat, Hotness},
    world::{Allocator, Frames, Overwritten, Task, World},
};

/// Frames that a kernel frees in one batch after it has unmapped them: the capacity of a page of its
/// gather list.
pub(crate) const GATHER: u32 = 506;
/// Pages that are added to the LRU lists in one batch.
const LRU_BATCH: u32 = 15;
/// Pages that one page table maps.
pub(crate) const PAGES_PER_TABLE: u32 = 512;

pub(crate) const PAGE: Request = Request::new(Order::ZERO, MigrateType::Movable).zeroed();
pub(crate) const TABLE: Request = Request::new(Order::ZERO, MigrateType::Unmovable).zeroed();

/// The value that `owner` writes into a page: unique to the owner, and never zero.
pub(crate) fn value_of<B: Frames>(owner: u64, block: &B) -> u64 {
    (owner + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (block.pfn().get() << 1) | 1
}

/// The reason why a CPU stopped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Stopped {
    OutOfMemory(String),
    NotCleared(u64),
    Overwritten(Overwritten),
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfMemory(why) => f.write_str(why),
            Self::NotCleared(pfn) => write!(f, "frame {pfn:#x} was not cleared"),
            Self::Overwritten(overwritten) => overwritten.fmt(f),
        }
    }
}

/// One CPU.
pub(crate) struct Cpu<'t, A, W> {
    pub(crate) number: u16,
    /// CPUs of the machine.
    pub(crate) of: u16,
    pub(crate) allocator: A,
    pub(crate) world: W,
    pub(crate) counters: &'t CpuCounters,
    /// The observer of cache heat, if there is one.
    pub(crate) heat: Option<CpuHeat<'t>>,
}

impl<A: Allocator, W: World<A::Block>> Cpu<'_, A, W> {
    /// Whether the CPU is to start another round.
    pub(crate) fn continues(&mut self) -> bool {
        self.world.continues()
    }

    /// Whether the CPU is to stop and free its frames, in the middle of a round.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.world.is_over()
    }

    #[inline]
    pub(crate) fn perform(&self, task: Task) {
        self.world.perform(task);
    }

    /// Allocates a block.
    #[inline(always)]
    pub(crate) fn alloc(&mut self, request: Request) -> Result<A::Block, Stopped> {
        let block = self.take(request)?;
        if self.heat.is_some() {
            self.count_heat(&block, self.hotness(&block));
        }
        Ok(block)
    }

    /// Allocates a block, without checking its heat.
    #[inline(always)]
    fn take(&mut self, request: Request) -> Result<A::Block, Stopped> {
        let since = self.world.now();
        let block = self.allocator.alloc(request).map_err(Stopped::OutOfMemory);
        self.counters.longest.raise(self.world.now() - since);
        block
    }

    /// Counts the heat of an allocated block.
    fn count_heat(&self, block: &A::Block, Hotness { hot, warm }: Hotness) {
        self.counters.checked.add(block.order().frames());
        self.counters.hot.add(u64::from(hot));
        self.counters.warm.add(u64::from(warm));
    }

    /// A fault on page `nth` of a process's mapping: allocates a cleared frame, and writes its
    /// value into it.
    #[inline(always)]
    pub(crate) fn fault(
        &mut self,
        nth: u32,
        value_of: impl Fn(&A::Block) -> u64,
    ) -> Result<A::Block, Stopped> {
        self.perform(Task::Fault);
        let mut block = self.take(PAGE)?;
        let cleared = self.world.is_cleared(&block);
        let value = value_of(&block);
        if let Some(heat) = &self.heat {
            self.count_heat(&block, heat.touch_frame(block.pfn().get()));
        }
        self.world.touch(&mut block, value);
        if (nth + 1).is_multiple_of(LRU_BATCH) {
            self.perform(Task::LruAdd(LRU_BATCH));
        }
        self.counters.pages.add(1);
        if cleared {
            return Ok(block);
        }
        let pfn = block.pfn().get();
        self.allocator.free(block);
        Err(Stopped::NotCleared(pfn))
    }

    /// Unmaps the pages in the slots, verifies that they have the values of `value_of`, and frees
    /// them all, even after an error. Returns the first error.
    pub(crate) fn unmap(
        &mut self,
        pages: &mut [Option<A::Block>],
        value_of: impl Fn(&A::Block) -> u64,
    ) -> Result<(), Stopped> {
        let mut result = Ok(());
        for batch in pages.chunks_mut(GATHER as usize) {
            for block in batch.iter().flatten() {
                let verified = self.world.verify(block, value_of(block));
                result = result.and(verified.map_err(Stopped::Overwritten));
            }
            self.perform(Task::Unmap(batch.len() as u32));
            self.allocator.free_batch(batch);
        }
        result
    }

    /// Copies a message into a block.
    pub(crate) fn copy_in(&mut self, block: &mut A::Block, value: u64) {
        let hot = self.touch_frames(block).hot;
        self.world.copy_in(block, value, hot);
    }

    /// Copies a message out of a block.
    pub(crate) fn copy_out(&mut self, block: &A::Block, value: u64) -> Result<(), Stopped> {
        let hot = self.touch_frames(block).hot;
        self.world.copy_out(block, value, hot).map_err(Stopped::Overwritten)
    }

    fn hotness(&self, block: &A::Block) -> Hotness {
        let of = |heat: CpuHeat<'_>| heat.of(block.pfn().get(), block.order().frames());
        self.heat.map(of).unwrap_or_default()
    }

    /// Records a touch of all frames of a block. Returns their heat before the touch.
    #[inline]
    fn touch_frames(&self, block: &A::Block) -> Hotness {
        let touch = |heat: CpuHeat<'_>| heat.touch(block.pfn().get(), block.order().frames());
        self.heat.map(touch).unwrap_or_default()
    }
}
