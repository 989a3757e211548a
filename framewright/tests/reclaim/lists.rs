//! The lists as an embedder uses them.

use framewright::{
    CpuId, MemoryRange, NodeId, Order, Pfn, ZoneKind,
    observe::NodeStat,
    reclaim::{Abandoned, LruList, PageKind},
};

use crate::world::{CPU, OTHER, filled, memory, memory_of, node, range, stat};

const FILE: PageKind = PageKind::File;

#[test]
fn pages_wait_in_a_batch_until_there_are_enough() {
    let world = memory(2048, |_| ()).platform();
    for id in 0..62 {
        world.touch(id, FILE).unwrap();
    }
    assert_eq!(world.lru().pages(node(), LruList::InactiveFile), 0);
    world.touch(62, FILE).unwrap();
    assert_eq!(world.lru().pages(node(), LruList::InactiveFile), 63);
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
    assert_eq!(unsafe { world.lru().abandon(pfn) }, Abandoned::Theirs);
    // SAFETY: it was isolated above.
    assert!(!unsafe { world.lru().put_back(pfn) }, "it is ours to free now");
    assert!(world.lru().list_of(pfn).is_none());
    let mut pages = world.pages();
    pages.resident.remove(&pfn);
    pages.place.remove(&0);
    drop(pages);
    // SAFETY: as above.
    unsafe { world.token().free_raw(pfn, Order::ZERO).unwrap() };
    world.check();
}

#[test]
fn many_pages_are_abandoned_at_once() {
    let world = filled(100, FILE);
    let frames: Vec<Pfn> = (0..70).map(|id| world.pages().place[&id]).collect();
    let unknown = Pfn::new(1 << 40);
    let isolated = frames[40];
    assert!(world.lru().isolate(isolated));
    let asked: Vec<Pfn> = frames.iter().copied().chain([unknown]).collect();
    let mut who = vec![Abandoned::Theirs; 71];
    // SAFETY: nobody uses the pages, which were never mapped by another CPU.
    unsafe { world.lru().abandon_many(&asked, &mut who) };
    for (pfn, who) in asked.iter().zip(&who) {
        let theirs = *pfn == isolated;
        assert_eq!(*who, if theirs { Abandoned::Theirs } else { Abandoned::Yours }, "{pfn}");
        assert!(world.lru().list_of(*pfn).is_none());
    }
    // SAFETY: it was isolated above.
    assert!(!unsafe { world.lru().put_back(isolated) }, "it is ours to free now");
    let mut pages = world.pages();
    for (id, pfn) in (0..70).zip(&frames) {
        pages.resident.remove(pfn);
        pages.place.remove(&id);
    }
    drop(pages);
    for pfn in frames {
        // SAFETY: as above.
        unsafe { world.token().free_raw(pfn, Order::ZERO).unwrap() };
    }
    world.check();
}

#[test]
fn pages_of_all_zones_and_lists_are_abandoned_at_once() {
    // The first two zones share a pageblock, and the last has another node.
    let near = [range(0, 700, ZoneKind::Dma32), range(700, 1348, ZoneKind::Normal)];
    let far = MemoryRange { node: NodeId::new(1).unwrap(), ..range(4096, 1024, ZoneKind::Normal) };
    let world = memory_of(&[near[0], near[1], far], true, |_| ()).platform();
    let lru = world.lru();
    let numbers = (400..1100).chain(4096..4400).chain(0..100).chain(4400..4500);
    let frames: Vec<Pfn> = numbers.map(Pfn::new).collect();
    for (at, &pfn) in frames.iter().enumerate() {
        assert!(lru.add(CPU, pfn, if at % 50 < 25 { FILE } else { PageKind::Anon }));
        if at % 7 == 0 {
            lru.activate(CPU, pfn);
        }
    }
    let there = |node| LruList::ALL.iter().map(|&list| lru.pages(node, list)).sum::<u64>();
    assert!(there(node()) > 700 && there(far.node) > 300, "the rest waits");
    lru.check().unwrap();
    let mut who = vec![Abandoned::Theirs; frames.len()];
    // SAFETY: nobody uses the pages, which were never mapped.
    unsafe { lru.abandon_many(&frames, &mut who) };
    assert!(who.iter().all(|who| *who == Abandoned::Yours));
    assert_eq!((there(node()), there(far.node)), (0, 0));
    lru.drain_all();
    assert_eq!((there(node()), there(far.node)), (0, 0), "what waited is gone, too");
    lru.check().unwrap();
}

#[test]
fn a_batch_takes_as_much_as_it_has_room_for() {
    let world = memory(2048, |tuning| tuning.reclaim.add_batch = 255).platform();
    for number in 0..600 {
        assert!(world.lru().add(CPU, Pfn::new(number), FILE));
    }
    world.lru().drain(CPU);
    assert_eq!(world.lru().pages(node(), LruList::InactiveFile), 600);
    world.lru().check().unwrap();
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

#[test]
fn a_page_that_left_its_batch_does_not_come_twice() {
    let world = memory(2048, |_| ()).platform();
    let lru = world.lru();
    let (pfn, other) = (Pfn::new(700), CpuId::new(OTHER));
    assert!(lru.add(CPU, pfn, FILE));
    assert!(!lru.add(CPU, pfn, FILE), "it is known");
    assert!(lru.remove(pfn), "it is in a batch");
    assert!(!lru.remove(pfn));
    // It comes again elsewhere, while the first batch still names it.
    assert!(lru.add(other, pfn, PageKind::Anon));
    lru.drain(CPU);
    lru.drain(other);
    assert_eq!(lru.list_of(pfn), Some(LruList::InactiveAnon));
    assert_eq!(lru.pages(node(), LruList::InactiveAnon), 1);
    lru.check().unwrap();
    assert!(lru.remove(pfn));
    lru.check().unwrap();
}

#[test]
fn frames_and_cpus_that_do_not_exist_are_refused() {
    let lru = memory(2048, |_| ()).platform().lru();
    assert!(!lru.add(CPU, Pfn::new(2048), FILE));
    assert!(!lru.add(CpuId::new(2), Pfn::new(0), FILE));
    assert!(!lru.remove(Pfn::new(5000)) && !lru.isolate(Pfn::new(5000)));
    lru.check().unwrap();
}
