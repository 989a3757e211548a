//! `framewright validate`.

use std::fs;

use predicates::prelude::*;

use crate::{framewright, stdout_of};

/// The verdict depends on the speed of this machine, and on its load: both exit codes are right.
#[test]
fn rows_have_both_figures_and_the_report_has_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let [machine, json] = ["mine.toml", "result.json"].map(|name| folder.path().join(name));
    fs::write(&machine, stdout_of(&["machines", "laptop-8", "--toml"])).unwrap();
    let [machine, json] = [&machine, &json].map(|path| path.to_str().unwrap());
    let output = framewright(&["validate", machine, "--quick", "--json", json]).output().unwrap();
    assert!(matches!(output.status.code(), Some(0 | 1)), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    for expected in
        ["processes_1_cpu_ns_per_fault", "host_1_acquisitions_per_page", "judged rows agree"]
    {
        assert!(text.contains(expected), "{expected} is missing in {text}");
    }
    let result: serde_json::Value = serde_json::from_slice(&fs::read(json).unwrap()).unwrap();
    for (run, label) in ["measured", "modelled"].into_iter().enumerate() {
        assert_eq!(result["runs"][run]["label"], label);
        let figure = &result["runs"][run]["metrics"]["processes_1_cpu_ns_per_fault"]["median"];
        assert!(figure.as_f64().is_some_and(|nanos| nanos > 0.0), "{figure}");
    }
    assert_eq!(result["verdict"]["passed"], output.status.success());
}

#[test]
fn bad_input_is_refused_before_any_work() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(path("bad.toml"), "name = 7\n").unwrap();
    let refused = |args: &[&str], hints: &[&str]| {
        let assert =
            framewright(&[&["validate"], args].concat()).current_dir(folder.path()).assert();
        let assert = assert.code(2).stdout("");
        hints.iter().fold(assert, |assert, hint| assert.stderr(predicate::str::contains(*hint)));
    };
    refused(&[], &["mine.toml: No such file", "framewright machines measure -o mine.toml"]);
    refused(&[&path("bad.toml")], &["bad.toml"]);
    refused(&[&path("bad.toml"), "--json", &path("bad.toml")], &["bad.toml"]);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}
