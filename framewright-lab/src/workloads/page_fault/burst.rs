//! The body: what one CPU does, on any machine.

use framewright::{AllocError, Block, CpuToken, MigrateType, Order, Request};
use std::fmt;

use super::{FreeOrder, PageFault};
use crate::workloads::{Contents, Overwritten};

const PAGE: Request = Request::new(Order::ZERO, MigrateType::Movable).zeroed();
const TABLE: Request = Request::new(Order::ZERO, MigrateType::Unmovable).zeroed();

/// What stopped a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stopped {
    OutOfMemory(AllocError),
    NotCleared(u64),
    Overwritten(Overwritten),
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stopped::OutOfMemory(error) => error.fmt(f),
            Stopped::NotCleared(pfn) => write!(f, "frame {pfn:#x} was not cleared"),
            Stopped::Overwritten(overwritten) => overwritten.fmt(f),
        }
    }
}

/// One CPU's bursts.
pub(super) struct Bursts<'w, 'm> {
    work: &'w PageFault,
    pages: Vec<Option<Mapped<'m>>>,
    tables: Vec<Option<Block<'m>>>,
    /// Where freed pages go to be freed at once.
    gathered: Vec<Option<Block<'m>>>,
    random: fastrand::Rng,
    /// What the next page is touched with: never the same twice, nor another CPU's.
    next_value: u64,
}

/// A page, and what it was touched with.
struct Mapped<'m> {
    block: Block<'m>,
    value: u64,
}

impl<'w, 'm> Bursts<'w, 'm> {
    /// The bursts of CPU `cpu`.
    pub(super) fn new(work: &'w PageFault, cpu: u16) -> Self {
        Self {
            work,
            pages: Vec::with_capacity(work.frames as usize),
            tables: Vec::new(),
            gathered: Vec::with_capacity(work.gather as usize),
            random: fastrand::Rng::with_seed(work.seed ^ u64::from(cpu) << 32),
            next_value: (u64::from(cpu) + 1) << 48,
        }
    }

    /// Up and down once. Returns the pages touched. Whatever stops it, all frames are free again
    /// when it returns.
    pub(super) fn cycle<P: Contents>(
        &mut self,
        cpu: &mut CpuToken<'_, 'm, P>,
    ) -> Result<u64, Stopped> {
        let up = self.up(cpu);
        let pages = self.pages.len() as u64;
        let down = self.down(cpu);
        up.and(down).map(|()| pages)
    }

    fn up<P: Contents>(&mut self, cpu: &mut CpuToken<'_, 'm, P>) -> Result<(), Stopped> {
        for page in 0..self.work.frames {
            if page % self.work.frames_per_table == 0 {
                let table = cpu.alloc(TABLE).map_err(Stopped::OutOfMemory)?;
                self.tables.push(Some(table));
            }
            let mut block = cpu.alloc(PAGE).map_err(Stopped::OutOfMemory)?;
            let machine = cpu.memory().platform();
            let cleared = machine.is_cleared(&block);
            let (pfn, value) = (block.pfn(), self.next_value);
            self.next_value += 1;
            machine.touch_block(&mut block, value);
            self.pages.push(Some(Mapped { block, value }));
            if !cleared {
                return Err(Stopped::NotCleared(pfn.get()));
            }
        }
        Ok(())
    }

    /// Verifies and frees everything, whatever it finds. The first that is wrong is told.
    fn down<P: Contents>(&mut self, cpu: &mut CpuToken<'_, 'm, P>) -> Result<(), Stopped> {
        if self.work.free_order == FreeOrder::Random {
            self.random.shuffle(&mut self.pages);
        }
        let mut result = Ok(());
        for chunk in self.pages.chunks_mut(self.work.gather as usize) {
            for Mapped { block, value } in chunk.iter_mut().filter_map(Option::take) {
                let verified = cpu.memory().platform().verify(&block, value);
                result = result.and(verified.map_err(Stopped::Overwritten));
                self.gathered.push(Some(block));
            }
            cpu.free_bulk(&mut self.gathered);
            self.gathered.clear();
        }
        self.pages.clear();
        cpu.free_bulk(&mut self.tables);
        self.tables.clear();
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use framewright::{Config, CpuId, Layout, Memory};
    use framewright_host::{HostMachine, Metadata};
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn a_frame_that_somebody_else_writes_to_is_noticed_and_all_are_freed() {
        let machine = HostMachine::builder().frames(4096).build().unwrap();
        let map = [machine.frames().into()];
        let config = Config::new(&map, 1);
        let mut buffer =
            Metadata::for_layout(&Layout::new::<HostMachine>(&config).unwrap()).unwrap();
        let memory = Memory::new(machine, &config, buffer.as_mut()).unwrap();
        let mut cpu = memory.cpu(CpuId::new(0)).unwrap();
        let work = PageFault { frames: 1100, ..PageFault::full(1) };
        let mut bursts = Bursts::new(&work, 0);

        bursts.up(&mut cpu).unwrap();
        assert_eq!((bursts.pages.len(), bursts.tables.len()), (1100, 3));
        let victim = bursts.pages[700].as_ref().unwrap();
        let (pfn, expected) = (victim.block.pfn(), victim.value);
        memory.platform().words(&victim.block)[511].store(77, Relaxed);

        let overwritten = Overwritten { pfn, found: 77, expected };
        assert_eq!(bursts.down(&mut cpu), Err(Stopped::Overwritten(overwritten)));
        assert_eq!(bursts.cycle(&mut cpu), Ok(1100));
        cpu.drain();
        assert_eq!(memory.free(), 4096);
    }
}
