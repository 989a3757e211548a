//! A run with any implementation of [`World`]: compile jobs (*builders*), requests for huge pages,
//! background work.

#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell};

use framewright::{Block, MigrateType, Order};

use super::{
    builder::{Builder, TREE_PAGES, Tree},
    daemon::Daemon,
    figures::{Counts, Outcome},
    files::{FileId, Files},
    kernel::{CpuContext, Kernel},
    pass::{self, Pace},
    picture::Snapshot,
    recorded::{self, Recorded},
    share::{Load, Plan, REST_NS, SECOND, Share, Stage, WARM_UP_NS, builders_for, requests_for},
    world::{OnCpu, World},
};

/// The kernel's own memory after boot: one frame in this number. Fitted to the success of running
/// kernels in the idle pass, 89 % on average; the effect on every pass is the same. Recorded
/// kernels had 4 and 11 % of memory in unmovable pageblocks (`recordings/`).
const BOOTED: u64 = 12;

/// All files of a run.
pub(super) struct Disk {
    pub(super) files: Files,
    /// A tree for each builder.
    pub(super) trees: Vec<Tree>,
    /// The file that is as large as memory, for flushing the cache.
    pub(super) flush: FileId,
    pub(super) random: fastrand::Rng,
}

impl Disk {
    /// The files for a machine with this memory; each tree has `tree_files`.
    pub(super) fn new(frames: u64, tree_files: u32, seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let builders = builders_for(frames);
        let mut files = Files::default();
        let trees = (0..builders).map(|_| Tree::new(tree_files, &mut files, &mut random)).collect();
        let flush = files.create(frames as u32);
        Self { files, trees, flush, random }
    }

    pub(super) fn builders(&self) -> u32 {
        self.trees.len() as u32
    }
}

/// The state of a run.
pub(super) struct Play<'p, 'k, 'm, W: World> {
    pub(super) load: Load,
    share: Share<'p>,
    pub(super) kernel: &'p Kernel<'k, 'm, W>,
    trees: &'p [Tree],
    /// The file that is as large as memory.
    pub(super) flush: FileId,
    /// The initial state of memory, and whether it was applied.
    pub(super) recorded: Option<&'p Recorded>,
    pub(super) loaded: Cell<bool>,
    /// Whether builders are to end.
    pub(super) stop: Cell<bool>,
    /// Builders that are still copying their trees.
    pub(super) copying: Cell<u32>,
    /// CPUs on which builders are still running.
    pub(super) building: Cell<u32>,
    /// Whether the background work is to end.
    pub(super) over: Cell<bool>,
    /// The background work, borrowed by the CPU that runs it.
    daemon: RefCell<Daemon>,
    pub(super) outcome: RefCell<Outcome>,
}

impl<'p, 'k, 'm, W: World> Play<'p, 'k, 'm, W> {
    /// A run that has not started.
    pub(super) fn new(
        load: Load,
        kernel: &'p Kernel<'k, 'm, W>,
        trees: &'p [Tree],
        flush: FileId,
        recorded: Option<&'p Recorded>,
        tell: &'p (dyn Fn(u64) + Sync),
    ) -> Self {
        let plan = Plan::new(&load, kernel.state.frames.count_all(), W::IS_REAL_TIME);
        Self {
            load,
            share: Share::new(tell, plan),
            kernel,
            trees,
            flush,
            loaded: Cell::new(recorded.is_none()),
            recorded,
            stop: Cell::new(false),
            copying: Cell::new(trees.len() as u32),
            building: Cell::new(load.builders.into()),
            over: Cell::new(false),
            daemon: RefCell::default(),
            outcome: RefCell::default(),
        }
    }

    /// Runs the builders of a CPU in turn.
    pub(super) fn build(&self, on: &mut CpuContext<'_, 'k, 'm, W>) {
        let mine = self.trees.iter().enumerate();
        let cpu = on.cpu;
        let mine = mine.skip(cpu.id().index()).step_by(self.load.builders.into());
        let mut builders: Vec<Builder<'m>> =
            mine.map(|(at, tree)| Builder::new(at as u32, tree, self.load.seed)).collect();
        while !self.loaded.get() {
            cpu.sleep_until(cpu.now() + self.kernel.ticks(SECOND / 1000));
        }
        while !self.stop.get() {
            self.turn(&mut builders, on);
        }
        builders.iter_mut().for_each(|builder| builder.end_for_good(on));
        self.building.update(|building| building - 1);
    }

    /// Runs a step of each builder that is ready; sleeps if none is.
    fn turn(&self, builders: &mut [Builder<'m>], on: &mut CpuContext<'_, 'k, 'm, W>) {
        let cpu = on.cpu;
        self.serve_during_request(on);
        let mut is_idle = true;
        for builder in &mut *builders {
            if builder.ready > cpu.now() {
                continue;
            }
            is_idle = false;
            let copied = builder.builds();
            builder.step(on);
            if builder.builds() && !copied {
                self.copying.update(|copying| copying - 1);
            }
            cpu.keep_pace();
        }
        if is_idle {
            let nap = cpu.now() + self.kernel.ticks(SECOND / 10);
            let ready = builders.iter().map(|builder| builder.ready).min();
            cpu.sleep_until(ready.unwrap_or(nap).min(nap));
        }
    }

    /// Does a step of background work on the last CPU of the builders, if the work has no CPU of
    /// its own and its usual CPU is busy with a request for a huge page.
    fn serve_during_request(&self, on: &mut CpuContext<'_, 'k, 'm, W>) {
        let is_last = on.cpu.id().index() + 1 == usize::from(self.load.builders);
        if self.load.shares && is_last && self.kernel.asking.get() {
            // The daemon is not borrowed: the requesting CPU is in a request.
            self.daemon.borrow_mut().step(on);
        }
    }

    /// Does background work until the run ends.
    pub(super) fn serve(&self, on: &mut CpuContext<'_, 'k, 'm, W>) {
        let mut daemon = self.daemon.borrow_mut();
        while !self.over.get() {
            daemon.work_until(on.cpu.now() + self.kernel.ticks(SECOND / 10), on);
            on.cpu.keep_pace();
        }
    }

    /// The course of the run, on the CPU that requests huge pages.
    pub(super) fn ask(&self, on: &mut CpuContext<'_, 'k, 'm, W>) {
        let kernel = self.kernel;
        let boot = self.begin(on);
        let trees = self.trees.len() as u64;
        self.outcome.borrow_mut().builders = trees;
        while self.copying.get() > 0 {
            self.share.reach(
                Stage::Copy,
                kernel.state.files.cached_pages.get(),
                trees * TREE_PAGES,
            );
            self.wait(SECOND / 10, on);
        }
        self.share.reach(Stage::WarmUp, 0, 1);
        self.wait(self.load.shortened(WARM_UP_NS), on);
        let mut seen = Vec::new();
        for (stage, rest) in [Stage::First, Stage::Second].into_iter().zip(REST_NS) {
            self.pass(stage, on, &mut seen);
            self.wait(self.load.shortened(rest), on);
        }
        self.stop.set(true);
        while self.building.get() > 0 {
            self.wait(SECOND / 100, on);
        }
        self.clean_up(on);
        self.pass(Stage::Idle, on, &mut seen);
        let mut outcome = self.outcome.borrow_mut();
        outcome.counts = Counts::of(kernel);
        outcome.stall = kernel.longest.get();
        let ticks_per_ms = kernel.ticks(1_000_000).max(1);
        outcome.device = kernel.state.slowest.get() * 1_000_000 / ticks_per_ms;
        drop(outcome);
        self.outcome.borrow_mut().seen = seen;
        boot.into_iter().for_each(|block| kernel.free_block(block));
        self.share.end();
        self.over.set(true);
    }

    /// One pass of requests for huge pages.
    fn pass(&self, stage: Stage, on: &mut CpuContext<'_, 'k, 'm, W>, seen: &mut Vec<Snapshot>) {
        let nth = self.outcome.borrow().phases.len() as u8 + 1;
        let pace = Pace {
            attempts: requests_for(self.kernel.state.frames.count_all()),
            every: self.load.shortened(pass::EVERY_NS),
            flags: self.load.flags,
            watched: self.load.watched.then_some(nth),
        };
        let reach = |done, all| self.share.reach(stage, done, all);
        let wait = |time, on: &mut CpuContext<'_, 'k, 'm, W>| self.wait_until(time, on);
        let pass = pass::pass(on, wait, pace, seen, &reach);
        self.outcome.borrow_mut().phases.push(pass);
    }

    fn wait(&self, nanos: u64, on: &mut CpuContext<'_, 'k, 'm, W>) {
        self.wait_until(on.cpu.now() + self.kernel.ticks(nanos), on);
    }

    /// Waits, and does background work meanwhile if no other thread does.
    fn wait_until(&self, time: u64, on: &mut CpuContext<'_, 'k, 'm, W>) {
        let cpu = on.cpu;
        if !self.load.shares {
            return cpu.sleep_until(time);
        }
        while cpu.now() < time {
            match self.daemon.try_borrow_mut() {
                Ok(mut daemon) => daemon.work_until(time, on),
                // A builder's CPU is still in a step of the background work.
                Err(_) => cpu.sleep_until(cpu.now() + self.kernel.ticks(SECOND / 1000)),
            }
        }
    }

    /// Sets the initial state of memory. Returns the kernel's own blocks.
    fn begin(&self, on: &mut CpuContext<'_, 'k, 'm, W>) -> Vec<Block<'m>> {
        let Some(recorded) = self.recorded else {
            let boot = self.boot(on);
            recorded::start(on);
            return boot;
        };
        let boot = recorded.load(on);
        self.loaded.set(true);
        boot
    }

    /// Allocates the kernel's own memory.
    fn boot(&self, on: &mut CpuContext<'_, 'k, 'm, W>) -> Vec<Block<'m>> {
        let mut left = self.kernel.memory.managed() / BOOTED;
        let mut blocks = Vec::new();
        while left > 0 {
            let order = Order::new(self.kernel.state.random.borrow_mut().u8(0..=3));
            let order = order.unwrap_or(Order::ZERO);
            let Some(block) = on.block(order, MigrateType::Unmovable) else {
                break;
            };
            left = left.saturating_sub(order.frames());
            blocks.push(block);
        }
        blocks
    }

    /// Deletes the trees, writes, reads and deletes a file as large as memory, and drops the rest
    /// of the cache.
    fn clean_up(&self, on: &mut CpuContext<'_, 'k, 'm, W>) {
        /// Pages that are written between two turns of the daemon.
        const AT_ONCE: u32 = 64;
        let kernel = self.kernel;
        for file in self.trees.iter().flat_map(Tree::files) {
            on.delete(file);
        }
        let pages = kernel.state.files.at(self.flush).pages;
        for first in (0..pages).step_by(AT_ONCE as usize) {
            // Dropping the pages takes the same time again.
            self.share.reach(Stage::CleanUp, first.into(), 2 * u64::from(pages));
            let run = first..pages.min(first + AT_ONCE);
            let until = match on.write(self.flush, run) {
                Ok(until) => until.unwrap_or(on.cpu.now() + 1),
                Err(_) => on.cpu.now() + kernel.ticks(SECOND / 100),
            };
            self.wait_until(until, on);
        }
        on.delete(self.flush);
        kernel.drop_pages(on.cpu.id());
        kernel.drop_objects();
        self.wait(SECOND, on);
    }

    /// Checks the invariants at the end.
    ///
    /// # Errors
    ///
    /// The first violation.
    pub(super) fn check_end_state(&self) -> Result<(), String> {
        let blocks = self.kernel.state.slabs.dissolve();
        blocks.into_iter().for_each(|block| self.kernel.free_block(block));
        self.kernel.check()
    }
}
