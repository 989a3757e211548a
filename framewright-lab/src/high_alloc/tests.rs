//! On a machine of 256 MiB: the course ends, and says what it should.

use framewright::{Tuning, tuning::CompactMethod};
use framewright_sim::machine::Spec;
use indexmap::IndexMap;

use super::{Flags, HighAlloc};
use crate::workloads::Side;

fn work(flags: Flags) -> HighAlloc {
    let spec = Spec::uniform(2).expect("a small machine");
    HighAlloc { flags, spec, frames: HighAlloc::LEAST_FRAMES, quick: true, watched: false }
}

fn side(method: CompactMethod) -> Side {
    let mut tuning = Tuning::default();
    tuning.compact.method = method;
    Side { label: "x".into(), tuning, settings: IndexMap::new() }
}

#[test]
fn a_course_ends_and_every_frame_is_accounted_for() {
    for method in [CompactMethod::Index, CompactMethod::Scan] {
        let outcome = work(Flags::Default).run_once(&side(method), 1).unwrap();
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
fn the_same_seed_is_the_same_course() {
    let run = || work(Flags::Thp).run_once(&side(CompactMethod::Index), 7).unwrap();
    assert_eq!(run(), run());
}
