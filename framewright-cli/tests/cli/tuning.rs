//! `framewright tuning`.

use framewright::tuning::KEYS;
use predicates::prelude::*;

use crate::{framewright, stdout_of};

#[test]
fn every_setting_is_listed_with_its_description() {
    let text = stdout_of(&["tuning"]);
    for key in KEYS {
        let paragraph = text
            .split("\n\n")
            .find(|paragraph| paragraph.lines().next() == Some(key.path))
            .unwrap_or_else(|| panic!("{} is missing in {text}", key.path));
        for known in [key.default, key.range, key.meaning, key.source] {
            assert!(paragraph.contains(known), "{known} is missing in {paragraph}");
        }
    }
}

#[test]
fn a_group_or_one_setting_can_be_listed() {
    let headings = |args: &[&str]| -> Vec<String> {
        stdout_of(args).lines().filter(|line| !line.starts_with(' ')).map(str::to_owned).collect()
    };
    assert_eq!(headings(&["tuning", "pcp.batch"]), ["pcp.batch"]);
    let group = headings(&["tuning", "pcp"]);
    assert!(group.len() > 3, "{group:?}");
    assert!(group.iter().all(|name| name.is_empty() || name.starts_with("pcp.")), "{group:?}");
    for beginning in ["pc", "pcp."] {
        assert_eq!(headings(&["tuning", beginning]), group);
    }
}

#[test]
fn an_unknown_setting_is_answered_with_the_nearest() {
    framewright(&["tuning", "pcp.bach"]).assert().code(2).stdout("").stderr(
        predicate::str::contains("'pcp.bach'").and(predicate::str::contains("'pcp.batch'")),
    );
}

#[test]
fn an_unlikely_key_is_not_suggested() {
    for name in ["", "*", "nosuch"] {
        framewright(&["tuning", name]).assert().code(2).stdout("").stderr(
            predicate::str::contains("there is none like it; `framewright tuning` lists all"),
        );
    }
}
