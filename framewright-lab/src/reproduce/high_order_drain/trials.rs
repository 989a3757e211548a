//! The runs: workloads, machines, and list sizes.

use framewright::{Tuning, tuning::HighOrderDrain};
use framewright_peers::list_buddy::DrainAfter;
use framewright_sim::machine::Spec;

use crate::Error;
use crate::{
    reproduce::{
        Plan,
        pairs::{self, Pair, column},
    },
    simulated::{self, Column, ListSizes, Simulation},
    workloads::{
        Side, Workload,
        kbuild::Kbuild,
        socket_pairs::{Placement, SocketPairs},
    },
};

/// The classic design with lists of a fixed size.
pub(in crate::reproduce) const LISTS: &str = "list-buddy";
/// The classic design with lists of adaptive size.
pub(super) const AUTO: &str = "list-buddy auto";
/// The classic design with the lists of both kernels: of a fixed size before the change, of
/// adaptive size after it.
pub(super) const KERNELS: &str = "list-buddy 6.1/6.12";
/// The library with lists of the same fixed size.
pub(super) const FRAMEWRIGHT: &str = "framewright";
/// The library with lists of adaptive size.
pub(super) const FRAMEWRIGHT_AUTO: &str = "framewright auto";

/// The allocators that are compared, in the order of output.
pub(super) const SUBJECTS: [&str; 5] = [LISTS, FRAMEWRIGHT, KERNELS, AUTO, FRAMEWRIGHT_AUTO];

/// The machine with as many CPUs as the kernels whose drains were counted.
pub(super) const GUEST: &str = "uniform:4";
/// The memory of these kernels: 1 GiB.
const GUEST_FRAMES: u64 = 1 << 18;
const GUEST_CPUS: u16 = 4;
pub(super) const KBUILD_MACHINE: &str = "spr-2s-224";
pub(super) const SOCKET_MACHINE: &str = "icx-2s-128";

/// The workload whose writers and readers are pinned.
pub(super) const PINNED: &str = "socket-pairs";
/// The workload whose writers are pinned to one socket, and their readers to the other.
pub(super) const TWO_SOCKETS: &str = "socket-pairs, two sockets";
/// The number of CPUs from one socket to the other on [`SOCKET_MACHINE`].
const OTHER_SOCKET: u16 = 32;
/// The workload whose writers and readers a scheduler places.
pub(super) const SCHEDULED: &str = "socket-pairs scheduled";

/// The list sizes of 6.1 in such a virtual machine.
const GUEST_LISTS: ListSizes = ListSizes { batch: 63, high: 300 };
/// The published sizes of a server: 367 frames per CPU.
pub(in crate::reproduce) const SERVER_LISTS: ListSizes = ListSizes { batch: 63, high: 367 };

/// Cycles that a compiler computes per page on the server; see [`LOAD_WAS_FITTED`].
const SERVER_LOAD: u64 = 33_000;
pub(super) const LOAD_WAS_FITTED: &str = "the computation of compilers between two faults was chosen to \
                                          match the wait before the change";

/// The figures of rows, in the order of output.
pub(super) fn figures(workload: &str, machine: &str) -> &'static [&'static str] {
    match (workload, machine) {
        (SCHEDULED, GUEST) => {
            &["acquisitions_per_page", "drains_high_order", "hot_reuse_pct", "same_cpu_pct"]
        }
        (_, GUEST) => &["drains_per_exit", "acquisitions_per_page"],
        ("kbuild", _) => &[
            "drains_per_exit",
            "zone_lock_wait_pct",
            "acquisitions_per_page",
            "bulk_frees_per_page",
            "hot_reuse_pct",
        ],
        _ => &[
            "bandwidth_bytes_per_s",
            "zone_lock_wait_pct",
            "drains_high_order",
            "acquisitions_per_page",
            "bulk_frees_per_page",
            "hot_reuse_pct",
            "warm_reuse_pct",
            // Only scheduled tasks have them.
            "same_cpu_pct",
            "same_socket_pct",
        ],
    }
}

/// All pairs, in the order of output.
pub(super) fn pairs(plan: &Plan) -> Result<Vec<Pair>, Error> {
    let guest = || -> Result<_, Error> { Ok((Spec::uniform(GUEST_CPUS)?, Some(GUEST_FRAMES))) };
    let server = |name| -> Result<_, Error> { Ok((Spec::preset(name)?, None)) };
    let builds = Kbuild::new(1);
    let exits = Kbuild {
        least_pages: 2048,
        most_pages: 2048,
        cycles_per_page: 1_000,
        headers: 0,
        objects: 0,
        ..builds.clone()
    };
    let loaded = Kbuild { cycles_per_page: SERVER_LOAD, ..builds.clone() };
    let sockets = SocketPairs::new(1);
    let apart = SocketPairs { distance: OTHER_SOCKET, ..sockets.clone() };
    let scheduled = SocketPairs { placement: Placement::Scheduled, ..sockets.clone() };
    let trials = [
        ("exits", Workload::Kbuild(exits), guest()?, GUEST_LISTS),
        ("kbuild", Workload::Kbuild(builds), guest()?, GUEST_LISTS),
        ("kbuild", Workload::Kbuild(loaded), server(KBUILD_MACHINE)?, SERVER_LISTS),
        (SCHEDULED, Workload::SocketPairs(scheduled.clone()), guest()?, GUEST_LISTS),
        (PINNED, Workload::SocketPairs(sockets), server(SOCKET_MACHINE)?, SERVER_LISTS),
        (TWO_SOCKETS, Workload::SocketPairs(apart), server(SOCKET_MACHINE)?, SERVER_LISTS),
        (SCHEDULED, Workload::SocketPairs(scheduled), server(SOCKET_MACHINE)?, SERVER_LISTS),
    ];
    let mut pairs = Vec::new();
    for (name, work, (spec, frames), sizes) in trials {
        let simulation = Simulation { plan: length(plan, &work, frames), work, spec, frames };
        let pair = |subject, design| pair(name, subject, design, &simulation);
        let lists = |pair: Pair| fixed(pair, sizes);
        pairs.push(lists(pair(LISTS, list_buddy)));
        if frames == Some(GUEST_FRAMES) {
            let (before, after) =
                (lists(pair(KERNELS, list_buddy)).before, pair(KERNELS, list_buddy));
            pairs.push(Pair { before, ..after });
        } else {
            pairs.push(lists(pair(FRAMEWRIGHT, Column::framewright)));
        }
        pairs.push(pair(AUTO, list_buddy));
        pairs.push(pair(FRAMEWRIGHT_AUTO, Column::framewright));
    }
    Ok(pairs)
}

/// Lists of a fixed size. The classic design drains them only after they were full, as kernels with such lists did.
fn fixed(pair: Pair, sizes: ListSizes) -> Pair {
    let mut pair = pair.with_lists(Some(sizes));
    for column in [&mut pair.before, &mut pair.after] {
        if let simulated::Design::ListBuddy(tuning) = &mut column.design {
            tuning.drain_after = DrainAfter::FullLists;
        }
    }
    pair
}

pub(in crate::reproduce) type Design = fn(&Side) -> Column;

pub(in crate::reproduce) fn list_buddy(side: &Side) -> Column {
    Column::list_buddy(&side.label, side)
}

pub(in crate::reproduce) fn pair(
    workload: &'static str,
    subject: &'static str,
    design: Design,
    simulation: &Simulation,
) -> Pair {
    let side = |rule, value| {
        let mut tuning = Tuning::default();
        tuning.pcp.high_order_drain = rule;
        // As in Linux, all frees go to the lists, which the rule drains.
        tuning.zone.emptying_above = 512;
        column(design, tuning, ("pcp.high_order_drain", value))
    };
    Pair {
        workload,
        subject,
        simulation: simulation.clone(),
        before: side(HighOrderDrain::EveryFree, "every-free"),
        after: side(HighOrderDrain::SecondConsecutive, "second-consecutive"),
        price_before: None,
    }
}

/// The duration of the workload: a tenth in a quick run. Counts of virtual machines start with
/// their first process, when lists are small.
pub(in crate::reproduce) fn length(
    plan: &Plan,
    work: &Workload,
    frames: Option<u64>,
) -> simulated::Plan {
    let length = pairs::length(plan, work);
    match frames {
        Some(GUEST_FRAMES) => simulated::Plan { warm_up: 0, steady: false, ..length },
        _ => length,
    }
}
