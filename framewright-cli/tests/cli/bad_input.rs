//! Bad input ends with exit code 2 and a message that names the mistake and valid input.

use crate::framewright;
use assert_cmd::Command;

/// Runs the program and expects all of `hints` in its error message.
fn refused(args: &[&str], hints: &[&str]) {
    refuses(&mut framewright(args), hints);
}

fn refuses(command: &mut Command, hints: &[&str]) {
    let assert = command.assert().code(2).stdout("");
    let said = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    for hint in hints {
        assert!(said.contains(hint), "{command:?}: '{hint}' is missing in: {said}");
    }
    assert!(!said.contains("panicked"), "{said}");
}

#[test]
fn unknown_commands_and_options() {
    refused(&["repaly", "x"], &["repaly", "replay"]);
    refused(&["run", "page-falt"], &["page-falt", "page-fault"]);
    refused(&["run", "page-fault", "--memroy", "1GiB"], &["--memroy", "--memory"]);
}

#[test]
fn unknown_settings_and_values() {
    for option in ["--set", "--vs"] {
        let refused = |setting, hints: &[&str]| {
            refused(&["run", "page-fault", option, setting], hints);
            refused(&["replay", "x", option, setting], hints);
        };
        refused("pcp.bach=31", &[option, "'pcp.bach'", "'pcp.batch'"]);
        refused("pcp.batch=0", &[option, "'pcp.batch'", "'0'", "nearest valid value: 1"]);
        refused("pcp.bulk_free=later", &["select-before-lock", "select-under-lock"]);
        refused("pcp.batch", &["KEY=VALUE"]);
    }
}

#[test]
fn reserves_that_leave_nothing_for_requests() {
    for command in [
        &["run", "page-fault"][..],
        &["run", "page-fault", "--machine", "uniform:2"],
        &["run", "mmap-read"],
        &["run", "churn"],
    ] {
        let args = [command, &["--set", "zone.min_free=10000000"]].concat();
        refused(&args, &["this reserves 39063 MiB, and of ", "set zone.min_free to "]);
    }
}

#[test]
fn sizes() {
    let memory = |size, hints: &[&str]| {
        refused(&["run", "page-fault", &format!("--memory={size}")], hints);
    };
    memory("4Gib1", &["4Gib1", "as in 4GiB"]);
    memory("much", &["much", "as in 4GiB"]);
    memory("1ZiB", &["'1ZiB'", "up to PiB, as in 4GiB"]);
    memory("99999999999999999999", &["'99999999999999999999'", "4PiB", "as in 4GiB"]);
    memory("-1", &["'-1'", "as in 4GiB"]);
    memory("", &["''", "--memory", "as in 4GiB"]);
    refused(&["run", "page-fault", "--memory", "-1"], &["'-1'", "--memory", "as in 4GiB"]);
    refused(&["run", "page-fault", "--memory", ""], &["''", "--memory", "as in 4GiB"]);
    memory("1M", &["1M", "16MiB"]);
    memory("17M", &["17M", "nearest valid value: 18MiB"]);
}

#[test]
#[cfg(feature = "full")]
fn sizes_of_alloc_micro() {
    for (size, hints) in [
        ("-1", ["'-1'", "--memory", "as in 4GiB"]),
        ("", ["''", "--memory", "as in 4GiB"]),
        ("32MiB", ["--memory", "64 MiB", "64 GiB"]),
        ("1TiB", ["--memory", "64 MiB", "64 GiB"]),
    ] {
        refused(&["run", "alloc-micro", "--memory", size], &hints);
    }
}

#[test]
#[cfg(feature = "full")]
fn large_memories() {
    let large = |option: &str, hints: &[&str]| refused(&["run", "large-memory", option], hints);
    large("--nodes=0", &["1 to 64 nodes", "not 0"]);
    large("--nodes=65", &["1 to 64 nodes", "not 65"]);
    large("--nodes=four", &["--nodes", "'four'"]);
    large("--cpus=0", &["--cpus", "1..=4096"]);
    large("--memory=1GiB", &["1024 MiB on 4 nodes", "the minimum is 4 GiB"]);
    large("--memory=16TiB", &["16 TiB", "spans more than 16 TiB"]);
    large("--memory=1TiBs", &["1TiBs", "as in 4GiB"]);
}

#[test]
#[cfg(feature = "full")]
fn fragmentation() {
    let churn = |option: &str, hints: &[&str]| {
        refused(&["run", "churn", "--quick", option], hints);
    };
    churn("--occupancy=0", &["--occupancy", "1..=99"]);
    churn("--occupancy=70,100", &["--occupancy", "'100'", "1..=99"]);
    churn("--occupancy=70,70", &["--occupancy", "70 % is named twice"]);
    churn("--mix=large", &["--mix", "'large'", "small", "mixed"]);
    churn("--operations=0", &["--operations", "as in 16M"]);
    churn("--threads=0", &["--threads", "1..=64"]);
    churn("--memory=32MiB", &["--memory", "32 MiB", "64 MiB to 64 GiB"]);
    churn("--memory=128GiB", &["--memory", "64 MiB to 64 GiB"]);
    churn("--contenders=slab", &["--contenders", "'slab'", "list-buddy"]);
    churn("--contenders=list-buddy,list-buddy", &["--contenders", "twice"]);
    churn("--set=hardening=trakced", &["--set", "'hardening'"]);
    churn("--json=no/such/x.json", &["no/such/x.json"]);
    let small = &["run", "churn", "--memory", "64MiB", "--occupancy", "3"];
    refused(small, &["--occupancy", "3 % in use", "the minimum is 2048"]);
    refused(&["run", "churn", "--memory", "64MiB", "--threads", "9"], &["--threads", "1 to 4"]);
    refused(&["run", "replace", "--free", "x"], &["--free", "'x'"]);
    refused(&["run", "replace", "--free", "20,20"], &["--free", "20 % is named twice"]);
    refused(&["run", "replace", "--rounds", "0"], &["--rounds", "1..=100000"]);
    refused(&["run", "replace", "--batch", "0"], &["--batch", "1..="]);
    refused(
        &["run", "replace", "--quick", "--json", "x", "--picture", "x"],
        &["--json", "--picture"],
    );
    let on = |machine: &[&str], hints: &[&str]| {
        refused(&[&["run", "replace", "--quick", "--machine"], machine].concat(), hints);
    };
    on(&["uniform:0"], &["--machine", "uniform:N takes 1 to 512 CPUs"]);
    on(&["qemu:2"], &["do not run on an emulated machine", "--machine uniform:4"]);
    on(&["uniform:4", "--threads", "2"], &["--machine", "--threads", "cannot be used with"]);
    on(&["uniform:8", "--memory", "64MiB"], &["--memory: 64 MiB for the 8 CPUs", "128 MiB"]);
    on(&["uniform:1", "--free-by", "other"], &["--free-by", "no other CPU", "choose 'same'"]);
    on(&["uniform:4", "--contenders", "frame-alloc-depot"], &["--contenders", "list-buddy"]);
    on(&["uniform:4", "--think", "soon"], &["--think", "'soon'"]);
    on(&["host:2", "--think", "5"], &["--think is for simulated machines"]);
    let both = ["--set", "hardening=tracked", "--set", "owner_lock=biased"];
    refused(&[&["run", "churn", "--quick"], &both[..]].concat(), &["framewright: ", "owner_lock"]);
}

#[test]
#[cfg(all(feature = "full", target_os = "linux"))]
fn memory_that_the_system_refuses() {
    let with_little = |args: &[&str]| {
        // A GiB is refused, and much more than the rest of the program needs is not.
        let limited = r#"ulimit -v 700000; exec "$0" "$@""#;
        let mut command = Command::new("sh");
        command.args(["-c", limited, env!("CARGO_BIN_EXE_framewright")]).args(args);
        refuses(&mut command, &["the system refused ", " MiB of memory for ", "ask for less"]);
    };
    with_little(&["run", "churn", "--memory", "64GiB", "--operations", "1000"]);
    with_little(&["run", "page-fault", "--machine=uniform:256", "--memory=512GiB", "--quick"]);
}

#[test]
#[cfg(not(feature = "full"))]
fn commands_of_the_full_program() {
    for command in [&["reproduce", "hot-path"][..], &["prices"], &["run", "churn", "--quick"]] {
        refused(command, &["only in programs built with", "--features full"]);
    }
}

#[test]
#[cfg(feature = "full")]
fn reproductions() {
    refused(&["reproduce"], &["<EXPERIMENT>"]);
    refused(&["reproduce", "bulk-fre"], &["'bulk-fre'", "'bulk-free'", "high-order-drain"]);
    refused(&["reproduce", "all", "--seeds", "0"], &["--seeds", "1..=1000"]);
    refused(&["reproduce", "all", "--quick", "--seeds", "2"], &["--quick", "--seeds"]);
    refused(
        &["reproduce", "bulk-free", "--quick", "--picture", "x.svg"],
        &["--picture: only web-cache has figures over time"],
    );
    refused(&["reproduce", "all", "--json", "no/such/x.json"], &["no/such/x.json"]);
    refused(&["prices", "--json", "no/such/x.json"], &["no/such/x.json"]);
}

#[test]
fn allocators_beside() {
    refused(&["replay", "x", "--beside", "linux"], &["--beside", "'linux'", "list-buddy"]);
}

#[test]
fn machines() {
    let machine = |machine, hints: &[&str]| {
        refused(&["run", "page-fault", "--machine", machine], hints);
    };
    machine("hots", &["hots", "host:N"]);
    machine("host:0", &["host:0", "1 to 4096"]);
    machine("uniform:513", &["uniform:513", "1 to 512"]);
    machine("skx-2s-113", &["skx-2s-113", "'skx-2s-112'"]);
    machine("nowhere.toml", &["--machine", "nowhere.toml: No such file"]);
}
