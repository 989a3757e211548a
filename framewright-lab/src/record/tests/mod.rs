//! Recordings from start to stop: of the fake kernel, and of the real one.

mod fake;
mod kernel;

use std::fs;
use std::ops::ControlFlow;

use super::*;
use crate::replay::{Recording, Survey};
use crate::trace::zstd;
use fake::Fake;

/// Records the fake kernel. Returns the recording's text.
fn record(fake: &Fake) -> Result<(String, Summary), RecordError> {
    let folder = tempfile::tempdir().unwrap();
    let session = fake.session(folder.path())?;
    let capture = session.stop_with(&fake.proc())?;
    let destination = Destination::claim(&folder.path().join("a"), false)?;
    let files = destination.files();
    let summary = capture.write(destination, &mut |_| ControlFlow::Continue(()))?;
    let text = zstd::decompress(&fs::read(&files.text).unwrap());
    assert_eq!(fs::read_to_string(files.before).unwrap(), "# zoneinfo\nzones\n");
    Ok((String::from_utf8(text).unwrap(), summary))
}

#[test]
fn a_recording_is_the_events_of_all_cpus_in_order() {
    let fake = Fake::new();
    let (text, summary) = record(&fake).unwrap();
    let lines: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let rest = "page=(____ptrval____)";
    assert_eq!(
        lines,
        [
            format!(
                "           <...>-7       [000] .....     0.000100: mm_page_alloc: {rest} pfn=0x10 order=0 migratetype=1 gfp_flags=none"
            ),
            "CPU:1 [LOST 5 EVENTS]".to_owned(),
            format!(
                "           <...>-9       [001] .....     0.000150: mm_page_alloc: {rest} pfn=0x11 order=0 migratetype=1 gfp_flags=none"
            ),
            format!(
                "           rustc-9       [000] .....     0.000170: mm_page_alloc: {rest} pfn=0x12 order=0 migratetype=1 gfp_flags=none"
            ),
        ]
    );
    assert!(text.contains("entries-in-buffer/entries-written: 3/8   #P:2\n"));
    assert_eq!((summary.events, summary.cpus), (3, 2));
    assert_eq!(summary.lost, Lost { overrun: 5, ..Lost::default() });

    let recording = Recording::from_bytes("a", text.into_bytes());
    let survey = Survey::of(&recording, &mut |_| {}).unwrap();
    assert_eq!((survey.events, survey.cpus), (3, 2));
    let warnings: Vec<_> = survey.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings.iter().any(|warning| warning.contains("lost 5 events in 1 place,")));
}

#[test]
fn switches_are_set_in_order_and_put_back() {
    let fake = Fake::new();
    record(&fake).unwrap();
    let log = fake.log();
    let position = |entry: &str| {
        let at = log.iter().position(|done| done == entry);
        at.unwrap_or_else(|| panic!("{entry} is missing in {log:#?}"))
    };
    assert_eq!(log[0], "make");
    let order = [
        "tracing_on=0",
        "options/disable_on_free=1",
        "open free_buffer",
        "trace_clock=mono",
        "buffer_size_kb=256",
        "events/kmem/mm_page_alloc/enable=1",
        "events/task/task_newtask/enable=1",
        "open per_cpu/cpu1/trace_pipe_raw",
        "tracing_on=1",
        "events/enable=0",
        "remove",
    ];
    let positions: Vec<_> = order.iter().map(|entry| position(entry)).collect();
    assert!(positions.is_sorted(), "{log:#?}");
    assert_eq!(log.last().unwrap(), "remove");
    assert_eq!(log.iter().filter(|entry| *entry == "tracing_on=1").count(), 1);
    assert!(fake.instances().is_empty());
}

#[test]
fn the_instance_is_removed_after_any_failure() {
    let steps = {
        let fake = Fake::new();
        record(&fake).unwrap();
        fake.log()
    };
    let mut failures = 0;
    for step in steps.iter().filter(|step| *step != "make" && *step != "remove") {
        let fake = Fake::failing(step);
        let result = record(&fake);
        // Only failures of the removal may go unnoticed.
        failures += usize::from(result.is_err());
        assert!(fake.instances().is_empty(), "{step}");
        assert_eq!(fake.log().last().unwrap(), "remove", "{step}");
    }
    assert!(failures >= steps.len() - 4, "{failures} of {}", steps.len());
}

#[test]
fn an_instance_in_use_by_others_does_not_prevent_a_recording() {
    let fake = Fake::failing("remove");
    let folder = tempfile::tempdir().unwrap();
    let capture = fake.session(folder.path()).unwrap().stop_with(&fake.proc()).unwrap();
    let leftover = capture.leftover().unwrap();
    assert!(leftover.contains("framewright-") && leftover.contains("removed"), "{leftover}");
}

#[test]
fn a_dropped_session_is_removed() {
    let fake = Fake::new();
    let folder = tempfile::tempdir().unwrap();
    drop(fake.session(folder.path()).unwrap());
    assert_eq!(fake.log().last().unwrap(), "remove");
    assert!(fake.instances().is_empty());
}

#[test]
fn missing_events_are_omitted_unless_they_are_required() {
    let fake = Fake::new();
    fake.omit("events/tlb/tlb_flush");
    record(&fake).unwrap();
    fake.omit("events/kmem/mm_page_free");
    let error = record(&fake).unwrap_err().to_string();
    assert!(error.contains("no event mm_page_free"), "{error}");
    assert!(fake.instances().is_empty());
}

#[test]
fn refusals_are_one_sentence() {
    for (step, hint) in [("make", "root"), ("buffer_size_kb=256", "root"), ("tracing_on=1", "root")]
    {
        let error = record(&Fake::refusing(step)).unwrap_err().to_string();
        assert!(error.contains(hint) && !error.contains('\n'), "{step}: {error}");
    }
    let error = record(&Fake::failing("buffer_size_kb=256")).unwrap_err().to_string();
    assert!(error.contains("256 KiB for each CPU") && error.contains("--buffer"), "{error}");
}

#[test]
fn instances_of_ended_processes_are_removed_and_others_are_not() {
    let fake = Fake::new();
    // No process has that number: it is above Linux's maximum.
    fake.plant("framewright-4194305");
    // Process numbers are reused: an instance with this process's number is from an older process.
    let own = format!("framewright-{}", std::process::id());
    fake.plant(&own);
    fake.plant("framewright-1");
    fake.plant("framewright-mine");
    fake.plant("somebody-4194305");
    let mut removed = fake.tracefs().remove_stale();
    removed.sort();
    let mut expected = ["framewright-4194305".to_owned(), own];
    expected.sort();
    assert_eq!(removed, expected);
    assert_eq!(fake.instances().len(), 3);
}

#[test]
fn an_aborted_recording_leaves_nothing() {
    let fake = Fake::new();
    let folder = tempfile::tempdir().unwrap();
    let capture = fake.session(folder.path()).unwrap().stop_with(&fake.proc()).unwrap();
    let destination = Destination::claim(&folder.path().join("a"), false).unwrap();
    let error = capture.write(destination, &mut |_| ControlFlow::Break(())).unwrap_err();
    assert!(matches!(error, RecordError::Aborted));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}
