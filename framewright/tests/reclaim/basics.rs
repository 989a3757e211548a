//! What a pass does, one rule at a time.

use std::sync::atomic::Ordering;

use framewright::{
    Pfn, ZoneKind,
    observe::NodeStat,
    reclaim::{LruList, PageKind, Rest},
    tuning::{Auto, FlushBatching},
};

use crate::{
    pages::Mood,
    world::{CPU, World, memory, memory_of, node, range},
};

const FILE: PageKind = PageKind::File;
const ANON: PageKind = PageKind::Anon;

fn filled(pages: u32, kind: PageKind) -> &'static World {
    let world = memory(2048, |_| ()).platform();
    for id in 0..pages {
        world.touch(id, kind).unwrap();
    }
    world.lru().drain_all();
    world
}

fn stat(world: &World, stat: NodeStat) -> u64 {
    world.lru().stats().get(stat)
}

/// As if nobody had used them since they were read.
fn cool(world: &World) {
    world.pages().resident.values_mut().for_each(|page| page.young = 0);
}

#[test]
fn pages_wait_in_a_batch_until_there_are_enough() {
    let world = memory(2048, |_| ()).platform();
    for id in 0..30 {
        world.touch(id, FILE).unwrap();
    }
    assert_eq!(world.lru().pages(node(), LruList::InactiveFile), 0);
    world.touch(30, FILE).unwrap();
    assert_eq!(world.lru().pages(node(), LruList::InactiveFile), 31);
    world.check();
}

#[test]
fn a_mapped_page_that_was_used_is_kept_once() {
    let world = filled(640, FILE);
    assert!((32..=64).contains(&world.direct(32)));
    world.check();
    let (scanned, stolen) =
        (stat(world, NodeStat::PgscanDirect), stat(world, NodeStat::PgstealDirect));
    assert!(scanned > stolen, "every page was used: {scanned} were looked at for {stolen}");
    // Again and again, as a reader that never comes back would have it.
    let world = memory(2048, |_| ()).platform();
    for id in 0..20_000 {
        world.touch(id, FILE).unwrap();
    }
    let lru = world.lru().stats();
    let scanned = lru.get(NodeStat::PgscanFile) as f64;
    let ratio = scanned / lru.get(NodeStat::PgstealFile) as f64;
    assert!((1.9..2.3).contains(&ratio), "pages are looked at {ratio} times");
    world.check();
}

#[test]
fn pages_that_are_used_again_and_again_become_active() {
    let world = filled(320, FILE);
    let hot: Vec<u32> = (0..20).collect();
    for round in 0..40 {
        cool(world);
        for &id in &hot {
            world.touch(id, FILE).unwrap();
        }
        world.direct(32);
        // Others read what they never read again.
        (0..32).for_each(|i| _ = world.touch(1000 + round * 32 + i, FILE).unwrap());
    }
    let there = world.pages().place.clone();
    assert!(hot.iter().all(|id| there.contains_key(id)), "hot pages were reclaimed");
    assert!(stat(world, NodeStat::Pgactivate) > 0);
    world.check();
}

#[test]
fn one_flush_serves_a_batch() {
    let run = |batching| {
        let world = memory(2048, |tuning| {
            tuning.tlb.batching = batching;
            tuning.tlb.parked_max = Auto::Fixed(512);
        });
        let world = world.platform();
        for id in 0..640 {
            world.touch(id, FILE).unwrap();
        }
        cool(world);
        world.take_notes();
        let freed = world.direct(320);
        assert!(freed >= 320);
        world.check();
        let notes = world.take_notes();
        (freed, notes.into_iter().filter(|&note| note == "interrupt").count() as u64)
    };
    let (freed, interrupts) = run(FlushBatching::Off);
    assert_eq!(interrupts, freed);
    let (freed, interrupts) = run(FlushBatching::All);
    assert!(interrupts <= freed / 30, "{interrupts} for {freed}");
    let (freed, interrupts) = run(FlushBatching::Lazy);
    assert!(interrupts <= 1, "{interrupts} for {freed}");
}

#[test]
fn dirty_pages_are_written_before_they_go() {
    for kind in PageKind::ALL {
        let world = memory(2048, |_| ()).platform();
        world.pages().swap = true;
        for id in 0..400 {
            world.store(id, kind).unwrap();
        }
        cool(world);
        assert!(world.direct(64) >= 64, "{kind:?}");
        assert!(stat(world, NodeStat::NrVmscanWrite) >= 64);
        world.check();
    }
}

#[test]
fn pages_under_write_back_go_next_once_they_are_written() {
    let world = memory(2048, |_| ()).platform();
    for id in 0..64 {
        world.store(id, FILE).unwrap();
    }
    cool(world);
    world.set_mood(Mood::Slow);
    assert_eq!(world.direct(32), 0, "all is on its way");
    assert!(world.lru().writing(node()) > 0);
    world.check();
    world.complete(usize::MAX);
    assert_eq!(world.lru().writing(node()), 0);
    assert!(world.direct(32) >= 32);
    world.check();
}

#[test]
fn what_cannot_be_written_stays_and_ends_in_no_progress() {
    for mood in [Mood::Fails, Mood::Full, Mood::Busy, Mood::FailsLate] {
        let world = memory(2048, |_| ()).platform();
        world.pages().swap = true;
        for id in 0..300 {
            world.store(id, if id % 2 == 0 { FILE } else { ANON }).unwrap();
        }
        cool(world);
        world.set_mood(mood);
        assert_eq!(world.direct(32), 0, "{mood:?}");
        world.complete(usize::MAX);
        assert_eq!(world.direct(32), 0, "{mood:?}");
        world.complete(usize::MAX);
        world.check();
        assert_eq!(world.pages().resident.len(), 300);
        if mood != Mood::Busy {
            assert!(stat(world, NodeStat::WriteFailed) > 0, "{mood:?} is reported");
        }
        world.set_mood(Mood::Prompt);
        assert!(world.direct(32) >= 32, "after {mood:?}");
        world.check();
    }
}

#[test]
fn allocations_reclaim_and_fail_only_when_nothing_is_left() {
    let world = memory(1024, |_| ()).platform();
    for id in 0..5000 {
        world.touch(id, FILE).unwrap();
    }
    world.check();
    // Pages that are pinned by somebody cannot go: then requests fail, and do not try for ever.
    let world = memory(1024, |_| ()).platform();
    let failed = (0..5000).find(|&id| match world.touch(id, FILE) {
        Ok(pfn) => {
            world.pages().page(pfn).references = 1;
            false
        }
        Err(_) => true,
    });
    assert!(failed.is_some(), "there is no end to memory");
    world.check();
    world.pages().resident.values_mut().for_each(|page| page.references = 0);
    world.touch(9999, FILE).unwrap();
}

#[test]
fn background_reclaim_works_from_low_to_high() {
    let world = memory(4096, |_| ()).platform();
    let mut kswapd = world.reclaim().kswapd(node()).unwrap();
    assert_eq!(kswapd.step(&mut world.token()), Rest::Sleep, "nobody wants anything");
    let mut id = 0;
    while world.woken.load(Ordering::Relaxed) == 0 {
        world.touch(id, FILE).unwrap();
        id += 1;
    }
    let zone = world.memory().zones().next().unwrap();
    assert!(zone.free < zone.low + 64, "woken at {} of {}", zone.free, zone.low);
    let mut steps = 0;
    while kswapd.step(&mut world.token()) == Rest::None {
        steps += 1;
        assert!(steps < 100, "works for ever");
    }
    world.token().drain();
    let zone = world.memory().zones().next().unwrap();
    assert!(zone.free > zone.high, "it stopped at {} of {}", zone.free, zone.high);
    assert_eq!(kswapd.step(&mut world.token()), Rest::Sleep, "after an undisturbed nap");
    assert!(stat(world, NodeStat::PgstealKswapd) > 0);
    assert_eq!(stat(world, NodeStat::PgstealDirect), 0);
    world.check();
}

#[test]
fn background_reclaim_gives_up_on_a_hopeless_node_until_something_is_freed() {
    let world = memory(1024, |_| ()).platform();
    let mut kswapd = world.reclaim().kswapd(node()).unwrap();
    let mut id = 0;
    while let Ok(pfn) = world.touch(id, FILE) {
        world.pages().page(pfn).references = 1;
        id += 1;
    }
    let mut steps = 0;
    while kswapd.step(&mut world.token()) == Rest::None {
        steps += 1;
        assert!(steps <= 32, "works for ever");
    }
    assert!(world.reclaim().is_hopeless(node()));
    assert!(!world.reclaim().wake(node(), framewright::Order::ZERO, ZoneKind::Normal));
    world.pages().resident.values_mut().for_each(|page| page.references = 0);
    assert!(world.direct(32) >= 32);
    assert!(!world.reclaim().is_hopeless(node()), "somebody freed something");
    world.check();
}

#[test]
fn pages_of_zones_that_do_not_help_are_passed_over() {
    let map = [range(0, 1024, ZoneKind::Dma32), range(1024, 1024, ZoneKind::Normal)];
    let world = memory_of(&map, true, |tuning| tuning.zone.reserve_ratios = [0; 4]).platform();
    for id in 0..1800 {
        world.touch(id, FILE).unwrap();
    }
    cool(world);
    world.lru().drain_all();
    let request =
        framewright::Request::new(framewright::Order::ZERO, framewright::MigrateType::Movable)
            .zone(ZoneKind::Dma32);
    let before = world.memory().zones().nth(1).unwrap().free;
    let need = framewright::platform::Need { request, cpu: CPU, node: node() };
    assert!(world.reclaim().direct(&need, 32) >= 32);
    assert_eq!(world.memory().zones().nth(1).unwrap().free, before);
    assert!(stat(world, NodeStat::PgskipNormal) > 0);
    world.check();
}

#[test]
fn pages_that_come_back_too_soon_are_kept_the_next_time() {
    let world = memory(1024, |_| ()).platform();
    // A set that is a little larger than memory, read round and round.
    for id in (0..6).flat_map(|_| 0..1200) {
        world.touch(id, FILE).unwrap();
    }
    assert!(stat(world, NodeStat::WorkingsetRefaultFile) > 0);
    world.check();
}

#[test]
fn unevictable_pages_are_put_aside() {
    let world = filled(200, FILE);
    let pinned: Vec<Pfn> = world.pages().resident.keys().copied().take(50).collect();
    cool(world);
    for &pfn in &pinned {
        world.pages().page(pfn).unevictable = true;
    }
    world.direct(200);
    assert_eq!(world.lru().pages(node(), LruList::Unevictable), 50);
    assert!(pinned.iter().all(|pfn| world.pages().resident.contains_key(pfn)));
    for &pfn in &pinned {
        world.pages().page(pfn).unevictable = false;
        world.lru().set_unevictable(pfn, false);
    }
    world.direct(50);
    assert_eq!(world.lru().pages(node(), LruList::Unevictable), 0);
    world.check();
}

#[test]
fn an_isolated_page_can_be_abandoned() {
    let world = filled(40, FILE);
    let pfn = world.pages().place[&0];
    assert!(world.lru().isolate(pfn));
    assert!(!world.lru().isolate(pfn), "somebody has it");
    assert!(!world.lru().remove(pfn), "somebody has it");
    assert!(world.lru().check().is_err(), "a page is isolated");
    // SAFETY: nobody uses the page, which was never mapped by another CPU.
    assert!(unsafe { world.lru().abandon(pfn) });
    // SAFETY: as above; nothing happens the second time.
    assert!(!unsafe { world.lru().abandon(pfn) });
    assert!(!world.lru().put_back(pfn), "it is ours to free now");
    assert!(world.lru().list_of(pfn).is_none());
    let mut pages = world.pages();
    pages.resident.remove(&pfn);
    pages.place.remove(&0);
    drop(pages);
    // SAFETY: as above.
    unsafe { world.token().free_raw(pfn, framewright::Order::ZERO).unwrap() };
    world.check();
}

#[test]
fn marks_move_pages_between_lists() {
    let world = filled(62, FILE);
    let lru = world.lru();
    let pfn = world.pages().place[&5];
    lru.mark_accessed(CPU, pfn);
    lru.drain(CPU);
    assert_eq!(lru.list_of(pfn), Some(LruList::InactiveFile));
    lru.mark_accessed(CPU, pfn);
    lru.drain(CPU);
    assert_eq!(lru.list_of(pfn), Some(LruList::ActiveFile));
    lru.deactivate(CPU, pfn);
    lru.drain(CPU);
    assert_eq!(lru.list_of(pfn), Some(LruList::InactiveFile));
    lru.activate(CPU, pfn);
    lru.activate(CPU, pfn);
    lru.drain(CPU);
    assert_eq!(lru.list_of(pfn), Some(LruList::ActiveFile));
    assert_eq!(stat(world, NodeStat::Pgactivate), 2);
    assert_eq!(stat(world, NodeStat::Pgdeactivate), 1);
    world.check();
}
