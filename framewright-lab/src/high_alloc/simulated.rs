//! The implementation of `World` for a simulated machine.

use framewright::{
    CpuId, Memory, Pfn, SideTables,
    frame::PAGEBLOCK_FRAMES,
    reclaim::Reclaim,
    tlb::{Shootdown, Unmapping},
};
use framewright_sim::{
    engine::{Activity, Cpu, Machine, Program as CpuProgram, WaitQueue},
    platform::{LentRelief, Simulated},
    process::{Mapping, Mmu, Process, Shooter},
};

use super::{
    Environment, HighAlloc,
    figures::Outcome,
    kernel::{CpuContext, Kernel, State},
    mover::Moves,
    owner::Owner,
    play::{Disk, Play},
    program::Program,
    recorded::Recorded,
    share::Load,
    world::{Locked, OnCpu, World},
};
use crate::Error;
use crate::perfetto::{Sample, levels};
use crate::samples::{MemoryState, Watch, Watcher};
use crate::{
    simulated::{column::Nodes, memory::on_memory},
    workloads::Side,
};

/// Simulated CPUs as the world of the kernel.
pub(super) struct SimulatedWorld<'w, 'm> {
    machine: &'w Machine,
    shooter: Shooter<'w, 'm>,
    idle: WaitQueue,
    paused: WaitQueue,
    /// Gets the time now and then, in cycles.
    sample: &'w dyn Fn(u64),
}

impl<'w, 'm> SimulatedWorld<'w, 'm> {
    pub(super) fn new(machine: &'w Machine, shooter: Shooter<'w, 'm>) -> Self {
        let (idle, paused) = (WaitQueue::default(), WaitQueue::default());
        Self { machine, shooter, idle, paused, sample: &|_| () }
    }

    /// This world with calls of `sample`, which gets the time now and then.
    fn sampling(self, sample: &'w dyn Fn(u64)) -> Self {
        Self { sample, ..self }
    }
}

impl<'w> World for SimulatedWorld<'w, '_> {
    type Platform = Simulated;
    type Cpu = Cpu<'w>;
    type Space = Process;
    const IS_REAL_TIME: bool = false;

    fn current(&self) -> Option<Cpu<'w>> {
        self.machine.current()
    }

    fn ticks(&self, nanos: u64) -> u64 {
        self.machine.model().cycles_of_nanos(nanos)
    }

    fn watch(&self) -> u64 {
        self.current().map_or(0, |cpu| cpu.now())
    }

    fn elapsed(&self, since: u64) -> u64 {
        self.machine.model().nanos_of_cycles(self.watch() - since)
    }

    fn shootdown(&self) -> &dyn Shootdown {
        &self.shooter
    }

    fn during<R>(&self, activity: Activity, body: impl FnOnce() -> R) -> R {
        match self.current() {
            Some(cpu) => cpu.during(activity, body),
            None => body(),
        }
    }

    fn enter(&self, cpu: Cpu<'w>, space: &Process) {
        (self.sample)(cpu.now());
        self.shooter.run_on(cpu, space);
    }

    fn unmap(
        &self,
        cpu: Cpu<'w>,
        process: &Process,
        page: u32,
        frame: Pfn,
        batch: &mut Unmapping<'_, '_, '_, Simulated>,
    ) {
        let frame = frame.get() as u32;
        let mapping = Mapping { frame, writable: true, accessed: true, dirty: true };
        process.space().add_flush(cpu, page, mapping, None, batch);
    }

    fn observe<R>(&self, look: impl FnOnce() -> R) -> Option<R> {
        self.machine.observe(look)
    }

    fn wait_for_work(&self, cpu: Cpu<'w>, time: u64) {
        (self.sample)(cpu.now());
        cpu.wait_on_until(&self.idle, time);
    }

    fn wake_worker(&self, cpu: Cpu<'w>) {
        self.idle.wake_all(cpu);
    }

    fn wait_paused(&self, cpu: Cpu<'w>, time: u64) {
        cpu.wait_on_until(&self.paused, time);
    }

    fn wake_paused(&self, cpu: Cpu<'w>) {
        self.paused.wake_all(cpu);
    }
}

impl OnCpu for Cpu<'_> {
    fn id(&self) -> CpuId {
        Cpu::id(self)
    }

    fn now(&self) -> u64 {
        Cpu::now(self)
    }

    fn work(&self, ticks: u64) {
        Cpu::work(self, ticks);
    }

    fn step(&self) {
        Cpu::step(self);
    }

    fn sleep_until(&self, time: u64) {
        Cpu::sleep_until(self, time);
    }
}

/// Runs one side with one seed. `tell` gets the number of newly finished parts.
pub(super) fn run(
    work: &HighAlloc,
    side: &Side,
    seed: u64,
    watch: Watch<'_>,
    tell: &(dyn Fn(u64) + Sync),
) -> Result<Outcome, Error> {
    let spec = &work.spec;
    let nodes = Nodes::new(spec, work.frames);
    let nodes = if work.environment.fair_zones {
        nodes.with_dma32(Environment::NORMAL_SHARE)
    } else {
        nodes
    };
    let side_tables = SideTables::default().with_lru();
    let config = nodes.config(side.tuning).with_side_tables(side_tables);
    let relief = LentRelief::default();
    on_memory(spec, &config, seed, &relief, |machine, memory| {
        let title = format!("{}, seed {seed}", side.label);
        let watcher = Watcher::start(watch, machine, &title);
        if let Some(recorder) = watcher.recorder() {
            recorder.name_zones(memory);
        }
        let outcome = play(work, side, seed, tell, &nodes, (machine, memory, &relief), &watcher);
        let samples = watcher.finish(|| counters(memory), || Some(MemoryState::of(memory)));
        outcome.map(|outcome| Outcome { samples, ..outcome })
    })
}

/// Counters, for a trace.
fn counters(memory: &Memory<'_, Simulated>) -> Sample {
    let (flushes, compact) = (memory.tlb().stats(), memory.compact_stats());
    Sample {
        levels: levels(memory),
        counts: vec![
            ("unmapped pages", flushes.unmapped),
            ("migrated pages", compact.pgmigrate_success),
            ("interrupts for flushes", flushes.interrupts),
        ],
    }
}

/// Runs the workload on a machine and a memory. `relief` is the slot for the kernel's reclaim and
/// compaction.
fn play(
    work: &HighAlloc,
    side: &Side,
    seed: u64,
    tell: &(dyn Fn(u64) + Sync),
    nodes: &Nodes,
    (machine, memory, relief): (&Machine, &Memory<'_, Simulated>, &LentRelief),
    watcher: &Watcher,
) -> Result<Outcome, Error> {
    let spec = &work.spec;
    let mut disk = Disk::new(nodes.frames(), work.environment.tree_files, seed);
    let pageblocks = nodes.frames() / PAGEBLOCK_FRAMES as u64;
    let recorded = work.from.as_ref();
    let recorded =
        recorded.map(|it| Recorded::new(it, pageblocks, &mut disk.files, &mut disk.random));
    let mmu = Mmu::measuring(spec.cpus(), spec.costs().into());
    let program = |_| Program::new(Process::new(&mmu));
    let programs = (0..=disk.builders()).map(program).collect();
    let Disk { files, trees, flush, random } = disk;
    let mut state = State::new(nodes.frames(), files, programs, spec.costs().into(), random);
    state.environment = work.environment;
    let sample = |now| watcher.look(now, || counters(memory), || Some(MemoryState::of(memory)));
    let world = SimulatedWorld::new(machine, Shooter::new(&mmu, memory)).sampling(&sample);
    let owner = Owner::new(&state, &world);
    // SAFETY: the workload has its frames from this memory, and maps them only in its world.
    #[allow(unsafe_code)]
    let reclaim = unsafe { Reclaim::new(memory, &owner, world.shootdown()) }.expect("LRU lists");
    let moves = Moves::new(&state, reclaim.lru(), &world);
    let kernel = Kernel::new(&world, memory, &state, reclaim, &moves);
    let load = Load {
        flags: work.flags,
        quick: work.quick,
        watched: watcher.samples_memory(),
        builders: spec.cpus() - 1,
        shares: true,
        seed,
    };
    let play = Play::new(load, &kernel, &trees, flush, recorded.as_ref(), tell);
    // SAFETY: simulated CPUs share one thread.
    let inside = unsafe { Locked::new(&kernel) };
    let ended = relief.lend(&inside, || machine.run(on_cpus(&play, spec.cpus())));
    ended.map_err(|failure| side.broken(seed, failure))?;
    play.check_end_state().map_err(|what| side.broken(seed, what))?;
    Ok(play.outcome.take())
}

/// Runs builders on all CPUs but the last, and the requests for huge pages on the last.
fn on_cpus<'p>(
    play: &'p Play<'_, '_, '_, SimulatedWorld<'p, '_>>,
    cpus: u16,
) -> Vec<CpuProgram<'p>> {
    (0..cpus)
        .map(|number| -> CpuProgram<'_> {
            Box::new(move |_| {
                let mut on = CpuContext::new(play.kernel, play.kernel.current());
                if number == cpus - 1 {
                    play.ask(&mut on);
                } else {
                    play.build(&mut on);
                }
            })
        })
        .collect()
}
