//! One side, one seed: a machine and everything on it.

use std::cell::{Cell, RefCell};

use framewright::{
    Block, Config, CpuId, Layout, Memory, MigrateType, Order, Planes,
    frame::PAGEBLOCK_FRAMES,
    reclaim::{PageOwner, Reclaim},
    tlb::Shootdown,
};
use framewright_sim::{
    engine::{Cpu, Machine, Options, Program as OnCpu, WaitQueue},
    file::FileCosts,
    platform::{Books, LentRelief, Settings, Simulated},
    process::{Mmu, Process, Shooter},
};

use super::{
    HighAlloc,
    builder::{Builder, Tree},
    daemon::Daemon,
    files::{FileId, Files},
    frames::Frames,
    kernel::{Kernel, Program, State, Token, Woken},
    mover::Moves,
    outcome::{Counts, Outcome},
    owner::Owner,
    pass::{self, Pace},
    recorded::Recorded,
    slab::Slabs,
    system,
};
use crate::{
    simulated::{SimulationError, nodes::Nodes},
    workloads::Side,
};

/// A builder for so many frames, and one more: 400 MiB each.
const BUILDER_FRAMES: u64 = 400 << 8;
/// What the kernel has taken for itself when it has booted, one frame in so many: some 32 MiB of 1 GiB.
const BOOTED: u64 = 32;
const SECOND: u64 = 1_000_000_000;

/// Runs one side with one seed.
pub(super) fn run(work: &HighAlloc, side: &Side, seed: u64) -> Result<Outcome, SimulationError> {
    let spec = &work.spec;
    let name = || spec.name().to_owned();
    let refused = |reason: &dyn ToString| SimulationError::Memory {
        machine: name(),
        reason: reason.to_string(),
    };
    let nodes = Nodes::new(spec, work.frames);
    let planes = Planes { lru: true, ..Planes::default() };
    let config = Config { planes, ..nodes.config(side.tuning) };
    let layout = Layout::new::<Simulated>(&config).map_err(|error| refused(&error))?;
    let mut books = Books::new(&layout);
    let machine = Machine::modelled(spec.into(), Options { seed, ..Options::default() });
    let settings = Settings { prices: spec.costs().library, ..Settings::default() };
    let relief = LentRelief::default();
    let platform = Simulated::new(&machine, settings).with_relief(&relief);
    let memory = Memory::new(platform, &config, books.as_mut()).map_err(|error| refused(&error))?;

    let mut random = fastrand::Rng::with_seed(seed);
    let builders = (nodes.frames() / BUILDER_FRAMES + 1) as u32;
    let mut files = Files::default();
    let trees: Vec<Tree> = (0..builders).map(|_| Tree::new(&mut files, &mut random)).collect();
    let flush = files.create(nodes.frames() as u32);
    let pageblocks = nodes.frames() / PAGEBLOCK_FRAMES as u64;
    let recorded = work.from.as_ref();
    let recorded = recorded.map(|it| Recorded::new(it, pageblocks, &mut files, &mut random));
    let mmu = Mmu::measuring(spec.cpus(), spec.costs().into());
    let program = |_| Program { process: Process::new(&mmu), pages: RefCell::default() };
    let state = State {
        frames: Frames::new(nodes.frames()),
        files,
        slabs: Slabs::default(),
        programs: (0..=builders).map(program).collect(),
        costs: FileCosts::from(spec.costs()),
        random: RefCell::new(random),
    };
    let owner = Owner::new(&state, &machine);
    let owner: &dyn PageOwner<Simulated> = &owner;
    let shooter = Shooter::new(&mmu, &memory);
    let shootdown: &dyn Shootdown = &shooter;
    let reclaim = Reclaim::new(&memory, owner, shootdown).expect("LRU lists");
    let kernel = Kernel {
        machine: &machine,
        memory: &memory,
        state: &state,
        shooter: &shooter,
        reclaim,
        moves: &Moves::new(&state, reclaim.lru(), &machine),
        idle: WaitQueue::default(),
        woken: Cell::new(Woken { due: u64::MAX, order: Order::ZERO, highest: Default::default() }),
        shrink_debt: Cell::new(0),
        out_of_memory: Cell::new(0),
        faults: Cell::new(0),
    };
    let play = Play {
        work,
        kernel: &kernel,
        trees: &trees,
        flush,
        loaded: Cell::new(recorded.is_none()),
        recorded: recorded.as_ref(),
        seed,
        stop: Cell::new(false),
        copying: Cell::new(builders),
        building: Cell::new(u32::from(spec.cpus()) - 1),
        outcome: RefCell::default(),
    };
    let ended = relief.lend(&kernel, || machine.run(play.programs()));
    ended.map_err(|failure| SimulationError::Failed {
        contender: side.label.clone(),
        seed,
        failure,
    })?;
    match play.wrong() {
        None => Ok(play.outcome.take()),
        Some(what) => Err(SimulationError::Books { contender: side.label.clone(), seed, what }),
    }
}

/// What CPUs do.
struct Play<'p, 'k, 'm> {
    work: &'p HighAlloc,
    kernel: &'p Kernel<'k, 'm>,
    trees: &'p [Tree],
    /// The file that is as large as memory.
    flush: FileId,
    /// The state to begin with, and whether memory is in it.
    recorded: Option<&'p Recorded>,
    loaded: Cell<bool>,
    seed: u64,
    /// Builders are to end.
    stop: Cell<bool>,
    /// Builders that copy their trees still.
    copying: Cell<u32>,
    /// CPUs on which builders run still.
    building: Cell<u32>,
    outcome: RefCell<Outcome>,
}

impl<'m> Play<'_, '_, 'm> {
    /// Builders on all CPUs but the last.
    fn programs(&self) -> Vec<OnCpu<'_>> {
        let last = self.work.spec.cpus() - 1;
        (0..=last)
            .map(|number| -> OnCpu<'_> {
                Box::new(move |cpu| {
                    let mut token = self.kernel.memory.cpu(CpuId::new(number)).expect("its own");
                    if number == last {
                        self.ask(cpu, &mut token);
                    } else {
                        self.build(cpu, &mut token, number);
                    }
                })
            })
            .collect()
    }

    /// The builders of a CPU, in turn.
    fn build(&self, cpu: Cpu<'_>, token: &mut Token<'_, 'm>, number: u16) {
        let cpus = usize::from(self.work.spec.cpus() - 1);
        let mine = self.trees.iter().enumerate().skip(usize::from(number)).step_by(cpus);
        let mut builders: Vec<Builder<'m>> =
            mine.map(|(at, tree)| Builder::new(at as u32, tree, self.seed)).collect();
        while !self.loaded.get() {
            cpu.sleep_until(cpu.now() + self.kernel.cycles(SECOND / 1000));
        }
        while !self.stop.get() {
            let mut rests = true;
            for builder in &mut builders {
                if builder.ready > cpu.now() {
                    continue;
                }
                rests = false;
                let copied = builder.builds();
                builder.step(cpu, self.kernel, token);
                if builder.builds() && !copied {
                    self.copying.update(|copying| copying - 1);
                }
            }
            if rests {
                let nap = cpu.now() + self.kernel.cycles(SECOND / 10);
                let ready = builders.iter().map(|builder| builder.ready).min();
                cpu.sleep_until(ready.unwrap_or(nap).min(nap));
            }
        }
        builders.iter_mut().for_each(|builder| builder.end_for_good(cpu, self.kernel, token));
        self.building.update(|building| building - 1);
    }

    /// The whole course, from the CPU that asks for huge pages.
    fn ask(&self, cpu: Cpu<'_>, token: &mut Token<'_, 'm>) {
        let kernel = self.kernel;
        let node = kernel.node(cpu.id());
        let mut daemon = Daemon::new(kernel.reclaim.kswapd(node).expect("a node of its own"));
        let boot = self.begin(cpu, token);
        while self.copying.get() > 0 {
            self.wait(SECOND / 10, cpu, &mut daemon, token);
        }
        let slower = if self.work.quick { 5 } else { 1 };
        self.wait(90 * SECOND / slower, cpu, &mut daemon, token);
        let pace = |pass| Pace {
            attempts: kernel.state.frames.pageblocks().count() as u64 * 95 / 100,
            every: pass::EVERY_NS / slower,
            flags: self.work.flags,
            watched: self.work.watched.then_some(pass),
        };
        let mut seen = Vec::new();
        for (nth, seconds) in [(1, 5), (2, 25)] {
            let pass = pass::pass(cpu, kernel, token, &mut daemon, pace(nth), &mut seen);
            self.outcome.borrow_mut().phases.push(pass);
            self.wait(seconds * SECOND / slower, cpu, &mut daemon, token);
        }
        self.stop.set(true);
        while self.building.get() > 0 {
            self.wait(SECOND / 100, cpu, &mut daemon, token);
        }
        self.clean_up(cpu, &mut daemon, token);
        let pass = pass::pass(cpu, kernel, token, &mut daemon, pace(3), &mut seen);
        self.outcome.borrow_mut().phases.push(pass);
        self.outcome.borrow_mut().counts = Counts::of(kernel);
        self.outcome.borrow_mut().seen = seen;
        boot.into_iter().for_each(|block| kernel.free_block(block));
    }

    fn wait(
        &self,
        nanos: u64,
        cpu: Cpu<'_>,
        daemon: &mut Daemon<'_, 'm>,
        token: &mut Token<'_, 'm>,
    ) {
        daemon.work_until(cpu.now() + self.kernel.cycles(nanos), cpu, self.kernel, token);
    }

    /// Brings memory into the state in which builders find it; what the kernel has for itself.
    fn begin(&self, cpu: Cpu<'_>, token: &mut Token<'_, 'm>) -> Vec<Block<'m>> {
        let Some(recorded) = self.recorded else {
            let boot = self.boot(token);
            system::start(self.kernel, token);
            return boot;
        };
        let boot = recorded.load(cpu, self.kernel, token);
        self.loaded.set(true);
        boot
    }

    /// What the kernel takes for itself when it boots.
    fn boot(&self, token: &mut Token<'_, 'm>) -> Vec<Block<'m>> {
        let mut left = self.kernel.memory.managed() / BOOTED;
        let mut blocks = Vec::new();
        while left > 0 {
            let order = Order::new(self.kernel.state.random.borrow_mut().u8(0..=3));
            let order = order.unwrap_or(Order::ZERO);
            let Some(block) = self.kernel.block(token, order, MigrateType::Unmovable) else {
                break;
            };
            left = left.saturating_sub(order.frames());
            blocks.push(block);
        }
        blocks
    }

    /// Trees are deleted; a file as large as memory is written, read and deleted; what is left in the
    /// cache is dropped.
    fn clean_up(&self, cpu: Cpu<'_>, daemon: &mut Daemon<'_, 'm>, token: &mut Token<'_, 'm>) {
        /// Pages that are written before the daemon has its turn.
        const AT_ONCE: u32 = 64;
        let kernel = self.kernel;
        for file in self.trees.iter().flat_map(Tree::files) {
            kernel.delete(cpu, token, file);
        }
        let pages = kernel.state.files.at(self.flush).pages;
        for first in (0..pages).step_by(AT_ONCE as usize) {
            let run = first..pages.min(first + AT_ONCE);
            let until = match kernel.write(cpu, token, self.flush, run) {
                Ok(until) => until.unwrap_or(cpu.now() + 1),
                Err(_) => cpu.now() + kernel.cycles(SECOND / 100),
            };
            daemon.work_until(until, cpu, kernel, token);
        }
        kernel.delete(cpu, token, self.flush);
        kernel.drop_pages(cpu.id());
        kernel.drop_objects();
        self.wait(SECOND, cpu, daemon, token);
    }

    /// What is wrong in the end, if anything is.
    fn wrong(&self) -> Option<String> {
        let Kernel { memory, state, reclaim, .. } = self.kernel;
        state.slabs.dissolve().into_iter().for_each(|block| self.kernel.free_block(block));
        if let Some(frame) = state.frames.left_behind() {
            return Some(format!("frame {frame} is claimed or locked still"));
        }
        if let Err(violation) = memory.check().and_then(|()| reclaim.lru().check()) {
            return Some(violation.to_string());
        }
        let parked = memory.tlb().parked();
        let idle = memory.free() + memory.held_by_cpus() + memory.in_depots() + parked;
        let used = state.frames.count(|holds| holds != super::frames::Holds::Nothing);
        (idle + used != memory.managed()).then(|| {
            format!("{} frames, of which {idle} are free and {used} in use", memory.managed())
        })
    }
}
