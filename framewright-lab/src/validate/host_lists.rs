//! The library on threads over real memory, and on as many simulated CPUs, with small per-CPU lists:
//! the zone lock is taken often.

use super::{Here, Row, Tolerance, Validation, faults};
use crate::Error;
use crate::report::{Metric, Run, Unit};
use crate::simulated::{Column, ListSizes, Simulation};
use crate::workloads::{
    Side, Workload,
    host::{HostSpec, Limit, Rounds},
    page_fault::PageFault,
};

const WORK: &str = "the library on threads, lists of at most 186 frames";
/// Linux's values of 2018.
const LISTS: ListSizes = ListSizes { batch: 31, high: 186 };
/// The most threads: each holds 128 MiB.
const MOST_THREADS: usize = 4;
/// Bursts of each thread in a round.
const BURSTS: u32 = 4;
/// The least number of CPUs with which waits are judged.
const WAITING: usize = 4;
/// Work around the allocator that threads do not do: faults, page tables, LRU lists.
const AROUND: [&str; 3] = ["fault.service", "fault.unmap", "fault.lru_add"];

/// The figures of a run, with their judgement.
const FIGURES: [(&str, Unit, Tolerance); 3] = [
    ("acquisitions_per_page", Unit::Ratio, Tolerance::Count),
    ("frames_per_lock_hold", Unit::FramesPerAcquisition, Tolerance::Count),
    ("contended_pct", Unit::Percent, Tolerance::Time),
];

/// The rows of one thread, and of several.
pub(super) fn rows(validation: &Validation, here: &Here) -> Result<Vec<Row>, Error> {
    let most = here.cpus.len().min(MOST_THREADS);
    let mut rows = Vec::new();
    for threads in [1, most].into_iter().take(most.min(2)) {
        rows.extend(rows_of(validation, threads as u16)?);
    }
    Ok(rows)
}

fn rows_of(validation: &Validation, threads: u16) -> Result<Vec<Row>, Error> {
    let work = PageFault { frames: validation.pages, ..PageFault::new(1) };
    let work = Workload::PageFault(work);
    let frames = work.ample_frames(threads);
    let mut spec = validation.spec.with_cpus(threads)?;
    for key in AROUND {
        spec = spec.scaled(key, 0.0)?;
    }
    let plan = faults::plan(&work, validation.pages, threads);
    let simulation = Simulation { work: work.clone(), spec, frames: Some(frames), plan };
    let column = Column::framewright(&Side::new("framewright"));
    let column = simulation.with_lists(&column, Some(LISTS));
    let modelled = simulation.run(std::slice::from_ref(&column), &[1, 2, 3], &mut |_, _| {})?;
    let crate::simulated::Design::Framewright(tuning) = column.design else {
        return Err(Error::broken("a column of the library has another design"));
    };
    let side = Side { tuning, ..Side::new("framewright") };
    let host = HostSpec { cpus: threads, frames, pin: true };
    let rounds = Rounds { warm_up: 2, rounds: validation.rounds, limit: Limit::Cycles(BURSTS) };
    let measured = work.run_on_host(&host, &[side], rounds, &mut |_, _| {})?;
    if let Some(failed) = measured.checks.iter().find(|check| !check.passed) {
        return Err(Error::broken(format_args!("{}: {}", failed.name, failed.detail)));
    }
    let runs = [&measured.runs[0], &modelled.runs[0]];
    let wanted = |(name, ..): &&(&str, Unit, Tolerance)| threads > 1 || *name != "contended_pct";
    Ok(FIGURES.iter().filter(wanted).map(|figure| row(threads, figure, runs)).collect())
}

fn row(threads: u16, (name, unit, tolerance): &(&str, Unit, Tolerance), runs: [&Run; 2]) -> Row {
    let what = format!("host_{threads}_{name}");
    let [measured, modelled] = runs
        .map(|run| run.metrics.get(*name).cloned().map(|metric| Metric { better: None, ..metric }));
    let row = Row { measured, modelled, ..Row::new(WORK, what, *unit, *tolerance, [&[], &[]]) };
    let few = usize::from(threads) < WAITING && *tolerance == Tolerance::Time;
    row.unless(
        few.then(|| {
            format!("waits are judged with {WAITING} or more CPUs, and there are {threads}")
        }),
    )
}
