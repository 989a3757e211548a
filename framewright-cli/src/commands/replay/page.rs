//! The parts of a replay's page besides its figures: verdict, free memory over time, zone locks, fallbacks.

use framewright_lab::{
    html::{Details, Listing},
    plot::Axis,
    replay::{Fallback, ReplayReport, ZoneReport},
    report::decimal,
    workloads::Side,
};

use super::{
    runs::{KERNEL, migratetype},
    verdict,
};

/// The maximum number of fallbacks in the table.
const LISTED: usize = 1000;

/// The details of replays, one for each side.
pub(super) fn details(sides: &[Side], replays: &[ReplayReport]) -> Details {
    let all = || sides.iter().map(|side| side.label.as_str()).zip(replays);
    let summary = replays.first().map(verdict::lines).into_iter().flatten();
    Details {
        time: Axis::linear("seconds"),
        summary: summary.map(|(about, words)| (about.to_owned(), words)).collect(),
        beside: vec![KERNEL.to_owned(), "list-buddy".to_owned()],
        samples: all().map(|(label, replay)| (label.to_owned(), replay.samples.clone())).collect(),
        listings: vec![zone_locks(all()), fallbacks(all())],
        ..Details::default()
    }
}

/// The use of each zone's lock: waits of the recorded kernel, holds of both.
fn zone_locks<'r>(all: impl Iterator<Item = (&'r str, &'r ReplayReport)>) -> Listing {
    let header = [
        "zone",
        "side",
        "recorded waits",
        "recorded wait, ns",
        "recorded holds",
        "recorded hold, ns",
        "replayed holds",
        "modelled hold, ns",
    ];
    let row = |label: &str, zone: &ZoneReport| {
        let (kernel, own) = (&zone.kernel_lock, &zone.lock);
        let known = |number: Option<u64>| number.map_or_else(String::new, |it| it.to_string());
        vec![
            format!("node {} {}", zone.node, zone.zone),
            label.to_owned(),
            known(kernel.waits),
            known(kernel.wait_nanos),
            kernel.holds.to_string(),
            kernel.hold_nanos.to_string(),
            own.holds.to_string(),
            own.hold_nanos.to_string(),
        ]
    };
    let rows =
        all.flat_map(|(label, replay)| replay.zones.iter().map(move |zone| row(label, zone)));
    Listing {
        title: "zone locks".to_owned(),
        note: "Times are sums. Waits are empty if the recording has no events of locks. Recorded holds are those with \
               events, from the first to the last event. A replay runs on one thread and never waits."
            .to_owned(),
        header: header.map(str::to_owned).to_vec(),
        rows: rows.collect(),
    }
}

/// The fallbacks of the recorded kernel and of each side, with their causes.
fn fallbacks<'r>(all: impl Iterator<Item = (&'r str, &'r ReplayReport)>) -> Listing {
    let header = ["seconds", "CPU", "allocator", "request", "cause", "effect"];
    let mut rows = Vec::new();
    for (nth, (label, replay)) in all.enumerate() {
        // The kernel's are the same for all sides.
        let shown = replay.fallbacks.iter().filter(|it| nth == 0 || !it.by_kernel);
        rows.extend(shown.map(|it| fallback(label, it)));
    }
    let number = rows.len();
    rows.truncate(LISTED);
    let more = match number > LISTED {
        true => format!(" The first {LISTED} of {number} are shown."),
        false => String::new(),
    };
    Listing {
        title: "fallbacks: requests served from a pageblock of another migratetype".to_owned(),
        note: format!(
            "The library's are listed with the request during which they happened; most fill a list of the CPU.{more}"
        ),
        header: header.map(str::to_owned).to_vec(),
        rows,
    }
}

fn fallback(label: &str, it: &Fallback) -> Vec<String> {
    let wanted = migratetype(it.migratetype);
    let found = match it.found {
        Some((order, of)) => {
            format!("took a block of order {order} of a pageblock of type {}", migratetype(of))
        }
        None => "took a block of another type".to_owned(),
    };
    let effect = match it.claimed {
        true => "claim: the pageblock changes its type",
        false => "steal: the pageblock has pages of two types",
    };
    vec![
        decimal(it.seconds, 6),
        it.cpu.to_string(),
        if it.by_kernel { KERNEL } else { label }.to_owned(),
        format!("order {}, {wanted}", it.order),
        format!("no free block of type {wanted} was large enough: {found}"),
        effect.to_owned(),
    ]
}
