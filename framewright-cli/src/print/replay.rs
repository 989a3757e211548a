//! The result of a replay.

use std::fmt::Write;

use framewright_lab::replay::{Activity, CpuReport, KernelActivity, ReplayReport};
use framewright_lab::report::{
    Comparison, HEADER_NOTE, Report, Run, Style, Table, cpu_metric, decimal,
};

use super::{FRAME_BYTES, bold, free_blocks, report as common};

/// The lines of the summary, in order; drains by reason follow their sum.
const SUMMARY: [&str; 20] = [
    "list hits",
    "refills",
    "refilled frames",
    "drains",
    "drains: threshold",
    "drains: high-order",
    "drains: capacity",
    "drains: local",
    "drains: remote",
    "drains: offline",
    "drains: decay",
    "drained frames",
    "fallbacks",
    "fallbacks: claims",
    "fallbacks: steals",
    "zone-lock acquisitions",
    "frames per acquisition",
    "refused allocations",
    "unmatched frees",
    "balance",
];

/// Drains for a reason that never arose say nothing.
const ONLY_IF_ANY: &str = "drains: ";

/// Columns of the table per CPU: those of the summary that say something of one.
const PER_CPU: [&str; 13] = [
    "list hits",
    "refills",
    "drains",
    "drains: threshold",
    "drains: high-order",
    "drains: capacity",
    "drains: local",
    "drains: remote",
    "drains: offline",
    "drains: decay",
    "fallbacks",
    "zone-lock acquisitions",
    "frames per acquisition",
];

/// Everything, from what was replayed to whether it came out even.
pub(crate) fn replay(report: &Report, replays: &[ReplayReport], style: Style) -> String {
    let Some(first) = replays.first() else { return String::new() };
    let mut text = introduction(first);
    text.push('\n');
    text.push_str(&common::settings(report, style));
    for part in [
        summary(report, style),
        per_cpu(report, replays, style),
        free_blocks::zones(first, style),
        free_blocks::by_order(report, replays, style),
        common::series(report, style),
        common::checks(report, style),
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
            "{} events in {} s on {} CPUs",
            replay.events,
            decimal(replay.seconds, 3),
            machine.cpus
        ),
    );
    let origin = if machine.from_snapshot { "as its tables show it" } else { "as it needs" };
    line(
        "machine",
        format!(
            "{} frames ({} MiB), {origin}: {} in use at the start, {} on CPU lists",
            machine.frames,
            (machine.frames * FRAME_BYTES) >> 20,
            machine.in_use_at_start,
            machine.held_at_start
        ),
    );
    line(
        "replayed",
        format!(
            "{} allocations of {} frames, {} frees of {} frames",
            logical.allocs, logical.alloc_frames, logical.frees, logical.free_frames
        ),
    );
    line(
        "",
        format!(
            "{} frees of memory from before the recording, each of a stand-in",
            logical.stand_in_frees
        ),
    );
    line(
        "kernel",
        format!(
            "{} mm_page_alloc_zone_locked, {} mm_page_pcpu_drain, {} mm_page_alloc_extfrag",
            kernel.zone_locked_refill + kernel.zone_locked_direct,
            kernel.pcpu_drain,
            kernel.extfrag_claims + kernel.extfrag_steals
        ),
    );
    if !replay.others.is_empty() {
        let others: Vec<_> =
            replay.others.iter().map(|(name, events)| format!("{events} {name}")).collect();
        line("skipped", others.join(", "));
    }
    text
}

fn summary(report: &Report, style: Style) -> String {
    let (ours, kernel) = split(report);
    let mut comparison = Comparison::of(ours);
    if let Some(kernel) = kernel {
        comparison = comparison.beside(kernel);
    }
    let table = comparison.table(told(report, &SUMMARY), style);
    let note = if ours.len() > 1 { format!(" {HEADER_NOTE}") } else { String::new() };
    format!(
        "{}{note}\n{table}\
         recorded kernel: what its events prove; it took the zone lock at least that often\n",
        bold("all CPUs", style)
    )
}

/// Those of `names` that say something.
fn told<'n>(report: &Report, names: &[&'n str]) -> Vec<&'n str> {
    let any = |run: &Run, name: &str| run.metrics.get(name).is_some_and(|m| m.median > 0.0);
    let arose = |name: &str| report.runs.iter().any(|run| any(run, name));
    names.iter().filter(|name| !name.starts_with(ONLY_IF_ANY) || arose(name)).copied().collect()
}

/// Our runs, and the kernel's behind them.
fn split(report: &Report) -> (&[Run], Option<&Run>) {
    match report.runs.split_last() {
        Some((kernel, ours)) => (ours, Some(kernel)),
        None => (&[], None),
    }
}

/// One row per run for each CPU that did something in any of them.
fn per_cpu(report: &Report, replays: &[ReplayReport], style: Style) -> String {
    let mut cpus: Vec<u16> = replays.iter().flat_map(busy).collect();
    cpus.sort_unstable();
    cpus.dedup();
    let names = told(report, &PER_CPU);
    // Two short lines take less width than one long one.
    let header: Vec<String> = names.iter().map(|name| name.replacen(' ', "\n", 1)).collect();
    let header = header.iter().map(String::as_str);
    let mut table = Table::new(std::iter::once("").chain(header), style);
    for cpu in &cpus {
        for run in &report.runs {
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

/// The CPUs on which anything was allocated, freed or moved, by us or by the kernel.
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
