//! Tests with the real kernel, as root with tracefs. Otherwise they print that they were skipped,
//! and pass.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::super::names::Names;
use super::super::session::{page_layout, read_formats};
use super::*;
use crate::record::capture::{ReaderThreads, Source};
use crate::record::destination;
use crate::record::names::RECORDED;
use crate::record::shootdowns::{Instance, cpus};
use crate::trace::zstd;

fn tracefs() -> Option<Tracefs> {
    match Tracefs::find() {
        Ok(tracefs) => Some(tracefs),
        Err(error) => {
            eprintln!("skipped: {error}");
            None
        }
    }
}

/// The part of a line that must be equal: the kernel may have lost the task's name, and only the
/// kernel can hash an address.
fn comparable(line: &str) -> String {
    let line = line.get(16..).unwrap_or(line);
    if let Some((before, after)) = line.split_once(": contention_") {
        let words: Vec<&str> = after.split(' ').collect();
        return format!("{before}: contention_{} {}", words[0], words[2..].join(" "));
    }
    let Some(page) = line.find("page=") else { return line.to_owned() };
    let end = line[page..].find(' ').map_or(line.len(), |end| page + end);
    format!("{}{}", &line[..page], &line[end..])
}

#[test]
fn text_is_what_the_kernel_prints() {
    let Some(tracefs) = tracefs() else { return };
    let path = tracefs.path("instances/framewright-test");
    // A killed test may have left it.
    let _ = fs::remove_dir(&path);
    let instance = Instance::create(&tracefs.files, path, 8 << 20).unwrap();
    let mut formats = Vec::new();
    for event in RECORDED {
        if instance.enable(event).unwrap() {
            read_formats(&instance.path("events"), event, &mut formats).unwrap();
        }
    }
    instance.trace(true).unwrap();
    Command::new("true").status().unwrap();
    std::thread::sleep(Duration::from_millis(20));
    instance.trace(false).unwrap();

    let theirs = destination::read(&instance.path("trace")).unwrap();
    let theirs: Vec<_> = theirs.lines().filter(|line| !line.starts_with('#')).collect();
    let folder = tempfile::tempdir().unwrap();
    let cpus = cpus(&tracefs.path("per_cpu")).unwrap();
    let open = |cpu| instance.open(&format!("per_cpu/cpu{cpu}/trace_pipe_raw")).unwrap();
    let sources = cpus.iter().map(|&cpu| Source { cpu, raw: open(cpu) }).collect();
    let layout = page_layout(&tracefs).unwrap();
    let recordings =
        ReaderThreads::start(sources, layout, folder.path(), &[]).unwrap().finish().unwrap();
    instance.remove().unwrap();
    let capture = Capture {
        recordings,
        layout,
        names: Names::new(&formats),
        formats,
        before: String::new(),
        after: String::new(),
        cpus: cpus.len(),
        lost: Lost::default(),
        elapsed: Duration::ZERO,
        leftover: None,
    };
    let destination = Destination::claim(&folder.path().join("a"), false).unwrap();
    let files = destination.files();
    let summary = capture.write(destination, &mut |_| ControlFlow::Continue(())).unwrap();
    let ours = zstd::decompress(&fs::read(files.text).unwrap());
    let ours = String::from_utf8(ours).unwrap();
    let ours: Vec<_> = ours.lines().filter(|line| !line.starts_with('#')).collect();

    assert!(summary.events > 10, "{summary:?}");
    for (number, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
        assert_eq!(comparable(ours), comparable(theirs), "event {number}");
    }
    assert_eq!(ours.len(), theirs.len());
}

#[test]
fn every_event_of_this_kernel_can_be_printed_as_the_kernel_does() {
    let Some(tracefs) = tracefs() else { return };
    let mut formats = Vec::new();
    for event in RECORDED {
        let events = tracefs.path("events");
        if events.join(event.subsystem).join(event.name).exists() {
            read_formats(&events, event, &mut formats).unwrap();
        }
    }
    assert!(formats.len() >= 6);
    for format in &formats {
        assert!(format.is_understood(), "{}", format.name);
    }
}

#[test]
fn the_running_kernel_is_recorded_and_left_as_it_was() {
    let Some(tracefs) = tracefs() else { return };
    let folder = tempfile::tempdir().unwrap();
    let destination = Destination::claim(&folder.path().join("a"), false).unwrap();
    let files = destination.files();
    let session = Session::start(&tracefs, &destination, Some(4 << 20)).unwrap();
    let instance = tracefs.instance();
    assert!(instance.is_dir());
    Command::new("true").status().unwrap();
    let capture = session.stop().unwrap();
    assert!(capture.leftover().is_none());
    assert!(!instance.exists());
    let summary = capture.write(destination, &mut |_| ControlFlow::Continue(())).unwrap();
    assert!(summary.events > 10, "{summary:?}");

    let recording = Recording::open(&files.text, Recording::STREAM_LIMIT).unwrap();
    let survey = Survey::of(&recording, &mut |_| {}).unwrap();
    assert_eq!(survey.events, summary.events);
    if summary.lost.total() == 0 {
        assert!(survey.warnings.is_empty(), "{:?}", survey.warnings);
    }
    let before = crate::trace::Snapshot::open(Path::new(&files.before)).unwrap();
    assert!(before.managed() > 0);
}
