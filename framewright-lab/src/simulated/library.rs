//! A run of the library.

use framewright::{CpuId, Layout, Memory, Tuning};
use framewright_sim::{
    check,
    engine::{Machine, Options},
    platform::{Books, Settings, Simulated},
};

use super::{
    Contender, Simulation, SimulationError,
    nodes::Nodes,
    stage::{Cast, Stage},
};
use crate::workloads::{Window, Workload, allocator::Library};

/// One seed, one tuning.
pub(super) fn run(
    simulation: &Simulation,
    work: &Workload,
    contender: &Contender,
    seed: u64,
    tuning: Tuning,
) -> Result<Window, SimulationError> {
    let spec = &simulation.spec;
    let refused = |reason: &dyn ToString| SimulationError::Memory {
        machine: spec.name().to_owned(),
        reason: reason.to_string(),
    };
    let nodes = Nodes::new(spec, simulation.frames());
    let config = nodes.config(tuning);
    let layout = Layout::new::<Simulated>(&config).map_err(|error| refused(&error))?;
    let mut books = Books::new(&layout);
    let machine = Machine::modelled(spec.into(), Options { seed, ..Options::default() });
    let settings = Settings { prices: spec.costs().library, ..Settings::default() };
    let memory = Memory::new(Simulated::new(&machine, settings), &config, books.as_mut())
        .map_err(|error| refused(&error))?;
    let stage =
        Stage { work, spec, machine: &machine, plan: simulation.plan, frames: nodes.frames() };
    let window = stage.play(&Cast {
        seat: &|cpu| Library(memory.cpu(CpuId::new(cpu)).expect("a CPU of its own")),
        counts: &|| memory.stats().into(),
        held: &|| memory.held_by_cpus() + memory.in_depots(),
        // No workload makes a request that may dip below a watermark.
        wrong: &|| check::above_min(&memory, 0),
    });
    let failed =
        |failure| SimulationError::Failed { contender: contender.label.clone(), seed, failure };
    let window = window.map_err(failed)?;
    match wrong(&memory) {
        None => Ok(window),
        Some(what) => {
            Err(SimulationError::Books { contender: contender.label.clone(), seed, what })
        }
    }
}

/// What is wrong with a memory that everything was given back to.
fn wrong(memory: &Memory<'_, Simulated>) -> Option<String> {
    memory.drain_all();
    match memory.check() {
        Err(violation) => Some(violation.to_string()),
        Ok(()) if memory.free() != memory.managed() => {
            Some(format!("{} of {} frames came back", memory.free(), memory.managed()))
        }
        Ok(()) => None,
    }
}
