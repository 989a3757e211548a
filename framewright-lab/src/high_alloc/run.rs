//! One side, one seed: a simulated machine and everything on it.

use framewright::{
    Config, CpuId, Layout, Memory, SideTables, frame::PAGEBLOCK_FRAMES, reclaim::Reclaim,
};
use framewright_sim::{
    engine::{Machine, Options, Program as OnCpu},
    platform::{Books, LentRelief, Settings, Simulated},
    process::{Mmu, Process, Shooter},
};

use super::{
    HighAlloc,
    course::Course,
    kernel::{Kernel, State},
    mover::Moves,
    outcome::Outcome,
    owner::Owner,
    play::{Disk, Play},
    program::Program,
    recorded::Recorded,
    simulated::SimulatedWorld,
    world::{Inside, World},
};
use crate::{
    simulated::{SimulationError, nodes::Nodes},
    workloads::Side,
};

/// Runs one side with one seed.
/// `tell` hears of the parts of it that are done.
pub(super) fn run(
    work: &HighAlloc,
    side: &Side,
    seed: u64,
    tell: &(dyn Fn(u64) + Sync),
) -> Result<Outcome, SimulationError> {
    let spec = &work.spec;
    let name = || spec.name().to_owned();
    let refused = |reason: &dyn ToString| SimulationError::Memory {
        machine: name(),
        reason: reason.to_string(),
    };
    let nodes = Nodes::new(spec, work.frames);
    let side_tables = SideTables { lru: true, ..SideTables::default() };
    let config = Config { side_tables, ..nodes.config(side.tuning) };
    let layout = Layout::new::<Simulated>(&config).map_err(|error| refused(&error))?;
    let mut books = Books::new(&layout);
    let machine = Machine::modelled(spec.into(), Options { seed, ..Options::default() });
    let settings = Settings { prices: spec.costs().library, ..Settings::default() };
    let relief = LentRelief::default();
    let platform = Simulated::new(&machine, settings).with_relief(&relief);
    let memory = Memory::new(platform, &config, books.as_mut()).map_err(|error| refused(&error))?;

    let mut disk = Disk::new(nodes.frames(), seed);
    let pageblocks = nodes.frames() / PAGEBLOCK_FRAMES as u64;
    let recorded = work.from.as_ref();
    let recorded =
        recorded.map(|it| Recorded::new(it, pageblocks, &mut disk.files, &mut disk.random));
    let mmu = Mmu::measuring(spec.cpus(), spec.costs().into());
    let program = |_| Program::new(Process::new(&mmu));
    let programs = (0..=disk.builders()).map(program).collect();
    let Disk { files, trees, flush, random } = disk;
    let state = State::new(nodes.frames(), files, programs, spec.costs().into(), random);
    let world = SimulatedWorld::new(&machine, Shooter::new(&mmu, &memory));
    let owner = Owner::new(&state, &world);
    // SAFETY: the workload has its frames from this memory, and maps them only in its world.
    #[allow(unsafe_code)]
    let reclaim = unsafe { Reclaim::new(&memory, &owner, world.shootdown()) }.expect("LRU lists");
    let moves = Moves::new(&state, reclaim.lru(), &world);
    let kernel = Kernel::new(&world, &memory, &state, reclaim, &moves);
    let course = Course {
        flags: work.flags,
        quick: work.quick,
        watched: work.watched,
        builders: spec.cpus() - 1,
        shares: true,
        seed,
    };
    let play = Play::new(course, &kernel, &trees, flush, recorded.as_ref(), tell);
    // SAFETY: simulated CPUs share one thread.
    let inside = unsafe { Inside::new(&kernel) };
    let ended = relief.lend(&inside, || machine.run(on_cpus(&play, spec.cpus())));
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

/// Builders on all CPUs but the last.
fn on_cpus<'p>(play: &'p Play<'_, '_, '_, SimulatedWorld<'p, '_>>, cpus: u16) -> Vec<OnCpu<'p>> {
    (0..cpus)
        .map(|number| -> OnCpu<'_> {
            Box::new(move |_| {
                let cpu = play.kernel.current();
                let mut token = play.kernel.memory.cpu(CpuId::new(number)).expect("its own");
                if number == cpus - 1 {
                    play.ask(cpu, &mut token);
                } else {
                    play.build(cpu, &mut token);
                }
            })
        })
        .collect()
}
