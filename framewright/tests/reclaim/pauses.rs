//! A pause ends when its condition is met, and its waiters are woken then.

use std::panic::{AssertUnwindSafe, catch_unwind};

use framewright::{
    CpuId, MigrateType, Order, Request,
    observe::NodeStat,
    reclaim::{PageKind, Pause, Rest, Throttle},
};

use crate::{
    pages::Mood,
    world::{CPU, OTHER, Others, World, cool, filled, memory, node, stat},
};

const FILE: PageKind = PageKind::File;

/// Checks that `others` meets the condition of the pause: the pause is not over before, is over afterwards,
/// and its waiters were woken.
fn ends(world: &'static World, pause: &Pause<'_>, why: Throttle, others: impl FnOnce()) {
    assert_eq!((pause.why(), pause.node()), (why, node()));
    assert!(!pause.is_over(), "{why:?}: there is nothing to wait for");
    world.resumed.lock().unwrap().clear();
    others();
    assert!(pause.is_over(), "{why:?}: it goes on");
    assert!(world.resumed.lock().unwrap().contains(&why), "{why:?}: nobody was told");
}

/// A reason for a pause, with the events that end it.
struct Case {
    why: Throttle,
    /// A world in which reclaim pauses for this reason.
    world: fn() -> &'static World,
    /// Starts reclaim.
    reclaim: fn(&'static World),
    /// The activity of others during the pause.
    others: Others,
}

const CASES: [Case; 6] = [
    Case {
        why: Throttle::Reserve,
        world: short,
        reclaim: |world| _ = world.direct(32),
        others: |world, pause| ends(world, pause, Throttle::Reserve, || work(world)),
    },
    Case {
        why: Throttle::Reserve,
        world: || {
            let world = short();
            world.pages().resident.values_mut().for_each(|page| page.references = 1);
            world
        },
        reclaim: |world| _ = world.direct(32),
        // Background reclaim frees nothing and sleeps.
        others: |world, pause| ends(world, pause, Throttle::Reserve, || work(world)),
    },
    Case {
        why: Throttle::Isolated,
        world: || {
            let world = filled(310, FILE);
            cool(world);
            let frames: Vec<_> = world.pages().resident.keys().copied().take(200).collect();
            frames.into_iter().for_each(|pfn| assert!(world.lru().isolate(pfn)));
            world
        },
        reclaim: |world| _ = world.direct(32),
        others: |world, pause| {
            let frames: Vec<_> = world.pages().resident.keys().copied().take(200).collect();
            // SAFETY: they were isolated above.
            let put_back =
                || frames.iter().for_each(|&pfn| assert!(unsafe { world.lru().put_back(pfn) }));
            ends(world, pause, Throttle::Isolated, put_back);
        },
    },
    Case {
        why: Throttle::NoProgress,
        world: || {
            let world = filled(310, FILE);
            world.pages().resident.values_mut().for_each(|page| page.references = 1);
            world
        },
        reclaim: |world| _ = world.direct(32),
        others: |world, pause| {
            world.pages().resident.values_mut().for_each(|page| page.references = 0);
            let reclaim = || assert!(world.direct_on(CpuId::new(OTHER), 32) >= 32);
            ends(world, pause, Throttle::NoProgress, reclaim);
        },
    },
    Case {
        why: Throttle::Congested,
        world: || written(|page| page.dirty = true),
        reclaim: |world| _ = world.direct(32),
        others: |world, pause| ends(world, pause, Throttle::Congested, || world.complete(1_000)),
    },
    Case {
        why: Throttle::WriteBack,
        world: || {
            let world = short();
            world.set_mood(Mood::Slow);
            let ids: Vec<_> = world.pages().resident.values().map(|page| page.id).collect();
            ids.into_iter().for_each(|id| world.store(id, FILE).unwrap());
            cool(world);
            world
        },
        reclaim: |world| {
            world.reclaim().wake(node(), Order::ZERO, framewright::ZoneKind::Normal);
            work(world);
        },
        others: |world, pause| ends(world, pause, Throttle::WriteBack, || world.complete(10_000)),
    },
];

/// A world with less free than half of its reserve, and much to reclaim.
fn short() -> &'static World {
    let world = memory(2048, |_| ()).platform();
    (0..1500).for_each(|id| _ = world.touch(id, FILE).unwrap());
    world.lru().drain_all();
    let all = Request::new(Order::ZERO, MigrateType::Movable).inside_relief();
    let mut token = world.token();
    while world.memory().free() > 16 {
        let block = token.alloc(all).expect("the reserves are open");
        world.take(block.into_raw().0);
    }
    drop(token);
    cool(world);
    world
}

/// A world whose pages were all seen under write-back once.
fn written(change: fn(&mut crate::pages::Resident)) -> &'static World {
    let world = memory(2048, |_| ()).platform();
    (0..310).for_each(|id| world.store(id, FILE).unwrap());
    cool(world);
    world.set_mood(Mood::Slow);
    while world.pages().resident.values().any(|page| !page.writeback) {
        assert_eq!(world.direct(310), 0, "all is on its way");
        cool(world);
    }
    world.pages().resident.values_mut().for_each(change);
    let frames: Vec<_> = world.pages().resident.keys().copied().collect();
    frames.into_iter().for_each(|pfn| world.lru().deactivate(CPU, pfn));
    world.lru().drain_all();
    world.take_notes();
    world
}

/// Background reclaim works until it sleeps, while the token of its CPU is in use by a request.
fn work(world: &'static World) {
    let mut kswapd = world.reclaim().kswapd(node()).unwrap();
    let mut steps = 0;
    while kswapd.step_on(CPU) == Rest::None {
        steps += 1;
        assert!(steps < 10_000, "works for ever");
    }
}

#[test]
fn pauses_end_with_what_they_wait_for() {
    for (nth, case) in CASES.iter().enumerate() {
        let world = (case.world)();
        let before = stat(world, case.why.expired());
        *world.others.lock().unwrap() = Some(case.others);
        (case.reclaim)(world);
        assert!(world.others.lock().unwrap().is_none(), "{nth}: {:?} did not pause", case.why);
        let first = stat(world, case.why.expired()) - before;
        // A later pause in the same call is not resumed.
        let paused = world.take_notes().iter().filter(|&&note| note == case.why.name()).count();
        assert_eq!(
            first,
            paused as u64 - 1,
            "{nth}: {:?} is said to have ended by itself",
            case.why
        );
    }
}

#[test]
fn pauses_that_end_before_are_counted() {
    for case in &CASES {
        let world = (case.world)();
        world.take_notes();
        let before = stat(world, case.why.expired());
        (case.reclaim)(world);
        let paused = world.take_notes().iter().filter(|&&note| note == case.why.name()).count();
        assert!(paused > 0);
        assert_eq!(stat(world, case.why.expired()) - before, paused as u64, "{:?}", case.why);
        assert!(world.resumed.lock().unwrap().iter().all(|&why| why != Throttle::Isolated));
    }
}

#[test]
fn nobody_is_told_while_nobody_pauses() {
    let world = filled(310, FILE);
    cool(world);
    assert!(world.direct(64) >= 64);
    assert_eq!(*world.resumed.lock().unwrap(), []);
}

#[test]
fn nobody_is_told_after_a_pause_that_panicked() {
    let world = short();
    *world.others.lock().unwrap() = Some(|_, _| panic!("in a pause"));
    assert!(catch_unwind(AssertUnwindSafe(|| world.direct(32))).is_err());
    work(world);
    assert_eq!(*world.resumed.lock().unwrap(), []);
}

#[test]
fn requests_do_not_wait_for_background_reclaim_that_does_not_work() {
    let world = short();
    // Until background reclaim has given up.
    world.pages().resident.values_mut().for_each(|page| page.references = 1);
    world.reclaim().wake(node(), Order::ZERO, framewright::ZoneKind::Normal);
    work(world);
    assert!(world.reclaim().is_hopeless(node()));
    let before = stat(world, NodeStat::PgscanDirectThrottle);
    world.direct(32);
    assert_eq!(stat(world, NodeStat::PgscanDirectThrottle), before);
}
