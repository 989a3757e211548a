//! Runs on a machine of 256 MiB.

use framewright::tuning::CompactMethod;
use framewright_sim::machine::Spec;

use super::{Environment, Flags, HighAlloc};
use crate::{replay::State, samples::Watch, workloads::Side};

fn work(flags: Flags) -> HighAlloc {
    let spec = Spec::uniform(2).expect("a small machine");
    let frames = HighAlloc::LEAST_FRAMES;
    HighAlloc { flags, spec, frames, from: None, environment: Environment::default(), quick: true }
}

fn side(method: CompactMethod) -> Side {
    let mut side = Side::new("x");
    side.tuning.compact.method = method;
    side
}

#[test]
fn a_run_ends_and_every_frame_is_accounted_for() {
    for method in [CompactMethod::Index, CompactMethod::Scan] {
        let outcome = work(Flags::Default).run_once(&side(method), 1, Watch::default()).unwrap();
        assert_eq!(outcome.phases.len(), 3);
        let [first, _, idle] = &outcome.phases[..] else { panic!("three passes") };
        assert!(first.counts.faults > 10_000 && idle.counts.faults == 0);
        assert!(idle.success_pct() > 50.0, "{method:?}: {}", idle.success_pct());
        assert!(idle.achievable_pct() >= idle.success_pct());
        let scans = outcome.counts.free_scanned;
        assert_eq!(method == CompactMethod::Scan, scans > 0, "{method:?}: {scans}");
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run =
        || work(Flags::Thp).run_once(&side(CompactMethod::Index), 7, Watch::default()).unwrap();
    assert_eq!(run(), run());
}

#[test]
fn a_picture_does_not_change_the_run() {
    for method in [CompactMethod::Index, CompactMethod::Scan] {
        let run = |watched: bool| {
            let watch = Watch { memory: watched, ..Watch::default() };
            let mut outcome = work(Flags::Thp).run_once(&side(method), 1, watch).unwrap();
            let samples = std::mem::take(&mut outcome.samples);
            assert_eq!(watched, samples.len() > 100, "{method:?}: {} samples", samples.len());
            (std::mem::take(&mut outcome.seen), outcome)
        };
        let ((unseen, plain), (seen, watched)) = (run(false), run(true));
        assert_eq!(plain, watched, "{method:?}");
        assert!(unseen.is_empty() && seen.len() > 3 * 40, "{method:?}: {} snapshots", seen.len());
    }
}

#[test]
fn a_run_can_start_with_a_recorded_state() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../recordings/sockets.before");
    let state = State::open(path.as_ref()).unwrap();
    let unmovable = state.unmovable_pct();
    let from = HighAlloc { from: Some(state), ..work(Flags::Thp) };
    let outcome = from.run_once(&side(CompactMethod::Index), 1, Watch::default()).unwrap();
    let fresh =
        work(Flags::Thp).run_once(&side(CompactMethod::Index), 1, Watch::default()).unwrap();
    let idle = |outcome: &super::Outcome| outcome.phases[2].achievable_pct();
    // Pageblocks with the recorded kernel's own memory cannot become huge pages.
    assert!(idle(&outcome) <= (100.0 - unmovable) / 0.95 + 1.0, "{}", idle(&outcome));
    assert!(idle(&outcome) < idle(&fresh), "{} and {}", idle(&outcome), idle(&fresh));
}

#[test]
fn parallel_runs_are_limited_by_memory() {
    let large = HighAlloc { frames: HighAlloc::MOST_FRAMES, ..work(Flags::Default) };
    let of = |gib: u64| large.at_once(Some(gib << 30));
    assert_eq!((of(4).unwrap(), of(7).unwrap()), (1, 1));
    assert_eq!(of(1 << 20).unwrap(), large.at_once(None).unwrap());
    let refused = of(3).unwrap_err();
    assert!(refused.is_bad_input());
    for expected in ["262144 MiB", "takes 4096 MiB", "3072 MiB are available", "--memory"] {
        assert!(refused.to_string().contains(expected), "{refused}");
    }
}
