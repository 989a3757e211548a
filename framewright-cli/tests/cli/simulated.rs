//! `framewright run` on simulated machines, and workloads that run on all kinds of machines.

use std::fs;

use predicates::prelude::*;
use serde_json::Value;

use crate::{framewright, stdout_of};

const BRIEF: [&str; 4] = ["--window", "1ms", "--warm-up", "200us"];

pub(crate) fn labels(report: &Value) -> Vec<&str> {
    let runs = report["runs"].as_array().unwrap();
    runs.iter().map(|run| run["label"].as_str().unwrap()).collect()
}

fn report_of(args: &[&str]) -> (String, Value, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.json");
    let text = stdout_of(&[args, &BRIEF, &["--json", path.to_str().unwrap()]].concat());
    let bytes = fs::read(path).unwrap();
    (text, serde_json::from_slice(&bytes).unwrap(), bytes)
}

#[test]
fn workloads_run_on_threads_too() {
    for workload in ["kbuild", "socket-pairs"] {
        let text = stdout_of(&["run", workload, "--machine", "host:2", "--quick"]);
        assert!(text.contains("contents  holds"), "{text}");
        assert!(text.contains("invariants  holds"), "{text}");
    }
}

#[test]
fn both_designs_run_and_the_same_command_gives_the_same_bytes() {
    for workload in ["page-fault", "kbuild", "socket-pairs"] {
        let args = ["run", workload, "--machine", "uniform:4", "--memory", "2GiB"];
        let (text, report, bytes) = report_of(&args);
        assert_eq!(labels(&report), ["framewright", "list-buddy"]);
        assert!(text.contains("uniform:4 (simulated): 4 CPUs, 1 node, 2048 MiB"), "{text}");
        assert!(text.contains("times and shares of time are modelled"), "{text}");
        assert!(text.contains(" estimated; `framewright machines uniform:4`"), "{text}");
        assert_eq!(report_of(&args).2, bytes, "{workload}");
        let (.., other) = report_of(&[&args[..], &["--seed", "2"]].concat());
        assert_ne!(other, bytes, "{workload}");
    }
}

#[test]
fn settings_and_lists_reach_the_allocators_that_have_them() {
    let vs = ["--vs", "pcp.bulk_free=select-under-lock", "--lists", "31/186", "--memory", "2GiB"];
    let (text, report, _) =
        report_of(&[&["run", "page-fault", "--machine", "uniform:2"], &vs[..]].concat());
    assert_eq!(
        labels(&report),
        ["framewright base", "framewright vs", "list-buddy base", "list-buddy vs"]
    );
    assert!(
        text.contains("list-buddy vs     pcp.bulk_free=select-under-lock  lists=31/186"),
        "{text}"
    );
}

#[test]
fn machines_of_many_sizes_make_series_and_a_picture() {
    let folder = tempfile::tempdir().unwrap();
    let svg = folder.path().join("scaling.svg");
    let machine = ["run", "page-fault", "--machine", "uniform:1..4"];
    let (text, report, _) =
        report_of(&[&machine[..], &["--picture", svg.to_str().unwrap()]].concat());
    assert!(text.contains("zone_lock_wait_pct"), "{text}");
    let points = report["runs"][1]["series"]["pages_per_s"].as_array().unwrap();
    let cpus: Vec<_> = points.iter().map(|point| point[0].as_u64().unwrap()).collect();
    assert_eq!(cpus, [1, 2, 4]);
    assert!(fs::read_to_string(svg).unwrap().contains("list-buddy"));
}

/// CPUs of a node without memory allocate from the other node.
#[test]
fn a_machine_may_have_a_node_without_memory() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.toml");
    let machine = r#"
        name = "mine"
        [topology]
        sockets = 2
        cores_per_socket = 2
        threads_per_core = 1
        nodes = [{ socket = 0, memory = "0" }, { socket = 1, memory = "2GiB" }]
        basis = "estimated"
    "#;
    fs::write(&file, machine).unwrap();
    for workload in ["page-fault", "mmap-read"] {
        let path = file.to_str().unwrap();
        let text = stdout_of(&["run", workload, "--quick", "--machine", path]);
        assert!(text.contains("4 CPUs, 2 nodes, "), "{text}");
    }
}

#[test]
fn outputs_do_not_overwrite_the_machine_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.toml");
    let described = stdout_of(&["machines", "uniform:2", "--toml"]);
    fs::write(&file, &described).unwrap();
    let path = file.to_str().unwrap();
    for (workload, option) in [
        ("page-fault", "--json"),
        ("mmap-read", "--json"),
        ("mmap-read", "--picture"),
        #[cfg(feature = "full")]
        ("replace", "--picture"),
    ] {
        framewright(&["run", workload, "--quick", "--machine", path, option, path])
            .assert()
            .code(2)
            .stdout("");
        assert_eq!(fs::read_to_string(&file).unwrap(), described, "{workload} {option}");
    }
}

#[test]
fn lock_waits_are_at_most_all_of_the_measured_time() {
    // The bursts are so long that CPUs wait for a lock longer than the measured time.
    let random = ["--free-order", "random", "--warm-up", "0ms", "--window", "2ms"];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.json");
    let json = ["--json", path.to_str().unwrap()];
    let run = ["run", "page-fault", "--machine", "uniform:32"];
    stdout_of(&[&run[..], &random, &json].concat());
    let report: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    for run in report["runs"].as_array().unwrap() {
        let waited = run["metrics"]["zone_lock_wait_pct"]["median"].as_f64().unwrap();
        assert!((0.0..=100.0).contains(&waited), "{}: {waited}", run["label"]);
    }
}

#[test]
fn options_that_do_not_fit_the_machine_are_refused() {
    for (options, hint) in [
        (&["--machine", "host:2", "--lists", "31/186"][..], "--lists is for simulated machines"),
        (
            &["--machine", "host:1", "--window", "5ms", "--warm-up", "1ms"],
            "--window and --warm-up are for simulated machines; leave them out",
        ),
        (&["--machine", "uniform:2", "--picture", "x.svg"], "--machine uniform:1..512"),
        (&["--machine", "uniform:1..4", "--memory", "4GiB"], "512 MiB for every CPU"),
        (&["--machine", "uniform:4", "--memory", "64MiB"], "choose at least"),
        (&["--machine", "uniform:4", "--window", "soon"], "--window"),
        (&["--machine", "uniform:4", "--window", "50us"], "'50us' for '--window <TIME>'"),
        (&["--machine", "uniform:4", "--window", "1000000h"], "the maximum is 10m"),
        (&["--machine", "uniform:4", "--warm-up", "11m"], "'11m' for '--warm-up <TIME>'"),
        (&["--machine", "uniform:1", "--memory", "100TiB"], "--memory 100TiB"),
        (&["--machine", "uniform:1..4", "--json", "x", "--picture", "x"], "both name 'x'"),
        (&["--machine", "uniform:1..4", "--json", "./x", "--picture", "x"], "both name"),
        (&["--machine", "uniform:4..2"], "smaller ones first"),
    ] {
        framewright(&[&["run", "page-fault"], options].concat())
            .assert()
            .code(2)
            .stdout("")
            .stderr(predicate::str::contains(hint));
    }
    framewright(&["run", "socket-pairs", "--machine", "uniform:1"])
        .assert()
        .code(2)
        .stderr(predicate::str::contains("second CPU for a reader"));
    for (options, hint) in [
        (
            &["--machine", "host:2", "--placement", "scheduled"][..],
            "--placement scheduled is for simulated machines",
        ),
        (&["--machine", "uniform:4", "--pairs", "3"], "--pairs 3 needs 6 CPUs"),
        (&["--machine", "uniform:2..8", "--pairs", "2"], "the machine has 2"),
        (&["--machine", "uniform:4", "--pairs", "0"], "'0' for '--pairs <N>'"),
        (&["--machine", "uniform:64", "--distance", "4", "--pairs", "5"], "space for 4 pairs"),
        (&["--machine", "uniform:7", "--distance", "4"], "CPU at the distance of each reader"),
        (
            &["--machine", "uniform:8", "--distance", "4", "--placement", "scheduled"],
            "--distance is for pinned",
        ),
        (
            &["--machine", "uniform:4", "--placement", "free"],
            "[possible values: pinned, scheduled]",
        ),
    ] {
        framewright(&[&["run", "socket-pairs"], options].concat())
            .assert()
            .code(2)
            .stdout("")
            .stderr(predicate::str::contains(hint));
    }
}

#[test]
fn scheduled_pairs_share_the_cpus_of_a_small_machine() {
    let args = [
        "run",
        "socket-pairs",
        "--machine",
        "uniform:1",
        "--placement",
        "scheduled",
        "--pairs",
        "2",
    ];
    let (_, report, bytes) = report_of(&args);
    for run in report["runs"].as_array().unwrap() {
        assert_eq!(run["metrics"]["same_cpu_pct"]["median"], 100.0, "{run}");
    }
    assert_eq!(report_of(&args).2, bytes);
}
