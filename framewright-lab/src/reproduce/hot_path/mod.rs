//! *hot-path* (2017): the removal path inlined under the zone lock, and the effect of bulk removal.
//!
//! | module         | job                                                                  |
//! |----------------|----------------------------------------------------------------------|
//! | this one       | published figures; figures to rows                                   |
//! | `instructions` | instructions under the lock per frame taken, counted by callgrind    |
//!
//! The models of the published machines show the effect of instructions under the lock. Their cost
//! of a frame that list-buddy takes is that of inlined code. Before the change, this cost is higher
//! by the instructions of the calls.

mod instructions;

use framewright::{Tuning, tuning::BulkTake};
use framewright_sim::machine::Spec;

use super::{
    Experiment, Key, Plan, Results, Tell,
    pairs::{self, Pair, Steps, column, run_pairs},
};
use crate::Error;
use crate::{
    report::{Better, Published, Quantity, Reference, Role, Row, Sides, Unit, decimal},
    simulated::{Column, ListSizes, Simulation},
    workloads::{Side, Workload, page_fault::PageFault},
};
use instructions::{Builds, Counts, Skipped, Subject, TEXT_BYTES, TEXT_GROWTH};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "hot-path",
    title: "inline the removal of frames under the zone lock (2017)",
    question: "\
Before: the loop that refills a list calls the function that takes a frame, into which all others are inlined
(--cfg framewright_outlined); the symbols that were published show this one function. After: it is inlined, too.
Callgrind counts instructions under the lock per frame taken; text is the size
of the code of both programs; pages per second show the effect of these instructions on the machines.
Rows called 'bulk' follow a reviewer's suggestion: frames taken one by one, then a batch as a whole.",
    picture: None,
    run,
};

const SOURCE: &str = "mm/page_alloc: make sure __rmqueue() etc. always inline (Linux 4.15)";

/// Their machine, ours, and page faults per second before and after, with the newest compiler.
const PUBLISHED: [(&str, &str, f64, f64); 2] = [
    ("Skylake, 2 sockets, gcc 6.2.0", "skx-2s-112", 7_059_794.0, 7_651_675.0),
    ("Skylake, 4 sockets, gcc 6.2.0", "skx-4s-224", 14_574_099.0, 15_349_204.0),
];
/// Bytes of text of the page allocator before and after.
const TEXT: (f64, f64) = (37_409.0, 38_273.0);
const TEXT_COMPILER: &str = "gcc 4.9.4";
const OTHER_TEXT: &str = "the published file has much other code, so percentages mean little; \
      the growth in bytes is judged";

/// The figure of the instructions under the lock per frame taken.
const INSTRUCTIONS: &str = "locked_instructions_per_frame_taken";

/// Published figures without a row.
const NOT_MODELLED: [&str; 2] = [
    "three other compilers (gcc 4.4.7, 4.9.4 and 5.4.1: +6.4 to +9.0 % with two sockets, +2.6 to +5.0 % with four): there is \
     one compiler here",
    "the size of the whole kernel image, which stayed the same, because functions are aligned",
];

/// The answer to a question of the discussion.
const HUGE_PAGES: &str = "transparent huge pages, which the discussion asks about: with them one fault serves 512 pages, and \
                          takes one block from the zone, so there is no loop to inline into. The benchmark ran without \
                          them";

fn run(plan: &Plan, tell: &mut Tell<'_>) -> Result<Results, Error> {
    let mut results = Results { rows: rows(), ..Results::default() };
    let mut steps = Steps::new(instructions::BUILD_STEPS + instructions::STEPS, tell);
    let measured = measure(plan, &mut steps, &mut results);
    let counts = match measured {
        Ok(counts) => counts,
        Err(Skipped(why)) => {
            skip(&mut results, &why);
            Counts::RECORDED
        }
    };
    run_pairs(&pairs(plan, &counts)?, plan, &|_| &MODELLED, tell, &mut results)?;
    results.findings.extend(findings(&results));
    results.findings.push(HUGE_PAGES.to_owned());
    results.not_modelled = &NOT_MODELLED;
    Ok(results)
}

/// Measures code size and instructions, of the program with calls and of that without.
fn measure(
    plan: &Plan,
    steps: &mut Steps<'_, '_>,
    results: &mut Results,
) -> Result<Counts, Skipped> {
    if plan.quick {
        return Err(Skipped("a quick run builds nothing".into()));
    }
    let builds = Builds::make(steps)?;
    instructions::fill(&builds, results)?;
    let counts = Counts::of(&builds, steps)?;
    fill(&counts, results);
    Ok(counts)
}

/// Marks rows without figures as not measured: they are not judged, and the verdict is incomplete.
fn skip(results: &mut Results, why: &str) {
    for row in results.rows.iter_mut().filter(|row| row.metric == TEXT_GROWTH) {
        row.judgements[0].role = Role::Shown(format!("skipped: {why}"));
    }
    results.incomplete = true;
    results.findings.push(format!(
        "text and instructions were not measured: {why}; the machines use the instruction counts of \
         {}",
        instructions::RECORDING
    ));
}

fn fill(counts: &Counts, results: &mut Results) {
    let sides =
        |before, after| Sides::paired(&[before], &[after], Unit::Count, Some(Better::Lower));
    let count = |subject| counts.of_subject(subject);
    for subject in [Subject::ListBuddy, Subject::Bulk] {
        let (key, count) = (key("inlining", subject.label()), count(subject));
        results.measured(key, sides(count.outlined, count.inlined));
    }
    let (one_by_one, bulk) = (count(Subject::OneByOne).inlined, count(Subject::Bulk).inlined);
    results.measured(key("bulk", Subject::Bulk.label()), sides(one_by_one, bulk));
    let lists =
        Sides::alone(&[count(Subject::ListBuddy).inlined], Unit::Count, Some(Better::Lower));
    results.measured(key("bulk", Subject::ListBuddy.label()), lists);
}

fn key<'k>(workload: &'k str, subject: &'k str) -> Key<'k> {
    Key { workload, machine: "x86-64", subject, metric: INSTRUCTIONS }
}

/// The published figures.
fn rows() -> Vec<Row> {
    let throughput = PUBLISHED.map(|(theirs, machine, before, after)| {
        let key =
            Key { workload: "inlining", machine, subject: "list-buddy", metric: "pages_per_s" };
        let row = key.row(EXPERIMENT.name, Unit::PerSecond, Some(Better::Higher));
        let row = row.published(Published::sides(before, after, theirs, SOURCE));
        row.also(Quantity::Before, level(machine))
    });
    let text = |metric| {
        let key = Key { workload: "inlining", machine: "x86-64", subject: "list-buddy", metric };
        key.row(EXPERIMENT.name, Unit::Bytes, Some(Better::Lower))
    };
    let (before, after) = TEXT;
    let whole = Published::sides(before, after, TEXT_COMPILER, SOURCE);
    let growth =
        Published { before: None, after: Some(after - before), change_pct: None, ..whole.clone() };
    let text = [
        text(TEXT_BYTES).published(whole).role(Role::Shown(OTHER_TEXT.into())),
        text(TEXT_GROWTH).published(growth).judged(Quantity::After, Reference::Published),
    ];
    throughput.into_iter().chain(text).collect()
}

/// The role of the rate of page faults before the change.
fn level(machine: &str) -> Role {
    match machine == super::bulk_free::FITTED {
        true => Role::Fitted(
            "the level inherits the latencies under load that bulk-free fits to its rate".into(),
        ),
        false => Role::Predicted,
    }
}

fn findings(results: &Results) -> Vec<String> {
    [inlining_found(results), functions(results), bulk_removal(results), worth(results)]
        .into_iter()
        .flatten()
        .collect()
}

fn row<'r>(results: &'r Results, workload: &str, subject: &str, metric: &str) -> Option<&'r Row> {
    results
        .rows
        .iter()
        .find(|row| (&*row.workload, &*row.subject, &*row.metric) == (workload, subject, metric))
}

/// The counts before and after.
fn sides(results: &Results, workload: &str, subject: &str, metric: &str) -> Option<(f64, f64)> {
    let row = row(results, workload, subject, metric)?;
    let Sides { before, after, .. } = row.measured.as_ref().or(row.modelled.as_ref())?;
    Some((before.median, after.as_ref()?.median))
}

fn inlining_found(results: &Results) -> Option<String> {
    let (before, after) = sides(results, "inlining", "list-buddy", INSTRUCTIONS)?;
    let (small, large) = sides(results, "inlining", "list-buddy", TEXT_BYTES)?;
    let (ours, ours_after) = sides(results, "inlining", "framewright", INSTRUCTIONS)?;
    Some(format!(
        "inlining saves list-buddy {} of {} instructions under the lock per frame taken, for {} \
         bytes of text; it saves framewright {} of {}",
        decimal(before - after, 1),
        decimal(before, 1),
        decimal(large - small, 0),
        decimal(ours - ours_after, 1),
        decimal(ours, 1),
    ))
}

/// Growth of the code, function by function.
fn functions(results: &Results) -> Option<String> {
    let of = |label: &str| results.runs.iter().find(|run| run.label == label);
    let (before, after) = (of("build, outlined")?, of("build, inlined")?);
    let changes = before.metrics.iter().filter_map(|(name, outlined)| {
        let path = name.strip_prefix(TEXT_BYTES)?.trim();
        let is_involved = ["::refill", "::take", "::bulk::"].iter().any(|part| path.contains(part));
        if !is_involved {
            return None;
        }
        let inlined = after.metrics.get(name)?.median;
        Some(format!("{} {} -> {}", short(path), outlined.median, inlined))
    });
    Some(format!(
        "text in bytes of the functions involved: {}",
        changes.collect::<Vec<_>>().join(", ")
    ))
}

/// A path without the crate and without generic arguments.
fn short(path: &str) -> String {
    let whose = if path.contains("list_buddy") { "list-buddy" } else { "framewright" };
    let mut depth = 0;
    let plain: String = path
        .chars()
        .filter(|&c| {
            depth += i32::from(c == '<');
            let keep = depth == 0;
            depth -= i32::from(c == '>');
            keep
        })
        .collect();
    let name = plain.rsplit("::").find(|part| !part.is_empty()).unwrap_or(path);
    format!("{whose}'s {name}")
}

/// The effect of bulk removal, as a reviewer suggested.
fn bulk_removal(results: &Results) -> Option<String> {
    let (one_by_one, bulk) = sides(results, "bulk", "framewright", INSTRUCTIONS)?;
    let (_, lists) = sides(results, "inlining", "list-buddy", INSTRUCTIONS)?;
    Some(format!(
        "bulk removal, as suggested by a reviewer: {} instructions under the lock per frame \
         taken, against {} from list-buddy's lists, one by one and inlined: {} times fewer. \
         Framewright's own structure taken one by one: {}",
        decimal(bulk, 1),
        decimal(lists, 1),
        decimal(lists / bulk.max(0.1), 1),
        decimal(one_by_one, 1),
    ))
}

fn worth(results: &Results) -> Option<String> {
    let (_, lists) = sides(results, "inlining", "list-buddy", "lock_cycles_per_frame")?;
    let (one_by_one, bulk) = sides(results, "bulk", "framewright", "lock_cycles_per_frame")?;
    Some(format!(
        "cycles under the lock per frame taken or given back, on {}: list-buddy, inlined, {}; \
         framewright one by one {}, in bulk {}",
        row(results, "bulk", "framewright", "lock_cycles_per_frame")?.machine,
        decimal(lists, 1),
        decimal(one_by_one, 1),
        decimal(bulk, 1),
    ))
}

/// List sizes of 2017.
const LISTS: ListSizes = ListSizes { batch: 31, high: 186 };
/// The two published machines.
const MACHINES: [&str; 2] = ["skx-2s-112", "skx-4s-224"];
/// The parameter for the cost of a frame that list-buddy takes.
const PRICE: &str = "code.list_buddy_take";
/// The modelled figures of every pair.
const MODELLED: [&str; 2] = ["pages_per_s", "lock_cycles_per_frame"];

/// All pairs: inlining on each published machine, and bulk removal.
fn pairs(plan: &Plan, counts: &Counts) -> Result<Vec<Pair>, Error> {
    let mut pairs = Vec::new();
    for machine in MACHINES {
        pairs.push(inlining(plan, Spec::preset(machine)?, counts));
    }
    pairs.push(bulk(plan, Spec::preset(MACHINES[0])?));
    Ok(pairs)
}

fn inlining(plan: &Plan, spec: Spec, counts: &Counts) -> Pair {
    let count = counts.of_subject(Subject::ListBuddy);
    let price = spec.costs().code.list_buddy_take as f64;
    let factor = (price + count.outlined - count.inlined) / price;
    let side = |label| column(list_buddy, Tuning::default(), ("build", label));
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
        column(Column::framewright, tuning, ("zone.bulk_take", value))
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

fn list_buddy(side: &Side) -> Column {
    Column::list_buddy(&side.label, side)
}

/// Page faults, with 128 MiB per process; a quick run is a tenth of the time.
fn simulation(plan: &Plan, spec: Spec) -> Simulation {
    let work = Workload::PageFault(PageFault::new(1));
    let plan = pairs::length(plan, &work);
    Simulation { work, spec, frames: None, plan }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_shortened_to_their_owner_and_last_word() {
        for (path, expected) in [
            ("framewright_peers::list_buddy::bulk::refill", "list-buddy's refill"),
            (
                "framewright_peers::list_buddy::fallback::<impl \
                 framewright_peers::list_buddy::zone::Zone>::take",
                "list-buddy's take",
            ),
            (
                "framewright::buddy::take::<impl framewright::buddy::Buddy>::choose",
                "framewright's choose",
            ),
        ] {
            assert_eq!(short(path), expected);
        }
    }
}
