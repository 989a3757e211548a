//! *bulk-free* (2018): selecting the blocks of a bulk free before taking the zone lock. Two
//! parameters were fitted to published figures of one machine, `skx-2s-112`. The slowdown of caches
//! and memory under load was fitted to the rate of page faults before the change. The share of
//! selection in the kernel's instructions under the lock was fitted to the gain of the change. The
//! model predicts the rates and gains of the other three machines, and the waiting time for the
//! lock.
//!
//! The modelled gain of prefetching buddies is an upper bound. The descriptors of a frame and its
//! buddy of order 0 are two lines of the same 128 bytes. Broadwell and Skylake fetch such pairs
//! from memory by themselves (the *adjacent-line prefetcher*), so the kernel's prefetch has a
//! smaller effect there. The model has no such prefetcher, because its activity on a busy processor
//! is not published.

use framewright::{Tuning, tuning::BulkFree};
use framewright_peers::list_buddy::{
    BulkFree as ListRule, ListBuddy, ListTurns, MigrateType, Tuning as ListTuning,
};
use framewright_sim::machine::Spec;

use super::pairs::{self, Pair, column, run_pairs};
use super::{Experiment, Key, Plan, Results, Tell};
use crate::Error;
use crate::report::{Better, Check, Published, Quantity, Reference, Role, Row, Unit, each_run};
use crate::simulated::{Column, Design, ListSizes, Simulation};
use crate::workloads::{
    Side, Workload,
    kbuild::Kbuild,
    page_fault::{FreeOrder, PageFault},
};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "bulk-free",
    title: "select the blocks of a bulk free before taking the zone lock (2018)",
    question: "\
page-fault on the four published machines, lists of 186 frames in batches of 31, as in 2018:
pcp.bulk_free=select-under-lock, then select-before-lock, for list-buddy and for the library; the
further gain of prefetching the buddies' descriptors (list-buddy+prefetch); and both designs with random
frees, in which batches are not contiguous (page-fault-random). list-buddy takes blocks from all lists in
turn, as in 2018. kbuild: the share of bulk frees that find blocks of other types than movable on the
CPU's lists.",
    picture: None,
    run,
};

const SOURCE: &str =
    "mm/free_pcppages_bulk: do not hold lock when picking pages to free (Linux 4.17)";
const WAIT_SOURCE: &str = "mm/page_alloc: make sure __rmqueue() etc. always inline (Linux 4.15)";

/// Their machine, ours, and page faults per second before and after.
const PUBLISHED: [(&str, &str, f64, f64); 4] = [
    ("Broadwell, 2 sockets", "bdw-2s-88", 9_034_215.0, 9_536_374.0),
    ("Skylake, 2 sockets", "skx-2s-112", 7_971_818.0, 8_314_710.0),
    ("Broadwell, 4 sockets", "bdw-4s-192", 13_667_135.0, 14_070_408.0),
    ("Skylake, 4 sockets", "skx-4s-224", 15_677_465.0, 16_675_866.0),
];

/// The further gain of loading the buddies' descriptors before taking the lock.
const PREFETCH_SOURCE: &str =
    "mm/free_pcppages_bulk: prefetch buddy while not holding lock (Linux 4.17)";
const PREFETCHED: [(&str, &str, f64); 2] =
    [("Broadwell, 2 sockets", "bdw-2s-88", 8.4), ("Skylake, 2 sockets", "skx-2s-112", 2.8)];

/// The limitation of the figures for prefetching.
const PREFETCHER: &str = "\
prefetching buddies gains at most this: the model has no adjacent-line prefetcher, which fetches the \
buddy of a single frame by itself";

/// The machine to whose rate and gain parameters were fitted.
pub(super) const FITTED: &str = "skx-2s-112";

/// The list sizes of 2018.
const LISTS: ListSizes = ListSizes { batch: 31, high: 186 };
/// The figures that are shown.
const FIGURES: [&str; 5] = [
    "pages_per_s",
    "zone_lock_wait_pct",
    "lock_cycles_per_frame",
    "frames_per_lock_hold",
    "acquisitions_per_page",
];
/// Goal: the library's cycles under the lock per frame, as a share of list-buddy's.
const GOAL: f64 = 0.2;

pub(super) const CLASSIC: &str = "list-buddy";
const PREFETCHING: &str = "list-buddy+prefetch";
const LIBRARY: &str = "framewright";

fn run(plan: &Plan, tell: &mut Tell<'_>) -> Result<Results, Error> {
    let pairs = pairs(plan)?;
    let sides = 2 * pairs.len() * plan.seeds.len();
    let mut results = Results { rows: rows(), ..Results::default() };
    run_pairs(&pairs, plan, &figures, tell, &mut results)?;
    results.checks = checks(&results, plan, sides);
    results.checks.push(order_is_kept());
    results.not_modelled = &NOT_MODELLED;
    results.findings.push(PREFETCHER.to_owned());
    Ok(results)
}

fn figures(pair: &Pair) -> &'static [&'static str] {
    if pair.workload == KBUILD { &[MIXED] } else { &FIGURES }
}

/// Published figures without a row.
const NOT_MODELLED: [&str; 1] = [
    "the share of bulk frees that find pages only on the movable list after boot (41 %): there is no model of booting; \
     after a kernel build it has a row, as the share of the others (mixed_drains_pct)",
];

/// Whether blocks selected before the lock reach the free lists in the order in which they would be selected under it,
/// as the discussion of the change asked: later allocations get the same frames.
fn order_is_kept() -> Check {
    let later = |bulk_free| {
        let tuning = ListTuning {
            bulk_free,
            batch: Some(LISTS.batch),
            high: Some(LISTS.high),
            ..ListTuning::default()
        };
        let buddy = ListBuddy::with_tuning(1 << 13, 1, &tuning);
        let types = [MigrateType::Movable, MigrateType::Unmovable, MigrateType::Movable];
        let some = |number: usize| -> Vec<u64> {
            (0..number).filter_map(|at| buddy.alloc(0, 0, types[at % 3])).collect()
        };
        let mut frames = some(1 << 12);
        let mut random = fastrand::Rng::with_seed(1);
        random.shuffle(&mut frames);
        let freed = frames.into_iter().all(|frame| buddy.free(0, frame, 0).is_ok());
        (freed, some(1 << 12))
    };
    let (under, before) = (later(ListRule::SelectUnderLock), later(ListRule::SelectBeforeLock));
    Check::new(
        "order of free lists",
        under.0 && under == before,
        format!(
            "after random frees, {} allocations get the same frames with both rules",
            under.1.len()
        ),
    )
}

const MAPPED: &str = "page-fault";
const KBUILD: &str = "kbuild";
const RANDOM: &str = "page-fault-random";

/// All runs: three pairs on each machine, and both designs with random frees on the fitted machine.
fn pairs(plan: &Plan) -> Result<Vec<Pair>, Error> {
    let mut pairs = Vec::new();
    for (_, machine, ..) in PUBLISHED {
        let spec = Spec::preset(machine)?;
        for subject in [CLASSIC, PREFETCHING, LIBRARY] {
            pairs.push(pair(plan, spec.clone(), subject, FreeOrder::Mapping));
        }
    }
    pairs.push(kbuild(plan)?);
    let fitted = Spec::preset(FITTED)?;
    for subject in [CLASSIC, LIBRARY] {
        pairs.push(pair(plan, fitted.clone(), subject, FreeOrder::Random));
    }
    Ok(pairs)
}

/// Kernel builds, for the contents of lists. The publication does not name the machine.
fn kbuild(plan: &Plan) -> Result<Pair, Error> {
    let pair = pair(plan, Spec::uniform(KBUILD_CPUS)?, CLASSIC, FreeOrder::Mapping);
    let work = Workload::Kbuild(Kbuild::new(1));
    let time = pairs::length(plan, &work);
    let simulation = Simulation { work, plan: time, ..pair.simulation.clone() };
    Ok(Pair { workload: KBUILD, simulation, ..pair })
}

const KBUILD_CPUS: u16 = 4;
const KBUILD_MACHINE: &str = "uniform:4";
/// Bulk frees while lists of other types than movable hold blocks, in percent of all bulk frees.
const MIXED: &str = "mixed_drains_pct";
/// Of 9,100,508 bulk frees of a kernel build, those that found only movable pages.
const ONLY_MOVABLE: f64 = 8_435_483.0 / 9_100_508.0;

pub(super) fn pair(plan: &Plan, spec: Spec, subject: &'static str, free_order: FreeOrder) -> Pair {
    let work = Workload::PageFault(PageFault { free_order, ..PageFault::new(1) });
    let (time, classic) = (pairs::length(plan, &work), subject != LIBRARY);
    let (under, before) = (BulkFree::SelectUnderLock, BulkFree::SelectBeforeLock);
    let side = |rule, prefetch| side(rule, classic, prefetch);
    let (before, after) = match subject {
        // Both have the same rule: the labels name the other setting, too.
        PREFETCHING => [false, true]
            .map(|prefetch| {
                let side = side(before, prefetch);
                let label = format!("{}, prefetch_buddies={prefetch}", side.label);
                Column { label, ..side }
            })
            .into(),
        _ => (side(under, false), side(before, false)),
    };
    let workload = if free_order == FreeOrder::Mapping { MAPPED } else { RANDOM };
    let simulation = Simulation { work, spec, frames: None, plan: time };
    Pair { workload, subject, simulation, before, after, price_before: None }
        .with_lists(Some(LISTS))
}

/// One side of a pair.
fn side(rule: BulkFree, classic: bool, prefetch: bool) -> Column {
    let mut tuning = Tuning::default();
    tuning.pcp.bulk_free = rule;
    let value = match rule {
        BulkFree::SelectUnderLock => "select-under-lock",
        _ => "select-before-lock",
    };
    let setting = ("pcp.bulk_free", value);
    if !classic {
        return column(Column::framewright, tuning, setting);
    }
    let design = |side: &Side| Column::list_buddy(&side.label, side);
    let mut column = column(design, tuning, setting);
    if let Design::ListBuddy(tuning) = &mut column.design {
        tuning.prefetch_buddies = prefetch;
        tuning.list_turns = ListTurns::RoundRobin;
        column.settings.insert("prefetch_buddies".into(), prefetch.to_string());
    }
    column
}

/// The invariants, and the goal of the library.
fn checks(results: &Results, plan: &Plan, sides: usize) -> Vec<Check> {
    let invariants = Check::new(
        "invariants",
        true,
        format!(
            "after {} all frames are free, and the metadata is consistent",
            each_run(sides as u64)
        ),
    );
    let cycles = |subject| {
        let key =
            Key { workload: RANDOM, machine: FITTED, subject, metric: "lock_cycles_per_frame" };
        // The default settings of each: list-buddy selects under the lock.
        let row = results.rows.iter().find(|row| row.key() == key)?;
        let sides = row.modelled.clone()?;
        let side = if subject == CLASSIC { Some(sides.before) } else { sides.after };
        side.map(|metric| metric.median)
    };
    let (Some(classic), Some(library)) = (cycles(CLASSIC), cycles(LIBRARY)) else {
        return vec![invariants];
    };
    let share = library / classic;
    let goal = Check::new(
        "cycles under the lock",
        plan.quick || share <= GOAL,
        format!(
            "random frees on {FITTED}: {library:.1} cycles per frame, list-buddy {classic:.1}: \
             {:.1} % of them (at most {:.0} %)",
            100.0 * share,
            100.0 * GOAL
        ),
    );
    vec![invariants, goal]
}

/// The published figures.
fn rows() -> Vec<Row> {
    let throughput = PUBLISHED.map(|(theirs, machine, before, after)| {
        let key = key(machine, "pages_per_s");
        let published = Published::sides(before, after, theirs, SOURCE);
        let row = key.row(EXPERIMENT.name, Unit::PerSecond, Some(Better::Higher));
        row.published(published).role(role(machine)).also(Quantity::Before, role(machine))
    });
    let wait = [("Skylake, 2 sockets", FITTED, 85.0), ("Skylake, 4 sockets", "skx-4s-224", 81.0)];
    let wait = wait.map(|(theirs, machine, percent)| {
        let key = key(machine, "zone_lock_wait_pct");
        let published = Published::before(percent, theirs, WAIT_SOURCE);
        let row = key.row(EXPERIMENT.name, Unit::Percent, Some(Better::Lower));
        let row = row.published(published).role(role(machine));
        row.judged(Quantity::Before, Reference::Published)
    });
    let prefetch = PREFETCHED.map(|(theirs, machine, percent)| {
        let key = Key { subject: PREFETCHING, ..key(machine, "pages_per_s") };
        let published = Published::change(percent, theirs, PREFETCH_SOURCE);
        key.row(EXPERIMENT.name, Unit::PerSecond, Some(Better::Higher)).published(published)
    });
    let mixed = Key { workload: KBUILD, ..key(KBUILD_MACHINE, MIXED) };
    let mixed = mixed.row(EXPERIMENT.name, Unit::Percent, None).published(Published::before(
        100.0 * (1.0 - ONLY_MOVABLE),
        "a kernel build, machine not named",
        SOURCE,
    ));
    let mixed = mixed.judged(Quantity::Before, Reference::Published);
    throughput.into_iter().chain(wait).chain(prefetch).chain([mixed]).collect()
}

fn key<'k>(machine: &'k str, metric: &'k str) -> Key<'k> {
    Key { workload: "page-fault", machine, subject: "list-buddy", metric }
}

fn role(machine: &str) -> Role {
    if machine == FITTED {
        Role::Fitted(
            "latencies under load, the cost of selecting, and ageing were fitted on this machine"
                .into(),
        )
    } else {
        Role::Predicted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_run_has_a_label_of_its_own() {
        pairs::assert_labels_differ(&pairs(&Plan::new(1, true)).unwrap());
    }
}
