use super::*;
use crate::workloads::{
    Side,
    kbuild::Kbuild,
    page_fault::{FreeOrder, PageFault},
    socket_pairs::{Placement, SocketPairs},
};
use proptest::prelude::*;

fn simulation(work: Workload, machine: &str) -> Simulation {
    let spec = match machine.strip_prefix("uniform:") {
        Some(cpus) => Spec::uniform(cpus.parse().unwrap()),
        None => Spec::preset(machine),
    };
    let plan = Plan { warm_up: 500_000, window: 2_000_000, steady: false };
    Simulation { work, spec: spec.unwrap(), frames: None, plan }
}

fn page_fault(free_order: FreeOrder) -> Workload {
    Workload::PageFault(PageFault { frames: 2048, free_order, ..PageFault::new(1) })
}

/// `pairs` pairs as tasks.
fn scheduled(pairs: u16, in_flight: u16) -> Workload {
    let placement = Placement::Scheduled;
    Workload::SocketPairs(SocketPairs { pairs, in_flight, placement, ..SocketPairs::new(1) })
}

fn median(run: &crate::report::Run, name: &str) -> f64 {
    run.metrics[name].median
}

fn both() -> [Column; 2] {
    let side = Side::new("framewright");
    [Column::framewright(&side), Column::list_buddy("list-buddy", &side)]
}

#[test]
fn every_workload_ends_on_nodes_and_frees_everything() {
    for work in [
        page_fault(FreeOrder::Mapping),
        page_fault(FreeOrder::Random),
        Workload::Kbuild(Kbuild { least_pages: 256, most_pages: 600, ..Kbuild::new(1) }),
        Workload::SocketPairs(SocketPairs::new(1)),
        scheduled(16, 3),
    ] {
        let name = work.name();
        let result = simulation(work, "uniform:40").run(&both(), &[1], &mut |_, _| {}).unwrap();
        for run in &result.runs {
            assert!(median(run, "pages") > 100.0, "{name}: {:?}", run.metrics);
            assert!(median(run, "zone_lock_wait_pct") < 100.0, "{name}");
        }
    }
}

#[test]
fn waits_for_the_locks_of_all_zones_add_up() {
    let work = page_fault(FreeOrder::Mapping);
    let result = simulation(work, "numa-4n-48").run(&both(), &[1], &mut |_, _| {}).unwrap();
    for run in &result.runs {
        let of_zones = (0..4).map(|zone| median(run, &format!("zone{zone}_lock_wait_pct")));
        let all = median(run, "zone_lock_wait_pct");
        assert!((of_zones.sum::<f64>() - all).abs() < 1e-9, "{:?}", run.metrics);
        assert!(!run.metrics.contains_key("zone4_lock_wait_pct"));
    }
}

#[test]
fn equal_simulations_give_equal_results_and_other_seeds_others() {
    let run = |seed| {
        let simulation = simulation(page_fault(FreeOrder::Random), "uniform:8");
        simulation.run(&both(), &[seed], &mut |_, _| {}).unwrap()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

/// Threads of one process interrupt each other when they unmap; processes do not.
#[test]
fn threads_that_unmap_flush_the_tlbs_of_others() {
    let pages = |threads, flush: f64| {
        let work = Workload::PageFault(PageFault { frames: 2048, threads, ..PageFault::new(1) });
        let mut simulation = simulation(work, "uniform:4");
        simulation.spec = simulation.spec.scaled("tlb.flush_all", flush).unwrap();
        let result = simulation.run(&both(), &[1], &mut |_, _| {}).unwrap();
        result.runs.iter().map(|run| median(run, "pages")).collect::<Vec<_>>()
    };
    assert_eq!(pages(false, 1.0), pages(false, 1000.0));
    for (slow, fast) in pages(true, 1000.0).into_iter().zip(pages(true, 1.0)) {
        assert!(slow < 0.9 * fast, "{slow} {fast}");
    }
}

#[test]
fn a_window_shorter_than_a_wait_for_a_lock_counts_its_own_cycles() {
    let plan = Plan { warm_up: 1_000_000, window: 100_000, steady: false };
    let simulation =
        Simulation { plan, ..simulation(page_fault(FreeOrder::Mapping), "uniform:64") };
    let result = simulation.run(&both(), &[1], &mut |_, _| {}).unwrap();
    for run in &result.runs {
        assert!(median(run, "line_wait_pct") <= 100.0, "{:?}", run.metrics);
    }
}

/// A window that is shorter than a cycle of page-fault measures how many CPUs happen to allocate in it, which depends on
/// the seed.
#[test]
fn a_steady_window_has_the_same_rate_with_every_seed() {
    let rates = |steady| {
        let plan = Plan { warm_up: 500_000, window: 1_000_000, steady };
        let simulation =
            Simulation { plan, ..simulation(page_fault(FreeOrder::Mapping), "uniform:6") };
        let column = &both()[1];
        [1, 2, 3].map(|seed| {
            let window = simulation.run_once(column, seed).unwrap();
            assert_eq!(window.windows_before > 0, steady);
            assert!(!window.unsettled, "after {} windows", window.windows_before);
            window.done.pages as f64 / window.seconds
        })
    };
    let spread = |rates: [f64; 3]| {
        let (least, most) =
            (rates.into_iter().fold(f64::MAX, f64::min), rates.into_iter().fold(0.0, f64::max));
        most / least - 1.0
    };
    let (fixed, steady) = (rates(false), rates(true));
    assert!(spread(steady) <= 0.05, "{steady:?}");
    assert!(spread(fixed) > 0.05, "the workload cannot show a difference: {fixed:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// A run fails if something is written and not read, if a task does not end or a CPU runs two,
    /// or if a frame is lost. It does not end if a task waits while its CPU is idle.
    #[test]
    fn scheduled_tasks_end_and_read_what_was_written(
        machine in prop_oneof![(1u16..40).prop_map(|cpus| format!("uniform:{cpus}")), Just("laptop-8".to_owned())],
        pairs in 1u16..24,
        in_flight in 1u16..5,
        seed: u64,
    ) {
        let simulation = simulation(scheduled(pairs, in_flight), &machine);
        for column in both() {
            let window = simulation.run_once(&column, seed).unwrap();
            prop_assert!(window.done.reads > 0 && window.done.pages > 0);
            prop_assert!(window.done.same_cpu <= window.done.same_socket);
            prop_assert!(window.done.same_socket <= window.done.reads);
        }
    }
}

#[test]
fn a_writer_and_a_reader_that_share_a_cpu_reuse_hot_frames_and_pinned_ones_do_not() {
    for column in both() {
        let shared = simulation(scheduled(1, 3), "uniform:1").run_once(&column, 1).unwrap().done;
        assert_eq!(shared.same_cpu, shared.reads);
        assert!(shared.hot > 0 && shared.reads > 0, "{shared:?}");
        let pinned = Workload::SocketPairs(SocketPairs { pairs: 1, ..SocketPairs::new(1) });
        let apart = simulation(pinned, "uniform:2").run_once(&column, 1).unwrap().done;
        assert!(apart.checked > 0);
        assert_eq!((apart.hot, apart.reads), (0, 0));
    }
}

#[test]
fn with_a_cpu_for_each_task_tasks_stay_on_their_cpus_or_move_to_their_partners_socket() {
    let frames = Some(1 << 20);
    let simulation = Simulation { frames, ..simulation(scheduled(4, 3), "icx-2s-128") };
    let done = simulation.run_once(&both()[0], 1).unwrap().done;
    assert_eq!(done.same_cpu, 0);
    assert!(done.same_socket > 0);
}

/// The socket holds more than a writer writes in a time slice.
#[test]
fn a_writer_gives_way_to_its_reader_before_the_socket_is_full() {
    let plan = Plan { warm_up: 0, window: 5_000_000, steady: false };
    let simulation = Simulation { plan, ..simulation(scheduled(1, 5_000), "uniform:1") };
    let done = simulation.run_once(&both()[0], 1).unwrap().done;
    assert!(0 < done.reads && done.reads < 5_000, "{}", done.reads);
}

#[test]
fn scheduled_runs_are_equal_with_equal_seeds() {
    let run = |seed| simulation(scheduled(5, 3), "uniform:4").run(&both(), &[seed], &mut |_, _| {});
    assert_eq!(run(1).unwrap(), run(1).unwrap());
    assert_ne!(run(1).unwrap(), run(2).unwrap());
}
