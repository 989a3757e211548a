use super::{plan::size, *};
use crate::report::Metric;

fn metric<'r>(result: &'r LargeMemoryResult, title: &str, column: &str, row: &str) -> &'r Metric {
    let section = result.sections.iter().find(|section| section.title == title).expect(title);
    let run = section.runs.iter().find(|run| run.label == column).expect(column);
    run.metrics.get(row).expect(row)
}

#[test]
fn a_tiny_run_fills_every_table() {
    let plan = LargeMemory::tiny();
    let mut last = None;
    let result = plan
        .run(&mut |done, total| {
            assert!(done <= total && last.is_none_or(|before| before < done));
            last = Some(done);
        })
        .unwrap();
    assert_eq!(last, Some(plan.rounds * PARTS.len() as u64));
    for (title, column, row) in [
        ("start", "fresh", "initialise_ns"),
        ("memory hotplug", "at once", "add_bytes_per_s"),
        ("memory hotplug", "at once", "refused_ns"),
        ("memory hotplug", "GiB by GiB", "remove_bytes_per_s"),
        ("large blocks", &size(plan.zones[0]), "o10_fresh_alloc_ns"),
        ("large blocks", &size(plan.zones[2]), "o18_full_free_ns"),
        ("contiguous memory", "scattered", "2mib_ns"),
        ("contiguous memory", "alternate", "64mib_ns"),
        ("nodes", "own node", "alloc_ns"),
        ("nodes", "all but last full", "numa_miss"),
        ("nodes", "refused", "alloc_ns"),
    ] {
        let metric = metric(&result, title, column, row);
        assert!(metric.median > 0.0 && metric.n == plan.rounds, "{title}, {column}, {row}");
    }
    // A zone of 128 MiB has no block of 1 GiB.
    let smallest = &result.sections[2].runs[0];
    assert!(!smallest.metrics.contains_key("o18_fresh_alloc_ns"), "{smallest:?}");
    assert!(result.goals.iter().any(|goal| goal.what.contains("half-full")));
    assert_eq!(result.runs().len(), 3 + 2 + 3 + 2 + 5);
}

#[test]
fn a_machine_of_one_node_has_no_fallback_to_other_nodes() {
    let plan = LargeMemory { nodes: 1, rounds: 1, ..LargeMemory::tiny() };
    let result = plan.run(&mut |_, _| ()).unwrap();
    let nodes = result.sections.last().unwrap();
    assert_eq!(nodes.runs.len(), 1);
    assert_eq!(metric(&result, "nodes", "own node", "numa_local").median, plan.singles as f64);
}

#[test]
fn goals_can_be_missed() {
    let goal = |unit, measured| Goal { what: String::new(), measured, unit, limit: 10.0 };
    use crate::report::Unit::{BytesPerSecond, Nanos};
    assert!(goal(Nanos, 10.0).is_met() && !goal(Nanos, 10.5).is_met());
    assert!(goal(BytesPerSecond, 10.0).is_met() && !goal(BytesPerSecond, 9.5).is_met());
    let check = goal(Nanos, 10.5).check();
    assert_eq!((check.passed, check.detail.as_str()), (false, "10.5, at most 10.0"));
}
