//! `framewright run alloc-micro | churn | replace | large-memory`.

use std::fs;

use serde_json::Value;

use crate::{run::run, simulated::labels, stdout_of};

#[test]
fn alloc_micro_has_a_row_per_metric_and_a_column_per_allocator() {
    let (text, report) = run(&["alloc-micro", "--quick", "--memory", "256MiB"]);
    for row in ["pair_o0_1t_ns", "pressure_free_1t_ns", "metadata_bytes_per_frame"] {
        assert!(text.lines().any(|line| line.starts_with(row)), "{row} is missing in {text}");
    }
    let labels: Vec<&str> =
        report["runs"].as_array().unwrap().iter().filter_map(|run| run["label"].as_str()).collect();
    let ours = ["framewright", "framewright-raw", "framewright-tracked"];
    for label in ours.into_iter().chain(["list-buddy", "floor-trylock"]) {
        assert!(labels.contains(&label), "{label} is missing in {labels:?}");
    }
    // Measured elsewhere: printed, and not a part of the result.
    assert!(text.contains("commit 441c8d13"), "{text}");
    assert!(!labels.contains(&"llfree-rs"), "{labels:?}");
    assert!(text.contains("tails: framewright run churn"), "{text}");
}

#[test]
fn large_memory_has_a_table_per_part_and_its_goals_below() {
    let (text, report) = run(&["large-memory", "--quick", "--memory", "8GiB", "--nodes", "2"]);
    assert!(text.starts_with("machine  8GiB on 2 nodes, 32 CPUs, metadata only"), "{text}");
    for line in
        ["start", "initialise ", "add ", "o10_fresh_alloc ", "64mib ", "numa_miss ", "goals"]
    {
        assert!(text.lines().any(|found| found.starts_with(line)), "{line} is missing in {text}");
    }
    assert!(text.contains("not checked"), "{text}");
    assert_eq!(report["verdict"]["checks"].as_array().unwrap().len(), 0);
    let start = &report["runs"][0];
    assert_eq!((&start["label"], &start["settings"]["part"]), (&"fresh".into(), &"start".into()));
    assert_eq!(start["metrics"]["initialise_ns"]["unit"], "ns");
}

#[test]
fn callgrind_counts_a_number_of_frames() {
    let workload = "framewright/mapping/2";
    let text = stdout_of(&["run", "alloc-micro", "--counted", workload]);
    assert!(text.trim().parse::<u64>().is_ok_and(|frames| frames > 0), "{text}");
}

/// The counts of a result, without times, by label and setting.
fn counts(report: &Value) -> Vec<Value> {
    let mut runs = report["runs"].as_array().unwrap().clone();
    for run in &mut runs {
        let metrics = run["metrics"].as_object_mut().unwrap();
        metrics.retain(|_, metric| metric["unit"] != "ns");
    }
    runs
}

#[test]
fn churn_has_a_table_per_occupancy_and_repeats_its_counts() {
    let args =
        ["churn", "--quick", "--memory", "64MiB", "--operations", "20k", "--occupancy", "70,90"];
    let (text, report) = run(&[&args[..], &["--vs", "zone.refill_pageblocks=64"]].concat());
    for line in
        ["70 % in use", "90 % in use", "order9_allocatable ", "alloc_p9999 ", "frames  holds"]
    {
        assert!(text.lines().any(|found| found.starts_with(line)), "{line} is missing in {text}");
    }
    let runs = report["runs"].as_array().unwrap();
    let labels: Vec<&str> = runs.iter().filter_map(|run| run["label"].as_str()).collect();
    let each = [
        "framewright base",
        "framewright vs",
        "list-buddy",
        "frame-alloc-depot",
        "buddy_system_allocator",
    ];
    let at = |share: &str| each.map(|label| format!("{label}, {share} % in use"));
    assert_eq!(labels, [at("70"), at("90")].concat());
    let heads =
        text.lines().filter(|line| line.contains("framewright base  ") && !line.contains('%'));
    assert!(heads.count() >= 4, "tables have the short labels: {text}");
    assert_eq!(runs[1]["settings"]["zone.refill_pageblocks"], "64");
    assert_eq!(runs[5]["settings"]["occupancy"], "90%");
    assert_eq!(runs[0]["series"]["huge_frames_free"].as_array().unwrap().len(), 21);
    // The whole series is printed: at the start, and after each twentieth of the operations.
    let series = |line: &&str| line.starts_with("0.0") && line.split_whitespace().count() == 6;
    assert_eq!(text.lines().filter(series).count(), 2 * 20, "{text}");
    assert_eq!(text.matches("huge_frames_free after millions of operations").count(), 2);
    for run in runs {
        let of = |name: &str| run["metrics"][name]["median"].as_f64().unwrap();
        let share = 100.0 * of("order9_allocatable") / of("order9_ideal");
        assert!((of("order9_share_pct") - share).abs() < 1e-9, "{run}");
    }
    let (_, again) = run(&[&args[..], &["--vs", "zone.refill_pageblocks=64"]].concat());
    assert_eq!(counts(&report), counts(&again));
}

#[test]
fn churn_on_two_threads_tells_how_they_run_and_is_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let picture = folder.path().join("churn.svg");
    let small =
        ["churn", "--memory", "64MiB", "--operations", "2e4", "--contenders", "framewright"];
    let more = ["--threads", "2", "--free-by", "other", "--picture", picture.to_str().unwrap()];
    let (text, _) = run(&[&small[..], &more].concat());
    let threads = text.lines().find(|line| line.starts_with("threads  ")).expect("how they run");
    assert!(threads.contains("pinned"), "{threads}");
    let drawn = fs::read_to_string(picture).unwrap();
    for words in ["free huge frames, 80 % in use", "millions of operations"] {
        assert!(drawn.contains(words), "{words}: {drawn}");
    }
    let (text, _) = run(&small);
    assert!(!text.contains("threads  "), "{text}");
}

#[test]
fn replace_shows_rounds_and_draws_them() {
    let folder = tempfile::tempdir().unwrap();
    let picture = folder.path().join("replace.svg");
    let (text, report) = run(&[
        "replace",
        "--quick",
        "--memory",
        "64MiB",
        "--rounds",
        "5",
        "--free",
        "50,90",
        "--batch",
        "64",
        "--types",
        "mixed",
        "--free-by",
        "other",
        "--contenders",
        "framewright,list-buddy",
        "--seeds",
        "2",
        "--picture",
        picture.to_str().unwrap(),
    ]);
    for line in
        ["50 % free", "90 % free", "huge_frames_ideal ", "huge_frames_free after round", "4 ", "5 "]
    {
        assert!(text.lines().any(|found| found.starts_with(line)), "{line} is missing in {text}");
    }
    assert!(!text.lines().any(|found| found.starts_with("3 ")), "{text}");
    let run = &report["runs"][2];
    assert_eq!(
        (&run["label"], &run["settings"]["free"]),
        (&"framewright, 90 % free".into(), &"90%".into())
    );
    assert_eq!(run["metrics"]["huge_frames_free"]["n"], 2);
    let svg = fs::read_to_string(picture).unwrap();
    for words in ["free huge frames, 50 % free", "free huge frames, 90 % free", "list-buddy"] {
        assert!(svg.contains(words), "{words} is missing in {svg}");
    }
}

#[test]
fn replace_and_churn_run_on_simulated_cpus() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("report.json");
    for (workload, figure) in
        [("replace", "acquisitions_per_page"), ("churn", "acquisitions_per_operation")]
    {
        let brief: &[&str] = match workload {
            "replace" => &["--rounds", "2", "--think", "50", "--batch", "1024"],
            _ => &["--operations", "20k", "--free-by", "other"],
        };
        let machine = ["--machine", "uniform:4", "--memory", "64MiB"];
        let vs = ["--vs", "zone.refill_pageblocks=64", "--json", json.to_str().unwrap()];
        let text = stdout_of(&[&["run", workload], &machine[..], brief, &vs[..]].concat());
        let report: Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
        assert_eq!(labels(&report), ["framewright base", "framewright vs", "list-buddy"]);
        assert_eq!(report["machine"], "uniform:4");
        for run in report["runs"].as_array().unwrap() {
            for name in
                [figure, "zone_lock_wait_pct", "lock_cycles_per_frame", "order9_allocatable"]
            {
                assert!(run["metrics"][name]["median"].is_number(), "{name}: {run}");
            }
        }
        for line in [
            "machine  uniform:4 (simulated): 4 CPUs, 1 node, 64 MiB; one seed",
            "note     times and shares of time are modelled",
            "modelled_ns_per_operation ",
            "frames  holds",
        ] {
            assert!(text.lines().any(|found| found.starts_with(line)), "{line}: {text}");
        }
        let between =
            if workload == "replace" { "50 ns between" } else { "a page is cleared between" };
        assert!(text.contains(&format!("; {between} operations")), "{text}");
        let others = text.contains("; the next CPU frees");
        assert_eq!(others, workload == "churn", "{text}");
    }
}
