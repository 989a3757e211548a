//! `--perfetto`: traces of simulated runs, replays and failing schedules.

use std::fs;

use predicates::prelude::*;

use crate::framewright;

const RUN: [&str; 8] =
    ["run", "page-fault", "--machine", "uniform:2", "--window", "1ms", "--warm-up", "200us"];
const READ: [&str; 9] = [
    "run",
    "mmap-read",
    "--machine",
    "uniform:2",
    "--memory",
    "16MiB",
    "--quick",
    "--set",
    "tlb.batching=off",
];
const HUNT: [&str; 10] = [
    "hunt",
    "munmap-race",
    "--bug",
    "skipped-flush",
    "--schedule",
    "random",
    "--seed",
    "0",
    "--jobs",
    "1",
];
const RECORDING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../recordings/sockets.txt.zst");

#[test]
#[cfg(feature = "perfetto")]
fn a_trace_is_written_beside_the_same_output() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    for command in [&RUN[..], &READ, &HUNT, &["replay", RECORDING, "--beside", "list-buddy"]] {
        let without = framewright(command).assert().success();
        let output = without.get_output().stdout.clone();
        for name in ["one", "two"] {
            let file = path(name);
            let traced = [command, &["--perfetto", &file]].concat();
            framewright(&traced).assert().success().stdout(output.clone());
        }
        let bytes = fs::read(path("one")).unwrap();
        assert!(bytes.len() > 1_000 && bytes == fs::read(path("two")).unwrap(), "{command:?}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "a temporary file is left");
    }
}

#[test]
#[cfg(not(feature = "perfetto"))]
fn without_the_feature_the_error_says_how_to_get_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    for command in [&RUN[..], &READ, &HUNT, &["replay", RECORDING]] {
        let traced = [command, &["--perfetto", path.to_str().unwrap()]].concat();
        let error = predicate::str::contains("cargo build --release --features perfetto");
        framewright(&traced).assert().code(2).stdout("").stderr(error);
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn machines_without_a_trace_refuse_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    let refused = |machine: &str, why: &str| {
        let run = ["run", "page-fault", "--machine", machine, "--perfetto"];
        let run = [&run[..], &[path.to_str().unwrap()]].concat();
        framewright(&run).assert().code(2).stderr(predicate::str::contains(why));
    };
    refused("host:2", "--perfetto is for simulated machines");
    refused("uniform:1..4", "--perfetto traces one machine, as in --machine uniform:4");
    refused("qemu:1", "--perfetto has no effect on a kernel on an emulated machine");
    let both = [&RUN[..], &["--json", path.to_str().unwrap()]].concat();
    let both = [&both[..], &["--perfetto", path.to_str().unwrap()]].concat();
    let error = predicate::str::contains("--json and --perfetto both name");
    framewright(&both).assert().code(2).stderr(error);
}
