//! *tlb-batch* (2015): reclaim interrupts other CPUs once for a batch of unmapped pages, instead of
//! once for each page.
//!
//! | module   | job                                                  |
//! |----------|------------------------------------------------------|
//! | this one | published figures, and counts of running kernels     |
//! | `trials` | the runs: machines, readers, settings                |
//! | `checks` | checks besides agreement                             |
//! | `host`   | the run on this machine (feature `host`)             |

mod checks;
#[cfg(feature = "host")]
mod host;
mod trials;

use super::{
    Experiment, Key, Plan, Results, Tell,
    bands::{self, Varied},
    pairs::Steps,
    settings::BySetting,
};
use crate::report::{Better, Published, Quantity, Reference, Role, Row, Run, Sides, Unit, decimal};
use crate::{Error, parallel};
use checks::{goals, sustained};
use trials::{
    BATCH_OF_32, BATCH_OF_A_PAGE, BATCHED, DESK, EIGHT, FOUR, LARGE, NO_PRESSURE, OFF,
    PER_READ_PAGE, PROCESSES, THREADS, Trial,
};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "tlb-batch",
    title: "flush translations once for many unmapped pages (2015)",
    question: "\
mmap-read: sparse files of several times the memory, mapped and read once. Reclaim unmaps every page,
and flushes it from the TLBs of CPUs that may have cached it. Readers are processes with a file each
(mmap-read), or threads of one process that every CPU runs (mmap-read-threads). Files of half the memory
(mmap-read, no pressure): nothing is reclaimed, and batches must not matter.
  off, all                tlb.batching=off, then all: the published change, as in kernels
  off, batches of 32      the first version of the series: 32 pages a batch (here all CPUs fill one batch, there
                          each task its own), each flushed by its address, whether or not they are neighbours. The
                          price is modelled: a flush of scattered pages costs as much as 32 invalidations of a page
  off, batches of 500     the same with the addresses that fit into a page
  all, lazy, same bound   then lazy, with at most as many unflushed frames as with all
  all, lazy               then lazy, with its default bound: a 200th of the memory
Memory is smaller than that of the published machines: the figures depend on the number of reclaimed
pages; distances between watermarks, in frames, and batches of CPU lists are those of the published
machines. Kernels ran on 4 and 8 virtual CPUs; their figures are counts.
A seed takes some 4 minutes of CPU time with bands; `--quick` is a short run.
On this machine (host:1) the library reclaims pages of real files over real memory, and the kernel sends
the interrupts: settings alternate, figures are medians of rounds, and differ from run to run.",
    picture: None,
    run,
};

const SOURCE: &str = "mm: send one IPI per CPU to TLB flush all entries after unmapping pages, v5 \
                      (Linux 4.3); interrupts per page follow from interrupts per second, elapsed \
                      time and 10 times the memory, and count all kinds of interrupts";
const FIRST_SOURCE: &str = "TLB flush multiple pages with a single IPI, v4 (2015)";
const NO_CHANGE: &str = "the series on batched flushes: nothing changes where memory is not short; no figure was \
                         published, so up to 1 % is no change";
/// Changes up to this one, in percent, are no change.
const SAME_PERCENT: f64 = 1.0;
const SERVER: &str = "4 nodes, 48 CPUs, 64 GB";
const SMALL: &str = "1 node, 8 GB";
const FITTED: &str = "the file system's cost of a page of a hole was chosen to match system time per \
                      page, with batches";
const KERNEL: &str = "Linux 6.1, 4 and 8 CPUs in QEMU, classic LRU: counts; there is no kernel \
                      without batches";

/// The figures of every pair.
const FIGURES: [&str; 8] = [
    "ipis_per_reclaimed_page",
    "unmaps_per_flush",
    "unflushed_frames_max",
    "scans_per_reclaimed_page",
    "elapsed_s",
    "system_time_s",
    "ipis_per_s",
    "flush_and_lock_pct",
];

/// The figures of pairs without published ones.
const COMPARED: [&str; 3] = ["ipis_per_reclaimed_page", "unflushed_frames_max", "elapsed_s"];

/// The figures of readers whose files fit into memory.
const WITHOUT_PRESSURE: [&str; 2] = [PER_READ_PAGE, "elapsed_s"];

/// The figures of the first version of the series.
const FIRST_VERSION: [&str; 4] =
    ["ipis_per_reclaimed_page", "unmaps_per_flush", "elapsed_s", "ipis_per_s"];

/// Figures of time.
const MODELLED: [&str; 4] = ["elapsed_s", "system_time_s", "ipis_per_s", "flush_and_lock_pct"];

/// A part of the work that one thread does.
enum Job<'t> {
    /// Runs all settings of a trial.
    Run(&'t Trial),
    /// Runs a comparison, by the number of the setting after the change, on machines with other parameters.
    Vary(&'t Trial, usize),
    /// Runs readers of disks.
    Stored(Box<Trial>),
}

/// The results of a [`Job`].
enum Done {
    Settings(BySetting),
    Varied(Vec<Varied>),
    Stored(Box<Run>),
}

impl Job<'_> {
    fn run(&self, plan: &Plan, done: &dyn Fn(u64)) -> Result<Done, Error> {
        Ok(match self {
            Self::Run(trial) => Done::Settings(trial.run(plan, done)?),
            Self::Vary(trial, after) => Done::Varied(trial.vary(plan, *after, done)?),
            Self::Stored(trial) => {
                let run = trial.run_default(plan.seeds[0])?;
                done(1);
                Done::Stored(Box::new(run))
            }
        })
    }

    /// The number of its steps.
    fn steps(&self, plan: &Plan) -> usize {
        match self {
            Self::Run(trial) => trial.settings().len() * plan.seeds.len(),
            Self::Vary(trial, _) => bands::count(&trial.paging.spec, plan),
            Self::Stored(_) => 1,
        }
    }
}

/// The jobs: each trial, and then its bands, in the order in which [`collect`] takes their results.
fn jobs<'t>(trials: &'t [Trial], plan: &Plan) -> Result<Vec<Job<'t>>, Error> {
    let of_trial = |trial: &'t Trial| {
        let bands = trial.banded(plan).into_iter().map(move |(_, after)| Job::Vary(trial, after));
        std::iter::once(Job::Run(trial)).chain(bands)
    };
    let stored = Job::Stored(Box::new(trials::stored(plan)?));
    Ok(trials.iter().flat_map(of_trial).chain([stored]).collect())
}

fn run(plan: &Plan, tell: &mut Tell<'_>) -> Result<Results, Error> {
    let trials = trials::trials(plan)?;
    let jobs = jobs(&trials, plan)?;
    let mut steps = Steps::new(jobs.iter().map(|job| job.steps(plan)).sum::<usize>() + 1, tell);
    let run = |job: &Job<'_>, done: &(dyn Fn(u64) + Sync)| job.run(plan, done);
    let done = parallel::map(&jobs, parallel::processors(), run, &mut |_| steps.step());
    let mut results = Results { rows: rows(), ..Results::default() };
    collect(&mut results, &trials, plan, done)?;
    // The machine is idle again: times of real memory would be longer beside other runs.
    #[cfg(feature = "host")]
    host::add(&mut results, plan);
    steps.step();
    results.rows.retain(|row| row.measured.is_some() || row.modelled.is_some());
    results.rows.sort_by_key(place);
    results.findings.extend(findings(&results));
    let banded = trials.iter().filter(|trial| trial.is_published());
    results.findings.extend(bands::described(banded.map(|trial| &trial.paging.spec), plan));
    results.not_modelled = &NOT_MODELLED;
    Ok(results)
}

/// Enters what the jobs of [`jobs`] returned into the results.
fn collect(
    results: &mut Results,
    trials: &[Trial],
    plan: &Plan,
    done: Vec<Result<Done, Error>>,
) -> Result<(), Error> {
    let mut trials = trials.iter();
    // The trial of the latest settings, its pairs that get bands, and the first of these.
    let mut banded: Vec<(Key<'_>, Option<Varied>)> = Vec::new();
    for done in done {
        match done? {
            Done::Settings(outcome) => {
                let Some(trial) = trials.next() else { continue };
                let pairs = trial.banded(plan).into_iter().rev();
                banded = pairs
                    .map(|(subject, after)| (trial.key(subject, ""), outcome.first(OFF, after)))
                    .collect();
                enter(results, trial, plan, outcome);
            }
            Done::Varied(varied) => {
                if let Some((key, Some(as_is))) = banded.pop() {
                    for metric in MODELLED {
                        results.banded(Key { metric, ..key }, &as_is, &varied);
                    }
                }
            }
            Done::Stored(run) => {
                if !plan.quick {
                    results.checks.push(sustained(&run));
                }
                results.runs.push(*run);
            }
        }
    }
    Ok(())
}

/// Enters the figures of a trial into rows, its checks and its runs.
fn enter(results: &mut Results, trial: &Trial, plan: &Plan, outcome: BySetting) {
    for (subject, before, after) in trials::PAIRS {
        let shown = match subject {
            BATCHED if trial.workload == NO_PRESSURE => &WITHOUT_PRESSURE[..],
            BATCHED => &FIGURES[..],
            BATCH_OF_32 | BATCH_OF_A_PAGE => &FIRST_VERSION[..],
            _ => &COMPARED[..],
        };
        for metric in shown {
            let key = trial.key(subject, metric);
            fill(results, key, outcome.sides(before, after, metric));
        }
    }
    results.findings.extend(price(trial, &outcome));
    if !plan.quick && trial.workload != NO_PRESSURE {
        results.checks.extend(goals(trial, &outcome));
    }
    results.runs.extend(outcome.medians());
}

fn fill(results: &mut Results, key: Key<'_>, sides: Option<Sides>) {
    if MODELLED.contains(&key.metric) {
        results.modelled(key, sides);
    } else {
        results.measured(key, sides);
    }
}

/// The position of a row: by machine and readers, then figure by figure.
fn place(row: &Row) -> (usize, usize, usize, usize) {
    let of =
        |names: &[&str], name: &str| names.iter().position(|&it| it == name).unwrap_or(usize::MAX);
    let subjects = [BATCHED, BATCH_OF_32, BATCH_OF_A_PAGE, trials::SAME_BOUND, trials::LAZY];
    (
        of(&[LARGE, DESK, FOUR, EIGHT, trials::HOST], &row.machine),
        of(&[PROCESSES, THREADS, NO_PRESSURE], &row.workload),
        of(&FIGURES, &row.metric),
        of(&subjects, &row.subject),
    )
}

/// Published figures without a row.
const NOT_MODELLED: [&str; 1] = [
    "batches of migrating pages (a patch of the first version): compaction flushes once for all pages that it moves at once, \
     with any tlb.batching",
];

/// The reason why times and rates are judged by their change only.
const LEVELS: &str = "before the change: a published reader took 35 us of system time per page, and the model has the costs of \
                      faults, reclaim and flushes, not of the file system";

/// Published figures, and counts of running kernels.
fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    let machines = [
        (LARGE, SERVER, [162.21, 121.31], [5927.0, 4195.0], [900e3, 180e3], [0.870, 0.130]),
        (DESK, SMALL, [27.32, 23.14], [109.15, 83.78], [500e3, 45e3], [0.651, 0.0497]),
    ];
    for (machine, theirs, elapsed, system, per_second, per_page) in machines {
        let row = |metric, unit, [before, after]: [f64; 2]| {
            let key = Key { workload: PROCESSES, machine, subject: BATCHED, metric };
            let published = Published::sides(before, after, theirs, SOURCE);
            let fitted = machine == DESK && metric == "system_time_s";
            let role = if fitted { Role::Fitted(FITTED.into()) } else { Role::Predicted };
            let level = match metric {
                "ipis_per_reclaimed_page" => Role::Predicted,
                _ => Role::Shown(LEVELS.into()),
            };
            let row = key.row(EXPERIMENT.name, unit, Some(Better::Lower)).published(published);
            row.role(role).also(Quantity::Before, level)
        };
        rows.extend([
            row("ipis_per_reclaimed_page", Unit::Ratio, per_page),
            row("elapsed_s", Unit::Seconds, elapsed),
            row("system_time_s", Unit::Seconds, system),
            row("ipis_per_s", Unit::PerSecond, per_second),
        ]);
    }
    let first_version = [
        (LARGE, SERVER, BATCH_OF_32, "ipis_per_s", Unit::PerSecond, [900e3, 180e3]),
        (LARGE, SERVER, BATCH_OF_A_PAGE, "ipis_per_s", Unit::PerSecond, [900e3, 60e3]),
        (LARGE, SERVER, BATCH_OF_A_PAGE, "elapsed_s", Unit::Seconds, [166.90, 119.80]),
        (DESK, SMALL, BATCH_OF_A_PAGE, "elapsed_s", Unit::Seconds, [22.19, 19.90]),
    ];
    for (machine, theirs, subject, metric, unit, [before, after]) in first_version {
        let key = Key { workload: PROCESSES, machine, subject, metric };
        let published = Published::sides(before, after, theirs, FIRST_SOURCE);
        rows.push(key.row(EXPERIMENT.name, unit, Some(Better::Lower)).published(published));
    }
    for (machine, theirs) in [(LARGE, SERVER), (DESK, SMALL)] {
        for (metric, unit) in [(PER_READ_PAGE, Unit::Ratio), ("elapsed_s", Unit::Seconds)] {
            let key = Key { workload: NO_PRESSURE, machine, subject: BATCHED, metric };
            let row = key.row(EXPERIMENT.name, unit, Some(Better::Lower));
            let row = row.published(Published::change(0.0, theirs, NO_CHANGE));
            rows.push(Row { resolution: SAME_PERCENT, ..row });
        }
    }
    // Interrupts received per reclaimed page, unmaps per flush sent, pages scanned per reclaimed
    // page.
    let kernels = [
        (PROCESSES, FOUR, 0.0242, 45.7, 2.16),
        (THREADS, FOUR, 0.0828, 28.0, 2.16),
        (PROCESSES, EIGHT, 0.0317, 31.5, 2.17),
        (THREADS, EIGHT, 0.2669, 20.5, 2.42),
    ];
    for (workload, machine, interrupts, unmaps, scans) in kernels {
        let row = |metric, better, after: f64| {
            Key { workload, machine, subject: BATCHED, metric }
                .row(EXPERIMENT.name, Unit::Ratio, Some(better))
                .kernel(None, after, KERNEL)
                .judged(Quantity::After, Reference::KernelOrBetter)
                .role(Role::Predicted)
        };
        rows.extend([
            row("ipis_per_reclaimed_page", Better::Lower, interrupts),
            row("unmaps_per_flush", Better::Higher, unmaps),
            row("scans_per_reclaimed_page", Better::Lower, scans),
        ]);
    }
    rows
}

/// The cost of flushes by address, as a finding. It is the reason if the first version gains too little.
fn price(trial: &Trial, outcome: &BySetting) -> Option<String> {
    Some(format!(
        "{}, batches of 500: the CPUs that a flush interrupts invalidate 500 addresses each, most of them of other processes: \
         {} cycles for each reclaimed page (at most: a flush has {} pages on average; the cycles of an invalidation are \
         estimated)",
        trial.name(),
        decimal(trial.cycles_by_address(outcome)?, 0),
        decimal(outcome.median(trials::OF_A_PAGE, "unmaps_per_flush")?, 0),
    ))
}

/// Findings from the figures.
fn findings(results: &Results) -> Vec<String> {
    let row = results
        .rows
        .iter()
        .find(|row| (&*row.machine, &*row.metric, &*row.subject) == (LARGE, "elapsed_s", BATCHED));
    let change = row.and_then(|row| row.modelled.as_ref()?.change_pct.as_ref());
    let Some(change) = change else { return Vec::new() };
    vec![format!(
        "with batches the readers of the large machine take {} % less time",
        decimal(-change.median, 1)
    )]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The trial of `workload` on the small machine, with 64 MiB.
    fn small(plan: &Plan, workload: &str) -> Trial {
        let mut trials = trials::trials(plan).unwrap().into_iter();
        let is_small =
            |trial: &Trial| (trial.workload, trial.paging.spec.name()) == (workload, DESK);
        trials.find(is_small).unwrap().with_frames(1 << 14)
    }

    fn results(trial: &Trial, plan: &Plan) -> Results {
        let mut results = Results { rows: rows(), ..Results::default() };
        enter(&mut results, trial, plan, trial.run(plan, &|_| ()).unwrap());
        results
    }

    #[test]
    fn a_small_machine_sends_far_fewer_interrupts_with_batches() {
        let plan = Plan::new(1, true);
        let outcome = small(&plan, PROCESSES).run(&plan, &|_| ()).unwrap();
        let sides = outcome.sides(OFF, trials::ALL, "ipis_per_reclaimed_page").unwrap();
        let (before, after) = (sides.before.median, sides.after.unwrap().median);
        assert!(before > 0.3 && after < before / 4.0, "{before} {after}");
    }

    #[test]
    fn without_pressure_nothing_is_flushed_and_nothing_changes() {
        let plan = Plan::new(1, true);
        let trial = small(&plan, NO_PRESSURE);
        let mut results = results(&trial, &plan);
        for metric in WITHOUT_PRESSURE {
            let row = results.find(trial.key(BATCHED, metric)).expect("the row is gone");
            assert_eq!(row.published.as_ref().and_then(|it| it.change_pct), Some(0.0));
            let sides = row.modelled.as_ref().or(row.measured.as_ref()).expect("no figure of ours");
            assert_eq!(sides.change_pct.as_ref().unwrap().median, 0.0, "{metric}");
        }
        assert_eq!(results.runs.len(), 2, "off and all");
        for run in &results.runs {
            let of = |name: &str| run.metrics[name].median;
            assert_eq!([of("pgsteal"), of("unmaps"), of("nr_tlb_remote_flush")], [0.0; 3]);
            assert!(of("pages") >= 8000.0, "{} of the files' pages were read", of("pages"));
        }
    }

    #[test]
    fn the_first_version_has_its_rows_and_its_price() {
        let plan = Plan::new(1, true);
        let trial = small(&plan, PROCESSES);
        let mut results = results(&trial, &plan);
        for subject in [BATCH_OF_32, BATCH_OF_A_PAGE] {
            for metric in FIRST_VERSION {
                let row = results.find(trial.key(subject, metric)).expect("the row is gone");
                assert!(row.measured.is_some() || row.modelled.is_some(), "{subject} {metric}");
            }
        }
        let price = results.findings.iter().find(|it| it.contains("invalidate 500 addresses"));
        assert!(price.is_some_and(|it| it.starts_with("mmap-read on desk-1n-8, ")), "{price:?}");
    }

    #[test]
    fn bands_belong_to_their_rows() {
        let plan = Plan { variation: bands::Variation::Each, ..Plan::new(1, false) };
        let trials = trials::trials(&plan).unwrap();
        let jobs = jobs(&trials, &plan).unwrap();
        let bands = |trial: &Trial| {
            let of = |job: &&Job<'_>| matches!(job, Job::Vary(of, _) if of.name() == trial.name());
            jobs.iter().filter(of).count()
        };
        let count = |workload, machine| {
            let of = |it: &&Trial| (it.workload, it.paging.spec.name()) == (workload, machine);
            bands(trials.iter().find(of).unwrap())
        };
        assert_eq!([count(PROCESSES, LARGE), count(NO_PRESSURE, LARGE)], [3, 1]);
        assert_eq!([count(THREADS, LARGE), count(PROCESSES, FOUR)], [0, 0]);
    }

    #[test]
    fn published_rows_come_before_rows_of_ours_alone() {
        let mut rows = rows();
        rows.reverse();
        rows.sort_by_key(place);
        assert_eq!((&*rows[0].machine, &*rows[0].subject), (LARGE, BATCHED));
        assert_eq!(rows.last().map(|row| &*row.machine), Some(EIGHT));
        assert_eq!(rows.len(), 8 + 4 + 4 + 12);
    }
}
