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
fn batching_saves_interrupts_and_the_same_command_gives_the_same_bytes() {
    for readers in ["processes", "threads"] {
        let args = ["run", "mmap-read", "--times", "3", "--readers", readers];
        let sides = ["--set", "tlb.batching=off", "--vs", "tlb.batching=all"];
        let args = [&args[..], &sides].concat();
        let (text, report, bytes) = report_of(&args);
        assert!(text.contains("uniform:2 (simulated): 2 CPUs, 1 node, 32 MiB"), "{text}");
        assert!(text.contains("times and shares of time are modelled"), "{text}");
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
fn a_server_has_figures_over_time() {
    let folder = tempfile::tempdir().unwrap();
    let svg = folder.path().join("hours.svg");
    let (text, report, _) =
        report_of(&["run", "cdn", "--days", "0.05", "--picture", svg.to_str().unwrap()]);
    assert!(text.contains("one mapping of 4 times the memory, 8 threads per CPU"), "{text}");
    assert!(text.contains("2 hours, 2,500 turnovers a day"), "{text}");
    assert!(text.contains("over time"), "{text}");
    let hours = report["runs"][0]["series"]["pages_per_s"].as_array().unwrap();
    assert_eq!(hours.len(), 2, "0.05 days are 1.2 hours, and the started hour counts: {hours:?}");
    let svg = fs::read_to_string(svg).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("longest wait for a page"), "{svg}");
}

#[test]
fn pictures_name_the_workload_and_the_settings() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("read.svg");
    let sides = ["--set", "tlb.batching=off", "--vs", "tlb.batching=lazy", "--times", "2"];
    report_of(&[&["run", "mmap-read", "--picture", path.to_str().unwrap()], &sides[..]].concat());
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
        "1 thread of this process, with a sparse file;",
        "pages are evicted by",
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
fn files_are_gone_when_the_program_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let mut program = std::process::Command::new(env!("CARGO_BIN_EXE_framewright"))
        .args(["run", "mmap-read", "--machine", "host:1", "--memory", "64MiB", "--times", "100"])
        .env("TMPDIR", folder.path())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let open_files = format!("/proc/{}/fd", program.id());
    let has_opened_one = || {
        let mut links = fs::read_dir(&open_files).into_iter().flatten().flatten();
        links.any(|link| fs::read_link(link.path()).is_ok_and(|to| to.starts_with(folder.path())))
    };
    for _ in 0..1000 {
        if has_opened_one() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert!(has_opened_one(), "it reads no file in TMPDIR");
    program.kill().unwrap();
    program.wait().unwrap();
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn memory_that_the_system_does_not_have_is_refused_at_once() {
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap();
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:")).unwrap();
    let kib: u64 = total.trim().trim_end_matches(" kB").parse().unwrap();
    if kib > 64 << 20 {
        return;
    }
    framewright(&["run", "mmap-read", "--machine", "host:1", "--quick", "--memory", "64GiB"])
        .timeout(std::time::Duration::from_secs(5))
        .assert()
        .code(2)
        .stderr(predicate::str::contains("MiB available"));
}

#[test]
fn impossible_runs_are_refused() {
    for (args, hint) in [
        (&["run", "cdn", "--machine", "host"][..], "--machine uniform:4"),
        (&["run", "mmap-read", "--machine", "host", "--disks", "3"], "--disks is for simulated"),
        (&["run", "mmap-read", "--machine", "host:1", "--seed", "7"], "--seed is for simulated"),
        (
            &["run", "mmap-read", "--machine", "host:1", "--seeds", "2", "--picture", "x.svg"],
            "--seeds and --picture are for simulated machines; leave them out",
        ),
        (&["run", "mmap-read", "--machine", "host:8", "--memory", "16MiB"], "--memory 144MiB"),
        (&["run", "mmap-read", "--readers", "people"], "processes, threads"),
        (&["run", "mmap-read", "--times", "1"], "2..=100"),
        (&["run", "mmap-read", "--memory", "8TiB"], "'8TiB' for '--memory <SIZE>': the maximum"),
        (&["run", "mmap-read", "--machine", "uniform:64", "--memory", "64MiB"], "1024 MiB"),
        (&["run", "mmap-read", "--set", "tlb.batching=sometimes"], "off, clean-only, all, lazy"),
        (&["run", "cdn", "--days", "never"], "0.01 to 365 days"),
        (&["run", "cdn", "--writes", "101"], "0..=100"),
    ] {
        framewright(args).assert().code(2).stderr(predicate::str::contains(hint));
    }
}
