//! *hot-path* (2017): the removal path inlined under the zone lock, and what bulk removal would do.
//!
//! | module         | job                                                                  |
//! |----------------|----------------------------------------------------------------------|
//! | this one       | what was published; figures to rows                                  |
//! | `builds`       | the measuring program, built with calls and without                  |
//! | `instructions` | what callgrind counts under the lock, per frame taken                |
//! | `text`         | bytes of every function                                              |
//! | `machines`     | what those instructions are worth on the published machines          |
//! | `findings`     | what the figures say                                                 |

mod builds;
mod findings;
mod instructions;
mod machines;
mod text;

use super::pairs::Steps;
use super::{Experiment, Key, Plan, ReproduceError, Results, Tell};
use crate::report::{Better, Published, Quantity, Reference, Role, Row, Sides, Unit};
use builds::{Builds, Skipped};
use instructions::{Counts, Subject};
use text::{TEXT_BYTES, TEXT_GROWTH};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "hot-path",
    title: "inline what removes frames under the zone lock (2017)",
    question: "\
Before: the functions that take frames under the zone lock call one another (feature `outlined`).
After: they are inlined. Instructions under the lock per frame taken are counted by callgrind, text
is read from both programs; pages per second are what those instructions are worth on the machines.
Rows called 'bulk' answer a reviewer's wish: frames taken one by one, then a batch as a whole.",
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
const OTHER_TEXT: &str = "theirs is a file with much else in it, so that percentages say little; \
                          the growth in bytes is judged";

/// Instructions under the lock per frame, taken and per figure.
const INSTRUCTIONS: &str = "locked_instructions_per_frame_taken";

fn run(plan: &Plan, tell: &mut Tell<'_>) -> Result<Results, ReproduceError> {
    let pairs = machines::count();
    let bands = if plan.quick { 0 } else { machines::BAND_RUNS };
    let total = builds::STEPS + instructions::STEPS + 2 * pairs * plan.seeds.len() + bands;
    let mut steps = Steps::new(total, tell);
    let mut results = Results { rows: rows(), ..Results::default() };
    let measured = measure(plan, &mut steps, &mut results);
    let counts = match measured {
        Ok(counts) => counts,
        Err(Skipped(why)) => {
            skip(&mut results, &why);
            Counts::RECORDED
        }
    };
    machines::run(plan, &counts, &mut steps, &mut results)?;
    results.findings.extend(findings::findings(&results));
    Ok(results)
}

/// Text and instructions, of the program with calls and of that without.
fn measure(
    plan: &Plan,
    steps: &mut Steps<'_, '_>,
    results: &mut Results,
) -> Result<Counts, Skipped> {
    if plan.quick {
        return Err(Skipped("a quick look builds nothing".into()));
    }
    let builds = Builds::make(steps)?;
    text::fill(&builds, results)?;
    let counts = Counts::of(&builds, steps)?;
    fill(&counts, results);
    Ok(counts)
}

/// Nothing is measured: rows without a figure are not held against the model.
fn skip(results: &mut Results, why: &str) {
    for row in results.rows.iter_mut().filter(|row| row.metric == TEXT_GROWTH) {
        row.role = Role::Shown(format!("skipped: {why}"));
    }
    results.findings.push(format!(
        "text and instructions were not measured: {why}; machines take the instructions of \
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

/// What was published.
fn rows() -> Vec<Row> {
    let throughput = PUBLISHED.map(|(theirs, machine, before, after)| {
        let key =
            Key { workload: "inlining", machine, subject: "list-buddy", metric: "pages_per_s" };
        let row = key.row(EXPERIMENT.name, Unit::PerSecond, Some(Better::Higher));
        row.published(Published::sides(before, after, theirs, SOURCE))
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
