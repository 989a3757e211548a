//! *hot-path* (2017): the removal path inlined under the zone lock, and what bulk removal would do.

use super::{Experiment, Key, Plan, ReproduceError, Results, Tell};
use crate::report::{Better, Published, Row, Unit};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "hot-path",
    title: "inline what removes frames under the zone lock (2017)",
    question: "\
Cycles and instructions under the zone lock per frame, and text: the removal path outlined, then
inlined; and frames taken one by one, then in bulk, which a reviewer wished for.",
    draws: false,
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

fn run(_plan: &Plan, _tell: &mut Tell<'_>) -> Result<Results, ReproduceError> {
    Ok(Results { rows: rows(), ..Results::default() })
}

/// What was published.
fn rows() -> Vec<Row> {
    let throughput = PUBLISHED.map(|(theirs, machine, before, after)| {
        let key =
            Key { workload: "page-fault", machine, subject: "list-buddy", metric: "pages_per_s" };
        let row = key.row(EXPERIMENT.name, Unit::PerSecond, Some(Better::Higher));
        row.published(Published::sides(before, after, theirs, SOURCE))
    });
    let key =
        Key { workload: "build", machine: "x86-64", subject: "list-buddy", metric: "text_bytes" };
    let (before, after) = TEXT;
    let published = Published::sides(before, after, "gcc 4.9.4", SOURCE);
    let text = key.row(EXPERIMENT.name, Unit::Bytes, Some(Better::Lower)).published(published);
    throughput.into_iter().chain([text]).collect()
}
