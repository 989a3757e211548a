//! The work that the library reports, and the instructions that callgrind counts.

use std::{collections::BTreeMap, process::Command};

use framewright::platform::Cost;

use crate::{
    machine::{self, Part},
    work::{NOTHING, NOTHINGS, WORKLOADS, Workload},
};

/// The work that the library reports in the counted rounds of a workload.
pub(crate) fn reported(workload: &Workload) -> BTreeMap<Part, Vec<(Cost, u64)>> {
    workload.run::<true>();
    machine::take_reported()
}

/// Runs a workload, so that callgrind counts the part.
pub(crate) fn work_of(workload: &str, part: &str) -> Result<(), String> {
    let workload = WORKLOADS.iter().chain([&NOTHING]).find(|one| one.name == workload);
    let part = Part::ALL.into_iter().find(|one| one.name() == part);
    let (Some(workload), Some(part)) = (workload, part) else {
        return Err("there is no such workload or part".to_owned());
    };
    machine::want(part);
    workload.run::<false>();
    Ok(())
}

/// Instructions that starting and stopping callgrind adds to each counted call or hold.
pub(crate) fn counting() -> Result<u64, String> {
    Ok(total(&NOTHING, Part::Alloc)? / NOTHINGS)
}

/// The instructions of a part of a workload, which reported the given work. Callgrind counts `counting` more for each
/// call or hold.
pub(crate) fn counted(
    workload: &Workload,
    part: Part,
    reported: &[(Cost, u64)],
    counting: u64,
) -> Result<u64, String> {
    let begins = |&&(cost, _): &&(Cost, u64)| match part {
        Part::Alloc => matches!(cost, Cost::HotAlloc | Cost::SlowAlloc),
        Part::Free => matches!(cost, Cost::HotFree | Cost::SlowFree),
        Part::AllocHold | Part::FreeHold => cost == Cost::ZoneHold,
    };
    let starts: u64 = reported.iter().filter(begins).map(|(_, units)| units).sum();
    Ok(total(workload, part)?.saturating_sub(counting * starts))
}

fn total(workload: &Workload, part: Part) -> Result<u64, String> {
    let folder = tempfile::tempdir().map_err(|error| format!("no temporary folder: {error}"))?;
    let profile = folder.path().join("profile");
    let program = std::env::current_exe().map_err(|error| format!("no own path: {error}"))?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--quiet", "--collect-atstart=no"])
        .arg(format!("--callgrind-out-file={}", profile.display()))
        .arg(program)
        .args(["count", workload.name, part.name()])
        .output()
        .map_err(|error| format!("cannot run valgrind: {error} (install it)"))?;
    let text = std::fs::read_to_string(&profile).unwrap_or_default();
    let total = text.lines().find_map(|line| line.strip_prefix("totals: ")?.trim().parse().ok());
    total.ok_or_else(|| {
        let said = String::from_utf8_lossy(&output.stderr);
        format!("callgrind counted nothing of {}: {said}", workload.name)
    })
}
