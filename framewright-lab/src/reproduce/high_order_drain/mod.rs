//! *high-order-drain* (2023): a process exit frees one block of order 1. Before the change, that
//! free drains the lists of its CPU.
//!
//! | module     | job                                                    |
//! |------------|--------------------------------------------------------|
//! | this one   | published figures, and counts of running kernels       |
//! | `trials`   | the runs: workloads, machines, list sizes              |

pub(super) mod trials;

use super::{
    Experiment, Key, Plan, Results, Tell,
    pairs::{Pair, run_pairs},
};
use crate::Error;
use crate::report::{
    Better, Check, Published, Quantity, Reference, Role, Row, Sides, Unit, decimal, each_run,
};
use trials::{
    AUTO, FRAMEWRIGHT_AUTO, GUEST, KBUILD_MACHINE, KERNELS, LISTS, PINNED, SCHEDULED,
    SOCKET_MACHINE, TWO_SOCKETS,
};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "high-order-drain",
    title: "drain CPU lists only on two high-order frees in a row (2023)",
    question: "\
pcp.high_order_drain=every-free, then second-consecutive: the number of unnecessary drains, their cost
at the zone lock, and the reason for drains: the share of frames that are reused while a cache has them
(hot: of the core; warm: of the socket).
  exits         processes touch 8 MiB and exit, on 4 CPUs with 1 GiB: as on running kernels
  kbuild        compilers, on the same 4 CPUs and on the 224 CPUs of the published server
  socket-pairs  16 writers and 16 readers on 128 CPUs, each pinned to one, which was not published
                two sockets: each writer is pinned to one socket, its reader to the other
                scheduled: as 32 tasks that a scheduler places, also on the 4 CPUs with 1 GiB
Lists have the sizes of the kernels: 63 frames per batch and 300 or, on servers, 367 per CPU. As before
6.7, 'list-buddy' drains them on such frees only if they were full since the last allocations.
An allocator called 'auto' has lists of adaptive size, as kernels since 6.7 do. '6.1/6.12' has them only
after the change, like the kernels in the columns beside it.",
    picture: None,
    run,
};

const SOURCE: &str = "mm, pcp: avoid to drain PCP when process exit (Linux 6.7)";
const KBUILD_SERVER: &str = "2 sockets, 224 CPUs";
const SOCKET_SERVER: &str = "2 sockets, 128 CPUs";
const BOTH_KERNELS: &str = "Linux 6.1 without and 6.12 with the change, 4 CPUs in QEMU: counts; \
                            6.12 also has lists of adaptive size";

fn run(plan: &Plan, tell: &mut Tell<'_>) -> Result<Results, Error> {
    let pairs = trials::pairs(plan)?;
    let sides = 2 * pairs.len() * plan.seeds.len();
    let mut results = Results { rows: rows(), ..Results::default() };
    run_pairs(&pairs, plan, &figures, tell, &mut results)?;
    results.rows.sort_by_key(place);
    results.findings.splice(0..0, findings(&results));
    results.not_modelled = &NOT_MODELLED;
    results.checks.push(Check::new(
        "invariants",
        true,
        format!(
            "after {} all frames are free, and the metadata is consistent",
            each_run(sides as u64)
        ),
    ));
    Ok(results)
}

/// The figures of the rows of a pair.
fn figures(pair: &Pair) -> &'static [&'static str] {
    trials::figures(pair.workload, pair.simulation.spec.name())
}

/// The position of a row: allocators side by side, figure by figure.
fn place(row: &Row) -> (usize, usize, usize) {
    let of = |names: &[&str], name: &str| names.iter().position(|&it| it == name);
    let shown = [
        ("exits", GUEST),
        ("kbuild", GUEST),
        (SCHEDULED, GUEST),
        ("kbuild", KBUILD_MACHINE),
        (PINNED, SOCKET_MACHINE),
        (TWO_SOCKETS, SOCKET_MACHINE),
        (SCHEDULED, SOCKET_MACHINE),
    ];
    let trial = shown.iter().position(|&it| it == (&row.workload, &row.machine));
    let figure = of(trials::figures(&row.workload, &row.machine), &row.metric);
    let subject = of(&trials::SUBJECTS, &row.subject);
    let last = usize::MAX;
    (trial.unwrap_or(last), figure.unwrap_or(last), subject.unwrap_or(last))
}

/// Published figures, and counts of running kernels.
fn rows() -> Vec<Row> {
    let mut rows = kernel_rows("exits", (0.99, 0.0), (0.0220, 0.000_44));
    rows.extend(kernel_rows("kbuild", (0.76, 0.026), (0.0210, 0.001_04)));
    rows.extend([
        kbuild("drains_per_exit", Unit::Ratio).published(Published::change(
            -80.5,
            KBUILD_SERVER,
            SOURCE,
        )),
        kbuild("zone_lock_wait_pct", Unit::Percent)
            .published(Published::sides(14.0, 12.8, KBUILD_SERVER, SOURCE))
            .also(Quantity::Before, Role::Fitted(trials::LOAD_WAS_FITTED.into())),
    ]);
    rows.extend(scheduled_guest());
    rows.extend([PINNED, TWO_SOCKETS, SCHEDULED].into_iter().flat_map(sockets));
    rows
}

/// Published figures without a row.
const NOT_MODELLED: [&str; 2] = [
    "the rate of cache misses (0.2 % before and after). Instead, hot_reuse_pct and warm_reuse_pct are the shares of \
     frames that a cache of the core, or of the core or its socket, still has when they are allocated, and transfers \
     of the allocator's lines cost time. Misses of other data of programs and kernel are not modelled. Nor is a \
     difference between frames in the socket's cache, in the other socket's and in memory: a copy is faster only if \
     the core's cache has the frame",
    "cgroups: the eight builds of the server ran in one each, which share nothing that the allocator could see",
];

/// The part of the published gain that pinned writers and readers lack, as a finding.
const NO_REUSE: &str = "\
    sockets, pinned: the published gain of 16.8 % of bandwidth is explained there by the reuse of frames that a cache \
    still has. No CPU both frees and allocates, so its lists reuse nothing; the rows of 'socket-pairs scheduled' have \
    writers and readers that may meet on a CPU";

/// The rule of placement is no published fact.
const ASSUMED: &str = "\
    sockets, scheduled: the placement is an assumption, Linux's wake-up placement in plain terms. Of the CPUs of the \
    waker and of the woken task, the one with fewer tasks is the target. The task gets its previous CPU if that is idle \
    and on the target's socket, else an idle CPU of that socket, else any idle CPU, else the target. Time slices are \
    3 ms; there is no preemption at wake-ups and no load balancing. On 4 CPUs the kernels' counts are of one run each, \
    under emulation";

/// Drains per exit, then acquisitions per page, of 6.1 and 6.12, which differ in the change and in
/// lists of adaptive size. No kernel had the change alone.
fn kernel_rows(workload: &str, drains: (f64, f64), acquisitions: (f64, f64)) -> Vec<Row> {
    let row = |subject, metric| {
        let row = Key { workload, machine: GUEST, subject, metric };
        row.row(EXPERIMENT.name, Unit::Ratio, Some(Better::Lower))
    };
    let level = |metric| row(LISTS, metric).judged(Quantity::Before, Reference::Kernel);
    let change = |metric| row(KERNELS, metric).judged(Quantity::Change, Reference::Kernel);
    vec![
        level("drains_per_exit").kernel(drains.0, None, BOTH_KERNELS),
        change("drains_per_exit").kernel(drains.0, drains.1, BOTH_KERNELS),
        level("acquisitions_per_page").kernel(acquisitions.0, None, BOTH_KERNELS),
        change("acquisitions_per_page").kernel(acquisitions.0, acquisitions.1, BOTH_KERNELS),
    ]
}

fn kbuild(metric: &str, unit: Unit) -> Row {
    let key = Key { workload: "kbuild", machine: KBUILD_MACHINE, subject: LISTS, metric };
    key.row(EXPERIMENT.name, unit, Some(Better::Lower))
}

/// 32 tasks on 4 CPUs, as on running kernels.
fn scheduled_guest() -> [Row; 2] {
    let row = |subject| {
        let key =
            Key { workload: SCHEDULED, machine: GUEST, subject, metric: "acquisitions_per_page" };
        key.row(EXPERIMENT.name, Unit::Ratio, Some(Better::Lower))
    };
    let level = row(LISTS).judged(Quantity::Before, Reference::Kernel);
    let change = row(KERNELS).judged(Quantity::Change, Reference::Kernel);
    [level.kernel(0.0025, None, BOTH_KERNELS), change.kernel(0.0025, 0.0150, BOTH_KERNELS)]
}

/// The published figures of 16 pairs on the server, for one of both placements.
fn sockets(workload: &str) -> [Row; 3] {
    let row = |metric, unit, better| {
        let key = Key { workload, machine: SOCKET_MACHINE, subject: LISTS, metric };
        key.row(EXPERIMENT.name, unit, Some(better))
    };
    let change = |percent| Published::change(percent, SOCKET_SERVER, SOURCE);
    [
        row("bandwidth_bytes_per_s", Unit::BytesPerSecond, Better::Higher).published(change(16.8)),
        row("zone_lock_wait_pct", Unit::Percent, Better::Lower)
            .published(Published::sides(51.4, 46.1, SOCKET_SERVER, SOURCE))
            .also(Quantity::Before, Role::Predicted),
        row("drains_high_order", Unit::Count, Better::Lower).published(change(-30.5)),
    ]
}

/// Goal: acquisitions of the zone lock per page of socket-pairs.
const GOAL: f64 = 0.0025;

fn findings(results: &Results) -> Vec<String> {
    [
        exits(results),
        shares(results),
        reuse(results),
        sockets_found(results),
        Some(NO_REUSE.into()),
        meetings(results),
        Some(ASSUMED.into()),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The medians of both sides.
fn sides(
    results: &Results,
    workload: &str,
    machine: &str,
    subject: &str,
    metric: &str,
) -> Option<(f64, f64)> {
    let key = Key { workload, machine, subject, metric };
    let row = results.rows.iter().find(|row| row.key() == key)?;
    let Sides { before, after, .. } = row.measured.as_ref().or(row.modelled.as_ref())?;
    Some((before.median, after.as_ref()?.median))
}

fn exits(results: &Results) -> Option<String> {
    let (before, after) = sides(results, "exits", GUEST, LISTS, "drains_per_exit")?;
    let (before, after) = (decimal(before, 2), decimal(after, 2));
    Some(format!(
        "an exit frees thousands of pages, then one page table of order 1: with every-free that \
         drains the lists {before} times per exit, with second-consecutive {after} times"
    ))
}

/// The effects of the change and of adaptive lists. Kernels since 6.7 have both.
fn shares(results: &Results) -> Option<String> {
    let of = |subject| sides(results, "exits", GUEST, subject, "acquisitions_per_page");
    let ((before, after), (auto, both)) = (of(LISTS)?, of(AUTO)?);
    Some(format!(
        "kernels since 6.7 have the change and lists of adaptive size. Exits take the zone \
         lock {} times per page with neither, {} with the change alone, {} with such lists alone, \
         {} with both",
        decimal(before, 4),
        decimal(after, 4),
        decimal(auto, 4),
        decimal(both, 5),
    ))
}

/// The reason for drains: the reuse of frames while a cache has them.
fn reuse(results: &Results) -> Option<String> {
    let of = |subject| sides(results, "kbuild", KBUILD_MACHINE, subject, "hot_reuse_pct");
    let ((before, after), (auto, both)) = (of(LISTS)?, of(AUTO)?);
    let percent = |value| decimal(value, 1);
    Some(format!(
        "frames that compilers get while the core's cache has them: {}% and {}% with lists of a \
         fixed size, {}% and {}% with lists of adaptive size. In pinned socket-pairs no frame is hot for \
         the core, because another core read it last",
        percent(before),
        percent(after),
        percent(auto),
        percent(both),
    ))
}

fn sockets_found(results: &Results) -> Option<String> {
    let of = |subject, metric| sides(results, PINNED, SOCKET_MACHINE, subject, metric);
    let (_, ours) = of(FRAMEWRIGHT_AUTO, "acquisitions_per_page")?;
    let (_, theirs) = of(AUTO, "acquisitions_per_page")?;
    let (_, warm) = of(FRAMEWRIGHT_AUTO, "warm_reuse_pct")?;
    let (_, their_warm) = of(AUTO, "warm_reuse_pct")?;
    let word = if ours <= GOAL { "reached" } else { "NOT reached" };
    Some(format!(
        "sockets, pinned, each allocator with lists of adaptive size: framewright takes the zone lock {} times per \
         page (goal {GOAL}: {word}), list-buddy {}; {}% and {}% of frames are still in the socket's cache",
        decimal(ours, 4),
        decimal(theirs, 4),
        decimal(warm, 0),
        decimal(their_warm, 0),
    ))
}

/// The rate at which writers and readers meet, and the frames that are then in a cache.
fn meetings(results: &Results) -> Option<String> {
    let on = |machine, metric| {
        let (before, after) = sides(results, SCHEDULED, machine, LISTS, metric)?;
        Some(format!("{}% and {}%", decimal(before, 1), decimal(after, 1)))
    };
    Some(format!(
        "sockets, scheduled, lists of a fixed size, before and after: on 128 CPUs {} of writes are read on the CPU that \
         wrote them and {} on its socket; {} of frames are hot and {} warm. On 4 CPUs {} of writes are read on the CPU \
         that wrote them, and {} of frames are hot",
        on(SOCKET_MACHINE, "same_cpu_pct")?,
        on(SOCKET_MACHINE, "same_socket_pct")?,
        on(SOCKET_MACHINE, "hot_reuse_pct")?,
        on(SOCKET_MACHINE, "warm_reuse_pct")?,
        on(GUEST, "same_cpu_pct")?,
        on(GUEST, "hot_reuse_pct")?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guests_exits_drain_once_each_with_every_free_and_never_with_the_change() {
        let plan = Plan::new(1, true);
        let mut pairs = trials::pairs(&plan).unwrap();
        pairs.retain(|pair| pair.workload == "exits");
        let mut results = Results { rows: rows(), ..Results::default() };
        run_pairs(&pairs, &plan, &figures, &mut |_, _| (), &mut results).unwrap();
        let drains = results.rows.iter().filter(|row| row.metric == "drains_per_exit");
        let sides: Vec<(f64, f64)> = drains
            .filter_map(|row| row.measured.as_ref())
            .map(|sides| (sides.before.median, sides.after.as_ref().unwrap().median))
            .collect();
        assert_eq!(sides.len(), 4);
        for (before, after) in sides {
            assert!((0.9..=1.1).contains(&before) && after < 0.1, "{before} {after}");
        }
    }

    #[test]
    fn each_run_has_a_label_of_its_own() {
        crate::reproduce::pairs::assert_labels_differ(&trials::pairs(&Plan::new(1, true)).unwrap());
    }

    #[test]
    fn allocators_stand_side_by_side_and_published_servers_after_guests() {
        let mut rows = rows();
        rows.reverse();
        rows.sort_by_key(place);
        let keys: Vec<(&str, &str, &str)> =
            rows.iter().map(|row| (&*row.workload, &*row.metric, &*row.subject)).collect();
        assert_eq!(keys[0], ("exits", "drains_per_exit", LISTS));
        assert_eq!(keys[1], ("exits", "drains_per_exit", KERNELS));
        assert_eq!(keys.last(), Some(&(SCHEDULED, "drains_high_order", LISTS)));
    }
}
