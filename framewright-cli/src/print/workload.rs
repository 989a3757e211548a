//! The results of `run page-fault`, `run kbuild` and `run socket-pairs`.

use std::fmt::Write;

use framewright_lab::qemu::QemuSpec;
use framewright_lab::report::{Comparison, HEADER_NOTE, Report, Style, Table, decimal};
use framewright_lab::simulated::{
    MODEL_NOTE, Simulation,
    scaling::{SERIES, Scaling, unit_of},
};
use framewright_lab::workloads::host::HostSpec;
use framewright_sim::machine::{Basis, Spec};

use super::{FRAME_BYTES, bold, report as common, several};

/// What it ran on, the table, the checks.
pub(crate) fn on_threads(
    report: &Report,
    spec: &HostSpec,
    notes: &[String],
    style: Style,
) -> String {
    let mut text = format!(
        "machine  {} of {} MiB; medians of {} rounds\n",
        report.machine,
        (spec.frames * FRAME_BYTES) >> 20,
        common::rounds(report)
    );
    for note in notes {
        // Writing to a string does not fail.
        let _ = writeln!(text, "note     {note}");
    }
    text.push_str(&body(report, style));
    text
}

/// The same of a simulated machine, and where its parameters come from.
pub(crate) fn simulated(report: &Report, simulation: &Simulation, style: Style) -> String {
    let spec = &simulation.spec;
    let frames = simulation.frames.unwrap_or_else(|| spec.frames());
    let mut text = format!(
        "machine  {} (simulated): {}, {}, {} MiB; {}\n",
        spec.name(),
        several(spec.cpus(), "CPU"),
        several(spec.nodes().into(), "node"),
        (frames * FRAME_BYTES) >> 20,
        time(report, simulation.plan.warm_up, simulation.plan.window),
    );
    let _ = writeln!(text, "model    {}", basis(spec));
    let _ = writeln!(text, "note     {MODEL_NOTE}");
    text.push_str(&body(report, style));
    text
}

/// The same of a kernel on an emulated machine.
pub(crate) fn emulated(report: &Report, spec: &QemuSpec, style: Style) -> String {
    let mut text = format!(
        "machine  {}, {}, {} MiB, emulated by QEMU: real page tables and interrupts\n",
        several(spec.cpus, "CPU"),
        several(spec.nodes, "node"),
        spec.mib,
    );
    text.push_str(
        "note     counts are what the code did; times under emulation say nothing of hardware\n",
    );
    for note in &report.notes {
        // Writing to a string does not fail.
        let _ = writeln!(text, "note     {note}");
    }
    text.push_str(&body(report, style));
    text
}

/// Series against CPUs, as a table.
pub(crate) fn scaled(report: &Report, scaling: &Scaling, style: Style) -> String {
    let mut text = format!(
        "machine  {} (simulated), one node per 28 CPUs, 512 MiB per CPU; {}\n",
        report.machine,
        time(report, scaling.plan.warm_up, scaling.plan.window),
    );
    let _ = writeln!(text, "note     {MODEL_NOTE}\n");
    text.push_str(&common::settings(report, style));
    for series in SERIES {
        let header =
            std::iter::once("CPUs").chain(report.runs.iter().map(|run| run.label.as_str()));
        let mut table = Table::new(header, style);
        for (row, cpus) in scaling.cpus.iter().enumerate() {
            let value = |run: &framewright_lab::report::Run| {
                let point = run.series.get(series).and_then(|points| points.get(row));
                point.map_or_else(String::new, |point| {
                    decimal(point.1, unit_of(series).0.decimals())
                })
            };
            table.plain_row(std::iter::once(cpus.to_string()).chain(report.runs.iter().map(value)));
        }
        let _ = writeln!(text, "{}\n{table}", bold(series, style));
    }
    text.push_str(&common::checks(report, style));
    text
}

fn time(report: &Report, warm_up: u64, window: u64) -> String {
    const MS: u64 = 1_000_000;
    let runs = common::rounds(report);
    let seeds = if runs == 1 { "one seed".to_owned() } else { format!("medians of {runs} seeds") };
    format!("{} virtual ms after {} of warming up; {seeds}", window / MS, warm_up / MS)
}

/// How many of a machine's parameters are measured, fitted and guessed.
pub(super) fn basis(spec: &Spec) -> String {
    let count = |basis: Basis| {
        let of = spec.parameters().filter(|figure| figure.provenance.basis == basis).count();
        format!("{of} {}", basis.word())
    };
    let counts: Vec<String> = Basis::ALL.into_iter().map(count).collect();
    format!("parameters: {}; `framewright machines {}` lists them", counts.join(", "), spec.name())
}

pub(super) fn body(report: &Report, style: Style) -> String {
    let mut text = String::from("\n");
    text.push_str(&common::settings(report, style));
    let note = if report.runs.len() > 1 { format!(" {HEADER_NOTE}") } else { String::new() };
    let table = Comparison::of(&report.runs).table(report.metric_names(), style);
    let _ = writeln!(text, "{}{note}\n{table}", bold(&report.workload, style));
    text.push_str(&common::checks(report, style));
    text
}
