//! A memory and the tokens of all its CPUs.

use framewright::{Block, CpuId, CpuToken, Memory, MigrateType, Order, Pfn, Request, ZoneId};

use super::error::ReplayError;
use super::plan::ZonePlan;
use super::serial::Serial;

/// All CPUs of one memory, in one hand.
pub(super) struct Machine<'a, 'm> {
    memory: &'a Memory<'m, Serial>,
    cpus: Vec<CpuToken<'a, 'm, Serial>>,
}

impl<'a, 'm> Machine<'a, 'm> {
    /// Claims CPUs 0 to `cpus` of `memory`.
    pub(super) fn new(memory: &'a Memory<'m, Serial>, cpus: u16) -> Result<Self, ReplayError> {
        let claimed: Result<Vec<_>, _> = (0..cpus).map(|cpu| memory.cpu(CpuId::new(cpu))).collect();
        match claimed {
            Ok(cpus) => Ok(Self { memory, cpus }),
            Err(error) => Err(ReplayError::Setup {
                frames: memory.managed(),
                cpus,
                reason: error.to_string(),
            }),
        }
    }

    /// The memory.
    pub(super) fn memory(&self) -> &'a Memory<'m, Serial> {
        self.memory
    }

    /// How many CPUs there are.
    pub(super) fn cpus(&self) -> u16 {
        self.cpus.len() as u16
    }

    /// Frames in use: managed, neither free nor on a CPU's list.
    pub(super) fn in_use(&self) -> u64 {
        self.memory.managed() - self.memory.free() - self.memory.held_by_cpus()
    }

    /// Our zone for a planned one.
    pub(super) fn id_of(&self, zone: &ZonePlan) -> Option<ZoneId> {
        let mut zones = self.memory.zones();
        zones.find(|of| (of.node, of.kind) == (zone.node, zone.kind)).map(|of| of.id)
    }

    /// Allocates exactly this block, if it is free in its zone.
    pub(super) fn alloc_at(
        &mut self,
        pfn: Pfn,
        order: Order,
        of: MigrateType,
    ) -> Option<Block<'m>> {
        self.cpus[0].alloc_at(pfn, order, of).ok()
    }

    /// Allocates on `cpu`.
    pub(super) fn alloc(&mut self, cpu: u16, request: Request) -> Option<Block<'m>> {
        self.cpus[usize::from(cpu)].alloc(request).ok()
    }

    /// Frees on `cpu`.
    pub(super) fn free(&mut self, cpu: u16, block: Block<'m>) {
        let freed = self.cpus[usize::from(cpu)].free(block);
        debug_assert!(freed.is_ok(), "the block came from this memory");
    }

    /// Halves a block of at least order 1.
    pub(super) fn split(&mut self, block: Block<'m>) -> (Block<'m>, Block<'m>) {
        match self.cpus[0].split(block) {
            Ok(halves) => halves,
            Err(block) => unreachable!("a block of order {} has halves", block.order()),
        }
    }

    /// Gives everything on `cpu`'s lists back to the zone.
    pub(super) fn drain(&mut self, cpu: u16) {
        self.cpus[usize::from(cpu)].drain();
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::mem::MaybeUninit;

    use framewright::{Config, FrameRange, Layout, Pfn};

    use super::*;

    /// Runs `f` on a machine of one CPU and so many pageblocks.
    pub(in crate::replay) fn with_machine(pageblocks: u64, f: impl FnOnce(&mut Machine<'_, '_>)) {
        let range = FrameRange::new(Pfn::new(0), Pfn::new(pageblocks << 9)).unwrap();
        let ranges = [range.into()];
        let config = Config::new(&ranges, 1);
        let layout = Layout::new::<Serial>(&config).unwrap();
        let mut buffer = vec![MaybeUninit::uninit(); layout.bytes() + layout.align()];
        let skip = buffer.as_ptr().align_offset(layout.align());
        let memory = Memory::new(Serial::default(), &config, &mut buffer[skip..]).unwrap();
        f(&mut Machine::new(&memory, 1).unwrap());
        memory.check().unwrap();
    }
}
