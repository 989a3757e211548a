//! The environment of scenarios with flush batches: frames come from a stack, and the library
//! flushes.
//!
//! Only the TLB part of the library's memory is used. A stack reuses frames at once, on any CPU,
//! which exposes most stale accesses.

use std::cell::RefCell;

use framewright::{
    Block, Config, FrameRange, Layout, Memory, MemoryRange, MigrateType, Order, Pfn, Request,
    tlb::{BatchSlot, Blocks, FlushBatch, Flusher},
    tuning::{Auto, TlbTuning},
};

use super::{Verdict, world::World};
use crate::{
    engine::{Cpu, Machine},
    platform::{MetadataBuffer, Settings, Simulated},
    process::{FrameSource, Process, Shooter},
};

/// Frames of the memory: more than the stack of any scenario has.
const FRAMES: u64 = 512;

/// The environment of one run.
pub(super) struct Environment<'l, 'm> {
    pub(super) world: &'l World,
    pub(super) memory: &'l Memory<'m, Simulated>,
    pub(super) shooter: Shooter<'l, 'm>,
    /// The blocks of all frames of the memory, by number, except those in flush batches.
    blocks: RefCell<Vec<Option<Block<'m>>>>,
}

impl<'m> Environment<'_, 'm> {
    pub(super) fn flusher(&self, cpu: Cpu<'_>) -> Flusher<'_, 'm, Simulated> {
        self.shooter.flusher(cpu)
    }

    /// Loads a process on `cpu`.
    pub(super) fn run_on(&self, cpu: Cpu<'_>, process: &Process) {
        self.shooter.run_on(cpu, process);
    }

    /// Adds a frame to a flush batch.
    pub(super) fn retire(&self, batch: &mut FlushBatch<'_, 'm, Simulated>, frame: u32) {
        let block = self.blocks.borrow_mut()[frame as usize].take();
        batch.retire(block.expect("it has one owner")).expect("a batch that is large enough");
    }

    /// Frees the frames that a flush batch returns.
    pub(super) fn free_blocks(&self, cpu: Cpu<'_>, flushed: Blocks<'_, 'm, Simulated>) {
        let mut frames = Vec::new();
        for block in flushed {
            frames.push(block.pfn());
            let at = block.pfn().get() as usize;
            self.blocks.borrow_mut()[at] = Some(block);
        }
        self.free(cpu, &frames);
    }

    /// Frees frames that no CPU can access.
    pub(super) fn free(&self, cpu: Cpu<'_>, frames: &[Pfn]) {
        let frames: Vec<_> = frames.iter().map(|pfn| pfn.get() as u32).collect();
        frames.iter().for_each(|frame| self.world.oracle().freed(cpu, *frame));
        (&self.world.stack).give(cpu, &frames);
    }

    /// The number of frames that wait for a flush.
    pub(super) fn deferred(&self) -> u64 {
        self.memory.tlb().deferred()
    }
}

/// The slots of a flush batch of a scenario.
pub(super) fn slots() -> [BatchSlot; 4] {
    [BatchSlot::default(); 4]
}

/// Runs `body` in an environment with `frames` frames and the TLB settings `tlb`.
pub(super) fn with(
    machine: &Machine,
    frames: u32,
    tlb: TlbTuning,
    body: &dyn for<'l, 'm> Fn(&'l Environment<'l, 'm>) -> Verdict,
) -> Verdict {
    let range = FrameRange::new(Pfn::new(0), Pfn::new(FRAMES)).expect("in order");
    let map = [MemoryRange::from(range)];
    let mut config = Config::new(&map, machine.cpus());
    config.tuning.zone.min_free = Auto::Fixed(0);
    config.tuning.tlb = tlb;
    let mut metadata =
        MetadataBuffer::new(&Layout::new::<Simulated>(&config).expect("a small layout"));
    let platform = Simulated::new(machine, Settings::default());
    let memory = Memory::new(platform, &config, metadata.as_mut()).expect("a small memory");
    let world = World::new(machine, frames);
    let shooter = Shooter::new(&world.mmu, &memory);
    let request = Request::new(Order::ZERO, MigrateType::Movable).no_wait();
    let taken = std::iter::from_fn(|| memory.alloc_bypassing_lists(request).ok());
    let mut blocks: Vec<_> = taken.map(Some).collect();
    blocks.sort_unstable_by_key(|block| block.as_ref().map(Block::pfn));
    assert_eq!(blocks.len() as u64, FRAMES, "frames are missing or in excess");
    body(&Environment { world: &world, memory: &memory, shooter, blocks: RefCell::new(blocks) })
}
