//! Free blocks by order as figures: of all zones, and of each.

use framewright_lab::replay::{FreeMemory, FreeReport, ReplayReport};
use framewright_lab::report::{Metric, Unit};

use super::figures::{Figures, count};

/// Ours, and how many more than the kernel's they are.
pub(super) fn ours(replay: &ReplayReport) -> Figures {
    each(replay, |free| {
        let mut figures = blocks("start", &free.start);
        figures.extend(blocks("end", &free.end));
        for (when, ours, kernel) in
            [("start", &free.start, &free.kernel_start), ("end", &free.end, &free.kernel_end)]
        {
            let beyond = kernel.as_ref().map(|kernel| ours.beyond(kernel));
            for (order, beyond) in beyond.iter().flatten().enumerate() {
                let name = format!("free blocks at {when} beyond the kernel's, order {order}");
                figures.push((name, Metric::once(*beyond as f64, Unit::Count, None)));
            }
        }
        figures
    })
}

/// The kernel's, where there are tables.
pub(super) fn kernels(replay: &ReplayReport) -> Figures {
    each(replay, |free| {
        let start = free.kernel_start.iter().flat_map(|free| blocks("start", free));
        let end = free.kernel_end.iter().flat_map(|free| blocks("end", free));
        start.chain(end).collect()
    })
}

/// The figures of all zones together, and of each by its name.
fn each(replay: &ReplayReport, figures: impl Fn(&FreeReport) -> Figures) -> Figures {
    let mut all = figures(&replay.free);
    for zone in &replay.zones {
        let prefix = format!("node {} {}: ", zone.node, zone.zone);
        let of_zone = figures(&zone.free).into_iter();
        all.extend(of_zone.map(|(name, metric)| (prefix.clone() + &name, metric)));
    }
    all
}

fn blocks(when: &str, free: &FreeMemory) -> Figures {
    let orders = free.blocks.iter().enumerate();
    orders
        .map(|(order, &blocks)| {
            count(&format!("free blocks at {when}, order {order}"), blocks, None)
        })
        .collect()
}
