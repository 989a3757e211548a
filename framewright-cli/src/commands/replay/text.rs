//! The result of a replay as text.

use framewright_lab::{
    replay::{
        Activity, CpuReport, KernelActivity, ListBuddyReport, ReplayReport, Requests, ZoneReport,
    },
    report::{Comparison, HEADER_NOTE, Report, Run, Style, Table, cpu_metric, decimal},
    samples::{FreeMemory, SHOWN_ORDERS},
};
use std::fmt::Write;

use super::{
    requests,
    runs::{KERNEL, ORDER9},
    verdict,
};
use crate::print::{self, FRAME_BYTES, bold, several};

/// The rows of the summary, in order; drains by reason follow their sum.
const SUMMARY: [&str; 24] = [
    "list_hits",
    "refills",
    "refilled_frames",
    "drains",
    "drains_threshold",
    "drains_high_order",
    "drains_capacity",
    "drains_emptying",
    "drains_local",
    "drains_remote",
    "drains_offline",
    "drains_trim",
    "drained_frames",
    "fallbacks",
    "fallbacks_claims",
    "fallbacks_steals",
    "zone_lock_acquisitions",
    "frames_per_acquisition",
    "order9_allocatable_mean",
    "order9_allocatable_min",
    "order9_allocatable_last",
    "refused_allocations",
    "unmatched_frees",
    "balance_pct",
];

/// Drains for a reason are shown only if there were any.
const ONLY_IF_ANY: &str = "drains_";

/// Columns of the table per CPU.
const PER_CPU: [&str; 14] = [
    "list_hits",
    "refills",
    "drains",
    "drains_threshold",
    "drains_high_order",
    "drains_capacity",
    "drains_emptying",
    "drains_local",
    "drains_remote",
    "drains_offline",
    "drains_trim",
    "fallbacks",
    "zone_lock_acquisitions",
    "frames_per_acquisition",
];

/// The whole text, from the verdict to the checks.
pub(crate) fn show(
    report: &Report,
    replays: &[ReplayReport],
    beside: Option<&ListBuddyReport>,
    requested: &Requests,
    style: Style,
) -> String {
    let Some(first) = replays.first() else { return String::new() };
    let mut text = verdict::show(first, style);
    text.push('\n');
    text.push_str(&introduction(first));
    text.push('\n');
    text.push_str(&print::settings(report, style));
    for part in [
        summary(report, replays.len(), style),
        per_cpu(report, replays, style),
        zones(first, style) + &zone_locks(first, style),
        by_order(report, replays, beside, style),
        requests::show(requested, style),
        print::series(report, style) + &means(report),
        print::checks(report, style),
    ] {
        text.push_str(&part);
        text.push('\n');
    }
    text.pop();
    text
}

fn introduction(replay: &ReplayReport) -> String {
    let (machine, logical, kernel) = (&replay.machine, &replay.logical, &replay.kernel_total);
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{name:10} {value}");
    };
    line("recording", replay.file.clone());
    line(
        "",
        format!(
            "{} events in {} s on {}",
            replay.events,
            decimal(replay.seconds, 3),
            several(machine.cpus, "CPU")
        ),
    );
    let origin =
        if machine.from_snapshot { "from the kernel's tables" } else { "as large as needed" };
    line(
        "machine",
        format!(
            "{} ({} MiB), {origin}: {} in use at the start, {} on CPU lists",
            several(machine.frames, "frame"),
            (machine.frames * FRAME_BYTES) >> 20,
            machine.in_use_at_start,
            machine.held_at_start
        ),
    );
    let of_kernel = replay.zones.iter().filter_map(|zone| zone.held.kernel_start).sum::<u64>();
    let beyond = of_kernel.saturating_sub(machine.held_at_start);
    if beyond > 0 {
        line(
            "",
            format!(
                "{} more were on the kernel's lists; here they are free in the zones, because the lists hold fewer",
                several(beyond, "frame")
            ),
        );
    }
    line(
        "replayed",
        format!(
            "{} of {}, {} of {}",
            several(logical.allocs, "allocation"),
            several(logical.alloc_frames, "frame"),
            several(logical.frees, "free"),
            several(logical.free_frames, "frame")
        ),
    );
    line(
        "",
        format!(
            "{} of blocks from before the recording, each replaced by a free of a stand-in block",
            several(logical.stand_in_frees, "free")
        ),
    );
    if logical.reallocations > 0 {
        line(
            "",
            format!(
                "{} of frames whose free was not recorded: {} freed before",
                several(logical.reallocations, "allocation"),
                several(logical.freed_unseen_frames, "frame"),
            ),
        );
    }
    line(
        "kernel",
        format!(
            "{} mm_page_alloc_zone_locked, {} mm_page_pcpu_drain, {} mm_page_alloc_extfrag",
            kernel.zone_locked_refill + kernel.zone_locked_direct,
            kernel.pcpu_drain,
            kernel.extfrag_claims + kernel.extfrag_steals
        ),
    );
    if !kernel.shows_lists() {
        line(
            "",
            "not recorded: its refills, drains, zone locks and fallbacks are unknown".to_owned(),
        );
    }
    if !replay.others.is_empty() {
        let others: Vec<_> =
            replay.others.iter().map(|(name, events)| format!("{events} {name}")).collect();
        line("skipped", others.join(", "));
    }
    text
}

/// The first `sides` runs are the library's. They are compared; the others are further columns.
fn summary(report: &Report, sides: usize, style: Style) -> String {
    let (ours, others) = report.runs.split_at(sides);
    let comparison = others.iter().fold(Comparison::of(ours), Comparison::beside);
    let table = comparison.table(shown(report, &SUMMARY), style);
    let note = if ours.len() > 1 { format!(" {HEADER_NOTE}") } else { String::new() };
    format!(
        "{}{note}\n{table}\
         recorded kernel: work that its events show; acquisitions of the zone lock are a lower bound\n",
        bold("all CPUs", style)
    )
}

/// Those of `names` that are shown.
fn shown<'n>(report: &Report, names: &[&'n str]) -> Vec<&'n str> {
    let any = |run: &Run, name: &str| run.metrics.get(name).is_some_and(|m| m.median > 0.0);
    let arose = |name: &str| report.runs.iter().any(|run| any(run, name));
    names.iter().filter(|name| !name.starts_with(ONLY_IF_ANY) || arose(name)).copied().collect()
}

/// One line: the mean of [`ORDER9`] of every run that has it, and the ratio of each mean to that of
/// the classic design, or to that of the first run if the classic design did not run. Empty for a
/// single run.
fn means(report: &Report) -> String {
    let mean = |run: &Run| run.metrics.get(&format!("{ORDER9}_mean")).map(|it| it.median);
    let runs = report.runs.iter().filter_map(|run| Some((run.label.as_str(), mean(run)?)));
    let mut runs: Vec<(&str, f64)> = runs.collect();
    let all: Vec<String> =
        runs.iter().map(|(label, mean)| format!("{label} {}", decimal(*mean, 1))).collect();
    let base = runs.iter().position(|(label, _)| *label == "list-buddy").unwrap_or(0);
    if runs.len() < 2 {
        return String::new();
    }
    let (base, base_mean) = runs.remove(base);
    let ratio = |(label, mean): &(&str, f64)| match base_mean {
        0.0 => format!("{label} / {base}: none"),
        _ => format!("{label} / {base} {}", decimal(mean / base_mean, 4)),
    };
    let ratios: Vec<String> = runs.iter().map(ratio).collect();
    format!("{ORDER9}, mean over time: {}; {}\n", all.join(", "), ratios.join(", "))
}

/// One row per run for each CPU that was active in any of them.
fn per_cpu(report: &Report, replays: &[ReplayReport], style: Style) -> String {
    let mut cpus: Vec<u16> = replays.iter().flat_map(busy).collect();
    cpus.sort_unstable();
    cpus.dedup();
    let names = shown(report, &PER_CPU);
    let header: Vec<String> = names.iter().map(|name| in_two_lines(name)).collect();
    let header = header.iter().map(String::as_str);
    let mut table = Table::new(std::iter::once("").chain(header), style);
    for cpu in &cpus {
        let own =
            |run: &&Run| names.iter().any(|name| run.metrics.contains_key(&cpu_metric(*cpu, name)));
        for run in report.runs.iter().filter(own) {
            let figures = names.iter().map(|name| {
                run.metrics.get(&cpu_metric(*cpu, name)).map_or_else(
                    || "-".to_owned(),
                    |metric| decimal(metric.median, metric.unit.decimals()),
                )
            });
            let name = format!("CPU {cpu}  {}", run.label);
            table.plain_row(std::iter::once(name).chain(figures));
        }
    }
    let all = replays.first().map_or(0, |replay| replay.cpus.len());
    format!("{}{}\n{table}", bold("per CPU", style), left_out(all.saturating_sub(cpus.len())))
}

/// A name as the header of a column, in two lines to take less width.
fn in_two_lines(name: &str) -> String {
    match name.rsplit_once('_') {
        Some((words, last)) => format!("{}\n{last}", words.replace('_', " ")),
        None => name.to_owned(),
    }
}

/// The CPUs that allocated, freed or moved anything, in the replay or in the recorded kernel.
fn busy(replay: &ReplayReport) -> impl Iterator<Item = u16> {
    let idle = |ours: &Activity| {
        let counts = [ours.alloc_frames, ours.free_frames, ours.all_drains()];
        counts == [0; 3] && ours.zone_lock_acquisitions == 0
    };
    let busy = move |cpu: &&CpuReport| !idle(&cpu.ours) || cpu.kernel != KernelActivity::default();
    replay.cpus.iter().filter(busy).map(|cpu| cpu.cpu)
}

fn left_out(idle: usize) -> String {
    match idle {
        0 => String::new(),
        1 => " (1 idle CPU left out)".to_owned(),
        _ => format!(" ({idle} idle CPUs left out)"),
    }
}

/// The zones, and their frames on CPU lists.
pub(crate) fn zones(replay: &ReplayReport, style: Style) -> String {
    let header = [
        "",
        "frames",
        "min",
        "low",
        "high",
        "start: on\nCPU lists",
        "recorded\nkernel",
        "end: on\nCPU lists",
        "recorded\nkernel",
    ];
    let mut table = Table::new(header, style);
    for zone in &replay.zones {
        let ([min, low, high], held) = (zone.watermarks, &zone.held);
        let figures = [
            Some(zone.managed),
            Some(min),
            Some(low),
            Some(high),
            Some(held.start),
            held.kernel_start,
            Some(held.end),
            held.kernel_end,
        ];
        let name = format!("node {} {}", zone.node, zone.zone);
        let shown = |figure: Option<u64>| figure.map_or("-".to_owned(), |value| value.to_string());
        table.plain_row(std::iter::once(name).chain(figures.map(shown)));
    }
    format!("{}\n{table}", bold("zones", style))
}

/// The use of the zone locks, if events of locks were recorded.
pub(crate) fn zone_locks(replay: &ReplayReport, style: Style) -> String {
    let used = |zone: &&ZoneReport| zone.kernel_lock.holds > 0 || zone.lock.holds > 0;
    let zones: Vec<&ZoneReport> = replay.zones.iter().filter(used).collect();
    if zones.iter().all(|zone| zone.kernel_lock.waits.is_none()) {
        return String::new();
    }
    let header = [
        "",
        "recorded\nwaits",
        "recorded\nwait ns",
        "recorded\nholds",
        "recorded\nhold ns",
        "replayed\nholds",
        "modelled\nhold ns",
    ];
    let mut table = Table::new(header, style);
    let mean = |sum: u64, times: u64| match times {
        0 => "-".to_owned(),
        _ => (sum / times).to_string(),
    };
    for zone in zones {
        let (kernel, own) = (&zone.kernel_lock, &zone.lock);
        let waits = kernel.waits.unwrap_or(0);
        table.plain_row([
            format!("node {} {}", zone.node, zone.zone),
            waits.to_string(),
            mean(kernel.wait_nanos.unwrap_or(0), waits),
            kernel.holds.to_string(),
            mean(kernel.hold_nanos, kernel.holds),
            own.holds.to_string(),
            mean(own.hold_nanos, own.holds),
        ]);
    }
    let note = "means per wait and per hold; recorded holds are those with events, from the first to the \
                last event, which tracing makes longer; a replay runs on one thread and never waits";
    format!("\n{}\n{table}{}", bold("zone locks", style), print::paragraph(note))
}

/// Free blocks by order, over all zones, as in `/proc/buddyinfo`.
pub(crate) fn by_order(
    report: &Report,
    replays: &[ReplayReport],
    beside: Option<&ListBuddyReport>,
    style: Style,
) -> String {
    let Some(first) = replays.first() else { return String::new() };
    let mut rows = Rows::new(style);
    let labels = || report.runs.iter().map(|run| run.label.as_str());
    let start = replays.iter().map(|replay| &replay.free.start);
    let start = start.chain(beside.map(|replay| &replay.free[0]));
    rows.moment("start", KERNEL, first.free.kernel_start.as_ref(), labels().zip(start));
    let end = replays.iter().map(|replay| &replay.free.end);
    let end = end.chain(beside.map(|replay| &replay.free[1]));
    rows.moment("end", KERNEL, first.free.kernel_end.as_ref(), labels().zip(end));
    let note = match (&first.free.kernel_end, first.ends_early) {
        (None, _) => "",
        (Some(_), false) => {
            "recorded kernel, end: its tables from after the recording (NAME.after)\n"
        }
        (Some(_), true) => {
            "recorded kernel, end: the recording was cut, and its tables (NAME.after) are of a \
             later time\n"
        }
    };
    format!("{}\n{}{note}", bold("free blocks", style), rows.0)
}

/// A table with a column per order.
struct Rows(Table);

impl Rows {
    fn new(style: Style) -> Self {
        let last = SHOWN_ORDERS - 1;
        let orders = (0..SHOWN_ORDERS).map(|order| {
            if order == last { format!("order {order}+") } else { format!("order {order}") }
        });
        let header: Vec<String> = std::iter::once(String::new()).chain(orders).collect();
        Self(Table::new(header.iter().map(String::as_str), style))
    }

    /// The kernel's blocks at one moment, the library's, and the difference.
    fn moment<'r>(
        &mut self,
        when: &str,
        kernel: &str,
        theirs: Option<&FreeMemory>,
        ours: impl Iterator<Item = (&'r str, &'r FreeMemory)>,
    ) {
        if let Some(theirs) = theirs {
            self.row(format!("{when:5}  {kernel}"), theirs.blocks.map(|blocks| blocks.to_string()));
        }
        for (label, ours) in ours {
            self.row(format!("{when:5}  {label}"), ours.blocks.map(|blocks| blocks.to_string()));
            if let Some(theirs) = theirs {
                let beyond = ours.beyond(theirs).map(|blocks| format!("{blocks:+}"));
                self.row("         difference".to_owned(), beyond);
            }
        }
    }

    fn row(&mut self, name: String, figures: [String; SHOWN_ORDERS]) {
        self.0.plain_row(std::iter::once(name).chain(figures));
    }
}
