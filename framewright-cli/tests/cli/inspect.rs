//! `framewright inspect`.

use std::{fs, path::Path};

use predicates::prelude::*;

use crate::{framewright, stdout_of};

/// Tables of one small zone.
const TABLES: [(&str, &str); 4] = [
    (
        "zoneinfo",
        "Node 0, zone   Normal\n  pages free     2792\n        boost    0\n        min      400\n        \
         managed  50000\n",
    ),
    ("buddyinfo", "Node 0, zone   Normal 1000 0 0 0 0 0 0 0 1 3 0\n"),
    ("vmstat", "thp_fault_alloc 7\n"),
    ("interrupts", "TLB:  4 5 TLB shootdowns\n"),
];

fn saved(folder: &Path) -> String {
    for (name, text) in TABLES {
        fs::write(folder.join(name), text).unwrap();
    }
    folder.to_str().unwrap().to_owned()
}

#[test]
fn saved_tables_are_shown_and_written() {
    let folder = tempfile::tempdir().unwrap();
    let tables = saved(folder.path());
    let [json, csv] = ["a.json", "a.csv"].map(|name| folder.path().join(name));
    let [json, csv] = [&json, &csv].map(|path| path.to_str().unwrap());
    let page = folder.path().join("a.html");
    let html = page.to_str().unwrap();
    let files = ["--json", json, "--csv", csv, "--html", html];
    let text = stdout_of(&[&["inspect", "--from", &tables], &files[..]].concat());
    for expected in [
        "10.9 of 195.3 MiB are free",
        "pagetypeinfo: No such file",
        "only root can read it",
        "node 0, zone Normal",
        "unusable free space index",
        "huge pages of 2 MiB",
        "predicted from buddyinfo",
        "thp_fault_alloc",
    ] {
        assert!(text.contains(expected), "{expected} is missing in {text}");
    }
    let result: serde_json::Value = serde_json::from_slice(&fs::read(json).unwrap()).unwrap();
    let [normal, machine] = [0, 1].map(|run| &result["runs"][run]);
    assert_eq!(normal["label"], "node 0 Normal");
    assert_eq!(normal["metrics"]["unusable_free_index"]["order9"]["median"], 0.449);
    assert_eq!(machine["metrics"]["huge_pages_without_compaction"]["median"], 3);
    assert_eq!(machine["metrics"]["tlb_shootdowns"]["median"], 9);
    assert!(result["notes"].to_string().contains("predicted from buddyinfo"), "{result}");
    let rows = fs::read_to_string(csv).unwrap();
    assert!(rows.starts_with("seconds,node,zone,"), "{rows}");
    assert!(rows.contains("\n0.000,0,Normal,,9,free_blocks,count,3\n"), "{rows}");
    let page = fs::read_to_string(page).unwrap();
    let has_chart = page.contains("<figcaption>");
    assert!(page.contains("node 0 Normal") && page.contains("predicted from buddyinfo"), "{page}");
    assert!(!has_chart, "one look has no charts");
}

#[test]
fn recorded_tables_are_shown() {
    let recordings = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("recordings");
    let text =
        stdout_of(&["inspect", "--from", recordings.join("compile.before").to_str().unwrap()]);
    assert!(text.contains("Movable") && text.contains("pageblocks: "), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 130), "{text}");
}

#[test]
#[cfg(target_os = "linux")]
fn this_machine_is_watched() {
    let folder = tempfile::tempdir().unwrap();
    let [json, csv] = ["a.json", "a.csv"].map(|name| folder.path().join(name));
    let [json, csv] = [&json, &csv].map(|path| path.to_str().unwrap());
    let page = folder.path().join("a.html");
    let files = ["--json", json, "--csv", csv, "--html", page.to_str().unwrap()];
    let watch = ["inspect", "--watch", "200ms", "--for", "0.5"];
    let text = stdout_of(&[&watch[..], &files[..]].concat());
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("note")).collect();
    assert!(lines[0].contains("with_compaction"), "{text}");
    assert_eq!(lines.len(), 4, "a heading and three looks: {text}");
    let rows = fs::read_to_string(csv).unwrap();
    assert_eq!(rows.lines().filter(|line| line.starts_with("seconds")).count(), 1);
    let machine = rows.lines().filter(|line| line.contains(",thp_fault_alloc,"));
    assert!(machine.count() <= 3 && rows.ends_with('\n'), "{rows}");
    let result: serde_json::Value = serde_json::from_slice(&fs::read(json).unwrap()).unwrap();
    let series = &result["runs"][0]["series"]["free"];
    assert_eq!(series.as_array().map(Vec::len), Some(3), "{result}");
    let page = fs::read_to_string(page).unwrap();
    for chart in ["huge pages that a program could get", "free blocks by order, node 0"] {
        assert!(page.contains(&format!("<figcaption>{chart}")), "{chart} is missing");
    }
}

/// Only root can change the setting for both modes; a machine without huge pages refuses both.
#[test]
#[cfg(target_os = "linux")]
fn huge_pages_are_allocated_for_a_moment_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("a.json");
    let attempt = ["inspect", "--try", "--at-most", "16MiB", "--for", "2s", "--json"];
    let output = framewright(&attempt).arg(&json).output().unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    if output.status.code() == Some(2) {
        assert!(err.contains("--try: ") && out.is_empty() && !json.exists(), "{err}");
        return;
    }
    assert!(output.status.success() && out.contains("found: the most huge pages"), "{out}{err}");
    assert!(out.lines().all(|line| line.chars().count() <= 130), "{out}");
    let result: serde_json::Value = serde_json::from_slice(&fs::read(json).unwrap()).unwrap();
    let runs = result["runs"].as_array().unwrap();
    let mut tried = runs.iter().filter(|run| run["label"].to_string().contains("compaction"));
    assert!(tried.any(|run| run["metrics"]["found"]["median"].as_f64() <= Some(8.0)), "{result}");
}

#[test]
fn bad_input_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let tables = saved(folder.path());
    let refused = |args: &[&str], hint: &str| {
        let assert = framewright(&[&["inspect"], args].concat()).assert();
        assert.code(2).stdout("").stderr(predicate::str::contains(hint));
    };
    refused(&["--from", "/nowhere"], "/nowhere");
    refused(&["--from", &tables, "--watch", "1"], "--watch");
    refused(&["--from", &tables, "--try"], "--try");
    refused(&["--watch", "soon"], "500ms");
    refused(&["--for", "1s"], "--watch");
    refused(&["--at-most", "1GiB"], "--try");
    refused(&["--try", "--for", "soon"], "500ms");
    refused(&["--try", "--at-most", "4"], "--at-most");
    refused(&["--watch", "1s", "--json", "x.json"], "--for");
    refused(&["--watch", "1s", "--html", "x.html"], "--html is written at the end");
    refused(&["--from", &tables, "--csv", "/nowhere/a.csv"], "/nowhere/a.csv");
    refused(&["--from", &tables, "--csv", "x", "--json", "x"], "both name");
    let vmstat = format!("{tables}/vmstat");
    fs::write(&vmstat, "thp_fault_alloc many\n").unwrap();
    let csv = folder.path().join("a.csv");
    refused(
        &["--from", &tables, "--csv", csv.to_str().unwrap()],
        &format!("{vmstat}:1: vmstat `many`"),
    );
    assert!(!csv.exists(), "bad input leaves no file");
}
