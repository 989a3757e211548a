use indexmap::IndexMap;

use super::*;
use framewright::Tuning;

const SPEC: HostSpec = HostSpec { cpus: 2, frames: 16_384, pin: false };

fn side(label: &str, setting: Option<(&str, &str)>) -> Side {
    let mut tuning = Tuning::default();
    let mut settings = IndexMap::new();
    if let Some((key, value)) = setting {
        tuning.set(key, value).unwrap();
        settings.insert(key.to_owned(), value.to_owned());
    }
    Side { label: label.to_owned(), tuning, settings }
}

fn small() -> PageFault {
    PageFault { frames: 4096, warm_up: 1, rounds: 3, limit: Limit::Cycles(2), ..PageFault::full(1) }
}

fn silent(_done: u64, _total: u64) {}

fn median(run: &Run, name: &str) -> f64 {
    run.metrics[name].median
}

#[test]
fn both_sides_do_the_same_work_and_everything_comes_back() {
    let sides = [side("base", Some(("pcp.batch", "31"))), side("vs", Some(("pcp.batch", "3")))];
    let mut seen = Vec::new();
    let result =
        small().run_on_host(&SPEC, &sides, &mut |done, total| seen.push((done, total))).unwrap();
    assert!(result.checks.iter().all(|check| check.passed), "{:?}", result.checks);
    assert_eq!(seen, [(0, 6), (1, 6), (2, 6), (3, 6), (4, 6), (5, 6), (6, 6)]);
    for run in &result.runs {
        assert!(run.metrics.keys().eq(METRICS.iter()));
        assert_eq!(median(run, "pages"), f64::from(2 * 2 * 4096));
        assert!(median(run, "pages_per_s") > 0.0);
        assert_eq!(run.metrics["pages_per_s"].n, 3);
    }
    let [base, vs] = &result.runs[..] else { panic!("two sides") };
    assert_eq!(vs.settings["pcp.batch"], "3");
    let holds = |run| median(run, "acquisitions_per_page");
    assert!(holds(vs) > holds(base), "smaller batches take the lock more often");
}

#[test]
fn a_random_order_of_frees_is_verified_too() {
    let work = PageFault { free_order: FreeOrder::Random, ..small() };
    let result = work.run_on_host(&SPEC, &[side("framewright", None)], &mut silent).unwrap();
    assert!(result.checks.iter().all(|check| check.passed), "{:?}", result.checks);
}

#[test]
fn a_round_of_some_time_has_at_least_one_cycle() {
    let work = PageFault { rounds: 1, limit: Limit::Time(Duration::ZERO), ..small() };
    let result = work.run_on_host(&SPEC, &[side("framewright", None)], &mut silent).unwrap();
    assert_eq!(median(&result.runs[0], "pages"), f64::from(2 * 4096));
}

#[test]
fn a_memory_too_small_is_refused_with_one_that_is_not() {
    let work = small();
    let spec = HostSpec { frames: 8192, ..SPEC };
    let error = work.run_on_host(&spec, &[side("framewright", None)], &mut silent).unwrap_err();
    assert!(matches!(error, PageFaultError::TooSmall { .. }), "{error}");
    let ample = work.ample_frames(2);
    assert!(error.to_string().contains(&format!("at least {} MiB", ample.div_ceil(256))));
    let spec = HostSpec { frames: ample, ..SPEC };
    assert!(work.run_on_host(&spec, &[side("framewright", None)], &mut silent).is_ok());
}

#[test]
fn work_without_content_is_refused_by_name() {
    for (work, what) in [
        (PageFault { frames: 0, ..small() }, "frame to touch"),
        (PageFault { frames_per_table: 0, ..small() }, "frame per page table"),
        (PageFault { gather: 0, ..small() }, "frame to free at once"),
        (PageFault { rounds: 0, ..small() }, "round"),
    ] {
        let error = work.run_on_host(&SPEC, &[side("x", None)], &mut silent).unwrap_err();
        assert!(error.to_string().ends_with(what), "{error}");
    }
    let error = small().run_on_host(&SPEC, &[], &mut silent).unwrap_err();
    assert!(error.to_string().ends_with("side"), "{error}");
    let none = HostSpec { cpus: 0, ..SPEC };
    assert!(small().run_on_host(&none, &[side("x", None)], &mut silent).is_err());
}
