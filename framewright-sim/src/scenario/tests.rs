//! The goals of hunts, with few schedules; `framewright hunt --full` runs many.

use super::*;

fn hunt(scenario: &'static Scenario, bug: Option<Bug>, kind: Kind, schedules: u64) -> HuntResult {
    Hunt { scenario, bug, kind, seed: 0, schedules }.run(&|_| {})
}

#[test]
fn scenarios_without_a_bug_are_clean_and_have_enough_steps() {
    for scenario in &SCENARIOS {
        let result = hunt(scenario, None, Kind::Random, 1_000);
        assert_eq!((result.found, result.unexpected_count), (None, 0), "{}", scenario.name);
        assert!(
            scenario.cpus >= 3 && result.steps >= 30,
            "{}: {} steps",
            scenario.name,
            result.steps
        );
        let result = hunt(scenario, None, Kind::Pct { depth: 4 }, 500);
        assert_eq!((result.found, result.unexpected_count), (None, 0), "{}", scenario.name);
        let result = hunt(scenario, None, Kind::Exhaustive { bound: 1 }, 1_000);
        assert_eq!((result.found, result.unexpected_count), (None, 0), "{}", scenario.name);
    }
}

#[test]
fn every_bug_is_found_and_its_schedule_can_be_repeated() {
    for (scenario, bug) in bugs() {
        let HuntResult { found, unexpected, .. } = hunt(scenario, Some(bug), Kind::Random, 20_000);
        assert_eq!(unexpected, None, "{} with {bug}", scenario.name);
        let Find { at, verdict, .. } = found.unwrap_or_else(|| panic!("{bug} is not found"));
        let again =
            Hunt { scenario, bug: Some(bug), kind: Kind::Random, seed: at - 1, schedules: 1 };
        let again = again.run(&|_| {}).found.expect("the same schedule finds it again");
        assert_eq!((again.at, &again.verdict), (1, &verdict), "{} with {bug}", scenario.name);
        let repeated = scenario.repeat(Some(bug), &again.choices, |_| ());
        assert_eq!(repeated, verdict, "{} with {bug}", scenario.name);
    }
}

#[test]
fn a_find_of_a_search_is_printed_as_options_that_repeat_it() {
    let scenario = Scenario::named("reclaim").unwrap();
    let bug = Some(Bug::WriteOutBeforeFlush);
    let result = hunt(scenario, bug, Kind::Exhaustive { bound: 1 }, 20_000);
    let find = result.found.unwrap();
    let (_, replay) = find.repeat.split_once("--schedule ").unwrap();
    assert!(find.repeat.starts_with("reclaim --bug write-out-before-flush --schedule replay:"));
    let again = hunt(scenario, bug, replay.parse().unwrap(), 1).found.unwrap();
    assert_eq!(again.verdict, find.verdict);
}

#[test]
fn every_bug_has_a_scenario() {
    for bug in Bug::ALL {
        assert!(bugs().any(|(_, known)| known == bug), "{bug}");
    }
}

#[test]
fn small_scenarios_are_searched_to_the_end() {
    let scenario = Scenario::named("take").unwrap();
    let result = hunt(scenario, None, Kind::Exhaustive { bound: 1 }, u64::MAX);
    assert!(result.exhausted && result.found.is_none() && result.tried > 300, "{}", result.tried);
}

#[test]
fn unexpected_symptoms_do_not_count() {
    // A deadlock, which is not a symptom of this bug.
    fn stuck(machine: &Machine, _bug: Option<Bug>) -> Verdict {
        let lock = machine.new_lock(crate::engine::LockClass::Program);
        let program = |cpu: crate::engine::Cpu<'_>| cpu.lock(lock);
        match machine.run(vec![Box::new(program), Box::new(program), Box::new(program)]) {
            Ok(()) => Verdict::Clean,
            Err(failure) => Verdict::Failed(failure),
        }
    }
    static STUCK: Scenario = Scenario {
        name: "stuck",
        about: "",
        cpus: 3,
        bugs: &[Bug::UnlockedTake],
        affordable_bound: 2,
        force: &[],
        tally: None,
        run: stuck,
    };
    let result = hunt(&STUCK, Some(Bug::UnlockedTake), Kind::Random, 10);
    assert_eq!((result.found, result.unexpected_count), (None, 10));
    let control = hunt(&STUCK, None, Kind::Random, 10).found.unwrap();
    assert_eq!(control.verdict, Verdict::Failed(crate::engine::Failure::Deadlock));
}

#[test]
fn a_campaign_can_be_repeated() {
    let campaign = Campaign {
        scenarios: vec![Scenario::named("unmap").unwrap()],
        schedules: 500,
        control: 400,
        control_exhaustive: 100,
        ..Campaign::default()
    };
    let mut reported = 0;
    let rows = campaign.run(&mut |done, total| {
        assert!(done >= reported && done <= total);
        reported = done;
    });
    let labels: Vec<_> = rows.iter().map(|row| (row.bug, row.kind.to_string())).collect();
    assert_eq!(labels.len(), 2 * 3 + 1);
    assert_eq!(labels[6], (None, "random".to_owned()));
    assert_eq!((rows[6].tried(), rows[6].is_good()), (400, true));
    let again = campaign.run(&mut |_, _| {});
    let results =
        |rows: &[Row]| rows.iter().flat_map(|row| row.results.clone()).collect::<Vec<_>>();
    assert_eq!(results(&rows), results(&again));
}

fn bugs() -> impl Iterator<Item = (&'static Scenario, Bug)> {
    SCENARIOS.iter().flat_map(|scenario| scenario.bugs.iter().map(move |bug| (scenario, *bug)))
}
