//! `framewright run high-alloc`.

use std::fs;

use predicates::prelude::*;
use serde_json::Value;

use crate::{framewright, stdout_of};

const SMALL: [&str; 7] =
    ["run", "high-alloc", "--machine", "uniform:2", "--memory", "256MiB", "--quick"];

fn report_of(args: &[&str]) -> (String, Value, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.json");
    let text = stdout_of(&[&SMALL, args, &["--json", path.to_str().unwrap()]].concat());
    let bytes = fs::read(path).unwrap();
    (text, serde_json::from_slice(&bytes).unwrap(), bytes)
}

#[test]
fn the_index_scans_less_and_the_same_command_gives_the_same_bytes() {
    let args = ["--flags", "thp", "--set", "compact.method=scan", "--vs", "compact.method=index"];
    let (text, report, bytes) = report_of(&args);
    for expected in [
        "uniform:2 (simulated): 2 CPUs, 256 MiB; one seed",
        "flags    thp: a request reclaims and compacts once, and wakes no background work",
        "invariants  holds",
    ] {
        assert!(text.contains(expected), "{expected} is missing in {text}");
    }
    assert!(!text.contains("take turns"), "one builder has one CPU: {text}");
    let of = |run: usize, name: &str| {
        report["runs"][run]["metrics"][name]["median"].as_f64().unwrap_or_else(|| panic!("{name}"))
    };
    for run in 0..2 {
        for pass in 1..=3 {
            let [success, achievable] =
                [format!("success{pass}_mean_pct"), format!("achievable{pass}_pct")];
            assert!(of(run, &success) <= of(run, &achievable) + 1.0, "pass {pass}");
        }
    }
    assert!(of(0, "free_scanned") > 0.0 && of(1, "free_scanned") == 0.0);
    let name = "examined_per_huge_page";
    assert!(of(0, name) > of(1, name), "{} and {}", of(0, name), of(1, name));
    assert_eq!(report_of(&args).2, bytes);
}

#[test]
fn builders_that_share_cpus_are_mentioned() {
    let args = ["run", "high-alloc", "--machine", "uniform:2", "--memory", "400MiB", "--quick"];
    let text = stdout_of(&args);
    assert!(text.contains("load     2 builders take turns on one CPU\n"), "{text}");
}

#[test]
fn on_threads_pages_keep_their_contents_when_they_move() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.json");
    let machine = ["--machine", "host:1", "--memory", "256MiB", "--quick"];
    let json = ["--vs", "compact.method=scan", "--json", path.to_str().unwrap()];
    let text = stdout_of(&[&["run", "high-alloc"], &machine[..], &json].concat());
    for expected in [
        "host:1: one builder thread, one for requests, one for background work; 256 MiB of real memory",
        "pages were verified word by word, ",
        "of them after a move",
        "invariants  holds",
    ] {
        assert!(text.contains(expected), "{expected} is missing in {text}");
    }
    let report: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    for run in 0..2 {
        let of = |name: &str| report["runs"][run]["metrics"][name]["median"].as_f64().unwrap();
        assert!(of("pages_migrated") > 0.0 && of("success3_mean_pct") > 50.0, "{text}");
        assert!(of("alloc_p50_ns") <= of("alloc_max_ns"), "{text}");
    }
}

#[test]
fn memory_is_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("memory.svg");
    let (_, report, _) = report_of(&["--picture", path.to_str().unwrap()]);
    assert_eq!(report["workload"], "high-alloc");
    let svg = fs::read_to_string(path).unwrap();
    for text in
        ["<svg", "before the first pass", "pass 3, ", "time from top to bottom", "huge page"]
    {
        assert!(svg.contains(text), "{text}");
    }
}

#[test]
fn memory_can_start_in_the_state_of_a_real_machine() {
    let state = concat!(env!("CARGO_MANIFEST_DIR"), "/../recordings/compile.before");
    let (text, report, _) = report_of(&["--from", state]);
    let expected = "compile.before, 11776 MiB, scaled to 256 MiB: 64.7 % is free";
    assert!(text.contains(expected), "{text}");
    assert_eq!(report["verdict"]["passed"], true);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bad.before");
    let tables = fs::read_to_string(state).unwrap();
    let (before, _) = tables.split_once("# pagetypeinfo").unwrap();
    for (tables, hint) in [
        ("junk", "bad.before:1: snapshot `junk`"),
        (&tables.replacen("managed  3840", "managed  many", 1), "managed `many`"),
        (before, "pagetypeinfo has no zone DMA"),
    ] {
        fs::write(&path, tables).unwrap();
        framewright(&["run", "high-alloc", "--from", path.to_str().unwrap()])
            .assert()
            .code(2)
            .stdout("")
            .stderr(predicate::str::contains(hint));
    }
}

#[test]
fn impossible_machines_are_refused() {
    for (args, hint) in [
        (&["--memory", "64MiB"][..], "the minimum is 256 MiB"),
        (&["--machine", "host:2", "--memory", "64MiB"], "the minimum is 256 MiB"),
        (&["--machine", "host:2", "--memory", "100TiB"], "smaller --memory"),
        (&["--machine", "host:4096"], "host:4096: high-alloc takes at most 1022 threads"),
        (&["--machine", "host:2", "--picture", "x.svg"], "--picture is for simulated machines"),
        (&["--machine", "hos"], "'host'"),
        (&["--memory", "1TiB"], "the maximum is 256 GiB"),
        (
            &["--machine", "uniform:1"],
            "it has 1 node and 1 CPU; high-alloc needs a machine of one node",
        ),
        (&["--machine", "skx-2s-112"], "it has 2 nodes and 112 CPUs; "),
        (&["--machine", "qemu:4", "--memory", "1GiB"], "memory is a part of the machine"),
        (&["--machine", "qemu:4", "--picture", "x.svg"], "--picture has no effect"),
        (&["--flags", "huge"], "default, thp"),
        (
            &["--memory", "256MiB", "--vs", "zone.min_free=65536"],
            "zone.min_free=65536: this reserves 256 MiB, and of 256 MiB a quarter must remain; set \
             zone.min_free to 49152 at most",
        ),
        (
            &["--machine", "host:1", "--memory", "256MiB", "--set", "zone.min_free=60000"],
            "zone.min_free to 49152 at most",
        ),
    ] {
        let args = [&["run", "high-alloc"], args].concat();
        framewright(&args).assert().code(2).stdout("").stderr(predicate::str::contains(hint));
    }
}

#[test]
fn a_report_and_a_picture_do_not_overwrite_each_other() {
    let folder = tempfile::tempdir().unwrap();
    framewright(&["run", "high-alloc", "--json", "same", "--picture", "./same"])
        .current_dir(folder.path())
        .assert()
        .code(2)
        .stderr(predicates::str::contains("--json and --picture both name 'same'"));
}
