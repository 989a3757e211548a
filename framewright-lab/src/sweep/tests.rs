use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use tempfile::TempDir;

use super::{merge::Tables, parts::Parts, *};

mod compare;
mod plan;

/// Knows the workload `work` with the options `size` and `quick`, machines `m0` to `m9`, and settings `a.*`.
struct Known;

impl Catalog for Known {
    fn workload(&self, name: &str) -> Result<(), String> {
        if name == "work" { Ok(()) } else { Err("there is no such workload".into()) }
    }

    fn machines(&self, _: &str, text: &str) -> Result<Vec<Machine>, String> {
        let machine = |name: &str| Machine {
            arg: name.to_owned(),
            name: name.to_owned(),
            description: String::new(),
        };
        match text {
            "pair" => Ok(vec![machine("m1"), machine("m2")]),
            name if name.len() == 2 && name.starts_with('m') => Ok(vec![machine(name)]),
            _ => Err("there is no such machine".into()),
        }
    }

    fn option(&self, _: &str, key: &str, value: Option<&str>) -> Result<(), String> {
        match (key, value) {
            ("size", Some(value)) if value.parse::<u64>().is_ok() => Ok(()),
            ("size", _) => Err("takes a number".into()),
            ("quick", None) => Ok(()),
            _ => Err("there is no such option".into()),
        }
    }

    fn setting(&self, key: &str, value: &str) -> Result<(), String> {
        match key {
            _ if !key.starts_with("a.") => Err("there is no such setting".into()),
            _ if value == "bad" => Err("there is no such value".into()),
            _ => Ok(()),
        }
    }
}

const MATRIX: &str = "\
workloads = \"work\"
machines = [\"m0\", \"pair\"]
seeds = { from = 1, to = 3 }

[options]
size = 7

[settings]
a.x = { from = 1, to = 8, times = 2 }
\"a.y\" = [\"auto\", 31]
";

fn plan(text: &str) -> Plan {
    Plan::from_toml("plan.toml", text, &Known).unwrap()
}

/// Figures that depend on all that identifies a run.
fn work(entry: &Entry<'_>) -> Result<Vec<Figure>, String> {
    let figure = |name: &str, value| Figure {
        name: name.to_owned(),
        unit: "ns".to_owned(),
        better: "lower".to_owned(),
        value,
    };
    let id = entry.id() as f64;
    Ok(vec![figure("stall_ns", id / 3.0), figure("pages", entry.seed() as f64)])
}

/// A folder, and the paths of tables in it.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    fn sweep<'p>(&self, plan: &'p Plan, selection: &Selection, name: &str) -> Sweep<'p> {
        Sweep::open(plan, selection, &self.path(name)).unwrap()
    }

    /// Runs a sweep to its end.
    fn run(&self, plan: &Plan, selection: &Selection, name: &str, jobs: usize) -> Done {
        let sweep = self.sweep(plan, selection, name);
        sweep.measure(jobs, &work, &mut |_, _| ()).unwrap();
        sweep.write().unwrap()
    }
}

fn formats() -> impl Iterator<Item = &'static str> {
    [Some("csv"), cfg!(feature = "parquet").then_some("parquet")].into_iter().flatten()
}

const ALL: Selection = Selection { sample: None, shard: None };

#[test]
fn the_table_has_a_row_for_each_figure_in_the_order_of_the_plan() {
    let (place, plan) = (Place::new(), plan(MATRIX));
    let done = place.run(&plan, &ALL, "all.csv", 1);
    assert_eq!((done.runs, done.failed), (72, 0));
    let text = String::from_utf8(place.bytes("all.csv")).unwrap();
    let rows: Vec<&str> = text.lines().collect();
    assert_eq!(rows.len(), 1 + 3 * 72);
    assert_eq!(rows[0], "run,machine,workload,seed,a.x,a.y,figure,unit,better,value");
    let id = format!("{:016x}", plan.entry(1).id());
    assert_eq!(rows[4], format!("{id},m0,work,2,1,auto,figures,count,,2"));
    assert_eq!(rows[6], format!("{id},m0,work,2,1,auto,pages,ns,lower,2"));
    assert!(!Parts::folder(&place.path("all.csv")).exists(), "parts remain");
    assert_eq!(fs::read_dir(place.0.path()).unwrap().count(), 1);
}

#[test]
fn workers_interruptions_shards_and_extensions_do_not_change_a_byte() {
    for format in formats() {
        let (place, plan) = (Place::new(), plan(MATRIX));
        let name = |name: &str| format!("{name}.{format}");
        place.run(&plan, &ALL, &name("one"), 1);
        let expected = place.bytes(&name("one"));
        place.run(&plan, &ALL, &name("two"), 2);
        assert!(place.bytes(&name("two")) == expected, "two workers");

        // Interrupted, one part lost, one truncated, and one that was not put in place.
        let sweep = place.sweep(&plan, &ALL, &name("cut"));
        sweep.measure(2, &work, &mut |_, _| ()).unwrap();
        drop(sweep);
        let folder = Parts::folder(&place.path(&name("cut")));
        let part = |index: u64| folder.join(format!("{:016x}", plan.entry(index).id()));
        fs::remove_file(part(5)).unwrap();
        let half = fs::read(part(6)).unwrap();
        fs::write(part(6), &half[..half.len() / 2]).unwrap();
        fs::rename(part(7), part(7).with_extension("tmp")).unwrap();
        let again = AtomicU64::new(0);
        let sweep = place.sweep(&plan, &ALL, &name("cut"));
        let counted = |entry: &Entry<'_>| {
            again.fetch_add(1, Ordering::Relaxed);
            work(entry)
        };
        sweep.measure(2, &counted, &mut |_, _| ()).unwrap();
        sweep.write().unwrap();
        assert_eq!(again.into_inner(), 3);
        assert!(place.bytes(&name("cut")) == expected, "interrupted");

        let shards: Vec<PathBuf> = (1..=3)
            .map(|number| {
                let shard: Shard = format!("{number}/3").parse().unwrap();
                let table = name(&format!("shard{number}"));
                let done = place.run(&plan, &Selection { shard: Some(shard), ..ALL }, &table, 1);
                assert_eq!(done.runs, 24);
                place.path(&table)
            })
            .collect();
        let mut merged = place.sweep(&plan, &ALL, &name("merged"));
        for shard in shards.iter().rev() {
            assert_eq!(merged.import(shard).unwrap(), 24);
        }
        assert_eq!(merged.write().unwrap().runs, 72);
        assert!(place.bytes(&name("merged")) == expected, "shards");

        let fewer = Plan::from_toml("p", &MATRIX.replace("to = 3", "to = 2"), &Known).unwrap();
        place.run(&fewer, &ALL, &name("more"), 1);
        let sweep = place.sweep(&plan, &ALL, &name("more"));
        assert_eq!((sweep.is_written(), sweep.len()), (false, 72));
        sweep.measure(1, &work, &mut |done, total| assert!(done <= total && total == 24)).unwrap();
        sweep.write().unwrap();
        assert!(place.bytes(&name("more")) == expected, "extended");

        let complete = place.sweep(&plan, &ALL, &name("more"));
        assert!(complete.is_written());
        assert_eq!(complete.write().unwrap().runs, 72);
        assert!(place.bytes(&name("more")) == expected, "complete");
    }
}

#[test]
fn a_run_that_fails_is_reported_and_the_rest_is_kept() {
    let (place, plan) = (Place::new(), plan(MATRIX));
    let fails = |entry: &Entry<'_>| match (entry.machine(), entry.seed()) {
        ("m1", 2) => Err("it is too\nlarge".to_owned()),
        ("m2", 3) => panic!("a panic of the test"),
        _ => work(entry),
    };
    let sweep = place.sweep(&plan, &ALL, "some.csv");
    sweep.measure(2, &fails, &mut |_, _| ()).unwrap();
    let done = sweep.write().unwrap();
    assert_eq!((done.runs, done.failed), (72, 16));
    assert_eq!(done.failures.len(), 10);
    let (command, reason) = &done.failures[0];
    assert!(command.contains("--machine=m1") && command.ends_with("--seed=2"), "{command}");
    assert_eq!(reason, "it is too large");
    let text = String::from_utf8(place.bytes("some.csv")).unwrap();
    assert_eq!(text.lines().count(), 1 + 3 * 56 + 16);
    assert_eq!(text.lines().filter(|row| row.ends_with(",failed,count,lower,1")).count(), 16);
    let again = place.sweep(&plan, &ALL, "some.csv");
    assert!(again.is_written());
    assert_eq!(again.write().unwrap().failed, 16);
}

#[test]
fn tables_of_other_plans_and_other_builds_are_refused() {
    let (place, plan) = (Place::new(), plan(MATRIX));
    let fewer = Plan::from_toml("p", &MATRIX.replace("to = 3", "to = 2"), &Known).unwrap();
    place.run(&plan, &ALL, "all.csv", 1);
    let error = Sweep::open(&fewer, &ALL, &place.path("all.csv")).unwrap_err().to_string();
    assert!(error.contains("all.csv': ") && error.contains("is not in the plan"), "{error}");
    assert!(error.contains("line "), "{error}");

    place.run(&fewer, &ALL, "fewer.csv", 1);
    let mut merged = place.sweep(&plan, &ALL, "merged.csv");
    assert_eq!(merged.import(&place.path("fewer.csv")).unwrap(), 48);
    let error = merged.write().unwrap_err().to_string();
    assert!(error.starts_with("24 of 72 runs are in no table; the first of them: framewright run"));

    let text = String::from_utf8(place.bytes("all.csv")).unwrap();
    fs::write(place.path("other.csv"), text.replace(",pages,ns,lower,2", ",pages,ns,lower,5"))
        .unwrap();
    let mut merged = place.sweep(&plan, &ALL, "merged.csv");
    let error = merged.import(&place.path("other.csv")).unwrap_err().to_string();
    assert!(error.contains("has other figures in another table"), "{error}");
    drop(merged);

    fs::write(place.path("none.csv"), "a,b\n1,2\n").unwrap();
    let mut merged = place.sweep(&plan, &ALL, "merged.csv");
    let error = merged.import(&place.path("none.csv")).unwrap_err().to_string();
    assert!(error.ends_with("is not a table of a sweep: no column 'run'"), "{error}");
}

#[test]
fn a_table_that_ends_within_a_line_is_refused() {
    let (place, plan) = (Place::new(), plan(MATRIX));
    place.run(&plan, &ALL, "all.csv", 1);
    let all = place.bytes("all.csv");
    let last = all[..all.len() - 1].iter().rposition(|&byte| byte == b'\n').unwrap() + 1;
    for len in last + 1..all.len() {
        fs::write(place.path("cut.csv"), &all[..len]).unwrap();
        let mut merged = place.sweep(&plan, &ALL, "merged.csv");
        let error = merged.import(&place.path("cut.csv")).unwrap_err().to_string();
        assert!(error.contains("the last line is cut"), "{len}: {error}");
        assert!(Tables::open(&[&place.path("cut.csv")]).is_none());
    }
}

#[test]
fn a_table_with_a_line_too_few_or_too_many_is_refused() {
    let (place, plan) = (Place::new(), plan(MATRIX));
    place.run(&plan, &ALL, "all.csv", 1);
    let text = String::from_utf8(place.bytes("all.csv")).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let check = |lines: &[&str]| {
        fs::write(place.path("edited.csv"), lines.concat()).unwrap();
        let mut sweep = place.sweep(&plan, &ALL, "merged.csv");
        let tables = [place.path("edited.csv")];
        assert!(sweep.join(&[&tables[0]]).unwrap().is_none(), "{lines:?}");
        let error = sweep.import(&tables[0]).unwrap_err().to_string();
        assert!(error.contains("was the table cut or edited?"), "{error}");
    };
    let middle = 3 * 20 + 1;
    for at in [middle, middle + 1, middle + 2, lines.len() - 1] {
        let [before, after] = [&lines[..at], &lines[at + 1..]];
        check(&[before, after].concat());
        check(&[&lines[..=at], &lines[at..]].concat());
    }
    check(&lines[..lines.len() - 2]);

    // A cut between two runs leaves whole runs.
    fs::write(place.path("fewer.csv"), lines[..middle].concat()).unwrap();
    assert_eq!(
        place.sweep(&plan, &ALL, "merged.csv").import(&place.path("fewer.csv")).unwrap(),
        20
    );
    for value in ["NaN", "inf", "-inf"] {
        let broken = text.replacen("pages,ns,lower,1", &format!("pages,ns,lower,{value}"), 1);
        fs::write(place.path("broken.csv"), broken).unwrap();
        let error = place.sweep(&plan, &ALL, "merged.csv").import(&place.path("broken.csv"));
        let error = error.unwrap_err().to_string();
        assert!(
            error.contains(": line 4: ") && error.contains("is not a finite number"),
            "{error}"
        );
    }
}

#[test]
fn other_files_among_the_parts_stay() {
    let (place, plan) = (Place::new(), plan(MATRIX));
    let folder = Parts::folder(&place.path("all.csv"));
    fs::create_dir_all(folder.join("sub")).unwrap();
    fs::write(folder.join("notes.txt"), "precious").unwrap();
    fs::write(folder.join("0123456789abcdef.txt"), "precious").unwrap();
    place.run(&plan, &ALL, "all.csv", 1);
    let mut left: Vec<_> =
        fs::read_dir(folder).unwrap().map(|it| it.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["0123456789abcdef.txt", "notes.txt", "sub"]);
}

#[test]
fn tables_are_joined_side_by_side_or_through_parts() {
    let (place, plan) = (Place::new(), plan(MATRIX));
    place.run(&plan, &ALL, "all.csv", 1);
    let all = place.bytes("all.csv");
    for number in 1..=3 {
        let shard = Some(format!("{number}/3").parse().unwrap());
        place.run(&plan, &Selection { shard, ..ALL }, &format!("{number}.csv"), 1);
    }
    // The same runs in another order.
    let text = String::from_utf8(place.bytes("3.csv")).unwrap();
    let (header, rows) = text.split_once('\n').unwrap();
    let runs: Vec<&str> = rows.split_inclusive('\n').collect();
    let backwards: String = runs.chunks(3).rev().flatten().copied().collect();
    fs::write(place.path("back.csv"), format!("{header}\n{backwards}")).unwrap();
    fs::write(place.path("other.csv"), text.replacen(",pages,ns,lower,", ",pages,ns,lower,7", 1))
        .unwrap();

    let joined = |names: &[&str]| {
        let tables: Vec<PathBuf> = names.iter().map(|name| place.path(name)).collect();
        let tables: Vec<&Path> = tables.iter().map(PathBuf::as_path).collect();
        let sweep = place.sweep(&plan, &ALL, "merged.csv");
        let side_by_side = sweep.join(&tables).unwrap().is_some();
        assert_eq!(place.path("merged.csv").exists(), side_by_side, "{names:?}");
        let _ = fs::remove_file(place.path("merged.csv"));
        let merged = sweep.merge(&tables);
        let bytes = fs::read(place.path("merged.csv")).ok();
        let _ = fs::remove_file(place.path("merged.csv"));
        let _ = fs::remove_dir_all(Parts::folder(&place.path("merged.csv")));
        match merged {
            Ok(done) => {
                assert_eq!((done.runs, done.failed), (72, 0));
                assert!(bytes.is_some_and(|bytes| bytes == all), "{names:?}");
                (side_by_side, String::new())
            }
            Err(error) => (side_by_side, error.to_string()),
        }
    };
    let fine = |side_by_side| (side_by_side, String::new());
    assert_eq!(joined(&["3.csv", "1.csv", "2.csv"]), fine(true));
    assert_eq!(joined(&["1.csv", "2.csv", "3.csv", "3.csv", "all.csv"]), fine(true));
    assert_eq!(joined(&["1.csv", "2.csv", "back.csv"]), fine(false));
    for (names, reason) in [
        (&["1.csv", "2.csv"][..], "24 of 72 runs are in no table"),
        (&["1.csv", "2.csv", "3.csv", "other.csv"], "has other figures in another table"),
        (&["1.csv", "2.csv", "none.csv"], "none.csv': "),
    ] {
        let (side_by_side, error) = joined(names);
        assert!(!side_by_side && error.contains(reason), "{error}");
    }
    let fewer = Plan::from_toml("p", &MATRIX.replace("to = 3", "to = 2"), &Known).unwrap();
    let sweep = place.sweep(&fewer, &ALL, "merged.csv");
    let error = sweep.merge(&[&place.path("all.csv")]).unwrap_err().to_string();
    assert!(error.contains("is not in the plan") && !place.path("merged.csv").exists(), "{error}");
}

#[test]
fn two_sweeps_do_not_work_on_one_output() {
    let (place, plan) = (Place::new(), plan(MATRIX));
    let first = place.sweep(&plan, &ALL, "all.csv");
    let error = Sweep::open(&plan, &ALL, &place.path("all.csv")).unwrap_err().to_string();
    assert!(error.starts_with("another sweep works on"), "{error}");
    drop(first);
    assert_eq!(fs::read_dir(place.0.path()).unwrap().count(), 0, "nothing ran, nothing is left");
    place.sweep(&plan, &ALL, "all.csv");

    fs::create_dir(place.path("folder.csv")).unwrap();
    let error = Sweep::open(&plan, &ALL, &place.path("folder.csv")).unwrap_err().to_string();
    assert!(error.contains("folder.csv' is not a file"), "{error}");
}

#[test]
fn samples_contain_smaller_ones_and_shards_contain_each_run_once() {
    let plan = plan(MATRIX);
    let ids = |sample, shard: Option<&str>| -> Vec<u64> {
        let selection = Selection { sample, shard: shard.map(|shard| shard.parse().unwrap()) };
        choose::choose(&plan, &selection).unwrap().iter().map(|run| run.id).collect()
    };
    let (few, more) = (ids(Some(10), None), ids(Some(20), None));
    assert_eq!((few.len(), more.len(), ids(Some(1000), None).len()), (10, 20, 72));
    assert!(few.iter().all(|id| more.contains(id)));
    let mut shards = [ids(Some(20), Some("1/2")), ids(Some(20), Some("2/2"))].concat();
    let mut all = more;
    shards.sort_unstable();
    all.sort_unstable();
    assert_eq!(shards, all);
    for text in ["", "0/2", "3/2", "1", "1/0", "a/b", "-1/2"] {
        assert!(text.parse::<Shard>().unwrap_err().contains("as in 2/4"), "{text}");
    }
    let twice = format!("{MATRIX}[[runs]]\n[[runs]]\nseeds = 9\n[[runs]]\nseeds = [8, 9]\n");
    let twice = Plan::from_toml("p", &twice, &Known).unwrap();
    let error = choose::choose(&twice, &ALL).unwrap_err().to_string();
    assert!(error.starts_with("a run is in the plan twice: framewright run work"), "{error}");
}

#[test]
fn a_table_is_csv_or_parquet() {
    assert_eq!(Format::of(Path::new("x.csv")).unwrap(), Format::Csv);
    let error = |name: &str| Format::of(Path::new(name)).unwrap_err().to_string();
    assert!(error("x.json").ends_with("its name ends with .csv or .parquet"));
    let parquet = Format::of(Path::new("x.parquet"));
    assert_eq!(parquet.is_ok(), cfg!(feature = "parquet"));
    if let Err(error) = parquet {
        assert!(error.to_string().contains("--features parquet"), "{error}");
    }
}
