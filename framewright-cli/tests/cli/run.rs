//! `framewright run`.

use std::fs;

use predicates::prelude::*;
use serde_json::Value;

use crate::framewright;

/// Runs the command for its standard output and its report.
pub(crate) fn run(args: &[&str]) -> (String, Value) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.json");
    let json = ["--json", path.to_str().unwrap()];
    let text = crate::stdout_of(&[&["run"], args, &json].concat());
    (text, serde_json::from_slice(&fs::read(path).unwrap()).unwrap())
}

#[test]
fn page_fault_shows_both_settings_and_checks_contents() {
    let (text, report) =
        run(&["page-fault", "--quick", "--machine", "host:1", "--vs", "pcp.batch=7"]);
    assert!(text.contains("positive is better"), "{text}");
    assert!(text.lines().any(|line| line.starts_with("contents  holds")), "{text}");
    assert_eq!(report["machine"], "host:1");
    assert_eq!(report["seed"], 1);
    let locks = |run: usize| {
        report["runs"][run]["metrics"]["acquisitions_per_page"]["median"].as_f64().unwrap()
    };
    assert!(locks(1) > locks(0), "{} and {}", locks(1), locks(0));
}

#[test]
fn page_fault_says_how_much_memory_it_needs() {
    framewright(&["run", "page-fault", "--machine", "host:2", "--memory", "64MiB"])
        .assert()
        .code(2)
        .stdout("")
        .stderr(predicate::str::contains("64 MiB").and(predicate::str::contains("at least")));
}
