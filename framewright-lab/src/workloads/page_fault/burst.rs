//! The body: what one CPU does, on any machine.

use super::{FreeOrder, PageFault};
use crate::workloads::{
    allocator::{Allocator, Frames},
    cpu::{Cpu, GATHER, PAGES_PER_TABLE, Stopped, TABLE},
    world::World,
};

/// Up and down until the machine says that it is enough.
pub(crate) fn run<A: Allocator, W: World<A::Block>>(
    work: &PageFault,
    cpu: &mut Cpu<'_, A, W>,
) -> Result<(), Stopped> {
    let mut bursts = Bursts::new(work, cpu.number);
    while cpu.goes_on() {
        bursts.cycle(cpu)?;
    }
    Ok(())
}

/// One CPU's bursts.
pub(super) struct Bursts<'w, B> {
    work: &'w PageFault,
    pages: Vec<Option<B>>,
    tables: Vec<Option<B>>,
    random: fastrand::Rng,
    /// What pages are touched with is made from it: never the same twice for a frame, nor another
    /// CPU's.
    cycle: u64,
}

impl<'w, B: Frames + Send> Bursts<'w, B> {
    /// The bursts of CPU `cpu`.
    pub(super) fn new(work: &'w PageFault, cpu: u16) -> Self {
        Self {
            work,
            pages: Vec::with_capacity(work.frames as usize),
            tables: Vec::new(),
            random: fastrand::Rng::with_seed(work.seed ^ (u64::from(cpu) << 32)),
            cycle: u64::from(cpu) << 32,
        }
    }

    /// Up and down once. Whatever stops it, all frames are free again when it returns.
    pub(super) fn cycle<A, W>(&mut self, cpu: &mut Cpu<'_, A, W>) -> Result<(), Stopped>
    where
        A: Allocator<Block = B>,
        W: World<B>,
    {
        let up = self.up(cpu);
        let down = self.down(cpu);
        up.and(down)
    }

    pub(super) fn up<A, W>(&mut self, cpu: &mut Cpu<'_, A, W>) -> Result<(), Stopped>
    where
        A: Allocator<Block = B>,
        W: World<B>,
    {
        self.cycle += 1;
        for page in 0..self.work.frames {
            if cpu.is_over() {
                break;
            }
            if page % PAGES_PER_TABLE == 0 {
                self.tables.push(Some(cpu.alloc(TABLE)?));
            }
            let block = cpu.fault(page, |block| value_of(self.cycle, block))?;
            self.pages.push(Some(block));
        }
        Ok(())
    }

    /// Verifies and frees everything, whatever it finds. The first that is wrong is told.
    pub(super) fn down<A, W>(&mut self, cpu: &mut Cpu<'_, A, W>) -> Result<(), Stopped>
    where
        A: Allocator<Block = B>,
        W: World<B>,
    {
        if self.work.free_order == FreeOrder::Random {
            self.random.shuffle(&mut self.pages);
        }
        let result = cpu.unmap(&mut self.pages, |block| value_of(self.cycle, block));
        self.pages.clear();
        for tables in self.tables.chunks_mut(GATHER as usize) {
            cpu.allocator.free_batch(tables);
        }
        self.tables.clear();
        result
    }
}

/// What a page is touched with in a CPU's cycle.
fn value_of<B: Frames>(cycle: u64, block: &B) -> u64 {
    // Odd, so that no frame's value is zero in any cycle.
    (cycle + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (block.pfn().get() << 1) | 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::{
        allocator::Library,
        host::{HostWorld, Limit, Pace},
        tally::{Done, Tally},
        world::Overwritten,
    };
    use framewright::{Config, CpuId, Layout, Memory};
    use framewright_host::{HostMachine, Metadata};
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    #[test]
    fn a_frame_that_somebody_else_writes_to_is_noticed_and_all_are_freed() {
        let machine = HostMachine::builder().frames(4096).build().unwrap();
        let map = [machine.frames().into()];
        let config = Config::new(&map, 1);
        let mut buffer =
            Metadata::for_layout(&Layout::new::<HostMachine>(&config).unwrap()).unwrap();
        let memory = Memory::new(machine, &config, buffer.as_mut()).unwrap();
        let (tallies, stop) = ([Tally::default()], AtomicBool::new(false));
        let mut cpu = Cpu {
            number: 0,
            of: 1,
            allocator: Library(memory.cpu(CpuId::new(0)).unwrap()),
            world: HostWorld::new(memory.platform(), Pace::new(Limit::Cycles(2)), &stop),
            tally: &tallies[0],
            heat: None,
        };
        let work = PageFault { frames: 1100, ..PageFault::new(1) };
        let mut bursts = Bursts::new(&work, 0);

        bursts.up(&mut cpu).unwrap();
        assert_eq!((bursts.pages.len(), bursts.tables.len()), (1100, 3));
        let victim = bursts.pages[700].as_ref().unwrap();
        let (pfn, expected) = (victim.pfn(), value_of(bursts.cycle, victim));
        memory.platform().words(victim)[511].store(77, Relaxed);

        let overwritten = Overwritten { pfn, found: 77, expected };
        assert_eq!(bursts.down(&mut cpu), Err(Stopped::Overwritten(overwritten)));
        assert_eq!(bursts.cycle(&mut cpu), Ok(()));
        assert_eq!(Done::sum(&tallies).pages, 2200);
        cpu.allocator.0.drain();
        assert_eq!(memory.free(), 4096);
    }
}
