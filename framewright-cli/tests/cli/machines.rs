//! `framewright machines`.

use std::fs;

use predicates::prelude::*;

use crate::{framewright, stdout_of};

#[test]
fn every_machine_is_listed_and_can_be_shown() {
    let list = stdout_of(&["machines"]);
    let presets: Vec<&str> = list.lines().skip(1).take_while(|line| !line.is_empty()).collect();
    assert!(presets.len() >= 8, "{list}");
    for line in presets {
        let mut words = line.split_whitespace();
        let (name, cpus) = (words.next().unwrap(), words.next().unwrap());
        assert!(name.ends_with(&format!("-{cpus}")), "{line}");
        let text = stdout_of(&["machines", name]);
        assert!(text.starts_with(name) && text.contains(&format!("{cpus} CPUs")), "{text}");
        for known in ["latency.modified_remote", "estimated", "fitted", "cycles"] {
            assert!(text.contains(known), "{known} is missing in {text}");
        }
    }
}

#[test]
fn a_printed_file_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    let path = path.to_str().unwrap();
    for machine in ["spr-2s-224", "uniform:30"] {
        let toml = stdout_of(&["machines", machine, "--toml"]);
        fs::write(path, &toml).unwrap();
        assert_eq!(stdout_of(&["machines", path, "--toml"]), toml);
        assert_eq!(stdout_of(&["machines", path]), stdout_of(&["machines", machine]));
    }
}

#[test]
fn a_fault_in_a_file_is_named_with_line_key_and_value() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    let path = path.to_str().unwrap();
    fs::write(path, "name = \"mine\"\nbase = \"laptop-8\"\n[latency]\nl1 = 5\n").unwrap();
    let place = format!("{path}:4: latency.l1 = 5: says neither its unit nor");
    framewright(&["machines", path])
        .assert()
        .code(2)
        .stdout("")
        .stderr(predicate::str::contains(&place));
    framewright(&["run", "page-fault", "--machine", path])
        .assert()
        .code(2)
        .stdout("")
        .stderr(predicate::str::contains(&place));
    framewright(&["machines", "skx"])
        .assert()
        .code(2)
        .stdout("")
        .stderr(predicate::str::contains("'skx'").and(predicate::str::contains("-2s-")));
}

#[test]
fn inherited_parameters_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    let path = path.to_str().unwrap();
    let run = |machine: &str| {
        let window = ["--window", "1ms", "--warm-up", "0ms"];
        let args = [&["run", "page-fault", "--machine", machine], &window[..]].concat();
        let assert = framewright(&args).assert().success();
        String::from_utf8(assert.get_output().stderr.clone()).unwrap()
    };
    let whole = stdout_of(&["machines", "uniform:2", "--toml"]);
    fs::write(path, &whole).unwrap();
    assert_eq!((run(path), run("uniform:2")), (String::new(), String::new()));

    let lines = whole.lines().filter(|line| !line.starts_with("frequency"));
    let named = |line: &str| line.replace("\"uniform:2\"", "\"mine\"");
    fs::write(path, lines.map(|line| named(line) + "\n").collect::<String>()).unwrap();
    let prefix = format!("note: {path}: 1 of ");
    let inherited = "parameters are not in the file and inherited from 'common'";
    let note = run(path);
    assert!(note.starts_with(&prefix) && note.contains(inherited), "{note}");
    assert_eq!(note.lines().count(), 1, "{note}");
    let shown = stdout_of(&["machines", path]);
    assert!(shown.ends_with(&format!("{inherited}:\n  clock.frequency\n")), "{shown}");

    fs::write(path, "name = \"mine\"\nbase = \"laptop-8\"\n").unwrap();
    let shown = stdout_of(&["machines", path]);
    assert!(shown.contains("and the topology are not in the file and inherited from 'laptop-8'"));
}
