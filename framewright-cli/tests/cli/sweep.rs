//! `framewright sweep`, `sweep merge` and `compare`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use tempfile::TempDir;

use crate::{framewright, stdout_of};

/// Twelve short runs.
const PLAN: &str = "\
workloads = \"socket-pairs\"
machines = \"uniform:2..4\"
seeds = { from = 1, to = 3 }

[options]
window = \"100us\"
warm-up = \"0ms\"

[settings]
pcp.batch = [\"auto\", 8]
";

/// A folder with a plan.
struct Place(TempDir);

impl Place {
    fn new(plan: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("plan.toml"), plan).unwrap();
        Self(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    fn sweep(&self, out: &str, more: &[&str]) -> assert_cmd::Command {
        framewright(&[&["sweep", &self.text("plan.toml"), "-o", &self.text(out)], more].concat())
    }

    /// The table after a sweep without failures.
    fn table(&self, out: &str, more: &[&str]) -> String {
        self.sweep(out, more).assert().success();
        self.read(out)
    }

    fn read(&self, out: &str) -> String {
        fs::read_to_string(self.path(out)).unwrap()
    }

    /// Names in the folder.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).unwrap();
        let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name();
        let mut names: Vec<_> = entries.map(|entry| name(entry).into_string().unwrap()).collect();
        names.sort();
        names
    }
}

#[test]
fn a_run_of_a_sweep_has_the_figures_of_run() {
    let place = Place::new(PLAN);
    let table = place.table("all.csv", &[]);
    let mut rows = table.lines();
    assert_eq!(rows.next(), Some("run,machine,workload,seed,pcp.batch,figure,unit,better,value"));
    let of_sweep: Vec<String> = rows
        .filter(|row| row.contains(",uniform:4,socket-pairs,2,8,"))
        .map(|row| {
            row.split(',')
                .skip(5)
                .filter(|it| !["higher", "lower", ""].contains(it))
                .collect::<Vec<_>>()
                .join(",")
        })
        .collect();
    let args = ["--machine=uniform:4", "--window=100us", "--warm-up=0ms", "--set=pcp.batch=8"];
    let csv = place.text("one.csv");
    stdout_of(&[&["run", "socket-pairs"], &args[..], &["--seed=2", "--csv", &csv]].concat());
    let of_run: Vec<String> = place
        .read("one.csv")
        .lines()
        .filter_map(|row| Some(row.split_once(",framewright,")?.1.to_owned()))
        .collect();
    assert!(of_sweep.len() > 20, "{table}");
    assert_eq!(of_sweep[0], format!("figures,count,{}", of_run.len()));
    assert_eq!(of_sweep[1..], of_run);
}

#[test]
fn workers_shards_and_a_kill_do_not_change_the_table() {
    let place = Place::new(PLAN);
    let expected = place.table("one.csv", &["--jobs", "1"]);
    assert!(place.table("two.csv", &["--jobs", "2"]) == expected, "two workers");

    for shard in ["1/2", "2/2"] {
        place.table(&format!("{}.csv", &shard[..1]), &["--shard", shard]);
    }
    let [plan, one, two, merged] =
        ["plan.toml", "1.csv", "2.csv", "merged.csv"].map(|name| place.text(name));
    let merge = ["sweep", "merge", &plan, &two, &one, "-o", &merged];
    framewright(&merge).assert().success().stdout("12 runs, 0 failed\n");
    assert!(place.read("merged.csv") == expected, "shards");
    framewright(&["sweep", "merge", &plan, &one, "-o", &place.text("half.csv")])
        .assert()
        .code(2)
        .stderr(predicates::str::contains(
            "6 of 12 runs are in no table; the first of them: framewright run",
        ));

    let args = ["sweep", &plan, "-o", &place.text("cut.csv"), "--jobs", "1"];
    let mut program = Command::new(env!("CARGO_BIN_EXE_framewright"))
        .args(args)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let parts = place.path("cut.csv.parts");
    let is_part = |path: &Path| path.extension().is_none() && !path.ends_with("lock");
    let has_part = || {
        let Ok(entries) = fs::read_dir(&parts) else { return false };
        entries.flatten().any(|entry| is_part(&entry.path()))
    };
    while !has_part() && program.try_wait().unwrap().is_none() {
        thread::sleep(Duration::from_millis(1));
    }
    program.kill().unwrap();
    program.wait().unwrap();
    assert!(place.table("cut.csv", &[]) == expected, "killed");
    place
        .sweep("cut.csv", &[])
        .assert()
        .success()
        .stderr(predicates::str::contains("cut.csv' already has the 12 runs of the plan"));
    assert!(
        !place.names().iter().any(|name| name.ends_with("cut.csv.parts")),
        "{:?}",
        place.names()
    );
}

#[test]
fn a_sample_is_a_part_of_the_table() {
    let place = Place::new(PLAN);
    let all = place.table("all.csv", &[]);
    let few = place.table("few.csv", &["--sample", "3"]);
    assert!(few.lines().all(|row| all.lines().any(|other| other == row)));
    let mut runs: Vec<&str> = few.lines().skip(1).filter_map(|row| row.split(',').next()).collect();
    runs.dedup();
    assert_eq!(runs.len(), 3);
}

#[test]
fn a_run_that_fails_is_named_and_the_rest_is_kept() {
    // No machine can have both of the second settings.
    let both = "hardening = [\"checked\", \"tracked\"]\nowner_lock = \"biased\"\n";
    let place = Place::new(&PLAN.replace("pcp.batch = [\"auto\", 8]\n", both));
    let assert = place.sweep("some.csv", &[]).assert().code(1).stdout("12 runs, 6 failed\n");
    let said = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    let failed =
        said.lines().filter(|line| line.starts_with("run failed: framewright run socket-pairs"));
    assert_eq!(failed.clone().count(), 6, "{said}");
    assert!(failed.clone().all(|line| line.contains("--set=hardening=tracked")), "{said}");
    let table = place.read("some.csv");
    let failures = table.lines().filter(|row| row.ends_with(",failed,count,lower,1"));
    assert_eq!(failures.count(), 6, "{table}");
    assert!(table.lines().filter(|row| row.contains(",checked,pages_per_s,")).count() == 6);
}

#[test]
fn a_bad_plan_ends_before_anything_runs() {
    let head = "workloads = \"kbuild\"\nmachines = \"uniform:2\"\n";
    for (text, hints) in [
        (
            "workloads = \"kbuilt\"\nmachines = \"uniform:2\"\n",
            &[":1: workloads = kbuilt", "the nearest is 'kbuild'"][..],
        ),
        (
            "workloads = \"kbuild\"\nmachines = \"host:2\"\n",
            &[":2: machines = host:2: a sweep runs on simulated"],
        ),
        (
            "workloads = \"kbuild\"\nmachines = \"skx-2s-11\"\n",
            &[":2: machines = skx-2s-11", "'skx-2s-112'"],
        ),
        ("workloads = \"high-alloc\"\nmachines = \"skx-2s-112\"\n", &[":2: machines", "one node"]),
        ("[options]\nwidow = \"1ms\"\n", &[":4: options.widow = 1ms", "the nearest is 'window'"]),
        ("[options]\nwindow = \"1us\"\n", &[":4: options.window = 1us: the minimum is 100us"]),
        ("[options]\nwindow = true\n", &[":4: options.window = true: needs a value"]),
        ("[options]\nquick = \"yes\"\n", &[":4: options.quick = yes: takes no value"]),
        ("[options]\nseed = 3\n", &[":4: options.seed = 3: is no option of a plan: write seeds"]),
        (
            "[options]\njson = \"x\"\n",
            &[":4: options.json = x: kbuild has no such option for a sweep"],
        ),
        ("[options]\nhtml = \"x\"\n", &[":4: options.html = x: kbuild has no such option"]),
        ("[settings]\npcp.bach = 3\n", &[":4: settings.pcp.bach = 3", "'pcp.batch'"]),
        (
            "[settings]\npcp.batch = [1,\n0]\n",
            &[":5: settings.pcp.batch = 0", "nearest valid value: 1"],
        ),
    ] {
        let text =
            if text.starts_with("workloads") { text.to_owned() } else { format!("{head}{text}") };
        let place = Place::new(&text);
        let assert = place.sweep("out.csv", &[]).assert().code(2).stdout("");
        let said = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
        for hint in [&["plan.toml"], hints].concat() {
            assert!(said.contains(hint), "'{hint}' is missing in: {said}");
        }
        assert_eq!(place.names(), ["plan.toml"], "{text}");
    }
}

#[test]
fn a_dry_run_counts_the_runs_and_writes_nothing() {
    let place = Place::new(PLAN);
    for (more, runs) in
        [(&[][..], "12 runs\n"), (&["--sample", "5"], "5 runs\n"), (&["--shard", "8/8"], "1 run\n")]
    {
        place.sweep("out.csv", &[&["--dry-run"], more].concat()).assert().success().stdout(runs);
    }
    for (out, more) in [("out.csv", &["--shard", "20/20"][..]), ("out.json", &[])] {
        place.sweep(out, &[&["--dry-run"], more].concat()).assert().code(2).stdout("");
    }
    assert_eq!(place.names(), ["plan.toml"]);
}

#[test]
fn bad_options_are_refused() {
    let place = Place::new(PLAN);
    let refused = |out: &str, more: &[&str], hint: &str| {
        let assert = place.sweep(out, more).assert().code(2).stdout("");
        let said = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
        assert!(said.contains(hint), "'{hint}' is missing in: {said}");
        assert_eq!(place.names(), ["plan.toml"]);
    };
    refused("out.json", &[], "its name ends with .csv or .parquet");
    refused("out.csv", &["--shard", "3/2"], "as in 2/4");
    refused("out.csv", &["--sample", "0"], "--sample");
    refused("out.csv", &["--jobs", "0"], "--jobs");
    refused("nowhere/out.csv", &[], "cannot write");
    refused("out.csv", &["--shard", "20/20"], "there is nothing to run");
    if cfg!(not(feature = "parquet")) {
        refused("out.parquet", &[], "cargo build --release --features parquet");
    }
    framewright(&["sweep"]).assert().code(2);
    framewright(&["sweep", "merge", "x"]).assert().code(2);
}

#[cfg(feature = "parquet")]
#[test]
fn parquet_has_the_rows_of_csv() {
    let place = Place::new(PLAN);
    place.table("all.csv", &[]);
    place.sweep("one.parquet", &["--jobs", "1"]).assert().success();
    let [plan, one, csv] = ["plan.toml", "one.parquet", "again.csv"].map(|name| place.text(name));
    framewright(&["sweep", "merge", &plan, &one, "-o", &csv]).assert().success();
    assert!(place.read("again.csv") == place.read("all.csv"), "through Parquet and back");
    place.sweep("two.parquet", &["--jobs", "2"]).assert().success();
    let bytes = |name| fs::read(place.path(name)).unwrap();
    assert!(bytes("one.parquet") == bytes("two.parquet"));
}

#[test]
fn a_figure_is_compared_by_a_setting_with_a_picture() {
    let place = Place::new(PLAN);
    place.table("all.csv", &[]);
    let [table, picture] = ["all.csv", "p.svg"].map(|name| place.text(name));
    let args = ["--by", "pcp.batch", "--figure", "pages_per_s", "--picture", &picture];
    let text = stdout_of(&[&["compare", &table], &args[..]].concat());
    let header = text.lines().find(|line| line.starts_with("machine")).unwrap();
    assert_eq!(header.split_whitespace().collect::<Vec<_>>(), ["machine", "auto", "8", "best"]);
    assert!(text.lines().any(|line| line.starts_with("uniform:4 ")), "{text}");
    assert!(fs::read_to_string(&picture).unwrap().starts_with("<svg"));
    for (by, figure, hint) in [
        ("pcp.bach", "pages_per_s", "the nearest is 'pcp.batch'"),
        ("pcp.batch", "pages_per_sec", "the nearest is 'pages_per_s'"),
    ] {
        framewright(&["compare", &table, "--by", by, "--figure", figure])
            .assert()
            .code(2)
            .stdout("")
            .stderr(predicates::str::contains(hint));
    }
    framewright(&["compare", &place.text("no.csv"), "--by", "x", "--figure", "y"])
        .assert()
        .code(2)
        .stderr(predicates::str::contains("no.csv': No such file"));
}
