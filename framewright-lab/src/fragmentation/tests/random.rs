//! Random machines and work, drawn anew in each run. A run prints its seed;
//! `FRAMEWRIGHT_STRESS_SEED` repeats it.

use std::env;

use framewright_sim::machine::Spec;

use super::*;

/// Experiments in one run of the test.
const EXPERIMENTS: u32 = 2;
/// Runs of an experiment, of which the median counts. Threads take turns as they like, so that a run with the same seed can
/// leave a few huge pages more or fewer.
const RUNS: usize = 3;
/// Operations per two frames of memory: blocks are replaced so often that the first placement has
/// no effect any more.
const OPERATIONS: u64 = 30;

/// The random numbers of a test.
fn drawn() -> fastrand::Rng {
    let seed = env::var("FRAMEWRIGHT_STRESS_SEED").ok();
    let seed = seed.map_or_else(|| fastrand::u64(..), |seed| seed.parse().expect("a number"));
    println!("FRAMEWRIGHT_STRESS_SEED={seed}");
    fastrand::Rng::with_seed(seed)
}

/// With less memory per CPU, in fuller memory and in shorter runs, the library can have fewer huge
/// pages.
#[test]
fn after_long_churn_there_are_nearly_as_many_huge_pages_as_in_the_classic_design() {
    let random = &mut drawn();
    for _ in 0..EXPERIMENTS {
        let threads = random.u16(1..=3);
        let pageblocks = u64::from(threads) * random.u64(128..=192);
        let setup = Setup {
            frames: pageblocks << 9,
            threads,
            types: random.choice([Types::Movable, Types::Mixed]).unwrap(),
            shares: vec![random.u8(30..=80)],
            seeds: std::iter::repeat_with(|| random.u64(..)).take(RUNS).collect(),
            columns: setup().columns.into_iter().take(2).collect(),
            ..setup()
        };
        let mix = random.choice([Mix::Small, Mix::Mixed]).unwrap();
        let churn = Churn { mix, operations: setup.frames / 2 * OPERATIONS };
        let Setup { frames, types, shares, seeds, .. } = &setup;
        println!(
            "{churn:?} with {types:?} on {frames} frames and {threads} threads, {shares:?} %, {seeds:?}"
        );
        let result = churn.run(&setup, &mut |_, _| ()).unwrap();
        assert!(result.checks.iter().all(|check| check.passed), "{:?}", result.checks);
        let runs = result.runs();
        let [ours, theirs] =
            [0, 1].map(|run: usize| runs[run].metrics["order9_allocatable"].median);
        println!("{ours} huge pages, and {theirs} in the classic design, of {pageblocks}");
        // A hundredth of the pageblocks is allowed in addition, for runs with few free huge pages.
        assert!(ours >= 0.9 * theirs - 0.01 * pageblocks as f64);
    }
}

/// Every CPU replaces its pages while much of memory is free and scattered, so all of them use the zone lock at once. A huge
/// page for each CPU is allowed to be missing, for the frames on its lists.
#[test]
fn many_cpus_make_huge_pages_and_hardly_wait_for_one_another() {
    let random = &mut drawn();
    let threads = random.u16(9..=64);
    let spec = Spec::uniform(threads).unwrap();
    let think_ns = random.u64(300..=1000);
    let setup = Setup {
        frames: (u64::from(threads) * random.u64(8..=20)) << 9,
        threads,
        simulated: Some(SimulatedCpus { spec, think_ns: Some(think_ns), samples_memory: false }),
        shares: vec![random.u8(30..=70)],
        seeds: vec![random.u64(..)],
        columns: setup().columns.into_iter().take(1).collect(),
        ..setup()
    };
    println!("{} frames, {threads} CPUs, {think_ns} ns, {:?} %", setup.frames, setup.shares);
    let run =
        Replace { rounds: 24, batch: 1 }.run(&setup, &mut |_, _| ()).unwrap().runs().remove(0);
    let of = |name: &str| run.metrics[name].median;
    let wait = of("zone_lock_wait_pct");
    let (free, ideal) = (of("huge_frames_free"), of("huge_frames_ideal"));
    println!("{free} of {ideal} huge pages, {wait:.2} % waits");
    assert!(wait <= 3.0);
    assert!(free >= 0.9 * ideal - f64::from(threads));
}
