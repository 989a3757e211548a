//! A simulated CPU's side of the seam: tasks are charged, and frames hold what is expected.

use framewright_sim::{engine::Cpu, machine::Costs};

use super::stopwatch::Stopwatch;
use crate::workloads::{
    allocator::Frames,
    world::{Overwritten, Task, World},
};

/// Cache lines of a frame.
const FRAME_LINES: u32 = 64;

/// The world of one CPU.
pub(super) struct SimWorld<'s> {
    /// None before and after the run: nothing is charged then, and nothing ends.
    pub(super) cpu: Option<Cpu<'s>>,
    pub(super) watch: &'s Stopwatch<'s>,
    pub(super) costs: &'s Costs,
}

impl SimWorld<'_> {
    #[inline]
    fn charge(&self, cycles: u64) {
        if let Some(cpu) = self.cpu {
            cpu.work(cycles);
        }
    }

    /// Copying so many frames, `hot` of which are in the cache.
    fn copy(&self, frames: u64, hot: u32) {
        let hot = u64::from(hot).min(frames);
        self.charge(hot * self.costs.fault.copy_hot + (frames - hot) * self.costs.fault.copy);
        if let Some(cpu) = self.cpu {
            // What is copied from, or to, is the program's own and passes through the cache too.
            cpu.pollute(2 * FRAME_LINES * frames as u32);
        }
    }
}

impl<B: Frames> World<B> for SimWorld<'_> {
    fn goes_on(&mut self) -> bool {
        !World::<B>::is_over(self)
    }

    #[inline]
    fn is_over(&self) -> bool {
        self.cpu.is_some_and(|cpu| self.watch.look(cpu.now()))
    }

    #[inline]
    fn now(&self) -> u64 {
        self.cpu.map_or(0, |cpu| {
            let cycles = u128::from(cpu.now());
            (cycles * u128::from(cpu.model().nanos_per_1000_cycles) / 1000) as u64
        })
    }

    #[inline]
    fn does(&self, task: Task) {
        let fault = &self.costs.fault;
        self.charge(match task {
            Task::Fault => fault.service,
            Task::LruAdd(pages) => fault.lru_add * u64::from(pages),
            Task::Unmap(pages) => fault.unmap * u64::from(pages),
            Task::Compute(cycles) => cycles,
        });
    }

    #[inline]
    fn is_cleared(&self, _block: &B) -> bool {
        true
    }

    #[inline]
    fn touch(&self, _block: &mut B, _value: u64) {}

    #[inline]
    fn verify(&self, _block: &B, _value: u64) -> Result<(), Overwritten> {
        Ok(())
    }

    fn copy_in(&self, block: &mut B, _value: u64, hot: u32) {
        self.copy(block.order().frames(), hot);
    }

    fn copy_out(&self, block: &B, _value: u64, hot: u32) -> Result<(), Overwritten> {
        self.copy(block.order().frames(), hot);
        Ok(())
    }
}
