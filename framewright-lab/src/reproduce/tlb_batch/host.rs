//! The run on this machine, over real memory.

use super::trials::{BATCHED, HOST, PROCESSES};
use crate::{
    host_paging::{HostPaging, HostPagingResult},
    report::{Check, Run, decimal},
    reproduce::{Key, Plan, Results},
    workloads::{
        Side,
        mmap_read::{MmapRead, Readers},
    },
};

/// The comparisons: a name, and the settings before and after.
const HOST_PAIRS: [(&str, usize, usize); 2] = [(BATCHED, 0, 1), ("off, lazy", 0, 2)];
const INTERRUPTS: &str = "shootdowns_per_evicted_page";
/// The minimum number of interrupts per page without batching. If there are fewer, the second thread did
/// not run during the measurement, which therefore proves nothing.
const MIN_INTERRUPTS: f64 = 0.5;
const FIGURES: [&str; 6] = [
    INTERRUPTS,
    "ns_per_evicted_page",
    "unmaps_per_flush",
    "unflushed_frames_max",
    "elapsed_s",
    "system_time_s",
];

/// Runs the workload, and enters the results into rows. If it cannot be run, adds the reason to the
/// findings.
pub(super) fn add(results: &mut Results, plan: &Plan) {
    let paging = paging(plan);
    let sides = [
        Side::new("off").with("tlb.batching", "off"),
        Side::new("all").with("tlb.batching", "all"),
        Side::new("lazy").with("tlb.batching", "lazy"),
    ];
    let outcome = match paging.run(&sides, &mut |_, _| {}) {
        Ok(outcome) => outcome,
        Err(why) => {
            results.findings.push(format!("nothing was measured on this machine: {why}"));
            return;
        }
    };
    for (subject, before, after) in HOST_PAIRS {
        for metric in FIGURES {
            let key = Key { workload: PROCESSES, machine: HOST, subject, metric };
            results.measured(key, outcome.sides(before, after, metric));
        }
    }
    let apart =
        outcome.measured.runs[0].metrics.get(INTERRUPTS).map_or(0.0, |metric| metric.median);
    if apart < MIN_INTERRUPTS {
        results.findings.push(format!(
            "{HOST}: only {} interrupts per page without batching, because other programs used the \
             processor of the second thread; batches could save little, and goals are not checked",
            decimal(apart, 3)
        ));
    } else if !plan.quick {
        results.checks.extend(goals(&outcome));
    }
    results.checks.extend(
        outcome
            .measured
            .checks
            .into_iter()
            .map(|check| Check { name: format!("{HOST}: {}", check.name), ..check }),
    );
    results.findings.extend(outcome.measured.notes.iter().map(|note| format!("{HOST}: {note}")));
    results.runs.extend(outcome.measured.runs.into_iter().map(|run| {
        let label = format!("{} on {HOST}, {}", PROCESSES, run.label);
        Run { label, ..run }
    }));
}

fn paging(plan: &Plan) -> HostPaging {
    let (mib, times, rounds) = if plan.quick { (64, 3, 2) } else { (512, 10, HostPaging::ROUNDS) };
    let work = MmapRead { times, ..MmapRead::new(Readers::Processes) };
    HostPaging { work, readers: 1, frames: mib << 8, rounds }
}

/// The checks of the default settings against one call per page.
fn goals(outcome: &HostPagingResult) -> Vec<Check> {
    let of =
        |run: usize, name: &str| Some(outcome.measured.runs.get(run)?.metrics.get(name)?.median);
    let mut checks = Vec::new();
    let mut check = |what: &str, passed: bool, detail: String| {
        checks.push(Check { name: format!("{HOST}: {what}"), passed, detail });
    };
    let interrupts = [0, 2].map(|run| of(run, INTERRUPTS));
    if let [Some(off), Some(lazy)] = interrupts {
        check(
            "one interrupt serves many pages",
            lazy <= 0.005,
            format!(
                "{} interrupts per page without batching, {} lazily (at most 0.005)",
                decimal(off, 3),
                decimal(lazy, 4)
            ),
        );
    }
    if let [Some(off), Some(lazy)] = [0, 2].map(|run| of(run, "ns_per_evicted_page")) {
        let times = off / lazy.max(f64::MIN_POSITIVE);
        check(
            "evicting pages together is cheaper",
            times >= 20.0,
            format!(
                "{} ns per page without batching, {} lazily: {} times cheaper (at least 20)",
                decimal(off, 0),
                decimal(lazy, 0),
                decimal(times, 1)
            ),
        );
    }
    checks
}
