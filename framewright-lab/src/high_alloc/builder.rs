//! A builder: copies its tree of files, then compiles, one program after the other.
//!
//! This is the load of the port of stress-highalloc to real kernels: a program is forked, reads a
//! source and 40 headers of its tree, uses 4 to 48 MiB of memory, writes an object of 20 to 120
//! KiB, and exits.

use std::collections::VecDeque;

use framewright::{Block, MigrateType, Order};
use framewright_workloads::compilers::{LEAST_PAGES, MOST_PAGES, OBJECT_PAGES, READS};

use super::{
    files::{FileId, Files},
    io::{OutOfMemory, PAGE},
    kernel::CpuContext,
    recorded,
    slab::Kind,
    world::{OnCpu, World},
};

/// Files of a tree for 400 MiB of memory, 12 KiB each on average: 200 MB, as in the port to real
/// kernels.
pub(super) const FILES: u32 = 16_384;
/// Pages of all files of a tree, on average.
pub(super) const TREE_PAGES: u64 = FILES as u64 * 3;
/// One file in this number is a directory or always open.
const PINNED: u32 = 50;
/// One such file in this number has an inode that is never freed, even after the tree is deleted.
/// Running kernels have such objects. The number is fitted. Its effect is small, because one such
/// object is enough to make a pageblock unmovable.
const OUTLIVED: u32 = 5;
/// Maximum number of objects that a builder writes before it overwrites them.
const OBJECTS: u32 = 256;
/// Pages of a program, uniform in the logarithm.
const LEAST: f64 = LEAST_PAGES as f64;
const MOST: f64 = MOST_PAGES as f64;
/// Time of a program per page, in nanoseconds, including the fault and two stores to the page. It
/// is fitted to a measurement: with it, a builder has 12,500 to 12,800 faults per second on every
/// machine, including waits and reads.
pub(super) const FAULT_NS: u64 = 63_500;
/// Faults, or files, per step.
const PER_STEP: u32 = 16;
/// Page tables of a process besides those of its memory.
const TABLES: u32 = 24;
/// Kernel objects of a process.
const OWN: u32 = 40;
/// Number of these objects that stay allocated when the process exits.
const STAY: usize = 2;
/// Number of further programs after which they are freed.
const STAY_FOR: usize = 64;

/// The next work of a builder.
#[derive(Clone, Copy)]
enum Task {
    /// Copy the next file of the tree.
    Copy(u32),
    /// Start a program.
    Fork,
    /// Read this number of further files.
    Read(u32),
    /// Use this number of further pages.
    Fault(u32),
    /// Store to its pages a second time, from this one on.
    Again(u32),
    /// Write an object.
    Write,
}

/// A builder, with its tree and its program.
pub(super) struct Builder<'m> {
    number: u32,
    tree: Vec<FileId>,
    objects: Vec<FileId>,
    next_object: usize,
    task: Task,
    random: fastrand::Rng,
    /// The time before which it does not run, in ticks of the world.
    pub(super) ready: u64,
    blocks: Vec<Block<'m>>,
    slabs: Vec<u32>,
    stayed: VecDeque<u32>,
}

/// The files of a builder.
pub(super) struct Tree {
    pub(super) tree: Vec<FileId>,
    pub(super) objects: Vec<FileId>,
}

impl Tree {
    /// Creates the files; none of their pages is cached yet.
    pub(super) fn new(count: u32, files: &mut Files, random: &mut fastrand::Rng) -> Self {
        let tree: Vec<FileId> = (0..count).map(|_| files.create(pages(random))).collect();
        // The inodes of directories and open files stay in memory.
        for file in &tree {
            files.at(*file).pinned.set(random.u32(..PINNED) == 0);
            let outlived = random.u32(..OUTLIVED) == 0;
            files.at(*file).outlived.set(outlived && files.at(*file).pinned.get());
        }
        Self { tree, objects: (0..OBJECTS).map(|_| files.create(*OBJECT_PAGES.end())).collect() }
    }

    pub(super) fn files(&self) -> impl Iterator<Item = FileId> {
        self.tree.iter().chain(&self.objects).copied()
    }
}

/// Pages of a file of a tree: three on average, few large ones.
fn pages(random: &mut fastrand::Rng) -> u32 {
    (1.0 - 2.6 * (1.0 - random.f64()).ln()).clamp(1.0, 64.0) as u32
}

impl<'m> Builder<'m> {
    pub(super) fn new(number: u32, Tree { tree, objects }: &Tree, seed: u64) -> Self {
        Self {
            number,
            tree: tree.clone(),
            objects: objects.clone(),
            next_object: 0,
            task: Task::Copy(0),
            random: fastrand::Rng::with_seed(seed ^ (u64::from(number) + 1) << 32),
            ready: 0,
            blocks: Vec::new(),
            slabs: Vec::new(),
            stayed: VecDeque::new(),
        }
    }

    /// Whether it compiles: its tree is complete.
    pub(super) fn builds(&self) -> bool {
        !matches!(self.task, Task::Copy(_))
    }

    /// Does one step of work.
    pub(super) fn step<W: World>(&mut self, on: &mut CpuContext<'_, '_, 'm, W>) {
        // A program without memory is killed, and the builder starts the next one after 10 ms.
        if self.try_step(on).is_err() {
            self.end(on);
            self.task = if self.builds() { Task::Fork } else { self.task };
            self.ready = on.cpu.now() + on.kernel.ticks(10_000_000);
        }
    }

    fn try_step<W: World>(
        &mut self,
        on: &mut CpuContext<'_, '_, 'm, W>,
    ) -> Result<(), OutOfMemory> {
        match self.task {
            Task::Copy(next) => self.copy(on, next)?,
            Task::Fork => {
                self.fork(on)?;
                self.task = Task::Read(READS);
            }
            Task::Read(0) => {
                let pages = (self.random.f64() * (MOST / LEAST).ln()).exp() * LEAST;
                self.task = Task::Fault(pages as u32);
            }
            Task::Read(left) => {
                let file = self.tree[self.random.usize(..self.tree.len())];
                if let Some(ready) = on.read(file)? {
                    self.ready = ready;
                }
                self.task = Task::Read(left - 1);
            }
            Task::Fault(0) => self.task = Task::Again(0),
            Task::Fault(left) => {
                let pages = left.min(PER_STEP);
                self.fault(on, pages)?;
                self.task = Task::Fault(left - pages);
            }
            Task::Again(next) => self.task = self.use_again(on, next)?,
            Task::Write => {
                let object = self.objects[self.next_object];
                self.next_object = (self.next_object + 1) % self.objects.len();
                on.truncate(object);
                let pages = self.random.u32(OBJECT_PAGES);
                if let Some(ready) = on.write(object, 0..pages)? {
                    self.ready = ready;
                }
                self.end(on);
                self.task = Task::Fork;
            }
        }
        Ok(())
    }

    fn copy<W: World>(
        &mut self,
        on: &mut CpuContext<'_, '_, 'm, W>,
        next: u32,
    ) -> Result<(), OutOfMemory> {
        let until = self.tree.len().min((next + PER_STEP) as usize);
        for &file in &self.tree[next as usize..until] {
            let pages = on.kernel.state.files.at(file).pages;
            if let Some(ready) = on.write(file, 0..pages)? {
                self.ready = ready;
            }
        }
        let done = until == self.tree.len();
        self.task = if done { Task::Fork } else { Task::Copy(until as u32) };
        Ok(())
    }

    fn fork<W: World>(&mut self, on: &mut CpuContext<'_, '_, 'm, W>) -> Result<(), OutOfMemory> {
        recorded::renew(on);
        let stack = Order::new(2).unwrap_or(Order::ZERO);
        self.blocks.push(on.block(stack, MigrateType::Unmovable).ok_or(OutOfMemory)?);
        for _ in 0..TABLES {
            self.table(on)?;
        }
        for _ in 0..OWN {
            self.slabs.push(on.new_object(Kind::Other).ok_or(OutOfMemory)?);
        }
        Ok(())
    }

    fn table<W: World>(&mut self, on: &mut CpuContext<'_, '_, 'm, W>) -> Result<(), OutOfMemory> {
        let table = on.block(Order::ZERO, MigrateType::Unmovable).ok_or(OutOfMemory)?;
        self.blocks.push(table);
        Ok(())
    }

    /// The program touches new pages.
    fn fault<W: World>(
        &mut self,
        on: &mut CpuContext<'_, '_, 'm, W>,
        pages: u32,
    ) -> Result<(), OutOfMemory> {
        let (kernel, cpu) = (on.kernel, on.cpu);
        let program = &kernel.state.programs[self.number as usize];
        kernel.world.enter(cpu, &program.space);
        for _ in 0..pages {
            cpu.work(kernel.ticks(FAULT_NS).max(kernel.state.costs.fault));
            kernel.faults.update(|faults| faults + 1);
            let frame = on.page_frame(PAGE.zeroed())?;
            let index = program.pages.borrow().len() as u32;
            program.pages.borrow_mut().push(frame);
            kernel.own_page(cpu.id(), frame, self.number, index);
            if index.is_multiple_of(512) {
                self.table(on)?;
            }
        }
        Ok(())
    }

    /// The program stores to some of its pages a second time. Returns its next work.
    fn use_again<W: World>(
        &mut self,
        on: &mut CpuContext<'_, '_, 'm, W>,
        next: u32,
    ) -> Result<Task, OutOfMemory> {
        let pages = on.kernel.state.programs[self.number as usize].pages.borrow().len() as u32;
        for index in next..pages.min(next + PER_STEP) {
            if let Some(ready) = on.use_again(self.number, index)? {
                self.ready = ready;
                return Ok(Task::Again(index + 1));
            }
        }
        Ok(if next + PER_STEP < pages { Task::Again(next + PER_STEP) } else { Task::Write })
    }

    /// The program exits: all its memory is freed.
    pub(super) fn end<W: World>(&mut self, on: &mut CpuContext<'_, '_, 'm, W>) {
        let kernel = on.kernel;
        let pages = kernel.state.programs[self.number as usize].pages.take();
        on.give_up(pages, kernel.state.costs.unmap);
        self.blocks.drain(..).for_each(|block| kernel.free_block(block));
        let stay = self.slabs.len().saturating_sub(STAY);
        self.stayed.extend(self.slabs.split_off(stay));
        self.slabs.drain(..).for_each(|slab| kernel.free_object(slab));
        while self.stayed.len() > STAY * STAY_FOR {
            self.stayed.pop_front().into_iter().for_each(|slab| kernel.free_object(slab));
        }
    }

    /// Frees everything, including objects that stay allocated after a program.
    pub(super) fn end_for_good<W: World>(&mut self, on: &mut CpuContext<'_, '_, 'm, W>) {
        self.end(on);
        self.stayed.drain(..).for_each(|slab| on.kernel.free_object(slab));
    }
}
