//! Both experiments, small, with every allocator and with one that records its callers.

use framewright::{
    Tuning,
    platform::OwnerLock,
    tuning::{Hardening, OwnerChoice},
};
use framewright_peers::{Metadata, Peer, Worker, list_buddy::MigrateType};
use indexmap::IndexMap;
use std::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use super::*;
use crate::{clock, report::Unit, workloads::Side};
use setup::MOST_CPUS;

mod random;
mod simulated;

fn side(settings: &[(&str, &str)]) -> Side {
    let settings = settings.iter().map(|&(key, value)| (key.to_owned(), value.to_owned()));
    Side { label: String::new(), tuning: Tuning::default(), settings: settings.collect() }
}

/// 64 MiB, one thread, every allocator.
fn setup() -> Setup {
    let others = [Allocator::ListBuddy, Allocator::FrameAllocDepot, Allocator::BuddySystem];
    let ours = Column::framewright("framewright", &side(&[]));
    Setup {
        frames: 1 << 14,
        threads: 1,
        simulated: None,
        types: Types::Movable,
        free_by: FreeBy::Same,
        columns: [ours].into_iter().chain(others.map(Column::other)).collect(),
        shares: vec![60, 80],
        seeds: vec![1, 2],
    }
}

fn churn(mix: Mix) -> Churn {
    Churn { mix, operations: 5_000 }
}

const REPLACE: Replace = Replace { rounds: 3, batch: 1 };

/// Results that do not depend on time.
fn counts(result: &FragmentationResult) -> Vec<(IndexMap<String, f64>, Vec<Point>)> {
    let counts = |run: Run| {
        let metrics = run.metrics.into_iter().filter(|(_, metric)| metric.unit != Unit::Nanos);
        let metrics = metrics.map(|(name, metric)| (name, metric.median)).collect();
        (metrics, run.series[SERIES].clone())
    };
    result.runs().into_iter().map(counts).collect()
}

#[test]
fn counts_repeat_and_depend_on_the_seed() {
    for free_by in [FreeBy::Same, FreeBy::Other] {
        let setup = Setup { types: Types::Mixed, free_by, ..setup() };
        let other = Setup { seeds: vec![3, 4], ..setup.clone() };
        let run = |setup| counts(&churn(Mix::Mixed).run(setup, &mut |_, _| ()).unwrap());
        assert_eq!(run(&setup), run(&setup));
        assert_ne!(run(&setup), run(&other));
        let run = |setup| counts(&REPLACE.run(setup, &mut |_, _| ()).unwrap());
        assert_eq!(run(&setup), run(&setup));
        assert_ne!(run(&setup), run(&other));
    }
}

#[test]
fn no_frame_is_lost() {
    for (threads, free_by) in [(1, FreeBy::Other), (2, FreeBy::Same), (4, FreeBy::Other)] {
        let setup = Setup { threads, free_by, types: Types::Mixed, ..setup() };
        let setup = Setup { shares: vec![90], seeds: vec![1], ..setup };
        for result in [
            churn(Mix::Small).run(&setup, &mut |_, _| ()).unwrap(),
            Replace { batch: 7, ..REPLACE }.run(&setup, &mut |_, _| ()).unwrap(),
        ] {
            assert!(result.checks.iter().all(|check| check.passed), "{:?}", result.checks);
            assert_eq!(result.runs().len(), setup.columns.len());
        }
    }
    assert!(!all_back(&["list-buddy: 1 of 2 frames".to_owned()], 1).passed);
}

#[test]
fn no_more_huge_pages_are_found_than_free_frames_make() {
    let result = churn(Mix::Mixed).run(&setup(), &mut |_, _| ()).unwrap();
    for section in result.sections {
        // The free frames are this share of 32 pageblocks, within the tolerance of the occupancy.
        let least = f64::from(100 - u32::from(section.share)) * 0.32 - 1.0;
        for run in section.runs {
            let of = |name: &str| run.metrics[name].median;
            assert!((least..least + 3.0).contains(&of("order9_ideal")), "{}", of("order9_ideal"));
            assert!(of("order9_allocatable") <= of("order9_ideal"), "{run:?}");
            let free = run.series[SERIES].last().unwrap().1;
            if let Some(drained) = run.metrics.get("order9_after_drain") {
                // Without frames on lists, all free frames can be allocated.
                assert_eq!(drained.median, free, "{}", run.label);
            }
        }
    }
}

#[test]
fn the_occupancy_is_held() {
    let setup = Setup { frames: 1 << 16, ..setup() };
    for (mix, slack) in [(Mix::Small, 16), (Mix::Mixed, 512)] {
        let mut cpus = watched(&setup);
        let outcome = churn(mix).play(&setup, 70, &mut cpus, &mut |_| ()).unwrap();
        let most = (1 << 16) * 70 / 100;
        let band = (1 << 16) * 5 / 1024 + slack;
        assert!((most - band..=most).contains(&cpus.used()), "{}", cpus.used());
        assert_eq!(outcome.ideal, ((1 << 16) - cpus.used()) / 512);
        assert_eq!(outcome.calls.allocs.calls() + outcome.calls.frees.calls(), 5_000);
    }
}

#[test]
fn every_page_is_replaced_once_in_a_round() {
    for batch in [1, 7, 100_000] {
        let setup = setup();
        let mut cpus = watched(&setup);
        let replace = Replace { rounds: 1, batch };
        let outcome = replace.play(&setup, 50, &mut cpus, &mut |_| ()).unwrap();
        let pages = outcome.calls.frees.calls();
        assert_eq!((pages, outcome.calls.allocs.calls()), (1 << 13, 1 << 13));
        // The allocator never reuses numbers, so new pages have larger numbers than the first ones.
        let new = (1 << 14)..(1 << 14) + pages;
        assert_eq!(cpus.peer().live(), new.map(|page| page * SPACING).collect::<Vec<_>>());
    }
}

#[test]
fn blocks_are_freed_by_the_chosen_cpu() {
    for (threads, free_by) in [(1, FreeBy::Same), (1, FreeBy::Other), (2, FreeBy::Other)] {
        let setup = Setup { threads, free_by, ..setup() };
        let mut cpus = watched(&setup);
        churn(Mix::Small).play(&setup, 50, &mut cpus, &mut |_| ()).unwrap();
        let peer = &cpus.peer();
        let (by_itself, by_other) = (peer.by_itself.load(Relaxed), peer.by_other.load(Relaxed));
        assert_eq!(
            (by_itself > 0, by_other > 0),
            match free_by {
                FreeBy::Same => (true, false),
                FreeBy::Other => (false, true),
            }
        );
    }
}

#[test]
fn types_have_their_shares() {
    let random = &mut fastrand::Rng::with_seed(1);
    let mut drawn = [0; 3];
    (0..100_000).for_each(|_| drawn[Types::Mixed.draw(0, random) as usize] += 1);
    let close = |count: i32, percent: i32| (count - percent * 1000).abs() < 500;
    assert!(close(drawn[MigrateType::Unmovable as usize], 5), "{drawn:?}");
    assert!(close(drawn[MigrateType::Reclaimable as usize], 15), "{drawn:?}");
    assert_eq!(Types::Mixed.draw(9, random), MigrateType::Movable);
    assert_eq!(Types::Movable.draw(0, random), MigrateType::Movable);
}

#[test]
fn the_library_has_no_watermarks_unless_its_settings_name_them() {
    let tuning = |settings| match Column::framewright("x", &side(settings)).allocator {
        Allocator::Framewright(tuning) => tuning,
        _ => panic!("another allocator"),
    };
    let default = Tuning::default().zone;
    assert_ne!(tuning(&[]).zone.min_free, default.min_free);
    let named = tuning(&[("zone.min_free", "auto"), ("zone.watermark_scale", "10")]).zone;
    assert_eq!(named, default);
}

#[test]
fn impossible_parameters_are_refused_with_a_reason() {
    let refusal =
        |setup: Setup| churn(Mix::Mixed).run(&setup, &mut |_, _| ()).unwrap_err().1.to_string();
    let small = refusal(Setup { frames: 1 << 13, ..setup() });
    assert_eq!(small, "32 MiB cannot be measured: choose 64 MiB to 64 GiB");
    let threads = refusal(Setup { threads: 5, ..setup() });
    assert_eq!(threads, "5 threads with 64 MiB: choose 1 to 4 threads");
    assert!(refusal(Setup { threads: 0, ..setup() }).starts_with("0 threads"));
    assert_eq!(refusal(Setup { shares: vec![7, 70, 7], ..setup() }), "7 % is named twice");
    assert!(refusal(Setup { shares: vec![100], ..setup() }).starts_with("100 % of memory"));
    let few = refusal(Setup { shares: vec![70, 3], ..setup() });
    assert_eq!(few, "3 % in use are 491 frames for each thread: the minimum is 2048");
    let mut tuning = Tuning::default();
    tuning.hardening = Hardening::Tracked;
    tuning.owner_lock = OwnerChoice::Fixed(OwnerLock::Biased);
    let tracked =
        Column { allocator: Allocator::Framewright(tuning), ..setup().columns[0].clone() };
    let refused = refusal(Setup { columns: vec![tracked], ..setup() });
    assert!(refused.starts_with("framewright: "), "{refused}");
}

#[test]
fn two_threads_are_pinned_and_their_starter_is_not() {
    let Some(mut expected) = clock::two_cpus() else { return };
    let mut cpus = watched(&Setup { threads: 2, ..setup() });
    let seen = Mutex::new(Vec::new());
    cpus.each(|_| seen.lock().unwrap().push(rustix::thread::sched_getcpu())).unwrap();
    let mut seen = seen.into_inner().unwrap();
    seen.sort_unstable();
    expected.sort_unstable();
    assert_eq!(seen, expected);
    // A pinned thread may use one CPU only.
    assert!(clock::two_cpus().is_some());
}

#[test]
fn threads_without_a_cpu_each_are_not_pinned_and_run() {
    let too_many = (1..=MOST_CPUS).find(|&count| clock::cpus(count.into()).is_none());
    let Some(threads) = too_many else { return };
    let setup = Setup { threads, ..setup() };
    assert!(setup.pinning().unwrap().starts_with("not pinned"));
    assert_eq!(Setup { threads: 1, ..setup.clone() }.pinning(), None);
    let ran = AtomicU64::new(0);
    watched(&setup).each(|_| _ = ran.fetch_add(1, Relaxed)).unwrap();
    assert_eq!(ran.into_inner(), u64::from(threads));
}

#[test]
fn long_runs_report_progress_often_and_what_is_left_after_the_first_tenth() {
    let steps = |operations| Churn { mix: Mix::Small, operations }.steps();
    assert_eq!((steps(5_000), steps(16_000_000), steps(1_000_000_000)), (20, 20, 500));
    let told = &mut Vec::new();
    churn(Mix::Small).run(&setup(), &mut |done, total| told.push((done, total))).unwrap();
    assert_eq!((told.len(), told.last()), (16 * 20, Some(&(320, 320))));

    let series = |value: fn(u32) -> f64| -> Vec<Point> {
        (0..=20).map(|point| Point(point.into(), value(point))).collect()
    };
    // The first tenth does not count.
    assert_eq!(churn::kept(&series(|point| if point <= 2 { 99.0 } else { 50.0 })), Some(100.0));
    assert_eq!(churn::kept(&series(|point| if point < 19 { 50.0 } else { 40.0 })), Some(80.0));
    assert_eq!(churn::kept(&series(|_| 0.0)), None);
}

/// An allocator that never reuses frame numbers and records the CPU of each allocation and free.
#[derive(Default)]
struct Watched {
    /// The CPU that allocated, by frame.
    live: Mutex<IndexMap<u64, usize>>,
    next: AtomicU64,
    by_itself: AtomicU64,
    by_other: AtomicU64,
}

/// Frames of its largest block, to which all blocks are aligned.
const SPACING: u64 = 16;

struct Watcher<'a>(&'a Watched, usize);

fn watched(setup: &Setup) -> Cpus<Watched> {
    // More frame numbers than the experiments use.
    let numbers = 1 << 20;
    Cpus::new(Watched::default(), numbers, setup.threads, setup.free_by, 1)
}

impl Watched {
    fn live(&self) -> Vec<u64> {
        let mut frames: Vec<u64> = self.live.lock().unwrap().keys().copied().collect();
        frames.sort_unstable();
        frames
    }
}

impl Peer for Watched {
    const NAME: &'static str = "watched";
    const MERGES: bool = false;
    const MAX_ORDER: u8 = 9;
    type Worker<'a> = Watcher<'a>;

    fn new(_frames: u64, _cpus: usize) -> Self {
        Self::default()
    }

    fn worker(&self, cpu: usize) -> Watcher<'_> {
        Watcher(self, cpu)
    }

    fn metadata(&self) -> Metadata {
        Metadata { bytes: 0, how: "" }
    }

    fn cpu_list_bytes(&self) -> usize {
        0
    }
}

impl Worker for Watcher<'_> {
    fn alloc(&mut self, order: u8) -> Option<u64> {
        // Refuses huge pages: the numbers are practically unlimited, so allocating all huge pages
        // would not end.
        if order == 9 {
            return None;
        }
        let first = self.0.next.fetch_add(SPACING, Relaxed);
        self.0.live.lock().unwrap().insert(first, self.1);
        Some(first)
    }

    unsafe fn free(&mut self, frame: u64, _order: u8) {
        let cpu = self.0.live.lock().unwrap().swap_remove(&frame).expect("allocated");
        let by = if cpu == self.1 { &self.0.by_itself } else { &self.0.by_other };
        by.fetch_add(1, Relaxed);
    }
}
