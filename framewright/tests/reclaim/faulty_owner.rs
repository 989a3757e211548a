//! A `PageOwner` with a fault at one call. The tests try each kind of fault at each call that
//! reclaim makes. Afterwards every frame has one owner, no store is lost, and all frames can be
//! freed.

use std::panic::{AssertUnwindSafe, catch_unwind};

use framewright::{
    MigrateType, Order, Pfn, Request,
    platform::Need,
    reclaim::{NextStep, PageKind},
};
use framewright_fakes::{FakeOwner, FaultyOwner, OwnerFault, StoreBehavior};

use crate::embedder::{CPU, clear_young, embedder, node};

const FAULTS: [OwnerFault; 5] = [
    OwnerFault::Refuse,
    OwnerFault::RefuseHalf,
    OwnerFault::FailHalf,
    OwnerFault::Gone,
    OwnerFault::Lists,
];

fn kind_of(id: u32) -> PageKind {
    if id.is_multiple_of(3) { PageKind::Anon } else { PageKind::File }
}

/// An embedder with pages of both kinds. A third of the pages are dirty, one in eight is
/// unmapped, and one in eight is young.
fn in_use() -> &'static FakeOwner {
    let embedder = embedder(1024, |tuning| tuning.reclaim.cluster = 8);
    embedder.pages().swap = true;
    for id in 0..320 {
        embedder.touch(id, kind_of(id)).unwrap();
        if id % 3 == 1 {
            embedder.store(id, kind_of(id)).unwrap();
        }
    }
    clear_young(embedder);
    // One page in eight is not mapped, and one in eight is young.
    for (nth, page) in embedder.pages().resident.values_mut().enumerate() {
        match nth % 8 {
            0 => {
                page.dirty |= std::mem::take(&mut page.pte_dirty);
                page.maps = 0;
            }
            1 => page.young = 1,
            _ => {}
        }
    }
    embedder.pages().behavior = StoreBehavior::Slow;
    embedder
}

/// Runs step `nth`: direct reclaim, kswapd, or the completion of all writes.
fn act(owner: &FaultyOwner, nth: u32) {
    let embedder = owner.owner;
    let reclaim = owner.reclaim();
    match nth % 4 {
        0 | 2 => {
            let request = Request::new(Order::ZERO, MigrateType::Movable);
            let need = Need { request, cpu: CPU, node: node(), unmixed: false };
            reclaim.direct(&need, 12);
        }
        1 => {
            reclaim.wake(node(), Order::ZERO, framewright::ZoneKind::Normal);
            let mut kswapd = reclaim.kswapd(node()).unwrap();
            for _ in 0..3 {
                if kswapd.step(&mut embedder.token()) != NextStep::Now {
                    break;
                }
            }
        }
        _ => embedder.complete(usize::MAX),
    }
}

const STEPS: u32 = 8;

/// Writes and reclaims or truncates all pages, so that all frames are free.
fn end(embedder: &'static FakeOwner) {
    embedder.set_behavior(StoreBehavior::Prompt);
    embedder.complete(usize::MAX);
    embedder.direct(64);
    embedder.check();
    let left: Vec<u32> = embedder.pages().place.keys().copied().collect();
    left.into_iter().for_each(|id| embedder.truncate(id));
    embedder.drain_deferred();
    embedder.memory().drain_all();
    embedder.check();
    assert_eq!(embedder.memory().free(), embedder.memory().managed(), "frames are still allocated");
}

/// Runs the steps with a fault at call `at`. Returns the number of calls.
fn run(at: u32, fault: OwnerFault) -> u32 {
    let embedder = in_use();
    let owner = FaultyOwner::new(embedder, at, fault);
    for nth in 0..STEPS {
        act(&owner, nth);
        embedder.check();
    }
    end(embedder);
    owner.calls()
}

#[test]
fn an_owner_may_refuse_or_free_pages_at_any_call() {
    for fault in FAULTS {
        let mut at = 0;
        while run(at, fault) > at {
            at += 1;
        }
        assert!(at > 60, "{fault:?}: {at} calls were tried");
    }
}

/// The embedder's recovery after a panic in its `PageOwner`. Pages of the cluster are still locked
/// and isolated, and frames that the call had released have no owner.
fn recover(owner: &FaultyOwner) {
    let embedder = owner.owner;
    embedder.memory().check().unwrap();
    {
        let mut pages = embedder.pages();
        assert!(pages.cached.is_empty(), "an unmapped page was not flushed");
        pages.resident.values_mut().for_each(|page| page.locked = false);
    }
    let lru = embedder.lru();
    let resident: Vec<Pfn> = embedder.pages().resident.keys().copied().collect();
    for frame in resident {
        // SAFETY: only reclaim isolates pages here, and it has unwound. The call ignores pages that
        // are not isolated.
        assert!(unsafe { lru.put_back(frame) }, "the page was abandoned");
    }
    for frame in owner.take_lost() {
        // SAFETY: as above.
        let is_back = unsafe { lru.put_back(frame) };
        assert!(is_back && lru.remove(frame), "the page could not be put back and removed");
        // SAFETY: the embedder has released the frame, and reclaim has not received it.
        unsafe { embedder.token().free_raw(frame, Order::ZERO).unwrap() };
    }
}

/// Runs the steps with a panic at call `at`. Returns the number of calls.
fn run_with_panic(at: u32, fault: OwnerFault) -> u32 {
    let embedder = in_use();
    let owner = FaultyOwner::new(embedder, at, fault);
    for nth in 0..STEPS {
        if catch_unwind(AssertUnwindSafe(|| act(&owner, nth))).is_err() {
            recover(&owner);
        }
        embedder.check();
    }
    end(embedder);
    owner.calls()
}

#[test]
fn an_owner_that_panics_loses_only_frames_that_it_was_releasing() {
    // The test expects hundreds of panics, and does not print them.
    std::panic::set_hook(Box::new(|info| {
        if info.payload_as_str() != Some("a fault") {
            eprintln!("{info}");
        }
    }));
    for fault in [OwnerFault::Panic, OwnerFault::PanicAfter] {
        let mut at = 0;
        while run_with_panic(at, fault) > at {
            at += 1;
        }
        assert!(at > 60, "{fault:?}: {at} calls were tried");
    }
}
