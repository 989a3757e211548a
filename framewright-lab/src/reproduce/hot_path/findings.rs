//! What the figures say, one sentence each.

use super::{INSTRUCTIONS, text::TEXT_BYTES};
use crate::{
    report::{Row, Sides, decimal},
    reproduce::Results,
};

pub(super) fn findings(results: &Results) -> Vec<String> {
    [inlining(results), functions(results), wish(results), worth(results)]
        .into_iter()
        .flatten()
        .collect()
}

fn row<'r>(results: &'r Results, workload: &str, subject: &str, metric: &str) -> Option<&'r Row> {
    results
        .rows
        .iter()
        .find(|row| (&*row.workload, &*row.subject, &*row.metric) == (workload, subject, metric))
}

/// What was counted before and after.
fn sides(results: &Results, workload: &str, subject: &str, metric: &str) -> Option<(f64, f64)> {
    let row = row(results, workload, subject, metric)?;
    let Sides { before, after, .. } = row.measured.as_ref().or(row.modelled.as_ref())?;
    Some((before.median, after.as_ref()?.median))
}

fn inlining(results: &Results) -> Option<String> {
    let (before, after) = sides(results, "inlining", "list-buddy", INSTRUCTIONS)?;
    let (small, large) = sides(results, "inlining", "list-buddy", TEXT_BYTES)?;
    let (ours, ours_after) = sides(results, "inlining", "framewright", INSTRUCTIONS)?;
    Some(format!(
        "inlining saves list-buddy {} of {} instructions under the lock per frame taken, for {} \
         bytes of text; it saves framewright {} of {}",
        decimal(before - after, 1),
        decimal(before, 1),
        decimal(large - small, 0),
        decimal(ours - ours_after, 1),
        decimal(ours, 1),
    ))
}

/// Text growth, function by function.
fn functions(results: &Results) -> Option<String> {
    let of = |label: &str| results.runs.iter().find(|run| run.label == label);
    let (before, after) = (of("build, outlined")?, of("build, inlined")?);
    let changes = before.metrics.iter().filter_map(|(name, outlined)| {
        let path = name.strip_prefix(TEXT_BYTES)?.trim();
        let on_the_way = ["::refill", "::take", "::bulk::"].iter().any(|part| path.contains(part));
        if !on_the_way {
            return None;
        }
        let inlined = after.metrics.get(name)?.median;
        Some(format!("{} {} -> {}", short(path), outlined.median, inlined))
    });
    Some(format!(
        "text in bytes of the functions on the way: {}",
        changes.collect::<Vec<_>>().join(", ")
    ))
}

/// A path without the crate, and without what it is generic over.
fn short(path: &str) -> String {
    let whose = if path.contains("list_buddy") { "list-buddy" } else { "framewright" };
    let mut depth = 0;
    let plain: String = path
        .chars()
        .filter(|&c| {
            depth += i32::from(c == '<');
            let keep = depth == 0;
            depth -= i32::from(c == '>');
            keep
        })
        .collect();
    let name = plain.rsplit("::").find(|part| !part.is_empty()).unwrap_or(path);
    format!("{whose}'s {name}")
}

/// What the reviewer asked for.
fn wish(results: &Results) -> Option<String> {
    let (one_by_one, bulk) = sides(results, "bulk", "framewright", INSTRUCTIONS)?;
    let (_, lists) = sides(results, "inlining", "list-buddy", INSTRUCTIONS)?;
    Some(format!(
        "bulk removal, which a reviewer wished for: {} instructions under the lock per frame \
         taken, against {} from list-buddy's lists, one by one and inlined: {} times fewer. \
         Framewright's own structure taken one by one: {}",
        decimal(bulk, 1),
        decimal(lists, 1),
        decimal(lists / bulk.max(0.1), 1),
        decimal(one_by_one, 1),
    ))
}

fn worth(results: &Results) -> Option<String> {
    let (_, lists) = sides(results, "inlining", "list-buddy", "lock_cycles_per_frame")?;
    let (one_by_one, bulk) = sides(results, "bulk", "framewright", "lock_cycles_per_frame")?;
    Some(format!(
        "cycles under the lock per frame taken or given back, on {}: list-buddy, inlined, {}; \
         framewright one by one {}, in bulk {}",
        row(results, "bulk", "framewright", "lock_cycles_per_frame")?.machine,
        decimal(lists, 1),
        decimal(one_by_one, 1),
        decimal(bulk, 1),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_told_by_whose_they_are_and_their_last_word() {
        for (path, expected) in [
            ("framewright_peers::list_buddy::bulk::refill", "list-buddy's refill"),
            (
                "framewright_peers::list_buddy::fallback::<impl \
                 framewright_peers::list_buddy::zone::Zone>::take",
                "list-buddy's take",
            ),
            (
                "framewright::buddy::take::<impl framewright::buddy::Buddy>::choose",
                "framewright's choose",
            ),
        ] {
            assert_eq!(short(path), expected);
        }
    }
}
