//! Dirty pages, and stores that are slow or fail.

use framewright::{
    observe::NodeStat,
    reclaim::{LruList, PageKind},
};

use crate::{
    pages::Mood,
    world::{cool, memory, node, stat},
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
    assert!(world.lru().writing(node()) > 0);
    world.check();
    world.complete(usize::MAX);
    assert_eq!(world.lru().writing(node()), 0);
    assert!(stat(world, NodeStat::Pgrotated) > 0);
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
        assert_eq!(world.lru().writing(node()), 0);
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
    let writing = lru.writing(node());
    assert!(writing > 0);
    // As if they had been seen as being written, and become active, and aged again.
    for pfn in world.pages().resident.keys() {
        lru.deactivate(crate::world::CPU, *pfn);
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
