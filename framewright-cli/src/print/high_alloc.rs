//! The results of `run high-alloc`.

use std::fmt::Write;

use framewright_lab::{
    high_alloc::{Flags, HighAlloc},
    report::{Report, Style},
    simulated::MODEL_NOTE,
};

use super::{FRAME_BYTES, workload};

/// What it ran on and did, the table, the checks.
pub(crate) fn high_alloc(report: &Report, work: &HighAlloc, seeds: usize, style: Style) -> String {
    let seeds = if seeds == 1 { "one seed".to_owned() } else { format!("{seeds} seeds") };
    let quick = if work.quick { "; --quick: a fifth of the load between requests" } else { "" };
    let mut text = format!(
        "machine  {} (simulated): {} CPUs, {} MiB; {seeds}{quick}\n",
        work.spec.name(),
        work.spec.cpus(),
        (work.frames * FRAME_BYTES) >> 20,
    );
    let may = match work.flags {
        Flags::Default => "a request reclaims, compacts, and wakes who does it in the background",
        Flags::Thp => "a request reclaims and compacts once, and wakes nobody",
    };
    // Writing to a string does not fail.
    let _ = writeln!(text, "flags    {}: {may}", work.flags.name());
    let _ = writeln!(text, "model    {}", workload::basis(&work.spec));
    let _ = writeln!(text, "note     {MODEL_NOTE}");
    text.push_str(&workload::body(report, style));
    text
}
