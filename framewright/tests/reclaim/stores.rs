//! Dirty pages, and stores that are slow or fail.

use framewright::{
    Pfn,
    observe::NodeStat,
    reclaim::{Abandoned, LruList, PageKind},
};

use crate::{
    pages::Mood,
    world::{CPU, World, cool, memory, node, stat},
};

const FILE: PageKind = PageKind::File;
const ANON: PageKind = PageKind::Anon;

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
    assert!(world.lru().awaited(node()) > 0);
    world.check();
    world.complete(usize::MAX);
    assert_eq!(world.lru().awaited(node()), 0);
    assert!(stat(world, NodeStat::Pgrotated) > 0);
    assert!(world.direct(32) >= 32);
    world.check();
}

/// A world in which reclaim has had pages written, and all of those.
fn with_writes() -> (&'static World, Vec<Pfn>) {
    let world = memory(2048, |_| ()).platform();
    (0..64).for_each(|id| world.store(id, FILE).unwrap());
    cool(world);
    world.set_mood(Mood::Slow);
    assert_eq!(world.direct(32), 0, "all is on its way");
    let writes = world.pages().writes.drain(..).map(|(pfn, ..)| pfn).collect::<Vec<_>>();
    assert_eq!(world.lru().awaited(node()), writes.len() as u64);
    assert!(writes.len() > 20);
    (world, writes)
}

#[test]
fn what_is_given_up_while_it_is_written_is_awaited_no_more() {
    let (world, writes) = with_writes();
    let lru = world.lru();
    let is_left = |given_up| assert_eq!(lru.awaited(node()), writes.len() as u64 - given_up);
    assert!(lru.remove(writes[0]));
    is_left(1);
    // SAFETY: nobody uses the pages, which were never mapped by another CPU.
    assert_eq!(unsafe { lru.abandon(writes[1]) }, Abandoned::Yours);
    is_left(2);
    assert!(lru.isolate(writes[2]));
    // SAFETY: as above.
    assert_eq!(unsafe { lru.abandon(writes[2]) }, Abandoned::Theirs);
    // SAFETY: it was isolated above.
    assert!(!unsafe { lru.put_back(writes[2]) });
    is_left(3);
    let mut who = vec![Abandoned::Theirs; 8];
    // SAFETY: as above.
    unsafe { lru.abandon_many(&writes[3..11], &mut who) };
    is_left(11);
    // Whoever writes may hear of it all the same.
    writes[..11].iter().for_each(|&pfn| world.reclaim().written(CPU, pfn, Ok(())));
    is_left(11);
    writes[11..].iter().for_each(|&pfn| world.reclaim().written(CPU, pfn, Ok(())));
    assert_eq!(lru.awaited(node()), 0);
    lru.check().unwrap();
}

#[test]
fn what_others_have_written_is_not_what_reclaim_waits_for() {
    let (world, writes) = with_writes();
    for id in 64..80 {
        let pfn = world.touch(id, FILE).unwrap();
        world.reclaim().written(CPU, pfn, Ok(()));
    }
    assert_eq!(world.lru().awaited(node()), writes.len() as u64);
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
        assert_eq!(world.lru().awaited(node()), 0);
        if mood != Mood::Busy {
            assert!(stat(world, NodeStat::WriteFailed) > 0, "{mood:?} is reported");
        }
        world.set_mood(Mood::Prompt);
        assert!(world.direct(32) >= 32, "after {mood:?}");
        world.check();
    }
}

#[test]
fn a_page_whose_writing_failed_later_is_out_of_the_way() {
    let world = memory(2048, |_| ()).platform();
    (0..62).for_each(|id| world.store(id, FILE).unwrap());
    cool(world);
    world.set_mood(Mood::FailsLate);
    world.direct(32);
    world.lru().drain_all();
    let lru = world.lru();
    let writing = lru.awaited(node());
    assert!(writing > 0);
    // As if they had been seen as being written, and become active, and aged again.
    for pfn in world.pages().resident.keys() {
        lru.deactivate(CPU, *pfn);
    }
    lru.drain_all();
    world.complete(usize::MAX);
    lru.drain_all();
    assert_eq!(lru.pages(node(), LruList::ActiveFile), writing);
    world.check();
}

#[test]
fn a_page_that_was_used_is_not_written_right_after() {
    let world = memory(2048, |_| ()).platform();
    (0..31).for_each(|id| world.store(id, FILE).unwrap());
    assert!(world.direct(1) > 0);
    // Looked at first: it was used. Then it goes only if it is clean. Only then it is written.
    assert!(stat(world, NodeStat::PgscanFile) > 2 * 31, "it was not looked at twice before");
    world.check();
}

#[test]
fn who_writes_in_the_background_is_woken_and_waited_for() {
    let world = memory(2048, |_| ()).platform();
    (0..310).for_each(|id| world.store(id, FILE).unwrap());
    cool(world);
    world.pages().writers = true;
    assert_eq!(world.direct(32), 0, "others are to write");
    assert!(world.take_notes().contains(&"wake writers"));
    assert_eq!(stat(world, NodeStat::NrVmscanWrite), 0);
    assert!(stat(world, NodeStat::NrVmscanImmediateReclaim) > 0);
    // They do.
    {
        let mut pages = world.pages();
        let written: Vec<_> = pages.resident.values().map(|page| (page.id, page.version)).collect();
        pages.store.extend(written);
        pages.resident.values_mut().for_each(|page| (page.dirty, page.pte_dirty) = (false, false));
    }
    assert!(world.direct(32) >= 32);
    world.check();
}
