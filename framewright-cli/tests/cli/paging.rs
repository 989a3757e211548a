//! `framewright run mmap-read | cdn`.

use std::fs;

use predicates::prelude::*;
use serde_json::Value;

use crate::{framewright, stdout_of};

const SMALL: [&str; 4] = ["--machine", "uniform:2", "--memory", "32MiB"];

fn report_of(args: &[&str]) -> (String, Value, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.json");
    let text = stdout_of(&[args, &SMALL, &["--json", path.to_str().unwrap()]].concat());
    let bytes = fs::read(path).unwrap();
    (text, serde_json::from_slice(&bytes).unwrap(), bytes)
}

#[test]
fn readers_save_interrupts_and_the_same_command_gives_the_same_bytes() {
    for readers in ["processes", "threads"] {
        let args = ["run", "mmap-read", "--times", "3", "--readers", readers];
        let sides = ["--set", "tlb.batching=off", "--vs", "tlb.batching=all"];
        let args = [&args[..], &sides].concat();
        let (text, report, bytes) = report_of(&args);
        assert!(text.contains("uniform:2 (simulated): 2 CPUs, 1 node, 32 MiB"), "{text}");
        assert!(text.contains("what a model of this machine says"), "{text}");
        assert!(text.contains("invariants  holds"), "{text}");
        let of = |run: usize| {
            let metric = &report["runs"][run]["metrics"]["ipis_per_reclaimed_page"]["median"];
            metric.as_f64().unwrap()
        };
        assert!(of(0) > 4.0 * of(1), "{readers}: {} {}", of(0), of(1));
        assert_eq!(report_of(&args).2, bytes, "{readers}");
    }
}

#[test]
fn a_server_tells_what_happened_over_time() {
    let folder = tempfile::tempdir().unwrap();
    let svg = folder.path().join("hours.svg");
    let (text, report, _) =
        report_of(&["run", "cdn", "--days", "0.05", "--svg", svg.to_str().unwrap()]);
    assert!(text.contains("one mapping of 4 times the memory, 8 threads per CPU"), "{text}");
    assert!(text.contains("over time"), "{text}");
    let hours = report["runs"][0]["series"]["pages_per_s"].as_array().unwrap();
    assert_eq!(hours.len(), 2, "0.05 days are begun hours: {hours:?}");
    let svg = fs::read_to_string(svg).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("longest wait for a page"), "{svg}");
}

#[test]
fn pictures_say_what_was_read_and_by_which_settings() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("read.svg");
    let sides = ["--set", "tlb.batching=off", "--vs", "tlb.batching=lazy", "--times", "2"];
    report_of(&[&["run", "mmap-read", "--svg", path.to_str().unwrap()], &sides[..]].concat());
    let svg = fs::read_to_string(path).unwrap();
    for text in ["read so far, in multiples of memory", "tlb.batching=off", "tlb.batching=lazy"] {
        assert!(svg.contains(text), "{text} is missing in {svg}");
    }
    assert!(!svg.contains("hours"), "{svg}");
}

#[test]
fn threads_read_real_files_from_real_memory() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.json");
    let args = ["run", "mmap-read", "--machine", "host:1", "--memory", "16MiB", "--quick"];
    let sides = ["--set", "tlb.batching=off", "--vs", "tlb.batching=lazy"];
    let json = ["--json", path.to_str().unwrap()];
    let text = stdout_of(&[&args[..], &sides, &json].concat());
    for expected in [
        "host:1, 16 MiB of memory for each side; medians of 2 rounds",
        "1 thread of this process, each with a sparse file",
        "pages are given up by",
        "contents  holds",
        "invariants  holds",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let report: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let of = |run: usize| {
        let metric = &report["runs"][run]["metrics"]["unmaps_per_flush"]["median"];
        metric.as_f64().unwrap()
    };
    assert!((0.99..=1.01).contains(&of(0)) && of(1) > 8.0, "{} {}", of(0), of(1));
    assert!(report["seed"].is_null(), "nothing is random");
}

#[test]
fn what_cannot_be_is_refused() {
    for (args, hint) in [
        (&["run", "cdn", "--machine", "host"][..], "--machine uniform:4"),
        (&["run", "mmap-read", "--machine", "host", "--disks", "3"], "--disks is for simulated"),
        (&["run", "mmap-read", "--machine", "host:8", "--memory", "16MiB"], "--memory 144MiB"),
        (&["run", "mmap-read", "--readers", "people"], "processes, threads"),
        (&["run", "mmap-read", "--times", "1"], "2..=100"),
        (&["run", "mmap-read", "--memory", "8TiB"], "'8TiB' for '--memory <SIZE>': the most"),
        (&["run", "mmap-read", "--machine", "uniform:64", "--memory", "64MiB"], "1024 MiB"),
        (&["run", "mmap-read", "--set", "tlb.batching=sometimes"], "off, clean-only, all, lazy"),
        (&["run", "cdn", "--days", "never"], "0.01 to 365 days"),
        (&["run", "cdn", "--writes", "101"], "0..=100"),
    ] {
        framewright(args).assert().code(2).stderr(predicate::str::contains(hint));
    }
}
