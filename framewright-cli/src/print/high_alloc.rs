//! The results of `run high-alloc`.

use std::fmt::Write;

use framewright::frame::PAGEBLOCK_FRAMES;
use framewright_lab::{
    high_alloc::{Flags, HighAlloc, HostHighAlloc},
    replay::State,
    report::{Report, Style, decimal},
    simulated::MODEL_NOTE,
};

use super::{FRAME_BYTES, workload};

/// What it ran on and did, the table, the checks.
pub(crate) fn high_alloc(report: &Report, work: &HighAlloc, seeds: usize, style: Style) -> String {
    let mut text = format!(
        "machine  {} (simulated): {} CPUs, {} MiB; {}\n",
        work.spec.name(),
        work.spec.cpus(),
        (work.frames * FRAME_BYTES) >> 20,
        times(seeds, work.quick),
    );
    text.push_str(&flags(work.flags));
    text.push_str(&turns(work));
    if let Some(state) = &work.from {
        let _ = writeln!(text, "state    {}", began(state, work.frames));
    }
    let _ = writeln!(text, "model    {}", workload::basis(&work.spec));
    let _ = writeln!(text, "note     {MODEL_NOTE}");
    text.push_str(&workload::body(report, style));
    text
}

/// The same of threads.
pub(crate) fn high_alloc_on_threads(
    report: &Report,
    work: &HostHighAlloc,
    seeds: usize,
    style: Style,
) -> String {
    let builders = match (work.threads, work.building()) {
        (1, _) => "one thread that builds".to_owned(),
        (threads, building) if building < threads => {
            let builders =
                if building == 1 { "one builder" } else { &format!("{building} builders") };
            format!("{threads} threads for {builders} (one for each 400 MiB, and one more)")
        }
        (threads, _) => format!("{threads} threads that build"),
    };
    let mut text = format!(
        "machine  {}: {builders}, one that asks, one for the background; {} MiB of real memory; {}\n",
        report.machine,
        (work.frames * FRAME_BYTES) >> 20,
        times(seeds, work.quick),
    );
    text.push_str(&flags(work.flags));
    text.push_str(
        "note     times are this machine's, others' work on it included; counts differ from run to run\n",
    );
    text.push_str(&workload::body(report, style));
    text
}

/// How often, and how thoroughly.
fn times(seeds: usize, quick: bool) -> String {
    let seeds = if seeds == 1 { "one seed".to_owned() } else { format!("{seeds} seeds") };
    let quick = if quick { "; --quick: a fifth of the load between requests" } else { "" };
    format!("{seeds}{quick}")
}

/// What a request may do.
fn flags(flags: Flags) -> String {
    let may = match flags {
        Flags::Default => "a request reclaims, compacts, and wakes who does it in the background",
        Flags::Thp => "a request reclaims and compacts once, and wakes nobody",
    };
    format!("flags    {}: {may}\n", flags.name())
}

/// Who has no CPU of his own: the larger memory is, the less is built for each GiB of it before the first pass.
fn turns(work: &HighAlloc) -> String {
    let (builders, cpus) = (work.builders(), u64::from(work.spec.cpus()) - 1);
    match (builders > cpus, cpus) {
        (false, _) => String::new(),
        (true, 1) => format!("load     {builders} builders take turns on one CPU\n"),
        (true, _) => format!("load     {builders} builders take turns on {cpus} CPUs\n"),
    }
}

/// How memory was in the beginning.
fn began(state: &State, frames: u64) -> String {
    let mib = |frames: u64| (frames * FRAME_BYTES) >> 20;
    let whole = state.pageblocks() * PAGEBLOCK_FRAMES as u64;
    let scaled = match whole == frames {
        true => String::new(),
        false => format!(", {} MiB, scaled to {} MiB", mib(whole), mib(frames)),
    };
    let one = |percent| decimal(percent, 1);
    format!(
        "{}{scaled}: {} % is free, {} % of that in blocks smaller than a huge page; {} % of all pageblocks hold \
         what does not move",
        state.name(),
        one(state.free_pct()),
        one(state.scattered_pct()),
        one(state.unmovable_pct()),
    )
}
