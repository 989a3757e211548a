//! What the figures say, one sentence each.

use crate::{
    report::{Sides, decimal},
    reproduce::{Key, Results},
};

use super::trials::{AUTO, FRAMEWRIGHT_AUTO, GUEST, KBUILD_MACHINE, LISTS, SOCKET_MACHINE};

/// Acquisitions of the zone lock per page that sockets may take.
const GOAL: f64 = 0.0025;

pub(super) fn findings(results: &Results) -> Vec<String> {
    [exits(results), shares(results), reuse(results), sockets(results), waiting(results)]
        .into_iter()
        .flatten()
        .collect()
}

/// The medians of both sides.
fn sides(
    results: &Results,
    workload: &str,
    machine: &str,
    subject: &str,
    metric: &str,
) -> Option<(f64, f64)> {
    let key = Key { workload, machine, subject, metric };
    let row = results.rows.iter().find(|row| row.key() == key)?;
    let Sides { before, after, .. } = row.measured.as_ref().or(row.modelled.as_ref())?;
    Some((before.median, after.as_ref()?.median))
}

fn exits(results: &Results) -> Option<String> {
    let (before, after) = sides(results, "exits", GUEST, LISTS, "drains_per_exit")?;
    let (before, after) = (decimal(before, 2), decimal(after, 2));
    Some(format!(
        "an exit frees thousands of pages, then one page table of order 1: with every-free that \
         drains the lists {before} times per exit, with second-consecutive {after} times"
    ))
}

/// Kernels since 6.7 have the change and lists that size themselves: what each of them does.
fn shares(results: &Results) -> Option<String> {
    let of = |subject| sides(results, "exits", GUEST, subject, "acquisitions_per_page");
    let ((before, after), (auto, both)) = (of(LISTS)?, of(AUTO)?);
    Some(format!(
        "kernels since 6.7 have the change and lists that size themselves. Exits take the zone \
         lock {} times per page with neither, {} with the change alone, {} with such lists alone, \
         {} with both: it is they that save, and the change that lets them keep what they hold",
        decimal(before, 4),
        decimal(after, 4),
        decimal(auto, 4),
        decimal(both, 5),
    ))
}

/// The reason why lists are drained at all.
fn reuse(results: &Results) -> Option<String> {
    let of = |subject| sides(results, "kbuild", KBUILD_MACHINE, subject, "hot_reuse_pct");
    let ((before, after), (auto, both)) = (of(LISTS)?, of(AUTO)?);
    let percent = |value| decimal(value, 1);
    Some(format!(
        "frames that compilers get while the core's cache has them: {}% and {}% with lists of a \
         fixed size, {}% and {}% where lists size themselves; draining on every free throws hot \
         frames away. In sockets none is ever hot for the core: another one read it last",
        percent(before),
        percent(after),
        percent(auto),
        percent(both),
    ))
}

fn sockets(results: &Results) -> Option<String> {
    let of = |subject, metric| sides(results, "socket-pairs", SOCKET_MACHINE, subject, metric);
    let (_, ours) = of(FRAMEWRIGHT_AUTO, "acquisitions_per_page")?;
    let (_, theirs) = of(AUTO, "acquisitions_per_page")?;
    let (_, warm) = of(FRAMEWRIGHT_AUTO, "warm_reuse_pct")?;
    let (_, their_warm) = of(AUTO, "warm_reuse_pct")?;
    let word = if ours <= GOAL { "reached" } else { "NOT reached" };
    Some(format!(
        "sockets, each allocator as it is: framewright takes the zone lock {} times per page (goal \
         {GOAL}: {word}), list-buddy {}; {}% and {}% of frames are still in the socket's cache",
        decimal(ours, 4),
        decimal(theirs, 4),
        decimal(warm, 0),
        decimal(their_warm, 0),
    ))
}

/// A level that is not judged.
fn waiting(results: &Results) -> Option<String> {
    let (before, _) = sides(results, "socket-pairs", SOCKET_MACHINE, LISTS, "zone_lock_wait_pct")?;
    Some(format!(
        "sockets wait for the zone lock {}% of the time here, 51.4% on the published server: only \
         the change is judged",
        decimal(before, 1)
    ))
}
