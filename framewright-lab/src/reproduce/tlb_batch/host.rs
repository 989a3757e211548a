//! The same on this machine, with real interrupts: real files, real memory, one reader, and a second
//! thread that runs all the time.

use framewright::tuning::FlushBatching;
use indexmap::IndexMap;

use crate::{
    host_paging::{HostPaging, HostPagingResult},
    report::{Check, decimal},
    reproduce::{Key, Plan, Results},
    workloads::{
        Side,
        mmap_read::{MmapRead, Readers},
    },
};

/// What rows call it: one reader.
pub(super) const HOST: &str = "host:1";

/// What is compared: a name, and the settings before and after.
const PAIRS: [(&str, usize, usize); 2] = [(super::trials::BATCHED, 0, 1), ("off, lazy", 0, 2)];
const INTERRUPTS: &str = "shootdowns_per_evicted_page";
/// Interrupts per page that one call per page takes at least, if another thread runs meanwhile.
const MEANT: f64 = 0.5;
const FIGURES: [&str; 6] = [
    INTERRUPTS,
    "ns_per_evicted_page",
    "unmaps_per_flush",
    "unflushed_frames_max",
    "elapsed_s",
    "system_time_s",
];

/// Runs it, and puts what came out where it belongs. Where it cannot be run, that is what was found.
pub(super) fn add(results: &mut Results, plan: &Plan) {
    let paging = paging(plan);
    let sides = [
        side("off", FlushBatching::Off),
        side("all", FlushBatching::All),
        side("lazy", FlushBatching::Lazy),
    ];
    let outcome = match paging.run(&sides, &mut |_, _| {}) {
        Ok(outcome) => outcome,
        Err(why) => {
            results.findings.push(format!("nothing was measured on this machine: {why}"));
            return;
        }
    };
    for (subject, before, after) in PAIRS {
        for metric in FIGURES {
            let key = Key { workload: super::trials::PROCESSES, machine: HOST, subject, metric };
            results.measured(key, outcome.sides(before, after, metric));
        }
    }
    let apart = outcome.runs[0].metrics.get(INTERRUPTS).map_or(0.0, |metric| metric.median);
    if apart < MEANT {
        results.findings.push(format!(
            "{HOST}: {} interrupts per page one by one: other programs had the processor of the \
             second thread, and there was little to save; goals are not judged",
            decimal(apart, 3)
        ));
    } else if !plan.quick {
        results.checks.extend(goals(&outcome));
    }
    results.checks.extend(
        outcome
            .checks
            .into_iter()
            .map(|check| Check { name: format!("{HOST}: {}", check.name), ..check }),
    );
    results.findings.extend(outcome.notes.iter().map(|note| format!("{HOST}: {note}")));
    results.runs.extend(outcome.runs.into_iter().map(|run| {
        let label = format!("{} on {HOST}, {}", super::trials::PROCESSES, run.label);
        crate::report::Run { label, ..run }
    }));
}

fn paging(plan: &Plan) -> HostPaging {
    let (mib, times, rounds) = if plan.quick { (64, 3, 2) } else { (512, 10, HostPaging::ROUNDS) };
    let work = MmapRead { times, ..MmapRead::new(Readers::Processes) };
    HostPaging { work, readers: 1, frames: mib << 8, rounds }
}

fn side(name: &str, batching: FlushBatching) -> Side {
    let mut side = Side {
        label: name.to_owned(),
        tuning: framewright::Tuning::default(),
        settings: IndexMap::from([("tlb.batching".to_owned(), name.to_owned())]),
    };
    side.tuning.tlb.batching = batching;
    side
}

/// What has to hold, with the default settings against one call per page.
fn goals(outcome: &HostPagingResult) -> Vec<Check> {
    let of = |run: usize, name: &str| Some(outcome.runs.get(run)?.metrics.get(name)?.median);
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
                "{} interrupts per page one by one, {} lazily (at most 0.005)",
                decimal(off, 3),
                decimal(lazy, 4)
            ),
        );
    }
    if let [Some(off), Some(lazy)] = [0, 2].map(|run| of(run, "ns_per_evicted_page")) {
        let times = off / lazy.max(f64::MIN_POSITIVE);
        check(
            "giving pages up together is cheaper",
            times >= 20.0,
            format!(
                "{} ns per page one by one, {} lazily: {} times cheaper (at least 20)",
                decimal(off, 0),
                decimal(lazy, 0),
                decimal(times, 1)
            ),
        );
    }
    checks
}
