//! A replay on the library.

use std::mem::MaybeUninit;

use framewright::observe::CpuStats;
use framewright::{Config, InitError, Layout, Memory, MemoryRange, Tuning};
use framewright_sim::machine::Spec;

use super::Tables;
use super::allocator::Allocator;
use super::engine::Engine;
use super::kernel::{FreeReport, KernelActivity};
use super::lists::{Beginning, stats};
use super::machine::{Machine, Serial, refused};
use super::map::{self, PageblockMap};
use super::plan::Plan;
use super::report::{Activity, Balance, CpuReport, MachineReport, ReplayReport};
use super::survey::{Recording, Survey};
use super::tracks::{Traced, Tracks};
use crate::Error;
use crate::trace::Snapshot;

/// Builds the planned machine and replays the recording on it.
pub(super) fn replay(
    recording: &Recording,
    survey: &Survey,
    plan: &Plan,
    tables: &Tables,
    tuning: &Tuning,
    traced: Option<Traced<'_>>,
    progress: &mut dyn FnMut(f64),
) -> Result<ReplayReport, Error> {
    let frames = plan.managed();
    let setup = |error: InitError| refused(frames, plan.cpus, &error);
    let maps = map::map(plan, &survey.census);
    let ranges = memory_map(plan, &maps);
    let config = Config::new(&ranges, plan.cpus).with_tuning(*tuning);
    let layout = Layout::new::<Serial>(&config).map_err(setup)?;
    let mut buffer = Vec::with_capacity(layout.bytes() + layout.align());
    let metadata = aligned(buffer.spare_capacity_mut(), &layout);
    let common = Spec::uniform(1)?;
    let platform = Serial::new(*common.costs());
    let memory = Memory::new(platform, &config, metadata).map_err(setup)?;

    let mut engine = Engine::start(Machine::new(&memory, plan.cpus)?, survey, plan, &maps);
    drop(maps);
    let begin = Beginning::of(&engine.machine, plan, tables);
    let zones = || memory.zones().map(|zone| (zone.node.get(), zone.kind.name()));
    let tracks = traced.map(|traced| Tracks::new(traced, plan, zones(), survey.first_nanos));
    memory.platform().log_holds(tracks.is_some());
    engine.run(recording, tracks, progress)?;
    memory.platform().uncounted(|| memory.check()).map_err(|violation| {
        Error::broken(format_args!(
            "the allocator violated an invariant, please report this: {violation}"
        ))
    })?;
    Ok(report(engine, begin, tables.after.as_ref(), layout.bytes() as u64))
}

/// The frames of all zones.
fn memory_map(plan: &Plan, maps: &[Vec<PageblockMap>]) -> Vec<MemoryRange> {
    let zones = plan.zones.iter().zip(maps);
    let ranges = zones.flat_map(|(zone, map)| {
        let of_zone = |frames| MemoryRange::new(frames, zone.node, zone.kind);
        map::ranges(map).into_iter().map(of_zone)
    });
    ranges.collect()
}

/// The part of `buffer` from the first aligned address.
pub(crate) fn aligned<'b>(
    buffer: &'b mut [MaybeUninit<u8>],
    layout: &Layout,
) -> &'b mut [MaybeUninit<u8>] {
    let skip = buffer.as_ptr().align_offset(layout.align());
    buffer.get_mut(skip..).unwrap_or_default()
}

fn report(
    engine: Engine<'_, Machine<'_, '_>>,
    begin: Beginning,
    after: Option<&Snapshot>,
    metadata_bytes: u64,
) -> ReplayReport {
    let (survey, plan) = (engine.survey, engine.plan);
    let (mut first, mut last) = (CpuStats::default(), CpuStats::default());
    let mut kernel_total = KernelActivity::default();
    let mut cpus = Vec::new();
    let counters = begin.stats.iter().zip(stats(&engine.machine)).zip(&engine.kernel);
    for (cpu, ((before, after), kernel)) in (0..).zip(counters) {
        first += *before;
        last += after;
        kernel_total += kernel.activity();
        let ours = Activity::between(before, &after);
        cpus.push(CpuReport { cpu, ours, kernel: *kernel.activity() });
    }
    let memory = engine.machine.memory();
    let (in_use, held) = (begin.in_use, begin.held);
    let zones = begin.end(&engine.machine, plan, &engine.waits);
    let mut free = FreeReport::default();
    for (index, zone) in zones.iter().enumerate() {
        if index == 0 { free = zone.free.clone() } else { free.add(&zone.free) }
    }
    ReplayReport {
        file: survey.file.clone(),
        events: survey.events,
        others: survey.others.clone(),
        seconds: survey.seconds(),
        machine: MachineReport {
            frames: memory.managed(),
            cpus: engine.machine.cpus(),
            metadata_bytes,
            from_snapshot: plan.from_snapshot,
            in_use_at_start: in_use,
            held_at_start: held,
        },
        logical: engine.logical,
        balance: Balance::new(in_use, memory.in_use(), &engine.logical),
        total: Activity::between(&first, &last),
        kernel_total,
        cpus,
        free,
        zones,
        ends_early: after.is_some() && survey.ends_early(),
        samples: engine.samples,
        fallbacks: engine.fallbacks,
    }
}
