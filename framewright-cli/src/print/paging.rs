//! The results of `run mmap-read` and `run cdn`.

use std::fmt::Write;

use framewright_lab::{
    paging::{Paging, Work},
    report::{Report, Style},
    simulated::MODEL_NOTE,
    workloads::mmap_read::Readers,
};

use super::{FRAME_BYTES, report as common, several, workload};

/// What it ran on and did, the table, the checks, what happened over time.
pub(crate) fn paging(report: &Report, paging: &Paging, style: Style) -> String {
    let Paging { work, spec, frames } = paging;
    let runs = common::rounds(report);
    let mut text = format!(
        "machine  {} (simulated): {}, {}, {} MiB; {}\n",
        spec.name(),
        several(spec.cpus(), "CPU"),
        several(spec.nodes().into(), "node"),
        (frames * FRAME_BYTES) >> 20,
        if runs == 1 { "one seed".to_owned() } else { format!("medians of {runs} seeds") },
    );
    // Writing to a string does not fail.
    let _ = writeln!(text, "work     {}", description(work, *frames));
    let _ = writeln!(text, "model    {}", workload::basis(spec));
    let _ = writeln!(text, "note     {MODEL_NOTE}");
    text.push_str(&workload::body(report, style));
    if matches!(work, Work::Cdn(_)) {
        text.push('\n');
        text.push_str(&common::series(report, style));
    }
    text
}

fn description(work: &Work, frames: u64) -> String {
    match work {
        Work::MmapRead(work) => {
            let who = match work.readers {
                Readers::Processes => "one process per CPU, each with a file of its own",
                Readers::Threads => "one thread per CPU, all with one mapping of one file",
            };
            let files = match work.disks {
                0 => "holes".to_owned(),
                disks => format!("on {disks} disks"),
            };
            format!("{who}, {files}; {} times the memory is read, once", work.times)
        }
        Work::Cdn(work) => format!(
            "one mapping of {} times the memory, {} threads per CPU, {} % of requests store; {} disks; \
             {} days of 2,500 turnovers: {} million pages read{}",
            work.times,
            work.threads,
            work.writes,
            work.disks,
            f64::from(work.centidays) / 100.0,
            work.turned_over(frames) / 1_000_000,
            match work.huge {
                0 => String::new(),
                huge =>
                    format!("; one request in {huge} is for an object of 2 MiB, in a huge page"),
            },
        ),
    }
}
