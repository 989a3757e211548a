//! `framewright replay`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use predicates::prelude::*;
use serde_json::Value;
use tempfile::TempDir;

use crate::{framewright, stdout_of};

/// Three events of a recording; its header announces as many.
const RECORDING: &str = "\
# tracer: nop
#
# entries-in-buffer/entries-written: 3/3   #P:2
#
            bash-7     [000] .....    10.000001: mm_page_alloc: page=1 pfn=0x1000 order=0 migratetype=1 gfp_flags=GFP_KERNEL
            bash-7     [001] .....    10.000002: mm_page_free: page=1 pfn=0x1000 order=0
            bash-7     [000] .....    10.000003: mm_page_alloc: page=2 pfn=0x2000 order=3 migratetype=0 gfp_flags=GFP_KERNEL
";

fn shipped() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../recordings/sockets.txt.zst");
    path.to_str().expect("a path that is text").to_owned()
}

/// A recording with `text` in a folder of its own.
fn recording(text: impl AsRef<[u8]>) -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("recording.txt");
    fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (folder, path)
}

/// The report that the command writes.
fn report(args: &[&str]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join("report.json");
    stdout_of(&[args, &["--json", path.to_str().unwrap()]].concat());
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// The figures of a run by name: those of a CPU, zone or order are in objects of their own.
fn figures(run: &Value) -> BTreeMap<String, Value> {
    fn flatten(name: &str, value: &Value, figures: &mut BTreeMap<String, Value>) {
        let parts = value.as_object().unwrap();
        if parts.contains_key("median") {
            figures.insert(name.to_owned(), value.clone());
            return;
        }
        for (part, value) in parts {
            let name = if name.is_empty() { part.clone() } else { format!("{name}_{part}") };
            flatten(&name, value, figures);
        }
    }
    let mut figures = BTreeMap::new();
    flatten("", &run["metrics"], &mut figures);
    figures
}

fn metric(run: &Value, name: &str) -> f64 {
    figures(run)[name]["median"].as_f64().unwrap_or_else(|| panic!("no {name} in {run}"))
}

#[test]
fn the_shipped_recording_replays_and_balances() {
    let text = stdout_of(&["replay", &shipped()]);
    for line in ["zone_lock_acquisitions", "unmatched_frees", "balance_pct", "CPU 1  framewright"] {
        assert!(text.lines().any(|l| l.starts_with(line)), "'{line}' is missing in {text}");
    }
    let report = report(&["replay", &shipped()]);
    let ours = &report["runs"][0];
    assert!(metric(ours, "balance_pct").abs() <= 5.0);
    assert!(metric(ours, "zone_lock_acquisitions") > 0.0);
    assert_eq!(report["verdict"]["passed"], true);
}

#[test]
fn what_a_recording_does_not_show_is_not_compared() {
    let (_folder, path) = recording(RECORDING);
    let text = stdout_of(&["replay", &path]);
    assert!(text.contains("better     nothing that the recording shows"), "{text}");
    assert!(text.contains("worse      nothing that the recording shows"), "{text}");
    assert!(text.contains("not recorded: its refills, drains, zone locks"), "{text}");
    let report = report(&["replay", &path]);
    let kernel = report["runs"].as_array().unwrap().last().unwrap();
    assert_eq!(kernel["label"], "recorded kernel");
    assert!(!figures(kernel).contains_key("refills"), "{kernel}");

    let event = "            bash-7     [000] .....    10.000001: sched_switch: prev_comm=bash\n";
    let (_folder, path) = recording(event);
    let error = "recording.txt: no event of this recording allocates or frees memory";
    framewright(&["replay", &path]).assert().code(2).stderr(predicate::str::contains(error));
}

#[test]
fn drains_are_the_sum_of_their_reasons_and_a_part_is_no_more_than_the_whole() {
    let args = ["replay", &shipped(), "--set", "pcp.high_order_drain=every-free"];
    let (text, report) = (stdout_of(&args), report(&args));
    let ours = &report["runs"][0];
    let reasons = figures(ours).into_iter().filter(|(name, _)| name.starts_with("drains_"));
    let sum: f64 = reasons.map(|(_, figure)| figure["median"].as_f64().unwrap()).sum();
    assert_eq!(metric(ours, "drains"), sum);
    assert!(text.contains("drains_emptying"), "{text}");
    for (share, _) in text.match_indices(" % of the ") {
        let number = text[..share].rsplit(|c: char| !c.is_ascii_digit() && c != '.').next();
        assert!(number.unwrap().parse::<f64>().unwrap() <= 100.0, "{text}");
    }
}

#[test]
fn a_replay_that_refuses_most_allocations_is_not_called_better() {
    let args = ["replay", &shipped(), "--set", "zone.min_free=3000000"];
    let failed = framewright(&args).assert().code(1);
    let text = String::from_utf8_lossy(&failed.get_output().stdout).into_owned();
    let lines: Vec<_> = text.lines().filter(|line| line.contains("not compared")).collect();
    assert!(lines[0].starts_with("better") && lines[1].starts_with("worse"), "{text}");
}

#[test]
fn with_vs_both_settings_stand_side_by_side() {
    let vs = ["replay", &shipped(), "--vs", "pcp.high_order_drain=every-free"];
    let text = stdout_of(&vs);
    assert!(text.contains("positive is better"), "{text}");
    assert!(text.contains("  vs    pcp.high_order_drain=every-free"), "{text}");
    let report = report(&vs);
    let labels: Vec<_> =
        report["runs"].as_array().unwrap().iter().map(|run| run["label"].as_str()).collect();
    assert_eq!(labels, [Some("base"), Some("vs"), Some("recorded kernel")]);
    let drains = |run: usize| metric(&report["runs"][run], "drains_high_order");
    assert!(drains(1) > drains(0), "{} and {}", drains(1), drains(0));
}

#[test]
fn the_classic_design_is_a_column_beside_and_its_means_are_compared() {
    let args = ["replay", &shipped(), "--vs", "pcp.batch=31", "--beside", "list-buddy"];
    let (text, report) = (stdout_of(&args), report(&args));
    let labels: Vec<_> =
        report["runs"].as_array().unwrap().iter().map(|run| run["label"].as_str()).collect();
    assert_eq!(labels, ["base", "vs", "list-buddy", "recorded kernel"].map(Some));
    let [base, vs, list_buddy] = [0, 1, 2].map(|run| &report["runs"][run]);
    for order in 0..=10 {
        let start = format!("free_blocks_start_order{order}");
        assert_eq!(metric(base, &start), metric(list_buddy, &start), "{start}");
    }
    for run in [base, vs, list_buddy] {
        let figure = |name: &str| metric(run, &format!("order9_allocatable_{name}"));
        let points = run["series"]["order9_allocatable"].as_array().unwrap();
        let values = || points.iter().map(|point| point[1].as_f64().unwrap());
        assert_eq!(values().next(), Some(8.0 + 2.0 * 1333.0));
        assert_eq!(values().next_back(), Some(figure("last")));
        assert_eq!(values().reduce(f64::min), Some(figure("min")));
        assert!(figure("min") <= figure("mean") && figure("mean") <= 2674.0);
    }
    let mean = |run: &Value| metric(run, "order9_allocatable_mean");
    let ratio = |run: &Value| mean(run) / mean(list_buddy);
    for words in [
        format!("order9_allocatable, mean over time: base {:.1}, vs", mean(base)),
        format!("; base / list-buddy {:.4}, vs / list-buddy {:.4}\n", ratio(base), ratio(vs)),
        "balance, list-buddy  holds".to_owned(),
    ] {
        assert!(text.contains(&words), "'{words}' is missing in {text}");
    }
    assert!(!text.lines().any(|line| line.starts_with("CPU 0  list-buddy")), "{text}");
}

#[test]
fn blocks_of_order_9_over_time_are_printed_and_drawn_with_a_line_for_each_allocator() {
    let folder = tempfile::tempdir().unwrap();
    let svg = folder.path().join("replay.svg");
    let (svg, recording) = (svg.to_str().unwrap(), shipped());
    let sides = ["--vs", "pcp.batch=31", "--beside", "list-buddy"];
    let text = stdout_of(&[&["replay", &recording, "--picture", svg][..], &sides].concat());
    let series: Vec<&str> =
        text.lines().skip_while(|line| *line != "order9_allocatable").skip(1).take(3).collect();
    let drawn = fs::read_to_string(svg).unwrap();
    assert!(drawn.contains("blocks of order 9 that can be allocated"), "{drawn}");
    for (line, [label, drawn_label]) in series.iter().zip([
        ["base", "base: pcp.batch=auto"],
        ["vs", "vs: pcp.batch=31"],
        ["list-buddy", "list-buddy"],
    ]) {
        assert!(line.starts_with(&format!("  {label} ")) && line.contains("min "), "{text}");
        assert!(drawn.lines().any(|line| line.trim() == drawn_label), "{drawn_label}: {drawn}");
    }
    framewright(&["replay", &recording, "--picture", "x", "--json", "x"])
        .assert()
        .code(2)
        .stderr(predicate::str::contains("--json and --picture both name 'x'"));
    framewright(&["replay", &recording, "--picture", &recording]).assert().code(2).stdout("");
}

#[test]
fn two_runs_are_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let runs = ["a.json", "b.json"].map(|name| {
        let path = folder.path().join(name);
        let args = ["replay", &shipped(), "--vs", "pcp.batch=31", "--json", path.to_str().unwrap()];
        (stdout_of(&args), fs::read(path).unwrap())
    });
    assert!(runs[0] == runs[1]);
}

#[test]
fn the_report_has_the_documented_shape() {
    let report = report(&["replay", &shipped(), "--set", "pcp.batch=31"]);
    assert_eq!(report["framewright"], env!("CARGO_PKG_VERSION"));
    assert_eq!(report["workload"], "replay");
    assert_eq!(report["command"][1], "replay");
    assert!(report["machine"].is_string() && report.get("seed").is_some());
    assert!(report["published"].as_array().is_some_and(Vec::is_empty));
    for run in report["runs"].as_array().unwrap() {
        assert!(run["label"].is_string() && run["settings"].is_object(), "{run}");
        for (name, metric) in figures(run) {
            let number = |field| metric[field].as_f64();
            assert!(number("min") <= number("median") && number("median") <= number("max"));
            assert!(metric["n"].as_u64() >= Some(1) && metric["unit"].is_string(), "{name}");
            let better = [Value::Null, "lower".into(), "higher".into()];
            assert!(better.contains(&metric["better"]), "{name}");
        }
        let series = run["series"].as_object().unwrap().values();
        for points in series.filter_map(Value::as_array) {
            assert!(points.iter().all(|point| point[0].is_number() && point[1].is_number()));
        }
    }
    let ours = &report["runs"][0];
    assert_eq!(ours["settings"]["pcp.batch"], "31");
    for series in [
        &ours["series"]["largest_free_order"],
        &ours["series"]["order9_allocatable"],
        &ours["series"]["unusable_free_index"]["order9"],
    ] {
        assert!(series.as_array().unwrap().len() > 10, "{series}");
    }
    let kernel = &report["runs"].as_array().unwrap().last().unwrap()["metrics"];
    assert_eq!(kernel["cpu0"]["refills"]["unit"], "count");
    assert_eq!(kernel["node0"]["normal"]["free_blocks_start"]["order3"]["unit"], "count");
}

#[test]
fn a_small_recording_without_tables_replays_with_a_warning() {
    let (_folder, path) = recording(RECORDING);
    framewright(&["replay", &path])
        .assert()
        .success()
        .stderr(predicate::str::starts_with("warning: ").and(predicate::str::contains(".before")));
    let report = report(&["replay", &path]);
    assert_eq!(metric(&report["runs"][0], "unmatched_frees"), 0.0);
}

/// The tables of a machine with two zones.
const TABLES: &str = "\
# zoneinfo
Node 0, zone    DMA32
  pages free     2048
        min      8
        low      10
        high     12
        spanned  4096
        managed  4096
        protection: (0, 64)
  start_pfn:           0
Node 0, zone   Normal
  pages free     6144
        min      16
        low      20
        high     24
        spanned  8192
        managed  8192
        protection: (0, 0)
  pagesets
    cpu: 0
              count:    3
  start_pfn:           4096
# buddyinfo
Node 0, zone    DMA32      0      0      0      0      0      0      0      0      0      0      2 \n\
Node 0, zone   Normal      0      0      0      0      0      0      0      0      0      0      6 \n\
# pagetypeinfo
Page block order: 9
Node    0, zone    DMA32, type      Movable      0      0      0      0      0      0      0      0      0      0      2 \n\
Node    0, zone   Normal, type      Movable      0      0      0      0      0      0      0      0      0      0      6 \n\
Number of blocks type      Movable
Node 0, zone    DMA32            8
Node 0, zone   Normal           16
# vmstat
nr_unstable 0
";

#[test]
fn a_replay_is_compared_with_the_tables_at_its_start_and_end() {
    let (folder, path) = recording(RECORDING);
    fs::write(folder.path().join("recording.before"), TABLES).unwrap();
    fs::write(folder.path().join("recording.after"), TABLES.replace("     6 \n", "     5 \n"))
        .unwrap();
    let assert = framewright(&["replay", &path]).assert().success().stderr("");
    let text = String::from_utf8(assert.get_output().stdout.clone()).unwrap();
    for line in
        ["node 0 DMA32     4096", "node 0 Normal    8192", "end    recorded kernel", "(NAME.after)"]
    {
        assert!(text.contains(line), "{line} is missing in {text}");
    }
    let report = report(&["replay", &path]);
    let (ours, kernel) = (&report["runs"][0], &report["runs"][1]);
    for name in ["free_blocks_start_order10", "node0_normal_free_blocks_start_order10"] {
        assert_eq!(metric(ours, name), metric(kernel, name), "{name}");
    }
    assert_eq!(metric(kernel, "free_blocks_end_order10"), 7.0);
    let beyond = metric(ours, "free_blocks_end_beyond_kernel_order10");
    assert_eq!(beyond, metric(ours, "free_blocks_end_order10") - 7.0);
}

#[test]
fn missing_sections_of_a_snapshot_are_named() {
    for (section, lacking) in [
        ("# buddyinfo", "pagetypeinfo"),
        ("# pagetypeinfo", "pagetypeinfo"),
        ("# vmstat", "vmstat"),
    ] {
        let (folder, path) = recording(RECORDING);
        let cut = TABLES.split(section).next().unwrap();
        fs::write(folder.path().join("recording.before"), cut).unwrap();
        framewright(&["replay", &path]).assert().success().stderr(
            predicate::str::contains("recording.before: section `# ")
                .and(predicate::str::contains(format!("`# {lacking}` is missing"))),
        );
    }
    let (folder, path) = recording(RECORDING);
    fs::write(folder.path().join("recording.before"), &TABLES[..40]).unwrap();
    framewright(&["replay", &path])
        .assert()
        .code(2)
        .stderr(predicate::str::contains("behind a line `# zoneinfo`"));
}

#[test]
fn tables_from_the_end_of_a_cut_recording_are_called_later() {
    let (folder, path) = recording(RECORDING.replace("3/3", "9/9"));
    fs::write(folder.path().join("recording.before"), TABLES).unwrap();
    fs::write(folder.path().join("recording.after"), TABLES).unwrap();
    let text = stdout_of(&["replay", &path]);
    assert!(text.contains("are of a later time"), "{text}");
}

#[test]
fn a_shortened_recording_replays_with_a_warning() {
    let (_folder, path) = recording(RECORDING.replace("3/3", "9/9"));
    framewright(&["replay", &path])
        .assert()
        .success()
        .stderr(predicate::str::contains("announces 9 events"));
    let (_folder, path) = recording(&RECORDING[..RECORDING.len() - 30]);
    framewright(&["replay", &path]).assert().success().stderr(predicate::str::contains("line 7"));
}

#[test]
fn an_impossible_line_is_named_with_the_reason() {
    for (good, bad, reason) in [
        ("order=3", "order=99", "99"),
        ("pfn=0x2000", "pfn=0x99999999999999999999", "0x99999999999999999999"),
        ("migratetype=0", "migratetype=x", "migratetype"),
        ("[000] .....    10.000003", "[zero] .....    10.000003", "zero"),
    ] {
        let (_folder, path) = recording(RECORDING.replace(good, bad));
        framewright(&["replay", &path]).assert().code(2).stdout("").stderr(
            predicate::str::contains(format!("{path}:7: ")).and(predicate::str::contains(reason)),
        );
    }
}

#[test]
fn a_file_that_is_no_recording_is_refused() {
    let binary: Vec<u8> =
        (0..4096u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for content in [Vec::new(), binary, b"hello\n".to_vec()] {
        let (_folder, path) = recording(content);
        let refused = framewright(&["replay", &path]).assert().code(2).stdout("");
        refused.stderr(predicate::str::contains("error: ").and(predicate::str::contains(path)));
    }
}

#[test]
#[cfg(target_os = "linux")]
fn an_endless_device_is_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join("recording.txt");
    std::os::unix::fs::symlink("/dev/zero", &link).unwrap();
    for path in ["/dev/zero", link.to_str().unwrap()] {
        framewright(&["replay", path]).assert().code(2).stdout("").stderr(
            predicate::str::contains(format!("{path}: binary data in line 1"))
                .and(predicate::str::contains("expected text of")),
        );
    }
}

#[test]
#[cfg(unix)]
fn a_pipe_is_read_up_to_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    let path = pipe.to_str().unwrap();
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let writer = |text: String, times: usize| {
        use std::io::Write;
        let pipe = pipe.clone();
        std::thread::spawn(move || {
            let mut pipe = fs::OpenOptions::new().write(true).open(pipe).unwrap();
            (0..times).try_for_each(|_| pipe.write_all(text.as_bytes()))
        })
    };
    let endless = writer(RECORDING.repeat(1000), usize::MAX);
    framewright(&["replay", path, "--limit", "1MiB"]).assert().code(2).stdout("").stderr(
        predicate::str::contains(format!("{path}: more than 1048576 bytes of a pipe"))
            .and(predicate::str::contains("--limit")),
    );
    assert!(endless.join().unwrap().is_err(), "the reader left");

    for (limit, code) in [(RECORDING.len(), 0), (RECORDING.len() - 1, 2)] {
        let all = writer(RECORDING.to_owned(), 1);
        framewright(&["replay", path, "--limit", &limit.to_string()]).assert().code(code);
        all.join().unwrap().unwrap();
    }
    framewright(&["replay", path, "--limit", "little"])
        .assert()
        .code(2)
        .stderr(predicate::str::contains("--limit").and(predicate::str::contains("as in 4GiB")));
}

#[test]
#[cfg(unix)]
fn tables_that_are_no_regular_file_are_refused() {
    let (folder, path) = recording(RECORDING);
    for which in ["before", "after"] {
        let tables = folder.path().join(format!("recording.{which}"));
        std::os::unix::fs::symlink("/dev/zero", &tables).unwrap();
        framewright(&["replay", &path]).assert().code(2).stdout("").stderr(
            predicate::str::contains(format!("{}: has the name", tables.display()))
                .and(predicate::str::contains("no regular file")),
        );
        fs::remove_file(tables).unwrap();
    }
}

#[test]
fn a_missing_recording_is_named() {
    framewright(&["replay", "no/such/recording"])
        .assert()
        .code(2)
        .stderr(predicate::str::contains("no/such/recording"));
}

#[test]
fn a_report_that_cannot_be_written_is_known_before_the_work() {
    framewright(&["replay", &shipped(), "--json", "no/such/folder/report.json"])
        .assert()
        .code(2)
        .stdout("")
        .stderr(predicate::str::contains("no/such/folder/report.json"));
}

#[test]
#[cfg(unix)]
fn a_name_that_is_not_utf8_is_accepted() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(OsStr::from_bytes(b"\xffrecording"));
    fs::write(&path, RECORDING).unwrap();
    framewright(&["replay"]).arg(path).assert().success();
}

#[test]
fn cpus_that_did_nothing_are_counted_and_not_listed() {
    let text = stdout_of(&["replay", &shipped()]);
    assert!(!text.contains("left out"), "{text}");
    let (_folder, path) = recording(RECORDING.replace("[001]", "[999]").replace("#P:2", "#P:1000"));
    let text = stdout_of(&["replay", &path]);
    assert!(text.contains("(998 idle CPUs left out)"), "{text}");
    for (cpu, rows) in [("CPU 0 ", 1), ("CPU 999 ", 1), ("CPU ", 2)] {
        let found = text.lines().filter(|line| line.starts_with(cpu)).count();
        assert_eq!(found, rows, "{cpu}: {text}");
    }
}

#[test]
fn a_recording_of_too_many_cpus_is_refused() {
    let (_folder, path) = recording(RECORDING.replace("[001]", "[2000]"));
    let error = "recording.txt: events of 2001 CPUs; a replay can have at most 1024";
    framewright(&["replay", &path]).assert().code(2).stderr(predicate::str::contains(error));
}

#[test]
#[cfg(unix)]
fn the_report_never_overwrites_the_recording() {
    let (folder, path) = recording(RECORDING);
    let [tables, soft, hard, soft_tables] =
        ["recording.before", "soft", "hard", "tables"].map(|name| folder.path().join(name));
    fs::write(&tables, "no tables").unwrap();
    fs::hard_link(&path, &hard).unwrap();
    std::os::unix::fs::symlink("recording.txt", &soft).unwrap();
    std::os::unix::fs::symlink("recording.before", &soft_tables).unwrap();
    for file in [Path::new(&path), &tables, &soft, &hard, &soft_tables] {
        let name = file.to_str().unwrap();
        framewright(&["replay", &path, "--json", name]).assert().code(2).stdout("").stderr(
            predicate::str::contains(format!("cannot write '{name}': it is"))
                .and(predicate::str::contains("another name")),
        );
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), RECORDING);
    assert_eq!(fs::read_to_string(&tables).unwrap(), "no tables");
}

#[test]
#[cfg(target_os = "linux")]
fn a_report_can_go_to_standard_output_or_a_device() {
    use std::io::Read;
    use std::process::{Command, Stdio};

    // The target of /dev/stdout. No file can be created in its folder, so a program that replaces
    // the file instead of writing to it fails.
    const STDOUT: &str = "/proc/self/fd/1";

    let (folder, path) = recording(RECORDING);
    framewright(&["replay", &path, "--json", "/dev/full"])
        .assert()
        .code(2)
        .stderr(predicate::str::contains("cannot write '/dev/full': No space left"));
    assert!(!fs::metadata("/dev/full").unwrap().is_file());

    let both = stdout_of(&["replay", &path, "--json", STDOUT]);
    let out = folder.path().join("out.txt");
    let program = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_framewright"));
        command.args(["replay", &path, "--json"]).stderr(Stdio::null());
        command
    };
    let file = fs::File::create(&out).unwrap();
    assert!(program().arg(STDOUT).stdout(file).status().unwrap().success());
    assert_eq!(fs::read_to_string(&out).unwrap(), both);
    assert!(both.starts_with('{') && both.contains("per CPU"), "{both}");

    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut child = program().arg(&pipe).stdout(Stdio::null()).spawn().unwrap();
    let mut text = String::new();
    fs::File::open(&pipe).unwrap().read_to_string(&mut text).unwrap();
    assert!(child.wait().unwrap().success());
    let report: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["workload"], "replay");
}

#[test]
fn a_failed_check_is_explained_on_standard_error() {
    let (_folder, path) = recording(RECORDING);
    framewright(&["replay", &path, "--set", "zone.min_free=4294967295"]).assert().code(1).stderr(
        predicate::str::contains("check failed: balance: ")
            .and(predicate::str::contains("refused: the machine is too small for its watermark")),
    );
}
