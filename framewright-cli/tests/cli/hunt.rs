//! `framewright hunt`.

use std::fs;

use predicates::prelude::*;
use serde_json::Value;

use crate::{framewright, stdout_of};

#[test]
fn a_bug_is_found_and_the_printed_command_finds_it_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hunt.json");
    let hunt = ["hunt", "reclaim", "--bug", "write-out-before-flush", "--schedule"];
    let more = ["random", "--schedule", "exhaustive:1", "--json", path.to_str().unwrap()];
    let text = stdout_of(&[&hunt[..], &more].concat());
    let report: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let run = &report["runs"][0];
    assert_eq!(run["settings"]["bug"], "write-out-before-flush");
    assert_eq!(run["metrics"]["found"]["median"], run["metrics"]["hunts"]["median"]);
    assert!(run["metrics"]["schedules_to_find"]["median"].as_f64().unwrap() >= 1.0);
    assert_eq!(report["verdict"]["passed"], true);
    let lines: Vec<&str> = text.lines().collect();
    let command = lines.iter().position(|line| line.starts_with("framewright hunt ")).unwrap();
    let args: Vec<&str> = lines[command].split(' ').skip(1).collect();
    let again = stdout_of(&args);
    assert!(again.contains("1 of 1") && again.contains(lines[command + 1]), "{again}");
}

#[test]
fn the_median_of_an_even_number_of_hunts_is_that_of_the_report() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hunt.json");
    let hunt = ["hunt", "unmap", "--bug", "forgotten-target", "--schedule", "random"];
    let two = ["--seed", "5", "--seeds", "2", "--schedules", "2000"];
    let text = stdout_of(&[&hunt[..], &two, &["--json", path.to_str().unwrap()]].concat());
    let report: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let taken = &report["runs"][0]["metrics"]["schedules_to_find"];
    assert_ne!(taken["values"][0], taken["values"][1], "this test needs other seeds");
    let row = text.lines().find(|line| line.contains("forgotten-target")).unwrap();
    let cells: Vec<_> = row.split_whitespace().collect();
    let median = taken["median"].as_f64().unwrap();
    assert!(cells.contains(&median.to_string().as_str()), "{median}: {row}");
}

#[test]
fn a_list_of_scenarios_is_not_written_to_files() {
    framewright(&["hunt", "list", "--json", "list.json"])
        .assert()
        .code(2)
        .stderr(predicate::str::contains("--json is for hunts"));
}

#[test]
fn controls_are_clean_and_nothing_else_is_hunted() {
    let text = stdout_of(&["hunt", "take", "--bug", "none", "--schedule", "exhaustive:1"]);
    assert!(text.contains("clean") && text.contains("all ") && !text.contains("of 1"), "{text}");
}

#[test]
fn a_bug_that_is_not_found_fails() {
    let args = ["hunt", "unmap", "--bug", "early-mask", "--schedule", "exhaustive:0"];
    framewright(&args)
        .assert()
        .code(1)
        .stdout(predicate::str::contains("0 of 1"))
        .stderr(predicate::str::contains("check failed: unmap finds early-mask: 0 of 1"));
}

#[test]
fn a_recording_of_another_program_is_not_called_clean() {
    for (replay, complaint) in
        [("replay:0=999", "decision 0 has "), ("replay:0=1,90000=1", "no number 90000")]
    {
        let hunt = ["hunt", "take", "--bug", "none", "--schedule", replay];
        framewright(&hunt)
            .assert()
            .code(1)
            .stdout(predicate::str::contains(replay).and(predicate::str::contains("does not fit")))
            .stderr(predicate::str::contains("the schedule belongs to another program: "))
            .stderr(predicate::str::contains(complaint));
    }
}

#[test]
fn as_many_schedules_are_tried_as_asked_for() {
    let random = ["--schedule", "random", "--schedule", "random", "--schedules", "10"];
    let text = stdout_of(&[&["hunt", "unmap", "--bug", "none"], &random[..]].concat());
    let rows: Vec<&str> = text.lines().filter(|line| line.contains("random")).collect();
    let tried: Vec<&str> = rows.iter().filter_map(|row| row.split_whitespace().nth(6)).collect();
    assert_eq!(tried, ["10"], "{text}");
}

#[test]
fn steps_are_counted_in_controls() {
    let hunt = ["hunt", "migrate-refused", "--schedule", "random", "--schedules", "300"];
    let text = stdout_of(&[&hunt[..], &["--bug", "none"]].concat());
    let row = text.lines().rfind(|line| line.starts_with("migrate-refused ")).unwrap();
    let cells: Vec<&str> = row.split_whitespace().skip(1).collect();
    let never: Vec<bool> = cells.iter().map(|&cell| cell == "-").collect();
    assert_eq!(never, [false, false, true, true, false, true, true], "{text}");
    assert!(!cells.contains(&"0") && text.contains("its owner is not called"), "{text}");
}

#[test]
fn scenarios_and_bugs_can_be_listed() {
    let text = stdout_of(&["hunt", "list"]);
    for word in ["munmap-race: ", "skipped-flush ", "missing-barrier ", "on 3 CPUs"] {
        assert!(text.contains(word), "{word}: {text}");
    }
}

#[test]
fn unknown_scenarios_and_bugs_are_named() {
    for (args, complaint) in [
        (&["hunt", "unmapp"][..], "munmap-race"),
        (&["hunt", "--bug", "flush"], "valid: free-before-flush"),
        (&["hunt", "take", "--bug", "early-mask"], "its bugs: unlocked-take"),
        (&["hunt", "isolate", "--bug", "early-mask"], "it is a control only"),
        (&["hunt", "--schedule", "pct:0"], "pct:DEPTH (1 to 64)"),
        (&["hunt", "--schedule", "replay:3=1"], "needs the name of its scenario"),
        (&["hunt", "take", "--bug", "none", "--schedule", "replay:5=1,5=2"], "each place once"),
        (&["hunt", "--seeds", "0"], "0 is not in 1..=10000"),
    ] {
        let complaint = predicate::str::contains(complaint);
        framewright(args).assert().code(2).stdout("").stderr(complaint);
    }
}
