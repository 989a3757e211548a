//! A memory per side, large enough for the work; and what must hold in the end.

use framewright::{Config, FrameRange, InitError, Layout, Memory, MemoryRange, Pfn, ZoneId};
use framewright_host::{HostBuilder, HostError, HostMachine, Metadata, PageSize};

use super::{HostSpec, WorkloadError};
use crate::{
    report::Check,
    workloads::{Side, Workload, cpu::Stopped},
};

pub(super) type HostMemory<'m> = Memory<'m, HostMachine>;

/// The first CPU that was stopped, and by what.
pub(super) type End = Option<(u16, Stopped)>;

/// Memory that is there before the first touch, on huge pages where the system has them: what is
/// measured is this allocator, not the faults of the kernel's below it.
fn machine(spec: &HostSpec) -> Result<HostMachine, HostError> {
    let builder = || -> HostBuilder {
        HostMachine::builder().frames(spec.frames).cpus(spec.cpus).pin(spec.pin).populate(true)
    };
    match builder().page_size(PageSize::Transparent).build() {
        Err(HostError::NoTransparentHugePages { .. }) => builder().build(),
        built => built,
    }
}

/// The buffer that the memory of a side keeps its books in.
pub(super) fn metadata(spec: &HostSpec, side: &Side) -> Result<Metadata, WorkloadError> {
    let map: Vec<MemoryRange> = FrameRange::new(Pfn::new(0), Pfn::new(spec.frames))
        .into_iter()
        .map(MemoryRange::from)
        .collect();
    let layout = Layout::new::<HostMachine>(&config(&map, spec, side))
        .map_err(|reason| refused(spec, reason))?;
    Ok(Metadata::for_layout(&layout)?)
}

/// The memory of a side, large enough for the work.
pub(super) fn memory<'m>(
    work: &Workload,
    spec: &HostSpec,
    side: &Side,
    metadata: &'m mut Metadata,
) -> Result<HostMemory<'m>, WorkloadError> {
    let machine = machine(spec)?;
    let map = [machine.frames().into()];
    let memory = Memory::new(machine, &config(&map, spec, side), metadata.as_mut())
        .map_err(|reason| refused(spec, reason))?;
    refuse_too_small(work, spec, &memory)?;
    Ok(memory)
}

fn config<'c>(map: &'c [MemoryRange], spec: &HostSpec, side: &Side) -> Config<'c> {
    Config { tuning: side.tuning, ..Config::new(map, spec.cpus) }
}

fn refused(spec: &HostSpec, reason: InitError) -> WorkloadError {
    WorkloadError::Init { frames: spec.frames, cpus: spec.cpus, reason }
}

fn refuse_too_small(
    work: &Workload,
    spec: &HostSpec,
    memory: &HostMemory<'_>,
) -> Result<(), WorkloadError> {
    let zone = memory.zone(ZoneId::default()).unwrap();
    let (needed, usable) = (work.live_frames(spec.cpus), zone.managed.saturating_sub(zone.high));
    if needed <= usable {
        return Ok(());
    }
    let ample = work.ample_frames(spec.cpus);
    Err(WorkloadError::TooSmall { cpus: spec.cpus, needed, usable, frames: spec.frames, ample })
}

/// Contents during the run, books at its end.
pub(super) fn checks(stopped: &End, memories: &[HostMemory<'_>]) -> Vec<Check> {
    let contents = match stopped {
        None => "every frame was cleared, and held what its owner wrote".to_owned(),
        Some((cpu, why)) => format!("CPU {cpu}: {why}"),
    };
    let wrong = memories.iter().find_map(|memory| {
        memory.drain_all();
        let zone = memory.zone(ZoneId::default()).unwrap();
        match (memory.check(), memory.platform().first_corruption()) {
            (Err(violation), _) => Some(violation.to_string()),
            (_, Some(corruption)) => Some(corruption.to_string()),
            _ if zone.free != zone.managed => {
                Some(format!("{} of {} frames came back", zone.free, zone.managed))
            }
            _ => None,
        }
    });
    vec![
        Check { name: "contents".to_owned(), passed: stopped.is_none(), detail: contents },
        Check {
            name: "invariants".to_owned(),
            passed: wrong.is_none(),
            detail: wrong.unwrap_or_else(|| "all frames are free, and the books agree".to_owned()),
        },
    ]
}

pub(super) fn notes(memories: &[HostMemory<'_>]) -> Vec<String> {
    let missing = memories.first().and_then(|memory| memory.platform().no_remote_barrier());
    missing.map(|why| format!("owner lock: trylock, because {why}")).into_iter().collect()
}
