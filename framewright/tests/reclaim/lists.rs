//! The interface of the LRU lists for embedders.

use framewright::{
    CpuId, MemoryRange, NodeId, Order, Pfn, ZoneKind,
    observe::NodeStat,
    reclaim::{FreedBy, LruList, PageKind},
};

use crate::embedder::{CPU, OTHER, embedder, embedder_of, filled, node, range, stat};

const FILE: PageKind = PageKind::File;

#[test]
fn pages_wait_in_a_batch_until_there_are_enough() {
    let embedder = embedder(2048, |_| ());
    for id in 0..62 {
        embedder.touch(id, FILE).unwrap();
    }
    assert_eq!(embedder.lru().pages(node(), LruList::InactiveFile), 0);
    embedder.touch(62, FILE).unwrap();
    assert_eq!(embedder.lru().pages(node(), LruList::InactiveFile), 63);
    embedder.check();
}

#[test]
fn an_isolated_page_can_be_abandoned() {
    let embedder = filled(40, FILE);
    let pfn = embedder.pages().place[&0];
    assert!(embedder.lru().isolate(pfn));
    assert!(!embedder.lru().isolate(pfn), "an isolated page was isolated or removed again");
    assert!(!embedder.lru().remove(pfn), "an isolated page was isolated or removed again");
    assert!(embedder.lru().check().is_err(), "the check does not report an isolated page");
    // SAFETY: the page is not in use, and was never mapped by another CPU.
    assert_eq!(unsafe { embedder.lru().abandon(pfn) }, FreedBy::Isolator);
    // SAFETY: the page was isolated above.
    let is_back = unsafe { embedder.lru().put_back(pfn) };
    assert!(!is_back, "the page was put back although the caller frees the frame");
    assert!(embedder.lru().list_of(pfn).is_none());
    let mut pages = embedder.pages();
    pages.resident.remove(&pfn);
    pages.place.remove(&0);
    drop(pages);
    // SAFETY: as above.
    unsafe { embedder.token().free_raw(pfn, Order::ZERO).unwrap() };
    embedder.check();
}

#[test]
fn many_pages_are_abandoned_at_once() {
    let embedder = filled(100, FILE);
    let frames: Vec<Pfn> = (0..70).map(|id| embedder.pages().place[&id]).collect();
    let unknown = Pfn::new(1 << 40);
    let isolated = frames[40];
    assert!(embedder.lru().isolate(isolated));
    let asked: Vec<Pfn> = frames.iter().copied().chain([unknown]).collect();
    let mut freed_by = vec![FreedBy::Isolator; 71];
    // SAFETY: the pages are not in use, and were never mapped by another CPU.
    unsafe { embedder.lru().abandon_many(&asked, &mut freed_by) };
    for (pfn, freed_by) in asked.iter().zip(&freed_by) {
        let theirs = *pfn == isolated;
        assert_eq!(*freed_by, if theirs { FreedBy::Isolator } else { FreedBy::Caller }, "{pfn}");
        assert!(embedder.lru().list_of(*pfn).is_none());
    }
    // SAFETY: the page was isolated above.
    let is_back = unsafe { embedder.lru().put_back(isolated) };
    assert!(!is_back, "the page was put back although the caller frees the frame");
    let mut pages = embedder.pages();
    for (id, pfn) in (0..70).zip(&frames) {
        pages.resident.remove(pfn);
        pages.place.remove(&id);
    }
    drop(pages);
    for pfn in frames {
        // SAFETY: as above.
        unsafe { embedder.token().free_raw(pfn, Order::ZERO).unwrap() };
    }
    embedder.check();
}

#[test]
fn pages_of_all_zones_and_lists_are_abandoned_at_once() {
    // The first two zones share a pageblock, and the last is on another node.
    let near = [range(0, 700, ZoneKind::Dma32), range(700, 1348, ZoneKind::Normal)];
    let far = MemoryRange { node: NodeId::new(1).unwrap(), ..range(4096, 1024, ZoneKind::Normal) };
    let embedder = embedder_of(&[near[0], near[1], far], true, |_| ());
    let lru = embedder.lru();
    let numbers = (400..1100).chain(4096..4400).chain(0..100).chain(4400..4500);
    let frames: Vec<Pfn> = numbers.map(Pfn::new).collect();
    for (at, &pfn) in frames.iter().enumerate() {
        assert!(lru.add(CPU, pfn, if at % 50 < 25 { FILE } else { PageKind::Anon }));
        if at % 7 == 0 {
            lru.activate(CPU, pfn);
        }
    }
    let there = |node| LruList::ALL.iter().map(|&list| lru.pages(node, list)).sum::<u64>();
    assert!(there(node()) > 700 && there(far.node) > 300, "too many pages are still in batches");
    lru.check().unwrap();
    let mut freed_by = vec![FreedBy::Isolator; frames.len()];
    // SAFETY: the pages are not in use, and were never mapped.
    unsafe { lru.abandon_many(&frames, &mut freed_by) };
    assert!(freed_by.iter().all(|freed_by| *freed_by == FreedBy::Caller));
    assert_eq!((there(node()), there(far.node)), (0, 0));
    lru.drain_all();
    assert_eq!((there(node()), there(far.node)), (0, 0), "pages in batches were not abandoned");
    lru.check().unwrap();
}

#[test]
fn a_batch_holds_as_many_moves_as_its_capacity() {
    let embedder = embedder(2048, |tuning| tuning.reclaim.lru_batch = 255);
    for number in 0..600 {
        assert!(embedder.lru().add(CPU, Pfn::new(number), FILE));
    }
    embedder.lru().drain(CPU);
    assert_eq!(embedder.lru().pages(node(), LruList::InactiveFile), 600);
    embedder.lru().check().unwrap();
}

#[test]
fn marks_move_pages_between_lists() {
    let embedder = filled(62, FILE);
    let lru = embedder.lru();
    let pfn = embedder.pages().place[&5];
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
    assert_eq!(stat(embedder, NodeStat::Pgactivate), 2);
    assert_eq!(stat(embedder, NodeStat::Pgdeactivate), 1);
    embedder.check();
}

#[test]
fn a_page_that_was_removed_from_its_batch_is_listed_once() {
    let embedder = embedder(2048, |_| ());
    let lru = embedder.lru();
    let (pfn, other) = (Pfn::new(700), CpuId::new(OTHER));
    assert!(lru.add(CPU, pfn, FILE));
    assert!(!lru.add(CPU, pfn, FILE), "a known page was added again");
    assert!(lru.remove(pfn), "the page in a batch was not found");
    assert!(!lru.remove(pfn));
    // The page is added again on another CPU while the first batch still has its entry.
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
    let lru = embedder(2048, |_| ()).lru();
    assert!(!lru.add(CPU, Pfn::new(2048), FILE));
    assert!(!lru.add(CpuId::new(2), Pfn::new(0), FILE));
    assert!(!lru.remove(Pfn::new(5000)) && !lru.isolate(Pfn::new(5000)));
    lru.check().unwrap();
}
