//! `kbuild`: compilers that fork, fault, write an object file, and exit.
//!
//! This is the allocator's part of eight kernel builds in parallel (`make -j 28` in each of eight
//! groups, on 224 CPUs): every CPU runs one compiler after the other. Each of them
//!
//! * *forks*: allocates the order-1 block of its top-level page table (two pages with page-table
//!   isolation) and the tables below it. Mappings shared with the parent, the kernel stack and the
//!   task structure come from caches; the cache of task structures is one order-3 block that the
//!   CPU keeps;
//! * *reads* its source and headers from the page cache, without allocating;
//! * *faults* anonymous pages, log-uniformly distributed between two sizes, and computes for each;
//! * *writes* an object file over an existing one, whose pages are truncated; the new pages stay
//!   until a later compiler overwrites the file;
//! * *exits*: frees its pages in gathered batches, then its page tables, then the order-1 block.
//!
//! The workload tests the free of the order-1 block. It follows a long series of frees on the CPU;
//! a rule that drains the CPU's lists on such a free does so once per exit.
//!
//! Sizes and the time between faults scale the load; the pattern matters more. Compilers are as
//! large as those of a kernel build, 4 to 48 MiB. The time between faults is a fifth of the
//! observed one (12,000 faults per second and builder), so that a short run has many exits.

use framewright::{MigrateType, Order, Request};
use framewright_workloads::compilers::{LEAST_PAGES, MOST_PAGES, OBJECT_PAGES};
use std::collections::VecDeque;

use super::{
    cpu::{Cpu, PAGES_PER_TABLE, Stopped, TABLE, value_of},
    world::{Allocator, Frames, Task, World},
};

/// The work of each CPU.
#[derive(Clone, Debug)]
pub struct Kbuild {
    /// Anonymous pages of the smallest compiler.
    pub least_pages: u32,
    /// Anonymous pages of the largest.
    pub most_pages: u32,
    /// Cycles that a compiler computes for each page.
    pub cycles_per_page: u64,
    /// Cycles of a fork, an exec and an exit, without frames.
    pub cycles_per_process: u64,
    /// Files that each compiler reads from the page cache.
    pub headers: u32,
    /// Object files that a CPU writes before it overwrites the first.
    pub objects: u32,
    /// Seed of all sizes.
    pub seed: u64,
}

impl Kbuild {
    /// Compilers of 4 to 48 MiB.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            least_pages: LEAST_PAGES,
            most_pages: MOST_PAGES,
            cycles_per_page: 20_000,
            cycles_per_process: 500_000,
            headers: 20,
            objects: 8,
            seed,
        }
    }

    /// Frames that `cpus` CPUs hold together at most.
    #[must_use]
    pub fn live_frames(&self, cpus: u16) -> u64 {
        let tables = self.most_pages.div_ceil(PAGES_PER_TABLE) + UPPER_TABLES;
        let objects = (self.objects + 1) * OBJECT_PAGES.end();
        let process = self.most_pages + tables + 2 + objects + 8;
        u64::from(cpus) * u64::from(process)
    }

    pub(super) fn lacks(&self) -> Option<&'static str> {
        (self.least_pages == 0 || self.most_pages < self.least_pages).then_some("page per process")
    }
}

/// Page tables between the top level and those that map pages.
const UPPER_TABLES: u32 = 3;
/// Cycles to open a file of some 11 KB and read it from the page cache.
const READ_CYCLES: u64 = 6_000;

/// The top-level page table, with its second half for page-table isolation.
const PGD: Request = Request::new(ORDER_1, MigrateType::Unmovable).zeroed();
/// A slab of task structures.
const TASKS: Request = Request::new(ORDER_3, MigrateType::Unmovable);
/// A page of a file.
const FILE: Request = Request::new(Order::ZERO, MigrateType::Movable);

const ORDER_1: Order = Order::new(1).expect("1 is an order");
const ORDER_3: Order = Order::new(3).expect("3 is an order");

/// One CPU, with the memory that stays allocated between compilers.
pub(crate) struct Builder<'w, A: Allocator> {
    work: &'w Kbuild,
    /// The slab of task structures, from the first compiler on.
    tasks: Option<A::Block>,
    /// The running compiler.
    process: Option<Process<A::Block>>,
    /// Pages of object files, oldest first.
    objects: VecDeque<Vec<Option<A::Block>>>,
    random: fastrand::Rng,
    /// The source of the values in pages; unique to each compiler.
    compiler: u64,
}

/// The memory of a compiler.
struct Process<B> {
    pgd: B,
    tables: Vec<Option<B>>,
    pages: Vec<Option<B>>,
}

impl<'w, A: Allocator> Builder<'w, A> {
    /// The builder of CPU `cpu`.
    pub(crate) fn new(work: &'w Kbuild, cpu: u16) -> Self {
        Self {
            work,
            tasks: None,
            process: None,
            objects: VecDeque::new(),
            random: fastrand::Rng::with_seed(work.seed ^ (u64::from(cpu) << 32)),
            compiler: u64::from(cpu) << 32,
        }
    }

    /// Runs compilers, one after the other, until the machine ends the run, or one fails.
    pub(crate) fn work<W: World<A::Block>>(
        &mut self,
        cpu: &mut Cpu<'_, A, W>,
    ) -> Result<(), Stopped> {
        self.tasks = Some(cpu.alloc(TASKS)?);
        while cpu.continues() {
            self.fork(cpu)?;
            self.live(cpu)?;
            if cpu.is_over() {
                break;
            }
            self.exit(cpu)?;
            cpu.counters.exits.add(1);
        }
        Ok(())
    }

    /// Verifies and frees everything, even after an error. Returns the first error.
    pub(crate) fn free_all<W: World<A::Block>>(
        &mut self,
        cpu: &mut Cpu<'_, A, W>,
    ) -> Result<(), Stopped> {
        let mut result = self.exit(cpu);
        while !self.objects.is_empty() {
            result = result.and(self.truncate(cpu));
        }
        if let Some(tasks) = self.tasks.take() {
            cpu.allocator.free(tasks);
        }
        result
    }

    fn fork<W: World<A::Block>>(&mut self, cpu: &mut Cpu<'_, A, W>) -> Result<(), Stopped> {
        self.compiler += 1;
        cpu.perform(Task::Compute(self.work.cycles_per_process));
        let process = Process { pgd: cpu.alloc(PGD)?, tables: Vec::new(), pages: Vec::new() };
        let process = self.process.insert(process);
        for _ in 0..UPPER_TABLES {
            process.tables.push(Some(cpu.alloc(TABLE)?));
        }
        Ok(())
    }

    /// The life of the compiler from exec to the end of its object file.
    fn live<W: World<A::Block>>(&mut self, cpu: &mut Cpu<'_, A, W>) -> Result<(), Stopped> {
        cpu.perform(Task::Compute(READ_CYCLES * u64::from(self.work.headers)));
        for page in 0..self.size() {
            if cpu.is_over() {
                return Ok(());
            }
            self.grow(page, cpu)?;
            cpu.perform(Task::Compute(self.work.cycles_per_page));
        }
        self.write(cpu)
    }

    /// The process touches its next page.
    fn grow<W: World<A::Block>>(
        &mut self,
        page: u32,
        cpu: &mut Cpu<'_, A, W>,
    ) -> Result<(), Stopped> {
        let Some(process) = &mut self.process else { return Ok(()) };
        if page.is_multiple_of(PAGES_PER_TABLE) {
            process.tables.push(Some(cpu.alloc(TABLE)?));
        }
        let block = cpu.fault(page, |block| value_of(self.compiler, block))?;
        process.pages.push(Some(block));
        Ok(())
    }

    /// A random number of anonymous pages, log-uniformly distributed: as many compilers have
    /// between 4 and 8 MiB as between 24 and 48.
    fn size(&mut self) -> u32 {
        let (least, most) = (f64::from(self.work.least_pages), f64::from(self.work.most_pages));
        (least * (most / least).powf(self.random.f64())) as u32
    }

    /// Writes an object file; if the CPU has all its object files, truncates the oldest one first.
    fn write<W: World<A::Block>>(&mut self, cpu: &mut Cpu<'_, A, W>) -> Result<(), Stopped> {
        if self.objects.len() >= self.work.objects as usize {
            self.truncate(cpu)?;
        }
        let mut object = Vec::new();
        let pages = self.random.u32(OBJECT_PAGES);
        let result = (0..pages).try_for_each(|_| {
            let mut block = cpu.alloc(FILE)?;
            let value = file_value(&block);
            cpu.copy_in(&mut block, value);
            cpu.counters.pages.add(1);
            object.push(Some(block));
            Ok(())
        });
        cpu.perform(Task::LruAdd(pages));
        self.objects.push_back(object);
        result
    }

    /// Verifies and frees the oldest object file.
    fn truncate<W: World<A::Block>>(&mut self, cpu: &mut Cpu<'_, A, W>) -> Result<(), Stopped> {
        let Some(mut object) = self.objects.pop_front() else { return Ok(()) };
        let mut result = Ok(());
        for block in object.iter().flatten() {
            result = result.and(cpu.copy_out(block, file_value(block)));
        }
        cpu.allocator.free_batch(&mut object);
        result
    }

    fn exit<W: World<A::Block>>(&mut self, cpu: &mut Cpu<'_, A, W>) -> Result<(), Stopped> {
        let Some(mut process) = self.process.take() else { return Ok(()) };
        let result = cpu.unmap(&mut process.pages, |block| value_of(self.compiler, block));
        cpu.allocator.free_batch(&mut process.tables);
        cpu.allocator.free(process.pgd);
        result
    }
}

/// The value in a page of an object file.
fn file_value<B: Frames>(block: &B) -> u64 {
    (block.pfn().get() << 20) | 0xF11E
}
