use super::*;
use crate::workloads::{
    kbuild::Kbuild,
    page_fault::{FreeOrder, PageFault},
    socket_pairs::{Placement, SocketPairs},
};

const SPEC: HostSpec = HostSpec { cpus: 2, frames: 16_384, pin: false };

fn side(label: &str, setting: Option<(&str, &str)>) -> Side {
    setting.into_iter().fold(Side::new(label), |side, (key, value)| side.with(key, value))
}

fn small() -> PageFault {
    PageFault { frames: 4096, ..PageFault::new(1) }
}

fn builders() -> Workload {
    let kbuild = Kbuild { least_pages: 100, most_pages: 900, objects: 2, ..Kbuild::new(1) };
    Workload::Kbuild(kbuild)
}

const BRIEF: Rounds = Rounds { warm_up: 1, rounds: 3, limit: Limit::Cycles(2) };

fn silent(_done: u64, _total: u64) {}

fn median(run: &crate::report::Run, name: &str) -> f64 {
    run.metrics[name].median
}

fn run(work: &Workload, sides: &[Side], rounds: Rounds) -> Measured {
    let result = work.run_on_host(&SPEC, sides, rounds, &mut silent).unwrap();
    assert!(result.checks.iter().all(|check| check.passed), "{:?}", result.checks);
    result
}

#[test]
fn both_sides_do_the_same_work_and_free_everything() {
    let sides = [side("base", Some(("pcp.batch", "31"))), side("vs", Some(("pcp.batch", "3")))];
    let mut seen = Vec::new();
    let work = Workload::PageFault(small());
    let mut tell = |done, total| seen.push((done, total));
    let result = work.run_on_host(&SPEC, &sides, BRIEF, &mut tell).unwrap();
    assert!(result.checks.iter().all(|check| check.passed), "{:?}", result.checks);
    assert_eq!(seen, [(0, 6), (1, 6), (2, 6), (3, 6), (4, 6), (5, 6), (6, 6)]);
    for run in &result.runs {
        assert_eq!(median(run, "pages"), f64::from(2 * 2 * 4096));
        assert!(median(run, "pages_per_s") > 0.0);
        assert_eq!(run.metrics["pages_per_s"].n, 3);
        assert!(
            !run.metrics.contains_key("hot_reuse_pct"),
            "heat was recorded, and the times include it"
        );
    }
    let [base, vs] = &result.runs[..] else { panic!("two sides") };
    assert_eq!(vs.settings["pcp.batch"], "3");
    let holds = |run| median(run, "acquisitions_per_page");
    assert!(holds(vs) > 0.0 && holds(base) > 0.0);
}

#[test]
fn a_random_order_of_frees_is_verified_too() {
    let work = Workload::PageFault(PageFault { free_order: FreeOrder::Random, ..small() });
    run(&work, &[side("framewright", None)], BRIEF);
}

#[test]
fn a_round_of_some_time_has_at_least_one_cycle() {
    let rounds = Rounds { rounds: 1, limit: Limit::Time(Duration::ZERO), ..BRIEF };
    let result = run(&Workload::PageFault(small()), &[side("framewright", None)], rounds);
    assert_eq!(median(&result.runs[0], "pages"), f64::from(2 * 4096));
}

#[test]
fn compilers_exit_and_leave_object_files_only_during_a_run() {
    let rounds = Rounds { limit: Limit::Cycles(20), ..BRIEF };
    let result = run(&builders(), &[side("framewright", None)], rounds);
    let figures = &result.runs[0];
    assert_eq!(median(figures, "exits"), 40.0);
    assert!(median(figures, "pages") > 40.0 * 100.0);
    // A page is often written again by the core of its last use.
    assert!((1.0..=100.0).contains(&median(figures, "hot_reuse_pct")));
}

#[test]
fn an_exit_drains_lists_under_the_old_rule_and_not_under_the_new() {
    let sides = [
        side("base", Some(("pcp.high_order_drain", "every-free"))),
        side("vs", Some(("pcp.high_order_drain", "second-consecutive"))),
    ];
    let rounds = Rounds { limit: Limit::Cycles(20), ..BRIEF };
    let result = run(&builders(), &sides, rounds);
    let [old, new] = &result.runs[..] else { panic!("two sides") };
    assert!(median(old, "drains_per_exit") > 0.5, "{}", median(old, "drains_per_exit"));
    assert!(median(new, "drains_per_exit") < 0.1, "{}", median(new, "drains_per_exit"));
}

#[test]
fn messages_of_one_cpu_are_read_and_freed_by_another() {
    let work = Workload::SocketPairs(SocketPairs::new(1));
    let rounds = Rounds { limit: Limit::Cycles(500), ..BRIEF };
    let result = run(&work, &[side("framewright", None)], rounds);
    let figures = &result.runs[0];
    let frames = median(figures, "pages");
    assert!((500.0 * 15.0..=500.0 * 16.0).contains(&frames), "{frames}");
    assert!(median(figures, "bandwidth_bytes_per_s") > 0.0);
}

#[test]
fn a_memory_too_small_is_refused_with_a_sufficient_size() {
    let work = Workload::PageFault(small());
    let sides = [side("framewright", None)];
    let spec = HostSpec { frames: 8192, ..SPEC };
    let error = work.run_on_host(&spec, &sides, BRIEF, &mut silent).unwrap_err();
    assert!(error.to_string().contains("2 CPUs hold up to"), "{error}");
    let ample = work.ample_frames(2);
    assert!(error.to_string().contains(&format!("at least {} MiB", ample.div_ceil(256))));
    let spec = HostSpec { frames: ample, ..SPEC };
    assert!(work.run_on_host(&spec, &sides, BRIEF, &mut silent).is_ok());
}

#[test]
fn work_without_content_is_refused_by_name() {
    let refused = |work: &Workload, spec: HostSpec, sides: &[Side], rounds: Rounds| {
        work.run_on_host(&spec, sides, rounds, &mut silent).unwrap_err().to_string()
    };
    let sides = [side("x", None)];
    let page_fault = Workload::PageFault(small());
    let nothing = Workload::PageFault(PageFault { frames: 0, ..small() });
    assert!(refused(&nothing, SPEC, &sides, BRIEF).ends_with("frame to touch"));
    let sockets = Workload::SocketPairs(SocketPairs::new(1));
    let alone = HostSpec { cpus: 1, ..SPEC };
    assert!(refused(&sockets, alone, &sides, BRIEF).ends_with("second CPU for a reader"));
    let scheduled = SocketPairs { placement: Placement::Scheduled, ..SocketPairs::new(1) };
    let scheduled = Workload::SocketPairs(scheduled);
    assert!(
        refused(&scheduled, SPEC, &sides, BRIEF).ends_with("simulated machine for its scheduler")
    );
    let no_round = Rounds { rounds: 0, ..BRIEF };
    assert!(refused(&page_fault, SPEC, &sides, no_round).ends_with("round"));
    assert!(refused(&page_fault, SPEC, &[], BRIEF).ends_with("side"));
    let none = HostSpec { cpus: 0, ..SPEC };
    assert!(page_fault.run_on_host(&none, &sides, BRIEF, &mut silent).is_err());
}
