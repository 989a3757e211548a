//! Tests of the explorer: known outcomes of such machines (litmus tests), and code that is known to
//! be wrong.

use std::{collections::BTreeSet, sync::Arc, sync::Mutex, vec::Vec};

use super::{
    AtomicBool, AtomicU32, Barrier, Explored, Explorer, Failure,
    Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst},
    Section, compiler_fence, explore, fence, remote_barrier, spawn, yield_now,
};

/// Two shared words, and a section that checks exclusion.
#[derive(Default)]
struct Shared {
    x: AtomicU32,
    y: AtomicU32,
    section: Section,
}

/// All outcomes of two threads. Each thread returns the value that it read. Explored twice, with
/// and without counting preemptions: both have to find the same outcomes, although the sleep sets
/// differ.
fn outcomes(left: fn(&Shared) -> u32, right: fn(&Shared) -> u32) -> BTreeSet<(u32, u32)> {
    let all = outcomes_by(Explorer::new(), left, right);
    assert_eq!(all, outcomes_by(Explorer::new().preemptions(u32::MAX), left, right));
    all
}

fn outcomes_by(
    explorer: Explorer,
    left: fn(&Shared) -> u32,
    right: fn(&Shared) -> u32,
) -> BTreeSet<(u32, u32)> {
    let seen = Mutex::new(BTreeSet::new());
    let explored = explorer.run(|| {
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let other = spawn(move || right(&theirs));
        let outcome = (left(&shared), other.join());
        seen.lock().unwrap().insert(outcome);
    });
    assert!(explored.unwrap_or_else(|failure| panic!("{failure}")).complete);
    seen.into_inner().unwrap()
}

fn fails(body: impl Fn() + Sync) -> Failure {
    Explorer::new().run(body).expect_err("the exploration found no failure")
}

// ---- litmus tests ---------------------------------------------------------------------------

#[test]
fn store_buffering_is_seen() {
    let all = outcomes(
        |s| {
            s.x.store(1, Release);
            s.y.load(Acquire)
        },
        |s| {
            s.y.store(1, Relaxed);
            compiler_fence(SeqCst);
            s.x.load(Relaxed)
        },
    );
    assert_eq!(all, BTreeSet::from([(0, 0), (0, 1), (1, 0), (1, 1)]));
}

#[test]
fn fences_and_strong_operations_forbid_it() {
    let fenced = outcomes(
        |s| {
            s.x.store(1, Relaxed);
            fence(SeqCst);
            s.y.load(Relaxed)
        },
        |s| {
            s.y.store(1, SeqCst);
            s.x.load(SeqCst)
        },
    );
    assert_eq!(fenced, BTreeSet::from([(0, 1), (1, 0), (1, 1)]));
    let swapped = outcomes(
        |s| {
            s.x.swap(1, Relaxed);
            s.y.load(Relaxed)
        },
        |s| {
            s.y.store(1, Relaxed);
            // A compare-exchange that fails empties the buffer, too.
            let _ = s.y.compare_exchange(7, 8, Relaxed, Relaxed);
            s.x.load(Relaxed)
        },
    );
    assert_eq!(swapped, BTreeSet::from([(0, 1), (1, 0), (1, 1)]));
}

#[test]
fn one_fence_is_not_enough() {
    let all = outcomes(
        |s| {
            s.x.store(1, Relaxed);
            fence(SeqCst);
            s.y.load(Relaxed)
        },
        |s| {
            s.y.store(1, Relaxed);
            fence(AcqRel);
            s.x.load(Relaxed)
        },
    );
    assert!(all.contains(&(0, 0)));
}

#[test]
fn messages_arrive_in_order() {
    let all = outcomes(
        |s| {
            s.x.store(1, Relaxed);
            s.y.store(1, Relaxed);
            0
        },
        |s| s.y.load(Relaxed) * 10 + s.x.load(Relaxed),
    );
    assert_eq!(all, BTreeSet::from([(0, 0), (0, 1), (0, 11)]));
}

#[test]
fn loads_are_not_delayed() {
    let all = outcomes(
        |s| {
            let y = s.y.load(Relaxed);
            s.x.store(1, Relaxed);
            y
        },
        |s| {
            let x = s.x.load(Relaxed);
            s.y.store(1, Relaxed);
            x
        },
    );
    assert!(!all.contains(&(1, 1)));
}

#[test]
fn a_thread_sees_its_own_stores_first() {
    // Forwarding: both see their own store although neither has reached memory.
    let all = outcomes(
        |s| {
            s.x.store(1, Relaxed);
            s.x.load(Relaxed) * 10 + s.y.load(Relaxed)
        },
        |s| {
            s.y.store(1, Relaxed);
            s.y.load(Relaxed) * 10 + s.x.load(Relaxed)
        },
    );
    assert_eq!(all, BTreeSet::from([(10, 10), (10, 11), (11, 10), (11, 11)]));
}

#[test]
fn read_modify_writes_are_atomic() {
    let executions = explore(|| {
        let shared = Arc::new(Shared::default());
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let shared = Arc::clone(&shared);
                spawn(move || shared.x.fetch_add(1, Relaxed))
            })
            .collect();
        let before: BTreeSet<u32> = threads.into_iter().map(super::JoinHandle::join).collect();
        assert_eq!(before, BTreeSet::from([0, 1, 2]));
        assert_eq!(shared.x.load(Relaxed), 3);
    });
    assert!(executions.complete);
}

// ---- mutual exclusion -----------------------------------------------------------------------

/// Dekker's protocol without a fence on the owner's side. With `barrier`, the other side runs it.
fn asymmetric_dekker(barrier: Option<fn(&super::JoinHandle<()>)>) -> impl Fn() + Sync {
    move || {
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let owner = spawn(move || {
            for _ in 0..2 {
                theirs.x.store(1, Relaxed);
                compiler_fence(SeqCst);
                if theirs.y.load(Acquire) == 0 {
                    drop(theirs.section.enter());
                }
                theirs.x.store(0, Release);
            }
        });
        shared.y.store(1, SeqCst);
        if let Some(barrier) = barrier {
            barrier(&owner);
        }
        while shared.x.load(Acquire) != 0 {
            yield_now();
        }
        drop(shared.section.enter());
        shared.y.store(0, Release);
        owner.join();
    }
}

#[test]
fn asymmetric_dekker_holds_with_a_remote_barrier() {
    for barrier in [
        (|owner| remote_barrier(Barrier::Thread(owner.thread()))) as fn(&super::JoinHandle<()>),
        |_| remote_barrier(Barrier::All),
    ] {
        assert!(explore(asymmetric_dekker(Some(barrier))).complete);
    }
}

#[test]
fn asymmetric_dekker_breaks_without_it() {
    for barrier in [None, Some((|_| fence(SeqCst)) as fn(&super::JoinHandle<()>))] {
        let failure = fails(asymmetric_dekker(barrier));
        assert!(failure.message.contains("inside"), "{failure}");
    }
}

#[test]
fn the_wrong_threads_barrier_is_no_barrier() {
    let failure = fails(asymmetric_dekker(Some(|_| remote_barrier(Barrier::Thread(0)))));
    assert!(failure.message.contains("inside"), "{failure}");
}

#[test]
fn a_barrier_may_come_before_a_store() {
    // Dekker's protocol in the wrong order: a thread that reads before it writes is not protected
    // by the barrier, which may come between the two.
    let failure = fails(|| {
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let owner = spawn(move || {
            if theirs.y.load(Acquire) == 0 {
                theirs.x.store(1, Relaxed);
                drop(theirs.section.enter());
            }
            theirs.x.store(0, Release);
        });
        shared.y.store(1, SeqCst);
        remote_barrier(Barrier::All);
        if shared.x.load(Acquire) == 0 {
            drop(shared.section.enter());
        }
        owner.join();
    });
    assert!(failure.message.contains("inside"), "{failure}");
}

#[test]
fn a_bound_still_finds_it() {
    // The failure needs two preemptions: each thread has to interrupt the other.
    assert!(Explorer::new().preemptions(1).run(asymmetric_dekker(None)).is_ok());
    assert!(Explorer::new().preemptions(2).run(asymmetric_dekker(None)).is_err());
    let bounded = Explorer::new()
        .preemptions(2)
        .run(asymmetric_dekker(Some(|_| remote_barrier(Barrier::All))));
    assert!(bounded.unwrap().complete);
}

#[test]
fn a_test_and_set_lock_excludes_and_an_unlocked_counter_loses() {
    let count = |locked: bool| {
        move || {
            let shared = Arc::new((AtomicBool::new(false), AtomicU32::new(0)));
            let add = move |(lock, count): &(AtomicBool, AtomicU32)| {
                while locked && lock.swap(true, Acquire) {
                    yield_now();
                }
                count.store(count.load(Relaxed) + 1, Relaxed);
                lock.store(false, Release);
            };
            let theirs = Arc::clone(&shared);
            let other = spawn(move || add(&theirs));
            add(&shared);
            other.join();
            assert_eq!(shared.1.load(Relaxed), 2, "an increment was lost");
        }
    };
    explore(count(true));
    assert!(fails(count(false)).message.contains("lost"));
}

// ---- the explorer itself --------------------------------------------------------------------

#[test]
fn a_failure_replays() {
    let failure = fails(asymmetric_dekker(None));
    let again = Explorer::new().replay(&failure.choices, asymmetric_dekker(None)).unwrap_err();
    assert_eq!(again.message, failure.message);
    assert_eq!(again.steps, failure.steps);
    assert!(again.steps.iter().any(|s| s.contains("is buffered")), "{again}");
}

#[test]
fn random_executions_find_it_too_and_replay() {
    let explorer = Explorer::new().random(42).executions(2000);
    let failure = explorer.run(asymmetric_dekker(None)).unwrap_err();
    let again = explorer.replay(&failure.choices, asymmetric_dekker(None)).unwrap_err();
    assert_eq!((again.message, again.steps), (failure.message, failure.steps));
    let sound = asymmetric_dekker(Some(|_| remote_barrier(Barrier::All)));
    assert_eq!(explorer.run(sound), Ok(Explored { executions: 2000, complete: false }));
}

#[test]
fn a_deadlock_is_a_failure() {
    let failure = fails(|| {
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let other = spawn(move || {
            while theirs.x.load(Relaxed) == 0 {
                yield_now();
            }
        });
        other.join();
        shared.x.store(1, Relaxed);
    });
    assert!(failure.message.contains("deadlock"), "{failure}");
}

#[test]
fn a_livelock_is_a_failure() {
    let failure = fails(|| {
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let other = spawn(move || while theirs.x.load(Relaxed) == 0 {});
        other.join();
    });
    assert!(failure.message.contains("livelock"), "{failure}");
}

#[test]
fn a_wait_ends_with_the_write_it_waits_for() {
    explore(|| {
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let other = spawn(move || theirs.x.store(1, Release));
        while shared.x.load(Acquire) == 0 {
            yield_now();
        }
        other.join();
    });
}

#[test]
fn straying_is_a_failure() {
    let runs = std::sync::atomic::AtomicU32::new(0);
    let failure = fails(|| {
        let first = runs.fetch_add(1, SeqCst) == 0;
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let other = spawn(move || theirs.x.swap(1, Relaxed));
        if first {
            let _ = shared.x.load(Relaxed);
        }
        shared.x.swap(2, Relaxed);
        other.join();
    });
    assert!(failure.message.contains("a different path"), "{failure}");
}

#[test]
fn outside_of_an_exploration_the_types_are_plain() {
    let mut x = AtomicU32::new(1);
    x.store(2, Relaxed);
    assert_eq!(x.fetch_add(3, Relaxed), 2);
    assert_eq!(x.compare_exchange(0, 1, Relaxed, Relaxed), Err(5));
    assert_eq!(x.fetch_update(Relaxed, Relaxed, |x| x.checked_sub(9)), Err(5));
    assert_eq!(*x.get_mut(), 5);
    fence(SeqCst);
    remote_barrier(Barrier::All);
    yield_now();
    let section = Section::new();
    let _inside = section.enter();
}

#[test]
fn values_survive_the_end_of_the_threads() {
    explore(|| {
        let mut shared = Arc::new(Shared::default());
        shared.y.store(7, Relaxed);
        let theirs = Arc::clone(&shared);
        spawn(move || {
            theirs.x.store(theirs.y.load(Relaxed), Relaxed);
        })
        .join();
        let shared = Arc::get_mut(&mut shared).unwrap();
        assert_eq!(*shared.x.get_mut(), 7);
    });
}
