//! The result of `run page-fault`.

use std::fmt::Write;

use framewright_lab::report::{Comparison, HEADER_NOTE, Report, Style};
use framewright_lab::workloads::page_fault::HostSpec;

use super::{FRAME_BYTES, bold, report as common};

/// What it ran on, the table, the checks.
pub(crate) fn page_fault(
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
    text.push('\n');
    text.push_str(&common::settings(report, style));
    let note = if report.runs.len() > 1 { format!(" {HEADER_NOTE}") } else { String::new() };
    let table = Comparison::of(&report.runs).table(report.metric_names(), style);
    let _ = writeln!(text, "{}{note}\n{table}", bold(&report.workload, style));
    text.push_str(&common::checks(report, style));
    text
}
