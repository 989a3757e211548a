//! Converts a replay into runs of a report: the run of the library and, for comparison, that of the
//! recorded kernel.

use framewright_lab::{
    replay::{
        Activity, Balance, FreeReport, KernelActivity, ListBuddyReport, Logical, ReplayReport,
        Requests,
    },
    report::{Better, Metric, Point, Run, Unit, cpu_metric},
    samples::{FreeMemory, OverTime, Sample},
    simulated::Column,
    workloads::Side,
};
use indexmap::IndexMap;

pub(crate) type Figures = Vec<(String, Metric)>;

pub(crate) fn count(name: &str, value: u64, better: Option<Better>) -> (String, Metric) {
    (name.to_owned(), Metric::once(value as f64, Unit::Count, better))
}

const LOWER: Option<Better> = Some(Better::Lower);
const HIGHER: Option<Better> = Some(Better::Higher);
/// The name of a migratetype in the kernel's numbering.
pub(crate) fn migratetype(of: u8) -> &'static str {
    const NAMES: [&str; 6] =
        ["unmovable", "movable", "reclaimable", "high-atomic", "cma", "isolate"];
    NAMES.get(usize::from(of)).copied().unwrap_or("other")
}

/// The column of the recorded kernel.
pub(crate) const KERNEL: &str = "recorded kernel";
/// The blocks of order 9 that can be allocated, as a series and, with suffixes, as figures.
pub(crate) const ORDER9: &str = "order9_allocatable";

/// The work of the library with the settings of `side`.
pub(crate) fn ours(side: &Side, replay: &ReplayReport) -> Run {
    let mut run = Run { label: side.label.clone(), ..Run::default() };
    run.settings = side.settings.clone();
    run.metrics.extend(activity(&replay.total));
    run.metrics.extend(outcome(&replay.logical, &replay.balance, &replay.samples));
    run.metrics.extend(library_free_blocks(replay));
    for cpu in &replay.cpus {
        let figures = activity(&cpu.ours).into_iter();
        run.metrics.extend(figures.map(|(name, metric)| (cpu_metric(cpu.cpu, &name), metric)));
    }
    run.series = over_time(&replay.samples);
    run
}

/// The work of the classic design, with those of the settings that it has.
pub(crate) fn list_buddy(column: &Column, replay: &ListBuddyReport) -> Run {
    let mut run = Run { label: column.label.clone(), ..Run::default() };
    run.settings = column.settings.clone();
    run.metrics.extend(activity(&replay.total));
    run.metrics.extend(outcome(&replay.logical, &replay.balance, &replay.samples));
    for (when, free) in ["start", "end"].into_iter().zip(&replay.free) {
        run.metrics.extend(blocks(when, free));
    }
    run.series = over_time(&replay.samples);
    run
}

fn over_time(samples: &[Sample]) -> IndexMap<String, Vec<Point>> {
    [
        series("largest_free_order", samples, |sample| sample.largest_order.map(f64::from)),
        series(ORDER9, samples, |sample| Some(sample.order9_allocatable as f64)),
        series("unusable_free_index_order9", samples, |s| thousandths(s.unusable_pageblock)),
        series("unusable_free_index_order3", samples, |s| thousandths(s.unusable_order_3)),
        series("frames_in_use", samples, |sample| Some(sample.in_use as f64)),
        series("frames_free", samples, |sample| Some(sample.free as f64)),
        series("frames_on_cpu_lists", samples, |sample| Some(sample.held_by_cpus as f64)),
    ]
    .into()
}

/// The work of the kernel, as far as its events show it, and the requests that it served.
pub(crate) fn kernel(replay: &ReplayReport, requests: &Requests) -> Run {
    let mut run = Run { label: KERNEL.to_owned(), ..Run::default() };
    run.metrics.extend(requests.by_order().map(|((order, of), requests)| {
        let name = migratetype(of).replace('-', "_");
        count(&format!("requests_order{order}_{name}"), requests, None)
    }));
    run.metrics.extend(kernel_free_blocks(replay));
    if !replay.kernel_total.shows_lists() {
        return run;
    }
    run.metrics.extend(kernel_activity(&replay.kernel_total));
    for cpu in &replay.cpus {
        let figures = kernel_activity(&cpu.kernel).into_iter();
        run.metrics.extend(figures.map(|(name, metric)| (cpu_metric(cpu.cpu, &name), metric)));
    }
    run
}

fn activity(of: &Activity) -> Figures {
    let mut figures = vec![
        count("list_hits", of.list_hits, HIGHER),
        count("refills", of.refills, LOWER),
        frames("refilled_frames", of.refilled_frames),
        count("drains", of.all_drains(), LOWER),
    ];
    for (reason, drains) in &of.drains {
        figures.push(count(&format!("drains_{}", reason.replace('-', "_")), *drains, LOWER));
    }
    figures.extend([
        frames("drained_frames", of.drained_frames),
        count("zone_lock_acquisitions", of.zone_lock_acquisitions, LOWER),
    ]);
    figures.extend(per_acquisition(of.zone_lock_acquisitions, of.frames_per_acquisition()));
    figures.extend([
        count("fallbacks", of.claims + of.steals, LOWER),
        count("fallbacks_claims", of.claims, LOWER),
        count("fallbacks_steals", of.steals, LOWER),
    ]);
    figures
}

/// Consecutive events of one kind on a CPU prove at least one refill or drain, and each of these
/// took the zone lock at least once.
fn kernel_activity(of: &KernelActivity) -> Figures {
    let acquisitions = of.zone_lock_acquisitions_seen();
    let mut figures = vec![
        count("refills", of.refill_runs, LOWER),
        frames("refilled_frames", of.zone_locked_frames),
        count("drains", of.drain_runs, LOWER),
        frames("drained_frames", of.pcpu_drain_frames),
        count("zone_lock_acquisitions", acquisitions, LOWER),
    ];
    figures.extend(per_acquisition(acquisitions, of.frames_per_acquisition()));
    figures.extend([
        count("fallbacks", of.extfrag_claims + of.extfrag_steals, LOWER),
        count("fallbacks_claims", of.extfrag_claims, LOWER),
        count("fallbacks_steals", of.extfrag_steals, LOWER),
        count("mm_page_alloc_zone_locked", of.zone_locked_refill + of.zone_locked_direct, None),
        count("mm_page_pcpu_drain", of.pcpu_drain, None),
        count("mm_page_alloc_extfrag", of.extfrag_claims + of.extfrag_steals, None),
    ]);
    figures
}

/// The blocks of order 9 over time, and how well the recording could be replayed.
fn outcome(logical: &Logical, balance: &Balance, samples: &[Sample]) -> Figures {
    let mut figures = Figures::new();
    if let Some(OverTime { mean, min, last }) = OverTime::order9_allocatable(samples) {
        let mean = Metric::once(mean, Unit::Count, HIGHER);
        figures.push((format!("{ORDER9}_mean"), mean));
        figures.push(count(&format!("{ORDER9}_min"), min, HIGHER));
        figures.push(count(&format!("{ORDER9}_last"), last, HIGHER));
    }
    figures.extend([
        count("refused_allocations", logical.refused_allocs, LOWER),
        count("stand_in_frees", logical.stand_in_frees, None),
        count("unmatched_frees", logical.unmatched_frees, LOWER),
        ("balance_pct".to_owned(), Metric::once(balance.difference_percent, Unit::Percent, None)),
    ]);
    figures
}

fn frames(name: &str, value: u64) -> (String, Metric) {
    (name.to_owned(), Metric::once(value as f64, Unit::Frames, None))
}

/// None without acquisitions.
fn per_acquisition(acquisitions: u64, value: f64) -> Option<(String, Metric)> {
    let metric = Metric::once(value, Unit::FramesPerAcquisition, HIGHER);
    (acquisitions > 0).then(|| ("frames_per_acquisition".to_owned(), metric))
}

fn thousandths(value: u64) -> Option<f64> {
    Some(value as f64 / 1000.0)
}

/// Samples without a value have no point.
fn series(
    name: &str,
    samples: &[Sample],
    value: impl Fn(&Sample) -> Option<f64>,
) -> (String, Vec<Point>) {
    let point = |sample: &Sample| Some(Point(sample.seconds, value(sample)?));
    (name.to_owned(), samples.iter().filter_map(point).collect())
}

/// Free blocks of the library, and by how many they exceed the kernel's.
pub(crate) fn library_free_blocks(replay: &ReplayReport) -> Figures {
    for_all_zones(replay, |free| {
        let mut figures = blocks("start", &free.start);
        figures.extend(blocks("end", &free.end));
        for (when, ours, kernel) in
            [("start", &free.start, &free.kernel_start), ("end", &free.end, &free.kernel_end)]
        {
            let beyond = kernel.as_ref().map(|kernel| ours.beyond(kernel));
            for (order, beyond) in beyond.iter().flatten().enumerate() {
                let name = format!("free_blocks_{when}_beyond_kernel_order{order}");
                figures.push((name, Metric::once(*beyond as f64, Unit::Count, None)));
            }
        }
        figures
    })
}

/// Free blocks of the kernel, if there are tables.
pub(crate) fn kernel_free_blocks(replay: &ReplayReport) -> Figures {
    for_all_zones(replay, |free| {
        let start = free.kernel_start.iter().flat_map(|free| blocks("start", free));
        let end = free.kernel_end.iter().flat_map(|free| blocks("end", free));
        start.chain(end).collect()
    })
}

/// The figures of all zones together, and of each zone with its name as a prefix.
fn for_all_zones(replay: &ReplayReport, figures: impl Fn(&FreeReport) -> Figures) -> Figures {
    let mut all = figures(&replay.free);
    for zone in &replay.zones {
        let prefix = format!("node{}_{}_", zone.node, zone.zone.to_lowercase());
        let of_zone = figures(&zone.free).into_iter();
        all.extend(of_zone.map(|(name, metric)| (prefix.clone() + &name, metric)));
    }
    all
}

fn blocks(when: &str, free: &FreeMemory) -> Figures {
    let orders = free.blocks.iter().enumerate();
    orders
        .map(|(order, &blocks)| count(&format!("free_blocks_{when}_order{order}"), blocks, None))
        .collect()
}
