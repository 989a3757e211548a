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
        for known in ["latency.modified_remote", "guessed", "fitted", "cycles"] {
            assert!(text.contains(known), "{known} is missing in {text}");
        }
    }
}

#[test]
fn what_is_printed_as_a_file_is_one() {
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
