//! A short validation, and what it says without a second CPU.

use framewright_sim::machine::Spec;
use rustix::thread::{CpuSet, sched_setaffinity};
use std::{collections::HashSet, fs, path::Path, thread};

use super::*;

fn short(cpus: u16) -> Validation {
    Validation { rounds: 1, pages: 600, ..Validation::quick(Spec::uniform(cpus).unwrap()) }
}

fn row<'r>(rows: &'r [Row], what: &str) -> &'r Row {
    rows.iter().find(|row| row.what == what).unwrap_or_else(|| panic!("{what} in {rows:#?}"))
}

#[test]
fn every_row_has_both_figures_or_a_reason() {
    let mut told = Vec::new();
    let validated = short(2).run(&mut |done, total| told.push((done, total))).unwrap();
    assert_eq!(told.last().map(|(done, total)| done == total), Some(true));
    let names: HashSet<&str> = validated.rows.iter().map(|row| &*row.what).collect();
    assert_eq!(names.len(), validated.rows.len(), "{names:?}");
    for row in &validated.rows {
        let both = row.measured.is_some() && row.modelled.is_some();
        assert!(both || row.unjudged.as_ref().is_some_and(|why| !why.is_empty()), "{row:?}");
    }
    for what in
        ["processes_1_cpu_ns_per_fault", "threads_1_faults_per_s", "host_1_acquisitions_per_page"]
    {
        assert!(row(&validated.rows, what).factor().is_some_and(|factor| factor > 0.0), "{what}");
    }
}

/// Counts do not depend on the speed of the machine.
#[test]
fn counts_of_one_thread_agree() {
    // The last, partial batch of a short burst would matter.
    let validation = Validation { pages: 16 << 10, ..short(1) };
    let rows = host_lists::rows(&validation, &Here { cpus: vec![0] }).unwrap();
    for what in ["host_1_acquisitions_per_page", "host_1_frames_per_lock_hold"] {
        let row = row(&rows, what);
        assert_eq!(row.agrees(), Some(true), "{row:?}");
    }
    assert!(!rows.iter().any(|row| row.what.contains("contended")), "one thread never waits");
}

#[test]
fn on_one_cpu_rows_with_two_say_so() {
    // Affinity is per thread: this does not limit the other tests.
    let validated = thread::spawn(|| {
        let mut only = CpuSet::new();
        only.set(clock::cpus(1).unwrap()[0]);
        sched_setaffinity(None, &only).unwrap();
        short(2).run(&mut |_, _| {}).unwrap()
    });
    let validated = validated.join().unwrap();
    assert!(validated.notes[0].ends_with("has 2 CPUs, and this process may use 1"));
    let missing = row(&validated.rows, "mprotect_1_more_ns");
    assert!(missing.unjudged.as_ref().unwrap().contains("one CPU only"), "{missing:?}");
    assert!(!validated.rows.iter().any(|row| row.what.starts_with("processes_2")));
}

/// A workload that was used for the measurement could not validate it.
#[test]
fn the_measurement_imports_no_workload() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/measure");
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        for word in
            ["crate::workloads", "framewright_workloads", "crate::validate", "crate::simulated"]
        {
            assert!(!text.contains(word), "{word} in {}", path.display());
        }
    }
}
