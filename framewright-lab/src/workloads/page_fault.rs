//! `page-fault`: each CPU allocates and touches many frames, then frees all of them, repeatedly.
//!
//! This is the allocator's part of the benchmark page_fault1 of will-it-scale. Each of its tasks
//! maps 128 MiB, writes to each page in ascending order, unmaps everything, and starts over. Each
//! CPU alternates between two phases:
//!
//! * *up*: it allocates 32,768 single movable frames, zeroed, and writes a different value into
//!   each. Before every 512 of them it allocates a zeroed unmovable frame: the page table that maps
//!   them.
//! * *down*: it verifies and frees the frames in the order in which they were mapped, or in random
//!   order, in batches of 506, the capacity of a page of Linux's gather list. Then it frees the page
//!   tables.
//!
//! A phase has only allocations or only frees. The lists of a CPU therefore run empty in each phase
//! *up* and overflow in each phase *down*, at any average rate. Memory is never short.

use crate::choice::choice;
use framewright_sim::host_memory::{in_huge_pages, prefetch};
use framewright_workloads::page_fault::BURST;

use super::{
    cpu::{Cpu, GATHER, PAGES_PER_TABLE, Stopped, TABLE, value_of},
    world::{Allocator, Task, World},
};

/// The work of each CPU.
#[derive(Clone, Debug)]
pub struct PageFault {
    /// Frames of a burst.
    pub frames: u32,
    /// The order of frees.
    pub free_order: FreeOrder,
    /// Seed of random free orders.
    pub seed: u64,
    /// Whether the CPUs are threads of one process. Unmapping then flushes the TLBs of all. Only
    /// simulated machines do this.
    pub threads: bool,
}

choice! {
    /// The order of frees.
    pub enum FreeOrder {
        /// In the order of mapping
        #[default]
        Mapping = "mapping",
        /// At random
        Random = "random",
    }
}

impl PageFault {
    /// Bursts of 128 MiB, freed in the order of mapping.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { frames: BURST, free_order: FreeOrder::default(), seed, threads: false }
    }

    /// Frames that `cpus` CPUs hold together at the top of their bursts.
    #[must_use]
    pub fn live_frames(&self, cpus: u16) -> u64 {
        let tables = self.frames.div_ceil(PAGES_PER_TABLE);
        u64::from(cpus) * u64::from(self.frames + tables)
    }

    pub(super) fn lacks(&self) -> Option<&'static str> {
        (self.frames == 0).then_some("frame to touch")
    }
}

/// Whole cycles that every CPU runs before the clock starts (*ageing*). The free lists of new
/// memory are in address order. They lose this order with time, and so do the frames of a process.
const WHOLE_CYCLES: u64 = 1;
/// During ageing, runs of this number of neighbouring pages are freed in random order. One such
/// cycle affects the contention of the zone lock as much as some thirty cycles in which 112 CPUs
/// free in mapping order.
const RUN: usize = 8;
/// Frames that a CPU allocates or frees during ageing before the next CPU continues: about the
/// number that one hold of the zone lock moves.
const TURN: core::ops::Range<u64> = 16..64;
/// The number of slots of [`Bursts`] to prefetch ahead: with many simulated CPUs, the next slots
/// are not in the host's cache.
const PREFETCH_AHEAD: usize = 8;
/// Pages that a process unmaps with one flush of the TLBs of its other threads: nineteen gathered
/// batches, the number after which Linux flushes and frees.
const FLUSH: usize = 19 * GATHER as usize;

/// One CPU's bursts.
pub(crate) struct Bursts<'w, A: Allocator> {
    work: &'w PageFault,
    /// Mapped pages; in the phase *down*, freed pages leave empty slots.
    pages: Vec<Option<A::Block>>,
    /// The number of empty slots: 0 in the phase *up*.
    freed: usize,
    tables: Vec<Option<A::Block>>,
    random: fastrand::Rng,
    /// The number of the cycle, different on each CPU. It determines the values in pages: a frame
    /// never gets the same value twice.
    cycle: u64,
    /// Pages left to allocate or free during ageing.
    to_age: u64,
}

impl<'w, A: Allocator> Bursts<'w, A> {
    /// The bursts of CPU `cpu`.
    pub(crate) fn new(work: &'w PageFault, cpu: u16) -> Self {
        let mut random = fastrand::Rng::with_seed(work.seed ^ (u64::from(cpu) << 32));
        // A random position in a cycle.
        let frames = u64::from(work.frames.max(1));
        let phase = random.u64(..2 * frames);
        let mut pages = Vec::with_capacity(work.frames as usize);
        in_huge_pages(pages.spare_capacity_mut());
        Self {
            work,
            pages,
            freed: 0,
            tables: Vec::new(),
            random,
            cycle: u64::from(cpu) << 32,
            to_age: 2 * frames * WHOLE_CYCLES + phase,
        }
    }

    /// Allocates and frees bursts until the machine ends the run.
    pub(crate) fn work<W: World<A::Block>>(
        &mut self,
        cpu: &mut Cpu<'_, A, W>,
    ) -> Result<(), Stopped> {
        while !cpu.is_over() && (!self.pages.is_empty() || cpu.continues()) {
            self.step(cpu, GATHER as usize)?;
        }
        Ok(())
    }

    /// Does a part of the ageing: work before the clock starts, which scatters free memory and the
    /// phases of CPUs. Returns whether ageing continues.
    pub(crate) fn age<W: World<A::Block>>(
        &mut self,
        cpu: &mut Cpu<'_, A, W>,
    ) -> Result<bool, Stopped> {
        let some = self.random.u64(TURN).min(self.to_age);
        let mut left = some;
        while left > 0 {
            left -= self.step(cpu, left as usize)?.min(left);
        }
        self.to_age -= some;
        Ok(self.to_age > 0)
    }

    /// Verifies and frees everything, even after an error. Returns the first error.
    pub(crate) fn free_all<W: World<A::Block>>(
        &mut self,
        cpu: &mut Cpu<'_, A, W>,
    ) -> Result<(), Stopped> {
        let mut result = Ok(());
        while !self.pages.is_empty() || !self.tables.is_empty() {
            result = result.and(self.down(cpu, GATHER as usize).map(drop));
        }
        result
    }

    /// Allocates one page, or frees a batch of at most `batch` pages. Returns the number of pages.
    #[inline(always)]
    fn step<W: World<A::Block>>(
        &mut self,
        cpu: &mut Cpu<'_, A, W>,
        batch: usize,
    ) -> Result<u64, Stopped> {
        match self.freed == 0 && self.pages.len() < self.work.frames as usize {
            true => self.up(cpu).map(|()| 1),
            false => self.down(cpu, batch),
        }
    }

    /// Maps one more page.
    #[inline(always)]
    fn up<W: World<A::Block>>(&mut self, cpu: &mut Cpu<'_, A, W>) -> Result<(), Stopped> {
        let page = self.pages.len() as u32;
        if page == 0 {
            self.cycle += 1;
        }
        if page.is_multiple_of(PAGES_PER_TABLE) {
            self.tables.push(Some(cpu.alloc(TABLE)?));
        }
        let block = cpu.fault(page, |block| value_of(self.cycle, block))?;
        self.pages.push(Some(block));
        if let Some(slot) = self.pages.spare_capacity_mut().get(PREFETCH_AHEAD) {
            prefetch(slot);
        }
        Ok(())
    }

    /// Shuffles the pages, but keeps runs of neighbours together.
    fn shuffle_runs(&mut self) {
        for last in (1..self.pages.len() / RUN).rev() {
            let other = self.random.usize(..=last);
            if other < last {
                let (before, after) = self.pages.split_at_mut(last * RUN);
                before[other * RUN..(other + 1) * RUN].swap_with_slice(&mut after[..RUN]);
            }
        }
    }

    /// Unmaps the next batch of at most `batch` pages; after the last page, also the page tables.
    #[inline(never)]
    fn down<W: World<A::Block>>(
        &mut self,
        cpu: &mut Cpu<'_, A, W>,
        batch: usize,
    ) -> Result<u64, Stopped> {
        if self.freed == 0 {
            match self.work.free_order {
                FreeOrder::Random => self.random.shuffle(&mut self.pages),
                FreeOrder::Mapping if self.to_age > 0 => self.shuffle_runs(),
                FreeOrder::Mapping => {}
            }
        }
        let end = self.pages.len().min(self.freed + batch);
        let pages = &mut self.pages[self.freed..end];
        let count = pages.len() as u64;
        let result = cpu.unmap(pages, |block| value_of(self.cycle, block));
        let flushes = end / FLUSH > self.freed / FLUSH || end == self.pages.len();
        if self.work.threads && flushes && count > 0 {
            cpu.perform(Task::Shootdown { cpus: cpu.of });
        }
        self.freed = end;
        if end == self.pages.len() {
            cpu.allocator.free_batch(&mut self.tables);
            self.tables.clear();
            self.pages.clear();
            self.freed = 0;
        }
        result.map(|()| count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::{
        counts::{CpuCounters, Done},
        host::{HostWorld, Limit, Pace},
        world::{Library, Overwritten},
    };
    use framewright::{Config, CpuId, Layout, Memory};
    use framewright_host::{HostMachine, Metadata};
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    #[test]
    fn a_stray_write_to_a_frame_is_detected_and_all_are_freed() {
        let machine = HostMachine::builder().frames(4096).build().unwrap();
        let map = [machine.frames().into()];
        let config = Config::new(&map, 1);
        let mut buffer =
            Metadata::for_layout(&Layout::new::<HostMachine>(&config).unwrap()).unwrap();
        let memory = Memory::new(machine, &config, buffer.as_mut()).unwrap();
        let (counters, stop) = ([CpuCounters::default()], AtomicBool::new(false));
        let mut cpu = Cpu {
            number: 0,
            of: 1,
            allocator: Library(memory.cpu(CpuId::new(0)).unwrap()),
            world: HostWorld::new(memory.platform(), Pace::new(Limit::Cycles(2)), &stop),
            counters: &counters[0],
            heat: None,
        };
        let work = PageFault { frames: 1100, ..PageFault::new(1) };
        let mut bursts = Bursts::new(&work, 0);

        (0..1100).for_each(|_| assert_eq!(bursts.step(&mut cpu, 1), Ok(1)));
        assert_eq!((bursts.pages.len(), bursts.tables.len()), (1100, 3));
        let page = bursts.pages[700].as_ref().unwrap();
        let (pfn, expected) = (page.pfn(), value_of(bursts.cycle, page));
        memory.platform().words(page)[511].store(77, Relaxed);

        let overwritten = Overwritten { pfn, found: 77, expected };
        assert_eq!(bursts.free_all(&mut cpu), Err(Stopped::Overwritten(overwritten)));
        assert_eq!(bursts.work(&mut cpu), Ok(()));
        assert_eq!(Done::sum(&counters).pages, 3 * 1100);
        assert_eq!(bursts.free_all(&mut cpu), Ok(()));
        cpu.allocator.0.drain();
        assert_eq!(memory.free(), 4096);
    }

    #[test]
    fn ageing_ends_at_a_random_point_of_a_cycle() {
        let work = PageFault { frames: 1000, ..PageFault::new(1) };
        let phases: Vec<u64> = (0..50)
            .map(|cpu| Bursts::<Library<'_, '_, HostMachine>>::new(&work, cpu).to_age)
            .collect();
        assert!(phases.iter().all(|steps| (2000..4000).contains(steps)), "{phases:?}");
        assert!(phases.iter().any(|steps| *steps < 3000));
        assert!(phases.iter().any(|steps| *steps > 3000));
    }
}
