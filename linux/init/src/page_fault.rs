//! `page-fault`: every task maps pages, touches them in ascending order, and unmaps them.

use framewright_workloads::page_fault;

use crate::{
    Failure, machine,
    report::Report,
    team::{self, Meeting, Tasks},
    words::Words,
};

const PAGE: usize = 4096;

/// Instructions of the page faults and of the `munmap` calls in all counted rounds.
#[derive(Default)]
struct Counted {
    faults: u64,
    unmaps: u64,
}

/// Runs the workload.
pub(crate) fn run(words: &Words) -> Result<Report, Failure> {
    let (pages, rounds) = (words.number("pages")? as usize, words.number("rounds")?);
    let tasks = match words.value("sharing") {
        Some("shared") => Tasks::Threads,
        _ => Tasks::Processes,
    };
    let warm_up = page_fault::WARM_UP as u64;
    let counted = team::run(tasks, |cpu, meeting| {
        let mut counted = Counted::default();
        for round in 0..warm_up + rounds {
            if cpu == 0 {
                println!("progress {round} {}", warm_up + rounds);
            }
            let (faults, unmaps) = burst(pages, meeting, cpu == 0 && round >= warm_up);
            if round >= warm_up {
                counted.faults += faults;
                counted.unmaps += unmaps;
            }
        }
        counted
    })?;
    let all = (pages * team::cpus()) as u64 * rounds;
    let per_page = |instructions: u64| instructions as f64 / all as f64;
    let mut report = Report::new("page-fault");
    report.add("instructions_per_fault", per_page(counted.faults), "ratio", Some("lower"));
    report.add("instructions_per_unmap", per_page(counted.unmaps), "ratio", Some("lower"));
    report.add("pages", all as f64, "count", None);
    Ok(report)
}

/// One round. Returns the instructions of faults and of the unmapping, measured between barriers:
/// under QEMU's `-icount`, the time stamp counter counts instructions.
fn burst(pages: usize, meeting: &Meeting, counts: bool) -> (u64, u64) {
    meeting.meet();
    let at = team::map(pages * PAGE, libc::MAP_PRIVATE, -1).expect("there is enough memory");
    // SAFETY: the range was mapped above.
    unsafe { libc::madvise(at.cast(), pages * PAGE, libc::MADV_NOHUGEPAGE) };
    let faults = between(meeting, counts, || {
        for page in 0..pages {
            // SAFETY: within the mapping above.
            unsafe { at.add(page * PAGE).cast::<usize>().write_volatile(page) };
        }
    });
    let unmaps = between(meeting, counts, || {
        // SAFETY: mapped above, and not used any more.
        unsafe { libc::munmap(at.cast(), pages * PAGE) };
    });
    (faults, unmaps)
}

fn between(meeting: &Meeting, counts: bool, work: impl FnOnce()) -> u64 {
    meeting.meet();
    let start = machine::timestamp();
    if counts {
        machine::mark_begin();
    }
    meeting.meet();
    work();
    meeting.meet();
    if counts {
        machine::mark_end();
    }
    machine::timestamp() - start
}
