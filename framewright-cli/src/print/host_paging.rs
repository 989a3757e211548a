//! The result of `run mmap-read` on threads.

use std::fmt::Write;

use framewright_lab::{
    host_paging::HostPaging,
    report::{Report, Style},
    workloads::mmap_read::Readers,
};

use super::{FRAME_BYTES, report as common, workload};

/// What it ran on and did, the table, the checks.
pub(crate) fn host_paging(
    report: &Report,
    paging: &HostPaging,
    notes: &[String],
    style: Style,
) -> String {
    let HostPaging { work, readers, frames, .. } = paging;
    let mut text = format!(
        "machine  {}, {} MiB of memory for each side; medians of {} rounds, sides in turn\n",
        report.machine,
        (frames * FRAME_BYTES) >> 20,
        common::rounds(report)
    );
    let files = match work.readers {
        _ if *readers == 1 => "with a sparse file",
        Readers::Processes => "each with a sparse file and a region of its own",
        Readers::Threads => "all with one region and one sparse file",
    };
    let threads = if *readers == 1 { "thread" } else { "threads" };
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "work     {readers} {threads} of this process, {files}; {} times the memory is read, once",
        work.times
    );
    for note in notes {
        let _ = writeln!(text, "note     {note}");
    }
    text.push_str(&workload::body(report, style));
    text
}
