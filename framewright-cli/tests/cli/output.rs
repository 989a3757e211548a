//! Standard output: plain in a pipe, which the reader may close early. JSON and CSV: one form for all commands.

use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};

use framewright_lab::report::{Report, SCHEMA, VERSION};
use serde_json::Value;

use crate::{framewright, stdout_of};

const RECORDING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../recordings/sockets.txt.zst");

/// The text, the JSON document and the CSV rows of a command.
fn outputs(args: &[&str]) -> (String, Value, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let [json, csv] = ["r.json", "r.csv"].map(|name| folder.path().join(name));
    let files = ["--json", json.to_str().unwrap(), "--csv", csv.to_str().unwrap()];
    let text = stdout_of(&[args, &files].concat());
    let document = serde_json::from_slice(&fs::read(json).unwrap()).unwrap();
    let rows = fs::read_to_string(csv).unwrap();
    (text, document, rows.lines().map(str::to_owned).collect())
}

/// Fails if a key is not in snake_case. Keys of settings are their paths, as for `--set`.
fn check_keys(value: &Value) {
    let is_snake = |key: &str| key.bytes().all(|it| matches!(it, b'a'..=b'z' | b'0'..=b'9' | b'_'));
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                assert!(is_snake(key), "'{key}'");
                if key != "settings" {
                    check_keys(value);
                }
            }
        }
        Value::Array(values) => values.iter().for_each(check_keys),
        _ => {}
    }
}

#[test]
fn json_and_csv_have_one_form_for_all_commands() {
    let hunt = ["hunt", "take", "--bug", "unlocked-take", "--schedules", "2000"];
    for args in [
        &hunt[..],
        &["replay", RECORDING],
        // Fails if a mechanism gains without the costs that its gain depends on.
        #[cfg(feature = "full")]
        &["prices"],
    ] {
        let (_, mut document, rows) = outputs(args);
        check_keys(&document);
        let report: Report = serde_json::from_value(document.clone()).unwrap();
        let fields = document.as_object_mut().unwrap();
        assert_eq!(fields.remove("schema"), Some(SCHEMA.into()), "{args:?}");
        assert_eq!(fields.remove("version"), Some(VERSION.into()), "{args:?}");
        assert_eq!(serde_json::to_value(&report).unwrap(), document, "{args:?}");
        assert_eq!(rows[0], "command,seed,round,side,figure,unit,value");
        let figures: usize = report.runs.iter().map(|run| run.metrics.len()).sum();
        assert!(rows.len() > figures && figures > 0, "{args:?}: {} rows", rows.len());
    }
}

#[test]
fn several_seeds_have_intervals_and_p_values() {
    let machine = ["run", "page-fault", "--machine", "uniform:2", "--window", "1ms"];
    let seeds = ["--warm-up", "1ms", "--seed", "7", "--seeds", "3"];
    let (text, document, rows) = outputs(&[&machine[..], &seeds[..]].concat());
    assert!(text.lines().any(|line| line.starts_with("over seeds (mean ± ")), "{text}");
    assert_eq!((&document["seed"], &document["seeds"]), (&7.into(), &3.into()));
    let of = |run: usize| &document["runs"][run]["metrics"]["pages_per_s"];
    assert_eq!(of(0)["values"].as_array().map(Vec::len), Some(3));
    assert!(of(0)["interval"]["low"].as_f64() <= of(0)["interval"]["mean"].as_f64());
    assert!(of(0).get("p_value").is_none() && of(1)["p_value"].is_number());
    for seed in 7..=9 {
        let row = format!(",{seed},,framewright,pages_per_s,1/s,");
        assert_eq!(rows.iter().filter(|found| found.contains(&row)).count(), 1, "{row}");
    }
    let one = stdout_of(&[&machine[..], &["--warm-up", "1ms"]].concat());
    assert!(!one.contains("over seeds"), "{one}");
}

#[test]
fn no_two_outputs_are_one_file() {
    for second in ["--csv", "--picture"] {
        framewright(&["run", "high-alloc", "--json", "same", second, "./same"])
            .assert()
            .code(2)
            .stderr(predicates::str::contains(format!("--json and {second} both name 'same'")));
    }
    framewright(&["replay", RECORDING, "--csv", RECORDING]).assert().code(2).stdout("");
}

#[test]
fn a_pipe_gets_no_colours_unless_forced() {
    assert!(!stdout_of(&["tuning"]).contains('\x1b'));
    let forced = framewright(&["tuning"]).env("CLICOLOR_FORCE", "1").output().unwrap();
    assert!(forced.stdout.contains(&0x1b));
    let refused = framewright(&["tuning"]).env("NO_COLOR", "1").output().unwrap();
    assert!(!refused.stdout.contains(&0x1b));
}

#[test]
fn a_pipe_that_its_reader_closed_is_no_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_framewright"))
        .arg("tuning")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut errors = String::new();
    child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    assert_eq!((child.wait().unwrap().code(), errors.as_str()), (Some(0), ""));
}
