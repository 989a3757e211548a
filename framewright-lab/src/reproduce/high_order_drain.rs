//! *high-order-drain* (2023): a process exit frees one block of order 1, and the lists of its CPU
//! are drained for it.

use super::{Experiment, Key, Plan, ReproduceError, Results, Tell};
use crate::report::{Better, Published, Quantity, Reference, Row, Unit};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "high-order-drain",
    title: "drain CPU lists only on two high-order frees in a row (2023)",
    question: "\
kbuild on 224 CPUs and socket-pairs on 128: pcp.high_order_drain=every-free, then
second-consecutive. How often lists are drained for nothing, what that costs at the zone lock, and
the reason why they are drained at all: how often a freed page is used again while it is hot.",
    draws: false,
    run,
};

const SOURCE: &str = "mm, pcp: avoid to drain PCP when process exit (Linux 6.7)";
const KBUILD_SERVER: &str = "2 sockets, 224 CPUs";
const SOCKET_SERVER: &str = "2 sockets, 128 CPUs";
const KERNELS: &str = "Linux 6.1 without and 6.12 with the change, 4 CPUs in QEMU: counts";

fn run(_plan: &Plan, _tell: &mut Tell<'_>) -> Result<Results, ReproduceError> {
    Ok(Results { rows: rows(), ..Results::default() })
}

/// What was published, and what running kernels did.
fn rows() -> Vec<Row> {
    vec![
        // 100 exits of 8 MiB: every drain is one that the exit's own page table caused.
        exits("drains_per_exit").kernel(0.99, 0.0, KERNELS),
        exits("acquisitions_per_page").kernel(0.0220, 0.000_44, KERNELS),
        kbuild("drains_per_exit", Unit::Ratio)
            .published(Published::change(-80.5, KBUILD_SERVER, SOURCE))
            .kernel(0.76, 0.026, KERNELS),
        kbuild("zone_lock_wait_pct", Unit::Percent).published(Published::sides(
            14.0,
            12.8,
            KBUILD_SERVER,
            SOURCE,
        )),
        kbuild("acquisitions_per_page", Unit::Ratio)
            .kernel(0.0210, 0.001_04, KERNELS)
            .judged(Quantity::Before, Reference::Kernel),
        sockets("bandwidth_bytes_per_s", Unit::BytesPerSecond, Better::Higher)
            .published(Published::change(16.8, SOCKET_SERVER, SOURCE)),
        sockets("zone_lock_wait_pct", Unit::Percent, Better::Lower).published(Published::sides(
            51.4,
            46.1,
            SOCKET_SERVER,
            SOURCE,
        )),
        sockets("high_order_drains", Unit::Count, Better::Lower).published(Published::change(
            -30.5,
            SOCKET_SERVER,
            SOURCE,
        )),
        sockets("acquisitions_per_page", Unit::Ratio, Better::Lower)
            .kernel(0.0025, 0.0150, KERNELS)
            .judged(Quantity::Before, Reference::Kernel),
    ]
}

fn exits(metric: &str) -> Row {
    key("exits", "spr-2s-224", metric)
        .row(EXPERIMENT.name, Unit::Ratio, Some(Better::Lower))
        .judged(Quantity::Before, Reference::Kernel)
}

fn kbuild(metric: &str, unit: Unit) -> Row {
    key("kbuild", "spr-2s-224", metric).row(EXPERIMENT.name, unit, Some(Better::Lower))
}

fn sockets(metric: &str, unit: Unit, better: Better) -> Row {
    key("socket-pairs", "icx-2s-128", metric).row(EXPERIMENT.name, unit, Some(better))
}

fn key<'k>(workload: &'k str, machine: &'k str, metric: &'k str) -> Key<'k> {
    Key { workload, machine, subject: "list-buddy", metric }
}
