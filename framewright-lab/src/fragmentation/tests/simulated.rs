//! Both experiments on simulated CPUs.

use framewright_sim::machine::Spec;

use super::*;

/// A CPU frees more pages at once than its lists hold.
const BATCHES: Replace = Replace { rounds: 3, batch: 1024 };

/// Eight simulated CPUs, the library and the classic design.
fn simulated(think_ns: u64) -> Setup {
    let spec = Spec::uniform(8).unwrap();
    let columns = setup().columns.into_iter().take(2).collect();
    let shares = vec![50];
    let simulated = Some(SimulatedCpus { spec, think_ns: Some(think_ns), samples_memory: false });
    Setup { frames: 1 << 15, threads: 8, simulated, columns, shares, ..setup() }
}

#[test]
fn simulated_cpus_lose_no_frame_and_have_modelled_figures_only() {
    for result in [
        churn(Mix::Mixed).run(&simulated(0), &mut |_, _| ()).unwrap(),
        BATCHES.run(&simulated(0), &mut |_, _| ()).unwrap(),
    ] {
        assert!(result.checks.iter().all(|check| check.passed), "{:?}", result.checks);
        for run in result.runs() {
            let has = |name: &str| run.metrics.contains_key(name);
            assert!(!has("ns_per_operation") && !has("cpu_ns_per_operation"), "{run:?}");
            let of = |name: &str| run.metrics[name].median;
            assert!((0.0..=100.0).contains(&of("zone_lock_wait_pct")), "{run:?}");
            assert!(of("modelled_ns_per_operation") > 1.0 && of("lock_cycles_per_frame") > 0.0);
            assert!(of("order9_allocatable") <= f64::from(1 << 15 >> 9), "{run:?}");
        }
    }
    let threads = REPLACE.run(&setup(), &mut |_, _| ()).unwrap().runs().remove(0);
    assert!(threads.metrics.contains_key("ns_per_operation"));
    assert!(!threads.metrics.contains_key("zone_lock_wait_pct"));
}

#[test]
fn simulated_runs_repeat_and_replace_every_page() {
    let run = |seeds| {
        let setup = Setup { seeds, ..simulated(0) };
        BATCHES.run(&setup, &mut |_, _| ()).unwrap().runs()
    };
    let runs = run(vec![1]);
    assert_eq!(runs, run(vec![1]));
    assert_ne!(runs, run(vec![2]));
    for run in &runs {
        assert_eq!(run.metrics["huge_frames_ideal"].median, 32.0);
        assert_eq!(run.metrics["refused"].median, 0.0);
        assert_eq!(run.series[SERIES].len(), 4);
        let per_page = run.metrics["acquisitions_per_page"].median;
        assert!(per_page > 0.001 && per_page < 2.0, "{per_page}");
    }
}

#[test]
fn sampling_memory_changes_no_figure() {
    let run = |samples_memory| {
        let mut setup = simulated(0);
        setup.simulated.as_mut().unwrap().samples_memory = samples_memory;
        BATCHES.run(&setup, &mut |_, _| ()).unwrap()
    };
    let (plain, sampled) = (run(false), run(true));
    assert_eq!(plain.runs(), sampled.runs());
    assert!(plain.sections[0].samples.iter().all(|(_, samples)| samples.is_empty()));
    let [(_, ours), (_, theirs)] = &sampled.sections[0].samples[..] else { panic!() };
    for samples in [ours, theirs] {
        assert!(samples.len() >= BATCHES.rounds as usize, "{} samples", samples.len());
        let all = |it: &Sample| it.in_use + it.free + it.held_by_cpus;
        assert!(samples.iter().all(|it| all(it) == 1 << 15 && it.in_use > 1 << 13), "{samples:?}");
    }
    assert!(ours.iter().all(|it| it.free_by_type[1] > 0), "{ours:?}");
}

#[test]
fn time_between_operations_leaves_the_lock_to_others() {
    let wait = |think_ns| {
        let result = BATCHES.run(&simulated(think_ns), &mut |_, _| ()).unwrap();
        let of = |run: &Run| run.metrics["zone_lock_wait_pct"].median;
        result.runs().iter().map(of).collect::<Vec<_>>()
    };
    let (busy, relaxed) = (wait(0), wait(20_000));
    assert!(
        busy.iter().zip(&relaxed).all(|(busy, relaxed)| busy > relaxed),
        "{busy:?} {relaxed:?}"
    );
}

#[test]
fn a_simulated_machine_refuses_what_it_does_not_have() {
    let refusal = |setup: Setup| {
        let (option, error) = REPLACE.run(&setup, &mut |_, _| ()).unwrap_err();
        format!("--{option}: {error}")
    };
    let small = refusal(Setup { frames: 1 << 14, ..simulated(0) });
    assert_eq!(small, "--memory: 64 MiB for the 8 CPUs of uniform:8: choose at least 128 MiB");
    let one =
        SimulatedCpus { spec: Spec::uniform(1).unwrap(), think_ns: Some(0), samples_memory: false };
    let one = Some(one);
    let other = Setup { threads: 1, simulated: one, free_by: FreeBy::Other, ..simulated(0) };
    let other = refusal(other);
    assert_eq!(
        other,
        "--free-by: uniform:1 has no other CPU: choose 'same', or a machine with more CPUs"
    );
    let all = refusal(Setup { columns: setup().columns, ..simulated(0) });
    assert_eq!(
        all,
        "--contenders: frame-alloc-depot has no model: choose framewright or list-buddy"
    );
}

/// If a CPU freed its own blocks, the counts would be those of `FreeBy::Same`. If a CPU waited for
/// a block without letting others run, the run would not end.
#[test]
fn simulated_cpus_free_the_blocks_of_others() {
    let counts_of = |free_by, threads| {
        let spec = Spec::uniform(threads).unwrap();
        let simulated_cpus =
            Some(SimulatedCpus { spec, think_ns: Some(50), samples_memory: false });
        let setup = Setup { threads, free_by, simulated: simulated_cpus, ..simulated(0) };
        let setup = Setup { types: Types::Mixed, seeds: vec![1], ..setup };
        let results = [
            churn(Mix::Mixed).run(&setup, &mut |_, _| ()).unwrap(),
            // More pages at once than fit into a queue.
            BATCHES.run(&setup, &mut |_, _| ()).unwrap(),
        ];
        for result in &results {
            assert!(result.checks.iter().all(|check| check.passed), "{:?}", result.checks);
        }
        results.map(|result| result.runs())
    };
    for threads in [2, 8] {
        let other = counts_of(FreeBy::Other, threads);
        assert_eq!(other, counts_of(FreeBy::Other, threads));
        let same = counts_of(FreeBy::Same, threads);
        for (other, same) in other.iter().flatten().zip(same.iter().flatten()) {
            assert_ne!(other.metrics, same.metrics, "{}", same.label);
        }
    }
}
