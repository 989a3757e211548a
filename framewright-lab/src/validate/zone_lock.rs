//! Waits for the zone lock of the real kernel: processes fault and unmap while the kernel's per-CPU
//! lists have the smallest permitted size, so that the kernel often takes the lock.
//!
//! A first recording has all events, and identifies the lock of the zone. The measured recordings have
//! only the events of waits, because events under the lock make holds longer.

use std::{fs, ops::ControlFlow, path::Path};

use super::{
    Here, Row, Tolerance, Validation, faults,
    tasks::{Kind, Work, round},
};
use crate::Error;
use crate::record::{Destination, LOCKS, RECORDED, Session, Tracefs, Wanted};
use crate::replay::LockWaits;
use crate::report::Unit;
use crate::setting::Setting;
use crate::simulated::{Column, ListSizes};
use crate::trace::{Snapshot, TraceReader};
use crate::workloads::Side;

const WORK: &str = "waits for the kernel's zone lock, per-CPU lists as small as possible";
const WAITS: &str = "zone_lock_waits_per_1000_faults";
const NANOS: &str = "zone_lock_wait_ns_per_fault";
/// The setting of the lists, and a value that makes them as small as the kernel permits.
const FRACTION: &str = "/proc/sys/vm/percpu_pagelist_high_fraction";
const SMALL: &str = "100000";
/// The kernel's tables, with the sizes of the lists.
const TABLES: &str = "/proc/zoneinfo";
/// Bytes of a CPU's buffer of events.
const BUFFER: u64 = 16 << 20;
/// Pages of the first recording: its events fit in the buffer.
const LEARN: usize = 4096;
/// The least number of CPUs with which waits are judged.
const WAITING: usize = 4;
const SEEDS: u64 = 3;

/// Waits for the zone lock of the running kernel.
struct Measured {
    lists: ListSizes,
    /// Waits per 1000 faults, by round.
    waits: Vec<f64>,
    /// Nanoseconds of waits per fault, by round.
    nanos: Vec<f64>,
}

/// The rows of all CPUs.
pub(super) fn rows(validation: &Validation, here: &Here) -> Result<Vec<Row>, Error> {
    let missing = |why: String| {
        [WAITS, NANOS].map(|what| Row::missing(WORK, what, why.clone())).into_iter().collect()
    };
    if let Err(why) = here.two() {
        return Ok(missing(why));
    }
    let measured = match measure(validation, &here.cpus) {
        Ok(measured) => measured,
        Err(why) => return Ok(missing(why)),
    };
    let (waits, nanos) = model(validation, here.cpus.len() as u16, measured.lists)?;
    let cpus = here.cpus.len();
    let few = (cpus < WAITING)
        .then(|| format!("waits are judged with {WAITING} or more CPUs, and there are {cpus}"));
    let row = |what, unit, figures| {
        Row::new(WORK, what, unit, Tolerance::Time, figures).unless(few.clone())
    };
    Ok(vec![
        row(WAITS, Unit::Ratio, [&measured.waits, &waits]),
        row(NANOS, Unit::Nanos, [&measured.nanos, &nanos]),
    ])
}

fn measure(validation: &Validation, cpus: &[usize]) -> Result<Measured, String> {
    let tracefs = Tracefs::find().map_err(in_words)?;
    tracefs.remove_stale();
    let _small_lists = Setting::change(Path::new(FRACTION), SMALL)?;
    let lists = lists()?;
    let learn = Work { pages: LEARN, times: 3 };
    let (learned, _) = recorded(&tracefs, RECORDED, learn, cpus)?;
    let locks: Vec<u64> = learned.zone_locks().map(|(lock, _)| lock).collect();
    if locks.is_empty() && learned.named().is_none() {
        return Err("no CPU waited for a zone lock while the lock was identified".to_owned());
    }
    let work = Work { pages: validation.pages as usize, times: faults::TIMES };
    let mut measured = Measured { lists, waits: Vec::new(), nanos: Vec::new() };
    for _ in 0..validation.rounds {
        let (waits, faults) = recorded(&tracefs, LOCKS, work, cpus)?;
        let (times, nanos) = waits.named().unwrap_or_else(|| {
            let of = |lock: &u64| waits.of_lock(*lock);
            locks.iter().map(of).fold((0, 0), |sum, of| (sum.0 + of.times, sum.1 + of.nanos))
        });
        measured.waits.push(1000.0 * times as f64 / faults as f64);
        measured.nanos.push(nanos as f64 / faults as f64);
    }
    Ok(measured)
}

/// The sizes of the kernel's lists, in its largest zone.
fn lists() -> Result<ListSizes, String> {
    let text = fs::read_to_string(TABLES).map_err(|error| format!("{TABLES}: {error}"))?;
    // A snapshot names each of its tables.
    let snapshot = Snapshot::parse(TABLES, format!("# zoneinfo\n{text}").as_bytes());
    let snapshot = snapshot.map_err(in_words)?;
    let zone = snapshot.zones.iter().max_by_key(|zone| zone.managed);
    let lists = zone.and_then(|zone| zone.cpus.first());
    let lists = lists.ok_or(format!("{TABLES} has no per-CPU lists"))?;
    let [batch, high] =
        [lists.batch, lists.high_min.unwrap_or(lists.high)].map(|frames| frames.max(1) as u32);
    Ok(ListSizes { batch, high })
}

/// Records the waits of processes that work, one on each CPU, and their page faults.
fn recorded(
    tracefs: &Tracefs,
    events: &'static [Wanted],
    work: Work,
    cpus: &[usize],
) -> Result<(LockWaits, u64), String> {
    let folder = tempfile::tempdir().map_err(in_words)?;
    let destination = Destination::claim(&folder.path().join("waits"), false).map_err(in_words)?;
    let file = destination.files().text;
    let session = Session::start_own(tracefs, &destination, BUFFER, events).map_err(in_words)?;
    let round = round(Kind::Processes, work, cpus);
    let capture = session.stop().map_err(in_words)?;
    let faults = round?.faults;
    let written = capture.write(destination, &mut |_| ControlFlow::Continue(()));
    let summary = written.map_err(in_words)?;
    let mut waits = LockWaits::default();
    if summary.events > 0 {
        let mut reader = TraceReader::open(&file).map_err(in_words)?;
        while let Some(record) = reader.next_record().map_err(in_words)? {
            waits.add(record.cpu, record.nanos, &record.event, |_| 0);
        }
    }
    Ok((waits, faults))
}

/// Waits per 1000 faults, and nanoseconds of waits per fault, of list-buddy with lists of these sizes.
fn model(
    validation: &Validation,
    cpus: u16,
    lists: ListSizes,
) -> Result<(Vec<f64>, Vec<f64>), Error> {
    let simulation = faults::simulation(validation, Kind::Processes, cpus)?;
    let column = Column::list_buddy("list-buddy", &Side::new("list-buddy"));
    let column = simulation.with_lists(&column, Some(lists));
    let mhz = simulation.spec.costs().clock.frequency_mhz as f64;
    let (mut waits, mut nanos) = (Vec::new(), Vec::new());
    for seed in 1..=SEEDS {
        let window = simulation.run_once(&column, seed)?;
        let (cycles, faults) = (window.cycles.unwrap_or_default(), window.done.pages.max(1) as f64);
        waits.push(1000.0 * cycles.contended as f64 / faults);
        nanos.push(cycles.waiting as f64 * 1000.0 / mhz / faults);
    }
    Ok((waits, nanos))
}

fn in_words(error: impl std::fmt::Display) -> String {
    error.to_string()
}
