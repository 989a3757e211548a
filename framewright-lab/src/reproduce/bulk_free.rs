//! *bulk-free* (2018): choosing what to free before taking the zone lock.

use super::{Experiment, Key, Plan, ReproduceError, Results, Tell};
use crate::report::{Better, Published, Quantity, Reference, Role, Row, Unit};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "bulk-free",
    title: "choose what to free before taking the zone lock (2018)",
    question: "\
page-fault on the four published machines, list sizes as then: list-buddy with
pcp.bulk_free=choose-under-lock, then with choose-before-lock; and the library both ways.",
    draws: false,
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

/// The machine whose throughput and lock wait the latencies were fitted to.
const FITTED: &str = "skx-2s-112";

fn run(_plan: &Plan, _tell: &mut Tell<'_>) -> Result<Results, ReproduceError> {
    Ok(Results { rows: rows(), ..Results::default() })
}

/// What was published.
fn rows() -> Vec<Row> {
    let throughput = PUBLISHED.map(|(theirs, machine, before, after)| {
        let key = key(machine, "pages_per_s");
        let published = Published::sides(before, after, theirs, SOURCE);
        let row = key.row(EXPERIMENT.name, Unit::PerSecond, Some(Better::Higher));
        row.published(published).role(role(machine))
    });
    let wait = [("Skylake, 2 sockets", FITTED, 85.0), ("Skylake, 4 sockets", "skx-4s-224", 81.0)];
    let wait = wait.map(|(theirs, machine, percent)| {
        let key = key(machine, "zone_lock_wait_pct");
        let published = Published::before(percent, theirs, WAIT_SOURCE);
        let row = key.row(EXPERIMENT.name, Unit::Percent, Some(Better::Lower));
        let row = row.published(published).role(role(machine));
        row.judged(Quantity::Before, Reference::Published)
    });
    throughput.into_iter().chain(wait).collect()
}

fn key<'k>(machine: &'k str, metric: &'k str) -> Key<'k> {
    Key { workload: "page-fault", machine, subject: "list-buddy", metric }
}

fn role(machine: &str) -> Role {
    if machine == FITTED {
        Role::Fitted("latencies and work under the lock were fitted on this machine".into())
    } else {
        Role::Predicted
    }
}
