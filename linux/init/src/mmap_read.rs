//! `mmap-read`: tasks map a file that is larger than memory, and read their part of it twice.
//!
//! The file consists of holes, in a file system on a RAM disk of two megabytes: as in
//! vm-scalability's lru-file-mmap-read, no page is read from a device, and none is written.

use std::{fs::File, os::fd::AsRawFd};

use framewright_workloads::{Read, Reads, Sharing};

use crate::{
    Failure, machine,
    report::Report,
    team::{self, Tasks},
    words::Words,
};

const PAGE: usize = 4096;
const PASSES: u64 = 2;

/// Runs the workload.
pub(crate) fn run(words: &Words) -> Result<Report, Failure> {
    let pages = words.number("pages")? as usize / team::cpus() * team::cpus();
    let tasks = match words.value("readers") {
        Some("threads") => Tasks::Threads,
        _ => Tasks::Processes,
    };
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(machine::mount_disk()?.join("holes"))?;
    file.set_len((pages * PAGE) as u64)?;
    // Threads share a mapping; each process creates its own.
    let of_all = team::map(pages * PAGE, libc::MAP_SHARED, file.as_raw_fd())? as usize;
    let before = machine::Counters::now()?;
    let share = (pages / team::cpus()) as u64;
    team::run(tasks, |cpu, meeting| {
        let own = || team::map(pages * PAGE, libc::MAP_SHARED, file.as_raw_fd());
        let at = match tasks {
            Tasks::Threads => of_all as *mut u8,
            Tasks::Processes => own().expect("there is address space"),
        };
        meeting.meet();
        // All tasks read parts of one file, through one mapping or several.
        let reads = Reads::new(Sharing::Shared.part(cpu, share), PASSES);
        let total = reads.total();
        for Read { page, progress, .. } in reads {
            if cpu == 0
                && let Some(done) = progress
            {
                println!("progress {done} {total}");
            }
            // SAFETY: within the mapping; the file is as long as that.
            unsafe { at.add(page as usize * PAGE).cast::<u64>().read_volatile() };
        }
        meeting.meet();
    })?;
    let after = machine::Counters::now()?;
    let reclaimed = after.reclaimed - before.reclaimed;
    let interrupts = after.interrupts - before.interrupts;
    if reclaimed == 0 {
        return Err("nothing was reclaimed".into());
    }
    let mut report = Report::new("mmap-read");
    let each = interrupts as f64 / reclaimed as f64;
    report.add("interrupts_per_reclaimed_page", each, "ratio", Some("lower"));
    report.add("interrupts", interrupts as f64, "count", None);
    report.add("reclaimed", reclaimed as f64, "count", None);
    report.add("pages", (PASSES as usize * pages) as f64, "count", None);
    Ok(report)
}
