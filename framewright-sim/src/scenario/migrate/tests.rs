//! No event during a migration loses data or leaks a frame, and seeded bugs are found.

use super::*;
use crate::{
    engine::{Options, Schedule},
    scenario::{Hunt, HuntResult, Kind, SCENARIOS, Scenario},
};

fn machine(seed: u64) -> Machine {
    let schedule = Schedule::Random(seed);
    Machine::new(3, Options { schedule, ..Options::default() })
}

#[test]
fn pages_move_in_both_directions() {
    let mut most = 0;
    for seed in 0..50 {
        let (verdict, requests) = run_with(&machine(seed), None, None, None);
        assert_eq!(verdict, Verdict::Clean, "seed {seed}");
        most = most.max(requests);
    }
    // One direction takes 5 requests: a claim of both pages, and an unmap and a remap of each. So
    // with 8 or more, pages have moved in both directions.
    assert!(most >= 8, "{most} requests");
}

#[test]
fn no_event_or_failure_at_any_step_loses_or_leaks_anything() {
    for event in [None, Some(Event::Unmapped)] {
        for failure in [SeededFailure::Busy, SeededFailure::Refused] {
            for nth in 0..16 {
                for seed in 0..20 {
                    let failure = Some((nth, failure));
                    let (verdict, _) = run_with(&machine(seed), None, failure, event);
                    assert_eq!(verdict, Verdict::Clean, "{event:?}, {failure:?}, seed {seed}");
                }
            }
        }
    }
}

fn family() -> impl Iterator<Item = &'static Scenario> {
    SCENARIOS.iter().filter(|scenario| !scenario.points().is_empty())
}

fn hunt(scenario: &'static Scenario, bug: Option<Bug>, seed: u64, schedules: u64) -> HuntResult {
    Hunt { scenario, bug, kind: Kind::Random, seed, schedules }.run(&|_| {})
}

#[test]
fn every_event_occurs_at_every_step_at_which_it_can() {
    assert_eq!(family().count(), 5);
    for scenario in family() {
        let result = hunt(scenario, None, 0, 2_000);
        assert_eq!((result.found, result.unexpected_count), (None, 0), "{}", scenario.name);
        for (point, times) in scenario.points().iter().zip(result.reached) {
            let (name, step) = (scenario.name, point.name);
            assert_eq!(times > 0, point.never.is_none(), "{name} at {step}: {times} times");
        }
    }
}

#[test]
fn twenty_hunts_of_twenty_find_each_bug() {
    for (scenario, bug) in family().flat_map(|it| it.bugs.iter().map(move |bug| (it, *bug))) {
        for nth in 0..20 {
            let result = hunt(scenario, Some(bug), nth << 32, 5_000);
            assert!(result.found.is_some(), "{} with {bug}, hunt {nth}", scenario.name);
            assert_eq!(result.unexpected, None, "{} with {bug}, hunt {nth}", scenario.name);
        }
    }
}
