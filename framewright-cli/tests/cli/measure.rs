//! `framewright machines measure`.

use std::fs;

use predicates::prelude::*;

use crate::{framewright, stdout_of};

#[test]
fn a_measured_machine_is_listed_and_runs() {
    let folder = tempfile::tempdir().unwrap();
    let [machine, json] = ["mine.toml", "mine.json"].map(|name| folder.path().join(name));
    let [machine, json] = [&machine, &json].map(|path| path.to_str().unwrap());
    let text = stdout_of(&["machines", "measure", "--quick", "-o", machine, "--json", json]);
    for expected in ["page_fault_ns", "taken over", "fault.look = 250", "inherited from 'common'"] {
        assert!(text.contains(expected), "{expected} is missing in {text}");
    }
    let result: serde_json::Value = serde_json::from_slice(&fs::read(json).unwrap()).unwrap();
    let run = &result["runs"][0];
    assert_eq!(run["label"], "mine");
    assert!(run["metrics"]["page_fault_ns"]["median"].as_f64().unwrap() > 0.0, "{run}");
    assert!(run["settings"]["fault.service"].as_str().unwrap().ends_with(" cycles"), "{run}");
    assert!(result["notes"].as_array().is_some_and(|notes| !notes.is_empty()));
    let shown = stdout_of(&["machines", machine]);
    assert!(shown.starts_with("mine") && shown.contains("page_fault_ns minus"), "{shown}");
    let window = ["--window", "1ms", "--warm-up", "0ms"];
    stdout_of(&[&["run", "page-fault", "--machine", machine], &window[..]].concat());
}

#[test]
fn a_file_that_cannot_be_written_is_refused_before_any_work() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let refused = |args: &[&str], hint: &str| {
        framewright(&[&["machines", "measure"], args].concat())
            .assert()
            .code(2)
            .stdout("")
            .stderr(predicate::str::contains(hint));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "{args:?}");
    };
    refused(&["-o", &path("nowhere/mine.toml")], "nowhere/mine.toml': No such file");
    refused(&["-o", folder.path().to_str().unwrap()], "directory");
    refused(&["-o", &path("skx-2s-112.toml")], "'skx-2s-112' is a built-in machine");
    refused(&["-o", &path("mine"), "--json", &path("mine")], "both name");
    refused(&[], "--output");
}
