//! Completions and man pages name the commands.

use std::fs;

use predicates::prelude::*;

use crate::{framewright, stdout_of};

#[test]
fn every_shell_gets_all_commands() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = stdout_of(&["completions", shell]);
        for word in ["replay", "high-alloc", "beside", "completions"] {
            assert!(script.contains(word), "{shell}: no {word}");
        }
    }
}

#[test]
fn every_command_has_a_man_page() {
    let folder = tempfile::tempdir().unwrap();
    framewright(&["completions", "man", folder.path().to_str().unwrap()]).assert().success();
    let page = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    assert!(page("framewright.1").contains("framewright\\-replay(1)"), "{}", page("framewright.1"));
    assert!(page("framewright-run-high-alloc.1").contains("\\-\\-vs"));
    assert!(page("framewright-record.1").contains("framewright record \\-o idle"));
}

#[test]
fn man_pages_need_a_folder() {
    framewright(&["completions", "man", "/no/such/folder"])
        .assert()
        .code(2)
        .stdout("")
        .stderr(predicate::str::contains("no folder '/no/such/folder'"));
}
