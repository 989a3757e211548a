//! What instructions under the lock are worth on the published machines.
//!
//! The machine's price of a frame that list-buddy takes is that of inlined code; before the change
//! it is higher by the instructions that calls cost on top.

use framewright::{Tuning, tuning::BulkTake};
use framewright_sim::machine::Spec;

use super::instructions::{Counts, Subject};
use crate::{
    reproduce::{
        Plan, ReproduceError, Results,
        pairs::{Pair, Steps, contender},
    },
    simulated::{self, Contender, ListSizes, Simulation},
    workloads::{Side, Workload, page_fault::PageFault},
};

/// List sizes of 2017.
const LISTS: ListSizes = ListSizes { batch: 31, high: 186 };
/// The machines: both that were published, and the first once more, for the library.
const MACHINES: [&str; 2] = ["skx-2s-112", "skx-4s-224"];
/// The price of a frame that list-buddy takes.
const PRICE: &str = "code.list_buddy_take";
/// What the worth of instructions may hang on.
const PARAMETERS: [&str; 3] = ["latency.loaded", "lock.handoff_line", "code.list_buddy_give"];
/// Runs behind the bands: one machine.
pub(super) const BAND_RUNS: usize = 4 * PARAMETERS.len();

/// How many pairs are run.
pub(super) fn count() -> usize {
    MACHINES.len() + 1
}

/// Runs them all and fills their rows.
pub(super) fn run(
    plan: &Plan,
    counts: &Counts,
    steps: &mut Steps<'_, '_>,
    results: &mut Results,
) -> Result<(), ReproduceError> {
    for (number, machine) in MACHINES.into_iter().enumerate() {
        let pair = inlining(plan, Spec::preset(machine)?, counts);
        let outcome = pair.run(plan, steps)?;
        let bands: &[&str] = if number == 0 { &PARAMETERS } else { &[] };
        let band = pair.band(plan, &outcome, "pages_per_s", bands, steps)?;
        outcome.fill(&pair, &["pages_per_s", "lock_cycles_per_frame"], results);
        if let Some(row) = results.find(pair.key("pages_per_s")) {
            row.band = band;
        }
    }
    let pair = bulk(plan, Spec::preset(MACHINES[0])?);
    let outcome = pair.run(plan, steps)?;
    outcome.fill(&pair, &["pages_per_s", "lock_cycles_per_frame"], results);
    Ok(())
}

fn inlining(plan: &Plan, spec: Spec, counts: &Counts) -> Pair {
    let count = counts.of_subject(Subject::ListBuddy);
    let price = spec.costs().code.list_buddy_take as f64;
    let factor = (price + count.outlined - count.inlined) / price;
    let side = |label| contender(list_buddy, Tuning::default(), ("build", label));
    Pair {
        workload: "inlining",
        subject: "list-buddy",
        simulation: simulation(plan, spec),
        before: side("outlined"),
        after: side("inlined"),
        price_before: Some((PRICE, factor)),
    }
    .with_lists(Some(LISTS))
}

fn bulk(plan: &Plan, spec: Spec) -> Pair {
    let side = |rule, value| {
        let mut tuning = Tuning::default();
        tuning.zone.bulk_take = rule;
        contender(Contender::framewright, tuning, ("zone.bulk_take", value))
    };
    Pair {
        workload: "bulk",
        subject: "framewright",
        simulation: simulation(plan, spec),
        before: side(BulkTake::OneByOne, "one-by-one"),
        after: side(BulkTake::Bulk, "bulk"),
        price_before: None,
    }
    .with_lists(Some(LISTS))
}

fn list_buddy(side: &Side) -> Contender {
    Contender::list_buddy(&side.label, side)
}

/// Page faults, with 128 MiB per process; a quick look is a tenth of the time.
fn simulation(plan: &Plan, spec: Spec) -> Simulation {
    let work = Workload::PageFault(PageFault::new(1));
    let full = simulated::Plan::of(&work);
    let part = if plan.quick { 10 } else { 1 };
    let plan = simulated::Plan { warm_up: full.warm_up / part, window: full.window / part };
    Simulation { work, spec, frames: None, plan }
}
