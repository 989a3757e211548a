//! Dirty pages, and slow or failing stores.

use framewright::{
    Pfn,
    observe::NodeStat,
    reclaim::{FreedBy, LruList, PageKind},
};

use framewright_fakes::{FakeOwner, StoreBehavior};

use crate::embedder::{CPU, clear_young, embedder, node, stat};

const FILE: PageKind = PageKind::File;
const ANON: PageKind = PageKind::Anon;

#[test]
fn dirty_pages_are_written_before_they_are_reclaimed() {
    for kind in PageKind::ALL {
        let embedder = embedder(2048, |_| ());
        embedder.pages().swap = true;
        for id in 0..400 {
            embedder.store(id, kind).unwrap();
        }
        clear_young(embedder);
        assert!(embedder.direct(64) >= 64, "{kind:?}");
        assert!(stat(embedder, NodeStat::NrVmscanWrite) >= 64);
        embedder.check();
    }
}

#[test]
fn pages_under_write_back_are_reclaimed_next_when_written() {
    let embedder = embedder(2048, |_| ());
    for id in 0..64 {
        embedder.store(id, FILE).unwrap();
    }
    clear_young(embedder);
    embedder.set_behavior(StoreBehavior::Slow);
    assert_eq!(embedder.direct(32), 0, "pages were reclaimed although all are under writeback");
    assert!(embedder.lru().awaiting_writeback(node()) > 0);
    embedder.check();
    embedder.complete(usize::MAX);
    assert_eq!(embedder.lru().awaiting_writeback(node()), 0);
    assert!(stat(embedder, NodeStat::Pgrotated) > 0);
    assert!(embedder.direct(32) >= 32);
    embedder.check();
}

/// An embedder in which reclaim has started writes, and the frames of these pages.
fn with_writes() -> (&'static FakeOwner, Vec<Pfn>) {
    let embedder = embedder(2048, |_| ());
    (0..64).for_each(|id| embedder.store(id, FILE).unwrap());
    clear_young(embedder);
    embedder.set_behavior(StoreBehavior::Slow);
    assert_eq!(embedder.direct(32), 0, "pages were reclaimed although all are under writeback");
    let writes = embedder.pages().writes.drain(..).map(|(pfn, ..)| pfn).collect::<Vec<_>>();
    assert_eq!(embedder.lru().awaiting_writeback(node()), writes.len() as u64);
    assert!(writes.len() > 20);
    (embedder, writes)
}

#[test]
fn abandoned_pages_do_not_count_as_awaiting_writeback() {
    let (embedder, writes) = with_writes();
    let lru = embedder.lru();
    let is_left =
        |given_up| assert_eq!(lru.awaiting_writeback(node()), writes.len() as u64 - given_up);
    assert!(lru.remove(writes[0]));
    is_left(1);
    // SAFETY: the pages are not in use, and were never mapped by another CPU.
    assert_eq!(unsafe { lru.abandon(writes[1]) }, FreedBy::Caller);
    is_left(2);
    assert!(lru.isolate(writes[2]));
    // SAFETY: as above.
    assert_eq!(unsafe { lru.abandon(writes[2]) }, FreedBy::Isolator);
    // SAFETY: the page was isolated above.
    assert!(!unsafe { lru.put_back(writes[2]) });
    is_left(3);
    let mut freed_by = vec![FreedBy::Isolator; 8];
    // SAFETY: as above.
    unsafe { lru.abandon_many(&writes[3..11], &mut freed_by) };
    is_left(11);
    // The end of these writes may still be reported.
    writes[..11].iter().for_each(|&pfn| embedder.reclaim().written(CPU, pfn, Ok(())));
    is_left(11);
    writes[11..].iter().for_each(|&pfn| embedder.reclaim().written(CPU, pfn, Ok(())));
    assert_eq!(lru.awaiting_writeback(node()), 0);
    lru.check().unwrap();
}

#[test]
fn writes_of_others_do_not_count_as_awaited_by_reclaim() {
    let (embedder, writes) = with_writes();
    for id in 64..80 {
        let pfn = embedder.touch(id, FILE).unwrap();
        embedder.reclaim().written(CPU, pfn, Ok(()));
    }
    assert_eq!(embedder.lru().awaiting_writeback(node()), writes.len() as u64);
}

#[test]
fn pages_that_cannot_be_written_stay_and_reclaim_makes_no_progress() {
    for behavior in
        [StoreBehavior::Fails, StoreBehavior::Full, StoreBehavior::Busy, StoreBehavior::FailsLate]
    {
        let embedder = embedder(2048, |_| ());
        embedder.pages().swap = true;
        for id in 0..300 {
            embedder.store(id, if id % 2 == 0 { FILE } else { ANON }).unwrap();
        }
        clear_young(embedder);
        embedder.set_behavior(behavior);
        assert_eq!(embedder.direct(32), 0, "{behavior:?}");
        embedder.complete(usize::MAX);
        assert_eq!(embedder.direct(32), 0, "{behavior:?}");
        embedder.complete(usize::MAX);
        embedder.check();
        assert_eq!(embedder.pages().resident.len(), 300);
        assert_eq!(embedder.lru().awaiting_writeback(node()), 0);
        if behavior != StoreBehavior::Busy {
            assert!(stat(embedder, NodeStat::WriteFailed) > 0, "{behavior:?} was not reported");
        }
        embedder.set_behavior(StoreBehavior::Prompt);
        assert!(embedder.direct(32) >= 32, "after {behavior:?}");
        embedder.check();
    }
}

#[test]
fn a_page_whose_write_failed_later_becomes_active() {
    let embedder = embedder(2048, |_| ());
    (0..62).for_each(|id| embedder.store(id, FILE).unwrap());
    clear_young(embedder);
    embedder.set_behavior(StoreBehavior::FailsLate);
    embedder.direct(32);
    embedder.lru().drain_all();
    let lru = embedder.lru();
    let writing = lru.awaiting_writeback(node());
    assert!(writing > 0);
    // The pages are in the state that a scan under writeback, an activation and a deactivation
    // would leave.
    for pfn in embedder.pages().resident.keys() {
        lru.deactivate(CPU, *pfn);
    }
    lru.drain_all();
    embedder.complete(usize::MAX);
    lru.drain_all();
    assert_eq!(lru.pages(node(), LruList::ActiveFile), writing);
    embedder.check();
}

#[test]
fn a_used_page_is_not_written_in_the_next_scan() {
    let embedder = embedder(2048, |_| ());
    (0..31).for_each(|id| embedder.store(id, FILE).unwrap());
    assert!(embedder.direct(1) > 0);
    // In the first scan, the page was used. The next scan would reclaim it only if it were clean. A
    // later scan writes it.
    assert!(
        stat(embedder, NodeStat::PgscanFile) > 2 * 31,
        "the pages were not scanned twice before"
    );
    embedder.check();
}

#[test]
fn background_writers_are_woken_and_awaited() {
    let embedder = embedder(2048, |_| ());
    (0..310).for_each(|id| embedder.store(id, FILE).unwrap());
    clear_young(embedder);
    embedder.pages().writers = true;
    assert_eq!(
        embedder.direct(32),
        0,
        "pages were reclaimed before the background writers started"
    );
    assert!(embedder.take_notes().contains(&"wake writers"));
    assert_eq!(stat(embedder, NodeStat::NrVmscanWrite), 0);
    assert!(stat(embedder, NodeStat::NrVmscanImmediateReclaim) > 0);
    // The background writers write all pages.
    {
        let mut pages = embedder.pages();
        let written: Vec<_> = pages.resident.values().map(|page| (page.id, page.version)).collect();
        pages.store.extend(written);
        pages.resident.values_mut().for_each(|page| (page.dirty, page.pte_dirty) = (false, false));
    }
    assert!(embedder.direct(32) >= 32);
    embedder.check();
}
