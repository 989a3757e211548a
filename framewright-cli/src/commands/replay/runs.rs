//! A replay as runs of a report: ours, and the recorded kernel's beside it.

use framewright_lab::{
    replay::{Activity, FreeMemory, FreeReport, KernelActivity, ReplayReport, Sample},
    report::{Better, Metric, Point, Run, Unit, cpu_metric},
    workloads::Side,
};

pub(crate) type Figures = Vec<(String, Metric)>;

pub(crate) fn count(name: &str, value: u64, better: Option<Better>) -> (String, Metric) {
    (name.to_owned(), Metric::once(value as f64, Unit::Count, better))
}

const LOWER: Option<Better> = Some(Better::Lower);
const HIGHER: Option<Better> = Some(Better::Higher);
/// The column of the kernel whose work it was.
const KERNEL: &str = "recorded kernel";

/// What the library did with the settings of `side`.
pub(crate) fn ours(side: &Side, replay: &ReplayReport) -> Run {
    let mut run = Run { label: side.label.clone(), ..Run::default() };
    run.settings = side.settings.clone();
    run.metrics.extend(activity(&replay.total));
    run.metrics.extend(outcome(replay));
    run.metrics.extend(free_of_ours(replay));
    for cpu in &replay.cpus {
        let figures = activity(&cpu.ours).into_iter();
        run.metrics.extend(figures.map(|(name, metric)| (cpu_metric(cpu.cpu, &name), metric)));
    }
    run.series = [
        series("largest free order", replay, |sample| sample.largest_order.map(f64::from)),
        series("unusable-free index, order 9", replay, |s| thousandths(s.unusable_pageblock)),
        series("unusable-free index, order 3", replay, |s| thousandths(s.unusable_order_3)),
        series("frames in use", replay, |sample| Some(sample.in_use as f64)),
        series("frames free", replay, |sample| Some(sample.free as f64)),
        series("frames on CPU lists", replay, |sample| Some(sample.held_by_cpus as f64)),
    ]
    .into();
    run
}

/// What the kernel itself did, as far as its events tell.
pub(crate) fn kernel(replay: &ReplayReport) -> Run {
    let mut run = Run { label: KERNEL.to_owned(), ..Run::default() };
    run.metrics.extend(kernel_activity(&replay.kernel_total));
    run.metrics.extend(kernels(replay));
    for cpu in &replay.cpus {
        let figures = kernel_activity(&cpu.kernel).into_iter();
        run.metrics.extend(figures.map(|(name, metric)| (cpu_metric(cpu.cpu, &name), metric)));
    }
    run
}

fn activity(of: &Activity) -> Figures {
    let mut figures = vec![
        count("list hits", of.list_hits, HIGHER),
        count("refills", of.refills, LOWER),
        frames("refilled frames", of.refilled_frames),
        count("drains", of.all_drains(), LOWER),
    ];
    for (reason, drains) in &of.drains {
        figures.push(count(&format!("drains: {reason}"), *drains, LOWER));
    }
    figures.extend([
        frames("drained frames", of.drained_frames),
        count("zone-lock acquisitions", of.zone_lock_acquisitions, LOWER),
        per_acquisition(of.frames_per_acquisition()),
        count("fallbacks", of.claims + of.steals, LOWER),
        count("fallbacks: claims", of.claims, LOWER),
        count("fallbacks: steals", of.steals, LOWER),
    ]);
    figures
}

/// A run of events of one kind on a CPU proves at least one refill or drain, and each of these
/// took the zone lock at least once.
fn kernel_activity(of: &KernelActivity) -> Figures {
    vec![
        count("refills", of.refill_runs, LOWER),
        frames("refilled frames", of.zone_locked_frames),
        count("drains", of.drain_runs, LOWER),
        frames("drained frames", of.pcpu_drain_frames),
        count("zone-lock acquisitions", of.zone_lock_acquisitions_seen(), LOWER),
        per_acquisition(of.frames_per_acquisition()),
        count("fallbacks", of.extfrag_claims + of.extfrag_steals, LOWER),
        count("fallbacks: claims", of.extfrag_claims, LOWER),
        count("fallbacks: steals", of.extfrag_steals, LOWER),
        count("mm_page_alloc_zone_locked", of.zone_locked_refill + of.zone_locked_direct, None),
        count("mm_page_pcpu_drain", of.pcpu_drain, None),
        count("mm_page_alloc_extfrag", of.extfrag_claims + of.extfrag_steals, None),
    ]
}

/// How well the recording could be replayed.
fn outcome(replay: &ReplayReport) -> Figures {
    let logical = &replay.logical;
    vec![
        count("refused allocations", logical.refused_allocs, LOWER),
        count("stand-in frees", logical.stand_in_frees, None),
        count("unmatched frees", logical.unmatched_frees, LOWER),
        (
            "balance".to_owned(),
            Metric::once(replay.balance.difference_percent, Unit::Percent, None),
        ),
    ]
}

fn frames(name: &str, value: u64) -> (String, Metric) {
    (name.to_owned(), Metric::once(value as f64, Unit::Frames, None))
}

fn per_acquisition(value: f64) -> (String, Metric) {
    let metric = Metric::once(value, Unit::FramesPerAcquisition, HIGHER);
    ("frames per acquisition".to_owned(), metric)
}

fn thousandths(value: u64) -> Option<f64> {
    Some(value as f64 / 1000.0)
}

/// A moment without a value has no point.
fn series(
    name: &str,
    replay: &ReplayReport,
    value: impl Fn(&Sample) -> Option<f64>,
) -> (String, Vec<Point>) {
    let point = |sample: &Sample| Some(Point(sample.seconds, value(sample)?));
    (name.to_owned(), replay.samples.iter().filter_map(point).collect())
}

/// Ours, and how many more than the kernel's they are.
pub(crate) fn free_of_ours(replay: &ReplayReport) -> Figures {
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
pub(crate) fn kernels(replay: &ReplayReport) -> Figures {
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
