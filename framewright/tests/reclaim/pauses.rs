//! When the condition of a pause becomes true, the pause ends, and its waiters are woken.

use std::panic::{AssertUnwindSafe, catch_unwind};

use framewright::{
    CpuId, MigrateType, Order, Request,
    observe::NodeStat,
    reclaim::{NextStep, PageKind, Pause, Throttle},
};

use framewright_fakes::{FakeOwner, Others, StoreBehavior};

use crate::embedder::{CPU, OTHER, clear_young, embedder, filled, node, stat};

const FILE: PageKind = PageKind::File;

/// Checks that `others` makes the condition of the pause true. The pause must not be over before, must be over
/// afterwards, and its waiters must have been woken.
fn ends(embedder: &'static FakeOwner, pause: &Pause<'_>, why: Throttle, others: impl FnOnce()) {
    assert_eq!((pause.why(), pause.node()), (why, node()));
    assert!(!pause.is_over(), "{why:?}: the pause is over at once");
    embedder.resumed.lock().unwrap().clear();
    others();
    assert!(pause.is_over(), "{why:?}: the pause is not over");
    assert!(embedder.resumed.lock().unwrap().contains(&why), "{why:?}: no waiter was woken");
}

/// A reason for a pause, with the events that end it.
struct Case {
    why: Throttle,
    /// An embedder in which reclaim pauses for this reason.
    embedder: fn() -> &'static FakeOwner,
    /// Starts reclaim.
    reclaim: fn(&'static FakeOwner),
    /// The activity of other CPUs during the pause.
    others: Others,
}

const CASES: [Case; 8] = [
    Case {
        why: Throttle::Reserve,
        embedder: short,
        reclaim: |embedder| _ = embedder.direct(32),
        others: |embedder, pause| ends(embedder, pause, Throttle::Reserve, || work(embedder)),
    },
    Case {
        why: Throttle::Reserve,
        embedder: || used(short()),
        reclaim: |embedder| _ = embedder.direct(32),
        // Background reclaim frees nothing and sleeps.
        others: |embedder, pause| ends(embedder, pause, Throttle::Reserve, || work(embedder)),
    },
    Case {
        why: Throttle::Isolated,
        embedder: || {
            let embedder = filled(310, FILE);
            clear_young(embedder);
            let frames: Vec<_> = embedder.pages().resident.keys().copied().take(200).collect();
            frames.into_iter().for_each(|pfn| assert!(embedder.lru().isolate(pfn)));
            embedder
        },
        reclaim: |embedder| _ = embedder.direct(32),
        others: |embedder, pause| {
            let frames: Vec<_> = embedder.pages().resident.keys().copied().take(200).collect();
            // SAFETY: the pages were isolated above.
            let put_back =
                || frames.iter().for_each(|&pfn| assert!(unsafe { embedder.lru().put_back(pfn) }));
            ends(embedder, pause, Throttle::Isolated, put_back);
        },
    },
    // Another reclaimer has isolated a page.
    no_progress(
        || {
            let embedder = used(filled(310, FILE));
            let pfn = *embedder.pages().resident.keys().next().unwrap();
            assert!(embedder.lru().isolate(pfn));
            embedder
        },
        others_reclaim,
    ),
    // Background reclaim was woken, and more than half of the reserve is free.
    no_progress(
        || {
            let embedder = used(with_free(40));
            embedder.reclaim().wake(node(), Order::ZERO, framewright::ZoneKind::Normal);
            embedder
        },
        others_reclaim,
    ),
    // A page is under writeback.
    no_progress(
        || {
            let embedder = used(filled(310, FILE));
            embedder.pages().resident.values_mut().next().unwrap().writeback = true;
            embedder
        },
        |embedder, pause| {
            let pfn = *embedder.pages().resident.keys().next().unwrap();
            let written = || embedder.reclaim().written(CpuId::new(OTHER), pfn, Ok(()));
            ends(embedder, pause, Throttle::NoProgress, written);
        },
    ),
    Case {
        why: Throttle::Congested,
        embedder: || written(|page| page.dirty = true),
        reclaim: |embedder| _ = embedder.direct(32),
        others: |embedder, pause| {
            ends(embedder, pause, Throttle::Congested, || embedder.complete(1_000));
        },
    },
    Case {
        why: Throttle::WriteBack,
        embedder: || {
            let embedder = short();
            embedder.set_behavior(StoreBehavior::Slow);
            let ids: Vec<_> = embedder.pages().resident.values().map(|page| page.id).collect();
            ids.into_iter().for_each(|id| embedder.store(id, FILE).unwrap());
            clear_young(embedder);
            embedder
        },
        reclaim: |embedder| {
            embedder.reclaim().wake(node(), Order::ZERO, framewright::ZoneKind::Normal);
            work(embedder);
        },
        others: |embedder, pause| {
            ends(embedder, pause, Throttle::WriteBack, || embedder.complete(10_000));
        },
    },
];

/// An embedder with less than half of its reserve free, and many reclaimable pages.
fn short() -> &'static FakeOwner {
    with_free(16)
}

/// An embedder with so many free frames, and many reclaimable pages.
fn with_free(frames: u64) -> &'static FakeOwner {
    let embedder = embedder(2048, |_| ());
    (0..1500).for_each(|id| _ = embedder.touch(id, FILE).unwrap());
    embedder.lru().drain_all();
    let all = Request::new(Order::ZERO, MigrateType::Movable).inside_relief();
    let mut token = embedder.token();
    while embedder.memory().free() > frames {
        let block = token.alloc(all).expect("the reserves are open");
        embedder.take(block);
    }
    drop(token);
    clear_young(embedder);
    embedder
}

/// All pages were used, so that none can be reclaimed.
fn used(embedder: &'static FakeOwner) -> &'static FakeOwner {
    embedder.pages().resident.values_mut().for_each(|page| page.references = 1);
    embedder
}

/// A request that reclaims nothing.
const fn no_progress(embedder: fn() -> &'static FakeOwner, others: Others) -> Case {
    let reclaim = |embedder: &'static FakeOwner| _ = embedder.direct(32);
    Case { why: Throttle::NoProgress, embedder, reclaim, others }
}

/// Another CPU reclaims pages, which are not used any longer.
fn others_reclaim(embedder: &'static FakeOwner, pause: &Pause<'_>) {
    embedder.pages().resident.values_mut().for_each(|page| page.references = 0);
    let reclaim = || assert!(embedder.direct_on(CpuId::new(OTHER), 32) >= 32);
    ends(embedder, pause, Throttle::NoProgress, reclaim);
}

/// An embedder in which reclaim has started to write all pages. `change` is applied to each page.
fn written(change: fn(&mut framewright_fakes::Resident)) -> &'static FakeOwner {
    let embedder = embedder(2048, |_| ());
    (0..310).for_each(|id| embedder.store(id, FILE).unwrap());
    clear_young(embedder);
    embedder.set_behavior(StoreBehavior::Slow);
    while embedder.pages().resident.values().any(|page| !page.writeback) {
        assert_eq!(
            embedder.direct(310),
            0,
            "pages were reclaimed although all are under writeback"
        );
        clear_young(embedder);
    }
    embedder.pages().resident.values_mut().for_each(change);
    let frames: Vec<_> = embedder.pages().resident.keys().copied().collect();
    frames.into_iter().for_each(|pfn| embedder.lru().deactivate(CPU, pfn));
    embedder.lru().drain_all();
    embedder.take_notes();
    embedder
}

/// Runs background reclaim until it sleeps, on another CPU than the request.
fn work(embedder: &'static FakeOwner) {
    let mut kswapd = embedder.reclaim().kswapd(node()).unwrap();
    let mut steps = 0;
    while kswapd.step_on(CPU) == NextStep::Now {
        steps += 1;
        assert!(steps < 10_000, "background reclaim does not stop");
    }
}

#[test]
fn pauses_end_with_their_condition() {
    for (nth, case) in CASES.iter().enumerate() {
        let embedder = (case.embedder)();
        let before = stat(embedder, case.why.expired());
        *embedder.others.lock().unwrap() = Some(case.others);
        (case.reclaim)(embedder);
        assert!(embedder.others.lock().unwrap().is_none(), "{nth}: {:?} did not pause", case.why);
        let first = stat(embedder, case.why.expired()) - before;
        // The test does not end later pauses in the same call.
        let paused = embedder.take_notes().iter().filter(|&&note| note == case.why.name()).count();
        assert_eq!(
            first,
            paused as u64 - 1,
            "{nth}: {:?} counts as ended before its condition",
            case.why
        );
    }
}

#[test]
fn pauses_that_end_before_their_condition_are_counted() {
    for case in &CASES {
        let embedder = (case.embedder)();
        embedder.take_notes();
        let before = stat(embedder, case.why.expired());
        (case.reclaim)(embedder);
        let paused = embedder.take_notes().iter().filter(|&&note| note == case.why.name()).count();
        assert!(paused > 0);
        assert_eq!(stat(embedder, case.why.expired()) - before, paused as u64, "{:?}", case.why);
        assert!(embedder.resumed.lock().unwrap().iter().all(|&why| why != Throttle::Isolated));
    }
}

#[test]
fn reclaim_without_progress_does_not_pause_if_nobody_else_reclaims() {
    let embedder = used(filled(310, FILE));
    embedder.take_notes();
    assert_eq!(embedder.direct(32), 0);
    assert!(!embedder.take_notes().contains(&Throttle::NoProgress.name()));
}

#[test]
fn no_wake_up_without_a_waiter() {
    let embedder = filled(310, FILE);
    clear_young(embedder);
    assert!(embedder.direct(64) >= 64);
    assert_eq!(*embedder.resumed.lock().unwrap(), []);
}

#[test]
fn no_wake_up_after_a_pause_that_panicked() {
    let embedder = short();
    *embedder.others.lock().unwrap() = Some(|_, _| panic!("in a pause"));
    assert!(catch_unwind(AssertUnwindSafe(|| embedder.direct(32))).is_err());
    work(embedder);
    assert_eq!(*embedder.resumed.lock().unwrap(), []);
}

#[test]
fn requests_do_not_wait_for_background_reclaim_of_a_hopeless_node() {
    let embedder = short();
    // Background reclaim runs until the node is hopeless.
    embedder.pages().resident.values_mut().for_each(|page| page.references = 1);
    embedder.reclaim().wake(node(), Order::ZERO, framewright::ZoneKind::Normal);
    work(embedder);
    assert!(embedder.reclaim().is_hopeless(node()));
    let before = stat(embedder, NodeStat::PgscanDirectThrottle);
    embedder.direct(32);
    assert_eq!(stat(embedder, NodeStat::PgscanDirectThrottle), before);
}
