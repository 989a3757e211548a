//! A memory for each column of the comparison, large enough for the work, and the checks at the end
//! of the work.

use framewright::{Config, FrameRange, InitError, Layout, Memory, MemoryRange, Pfn, ZoneId};
use framewright_host::{HostBuilder, HostError, HostMachine, Metadata, PageSize};
use std::fs;

use super::HostSpec;
use crate::Error;
use crate::{
    report::Check,
    workloads::{Side, Workload, cpu::Stopped, heat::Caches},
};

pub(super) type HostMemory<'m> = Memory<'m, HostMachine>;

/// The first CPU that stopped, and the reason.
pub(super) type End = Option<(u16, Stopped)>;

/// Memory that is populated before the run, on huge pages if the system has them: page faults of
/// the host are not measured.
fn machine(spec: &HostSpec) -> Result<HostMachine, HostError> {
    let builder = || -> HostBuilder {
        HostMachine::builder().frames(spec.frames).cpus(spec.cpus).pin(spec.pin).populate(true)
    };
    match builder().page_size(PageSize::Transparent).build() {
        Err(HostError::NoTransparentHugePages { .. }) => builder().build(),
        built => built,
    }
}

/// The metadata buffer of a side's memory.
pub(super) fn metadata(spec: &HostSpec, side: &Side) -> Result<Metadata, Error> {
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
) -> Result<HostMemory<'m>, Error> {
    let machine = machine(spec)?;
    let map = [machine.frames().into()];
    let memory = Memory::new(machine, &config(&map, spec, side), metadata.as_mut())
        .map_err(|reason| refused(spec, reason))?;
    refuse_too_small(work, spec, &memory)?;
    Ok(memory)
}

fn config<'c>(map: &'c [MemoryRange], spec: &HostSpec, side: &Side) -> Config<'c> {
    Config::new(map, spec.cpus).with_tuning(side.tuning)
}

fn refused(spec: &HostSpec, reason: InitError) -> Error {
    Error::input(format_args!(
        "cannot set up a memory of {} frames for {} CPUs: {reason}",
        spec.frames, spec.cpus
    ))
}

fn refuse_too_small(
    work: &Workload,
    spec: &HostSpec,
    memory: &HostMemory<'_>,
) -> Result<(), Error> {
    let zone = memory.zone(ZoneId::default()).unwrap();
    let (needed, usable) = (work.live_frames(spec.cpus), zone.managed.saturating_sub(zone.high));
    if needed <= usable {
        return Ok(());
    }
    let ample = work.ample_frames(spec.cpus);
    let [needed, usable, frames, ample] = [needed, usable, spec.frames, ample].map(mib);
    Err(Error::input(format_args!(
        "{} CPUs hold up to {needed} MiB, but only {usable} of {frames} MiB may be used: the rest is below the high \
         watermark; choose at least {ample} MiB of memory, or fewer CPUs",
        spec.cpus
    )))
}

/// The check of contents during the run, and that of invariants at its end.
pub(super) fn checks(stopped: &End, memories: &[HostMemory<'_>]) -> Vec<Check> {
    let contents = match stopped {
        None => "every frame was cleared, and kept the contents of its owner".to_owned(),
        Some((cpu, why)) => format!("CPU {cpu}: {why}"),
    };
    let wrong = memories.iter().find_map(|memory| {
        memory.drain_all();
        let zone = memory.zone(ZoneId::default()).unwrap();
        match (memory.check(), memory.platform().first_corruption()) {
            (Err(violation), _) => Some(violation.to_string()),
            (_, Some(corruption)) => Some(corruption.to_string()),
            _ if zone.free != zone.managed => {
                Some(format!("{} of {} frames are free", zone.free, zone.managed))
            }
            _ => None,
        }
    });
    vec![
        Check { name: "contents".to_owned(), passed: stopped.is_none(), detail: contents },
        Check::new(
            "invariants",
            wrong.is_none(),
            wrong.unwrap_or_else(|| {
                "all frames are free, and the metadata is consistent".to_owned()
            }),
        ),
    ]
}

pub(super) fn notes(memories: &[HostMemory<'_>]) -> Vec<String> {
    let missing = memories.first().and_then(|memory| memory.platform().no_remote_barrier());
    missing.map(|why| format!("owner lock: trylock, because {why}")).into_iter().collect()
}

fn mib(frames: u64) -> u64 {
    frames.div_ceil(256)
}

/// Frames of a core's cache if the system does not report it: 1 MiB.
const OF_CORE: u32 = 256;
/// Frames of a socket's cache if the system does not report it: 16 MiB.
const OF_SOCKET: u32 = 4096;

/// The caches of a machine of `cpus` threads; each thread counts as a core, all of one socket.
pub(super) fn caches(cpus: u16) -> Caches {
    Caches {
        core_of: (0..cpus).collect(),
        socket_of: vec![0; usize::from(cpus)],
        of_core: level(2).unwrap_or(OF_CORE),
        of_socket: level(3).unwrap_or(OF_SOCKET),
    }
}

fn level(level: u8) -> Option<u32> {
    let path = format!("/sys/devices/system/cpu/cpu0/cache/index{level}/size");
    frames(fs::read_to_string(path).ok()?.trim())
}

/// Frames of a size in the system's form: `1024K`.
fn frames(text: &str) -> Option<u32> {
    let kib: u32 = text.strip_suffix('K')?.parse().ok()?;
    Some(kib / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_in_kib() {
        assert_eq!(frames("2048K"), Some(512));
        assert_eq!(frames("2M"), None);
        assert_eq!(frames(""), None);
    }
}
