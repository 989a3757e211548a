//! The rules of a reclaim pass, one rule per test.

use std::sync::atomic::Ordering;

use framewright::{
    CpuId, MigrateType, Order, Pfn, Request, ZoneKind,
    observe::NodeStat,
    platform::Need,
    reclaim::{LruList, PageKind},
    tuning::{Auto, CompactMethod, FlushBatching},
};

use framewright_fakes::FakeOwner;

use crate::embedder::{CPU, OTHER, clear_young, embedder, embedder_of, filled, node, range, stat};

const FILE: PageKind = PageKind::File;

#[test]
fn a_mapped_page_that_was_used_is_kept_once() {
    let embedder = filled(640, FILE);
    assert!((32..=128).contains(&embedder.direct(32)));
    embedder.check();
    let (scanned, stolen) =
        (stat(embedder, NodeStat::PgscanDirect), stat(embedder, NodeStat::PgstealDirect));
    assert!(
        scanned > stolen,
        "used pages were reclaimed at their first scan: {scanned} were scanned for {stolen}"
    );
    // Of many pages that are read once, each is scanned about twice.
    let embedder = crate::embedder::embedder(2048, |_| ());
    for id in 0..20_000 {
        embedder.touch(id, FILE).unwrap();
    }
    let lru = embedder.lru().stats();
    let scanned = lru.get(NodeStat::PgscanFile) as f64;
    let ratio = scanned / lru.get(NodeStat::PgstealFile) as f64;
    assert!((1.9..2.3).contains(&ratio), "pages are scanned {ratio} times");
    embedder.check();
}

#[test]
fn pages_that_are_used_again_and_again_become_active() {
    let embedder = filled(320, FILE);
    let hot: Vec<u32> = (0..20).collect();
    for round in 0..40 {
        clear_young(embedder);
        for &id in &hot {
            embedder.touch(id, FILE).unwrap();
        }
        embedder.direct(32);
        // Other pages are read once.
        (0..32).for_each(|i| _ = embedder.touch(1000 + round * 32 + i, FILE).unwrap());
    }
    let there = embedder.pages().place.clone();
    assert!(hot.iter().all(|id| there.contains_key(id)), "hot pages were reclaimed");
    assert!(stat(embedder, NodeStat::Pgactivate) > 0);
    embedder.check();
}

#[test]
fn one_flush_serves_a_batch() {
    let run = |batching| {
        let embedder = embedder(2048, |tuning| {
            tuning.tlb.batching = batching;
            tuning.tlb.deferred_max = Auto::Fixed(512);
        });
        for id in 0..640 {
            embedder.touch(id, FILE).unwrap();
        }
        clear_young(embedder);
        embedder.take_notes();
        let freed = embedder.direct(320);
        assert!(freed >= 320);
        embedder.check();
        let notes = embedder.take_notes();
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
fn another_cpu_flushes_at_the_limit_of_unflushed_frames() {
    let embedder = embedder(2048, |tuning| {
        tuning.tlb.batching = FlushBatching::Lazy;
        tuning.tlb.deferred_max = Auto::Fixed(512);
    });
    (0..1600).for_each(|id| _ = embedder.touch(id, FILE).unwrap());
    clear_young(embedder);
    embedder.has_local_flush.store(false, Ordering::Relaxed);
    // While this CPU waits for its flush, CPU `OTHER` reclaims until the limit of unflushed frames is
    // reached.
    let other = |embedder: &FakeOwner| assert!(embedder.direct_on(CpuId::new(OTHER), 512) > 0);
    *embedder.meanwhile.lock().unwrap() = Some(other);
    assert!(embedder.direct(512) > 0);
    assert!(embedder.meanwhile.lock().unwrap().is_none());
    let stats = embedder.memory().tlb().stats();
    assert_eq!(stats.nr_tlb_local_flush_one, 0, "pages are flushed one by one");
    assert!(stats.nr_tlb_local_flush_all <= 8, "{stats:?}");
    embedder.check();
}

#[test]
fn pages_that_are_not_mapped_do_not_count_as_unflushed() {
    for every in [1000, 2] {
        let embedder = embedder(2048, |tuning| tuning.tlb.batching = FlushBatching::Lazy);
        for id in 0..64 {
            embedder.touch(id, FILE).unwrap();
        }
        clear_young(embedder);
        for page in embedder.pages().resident.values_mut().filter(|page| page.id % every != 1) {
            page.maps = 0;
        }
        let mapped = embedder.pages().resident.values().filter(|page| page.maps > 0).count() as u64;
        assert!(embedder.direct(64) >= 63);
        assert!((1..=mapped).contains(&embedder.memory().tlb().stats().unflushed_frames_max));
        embedder.check();
    }
}

#[test]
fn allocations_reclaim_and_fail_only_when_nothing_is_left() {
    let embedder = embedder(1024, |_| ());
    for id in 0..5000 {
        embedder.touch(id, FILE).unwrap();
    }
    embedder.check();
    // Pages with a reference cannot be reclaimed. When only these are left, requests fail, and do not
    // retry for ever.
    let embedder = crate::embedder::embedder(1024, |_| ());
    let failed = (0..5000).find(|&id| match embedder.touch(id, FILE) {
        Ok(pfn) => {
            embedder.pages().page(pfn).references = 1;
            false
        }
        Err(_) => true,
    });
    assert!(failed.is_some(), "memory is not exhausted");
    embedder.check();
    embedder.pages().resident.values_mut().for_each(|page| page.references = 0);
    embedder.touch(9999, FILE).unwrap();
}

/// If the target is the whole block (512 frames), reclaim scans all pages more than once.
#[test]
fn few_pages_are_scanned_for_a_block_that_compaction_may_fail_to_form() {
    let embedder = embedder(2048, |_| ());
    for id in 0..1600 {
        embedder.touch(id, FILE).unwrap();
    }
    clear_young(embedder);
    embedder.pages().resident.values_mut().for_each(|page| page.references = 1);
    let request = Request::new(Order::PAGEBLOCK, MigrateType::Movable);
    let need = Need { request, cpu: CPU, node: node(), unmixed: false };
    let looked_at = |frames| {
        let before = stat(embedder, NodeStat::PgscanDirect);
        assert_eq!(embedder.reclaim().direct(&need, frames), 0);
        stat(embedder, NodeStat::PgscanDirect) - before
    };
    assert!((64..=256).contains(&looked_at(32)));
    assert!(looked_at(512) > 1600);
    embedder.check();
}

#[test]
fn pages_of_unusable_zones_are_skipped() {
    let map = [range(0, 1024, ZoneKind::Dma32), range(1024, 1024, ZoneKind::Normal)];
    let embedder = embedder_of(&map, true, |tuning| tuning.zone.reserve_ratios = [0; 4]);
    for id in 0..1800 {
        embedder.touch(id, FILE).unwrap();
    }
    clear_young(embedder);
    embedder.lru().drain_all();
    let request = Request::new(Order::ZERO, MigrateType::Movable).zone(ZoneKind::Dma32);
    let before = embedder.memory().zones().nth(1).unwrap().free;
    let need = Need { request, cpu: CPU, node: node(), unmixed: false };
    assert!(embedder.reclaim().direct(&need, 32) >= 32);
    assert_eq!(embedder.memory().zones().nth(1).unwrap().free, before);
    assert!(stat(embedder, NodeStat::PgskipNormal) > 0);
    embedder.check();
}

#[test]
fn pages_with_early_refaults_are_counted() {
    let embedder = embedder(1024, |_| ());
    // The test repeatedly reads slightly more pages than fit into memory.
    for id in (0..6).flat_map(|_| 0..1200) {
        embedder.touch(id, FILE).unwrap();
    }
    assert!(stat(embedder, NodeStat::WorkingsetRefaultFile) > 0);
    embedder.check();
}

#[test]
fn unevictable_pages_go_to_the_unevictable_list() {
    let embedder = filled(200, FILE);
    let pinned: Vec<Pfn> = embedder.pages().resident.keys().copied().take(50).collect();
    clear_young(embedder);
    for &pfn in &pinned {
        embedder.pages().page(pfn).unevictable = true;
    }
    embedder.direct(200);
    assert_eq!(embedder.lru().pages(node(), LruList::Unevictable), 50);
    assert!(pinned.iter().all(|pfn| embedder.pages().resident.contains_key(pfn)));
    for &pfn in &pinned {
        embedder.pages().page(pfn).unevictable = false;
        embedder.lru().set_unevictable(pfn, false);
    }
    embedder.direct(50);
    assert_eq!(embedder.lru().pages(node(), LruList::Unevictable), 0);
    embedder.check();
}

#[test]
fn deferred_frames_are_freed_for_direct_reclaim() {
    let embedder = embedder(2048, |tuning| {
        tuning.tlb.batching = FlushBatching::Lazy;
        tuning.tlb.deferred_max = Auto::Fixed(512);
    });
    // There are fewer frames than may be deferred, so no flush is due.
    (0..200).for_each(|id| _ = embedder.touch(id, FILE).unwrap());
    clear_young(embedder);
    let before = embedder.memory().free();
    assert!(embedder.direct(32) >= 32);
    assert!(embedder.memory().free() >= before + 32, "reclaimed frames are not free");
    embedder.check();
}

/// Compaction by index needs as many free frames as the block has, and scanners need twice as many.
#[test]
fn free_space_for_one_block_is_made_for_compaction_and_no_more() {
    for (method, blocks) in [(CompactMethod::Index, 1), (CompactMethod::Scan, 2)] {
        // No frame may wait for a flush, because deferred frames would count as reclaimed.
        let embedder = embedder(2048, |tuning| {
            tuning.tlb.batching = FlushBatching::Off;
            tuning.compact.method = method;
        });
        (0..1800).for_each(|id| _ = embedder.touch(id, FILE).unwrap());
        embedder.lru().drain_all();
        clear_young(embedder);
        // No block may become free by reclaim alone, because that would also end reclaim.
        let resident: Vec<Pfn> = embedder.pages().resident.keys().copied().collect();
        for pfn in resident.into_iter().filter(|pfn| pfn.get() % 32 == 0) {
            embedder.pages().page(pfn).unevictable = true;
        }
        let request = block_of(6);
        let reclaim = |frames| {
            let before = stat(embedder, NodeStat::PgstealDirect);
            embedder
                .reclaim()
                .direct(&Need { request, cpu: CPU, node: node(), unmixed: false }, frames);
            stat(embedder, NodeStat::PgstealDirect) - before
        };
        let zone = embedder.memory().zones().next().unwrap();
        while embedder.memory().free() > zone.high {
            let _ = embedder.memory().alloc_bypassing_lists(request.no_wait()).unwrap().into_raw();
        }
        let needed = zone.high + blocks * 64 - embedder.memory().free();
        let made = reclaim(32);
        assert!((needed..needed + 64).contains(&made), "{method:?}: {made} instead of {needed}");
        assert_eq!(reclaim(32), 0, "pages were reclaimed although enough frames are free");
        let need = Need { request, cpu: CPU, node: node(), unmixed: false };
        assert!(
            embedder.reclaim().direct(&need, 32) > 0,
            "direct reclaim does not report progress"
        );
    }
}

/// Scanners do not compact if the fragmentation index shows a shortage instead of fragmentation. In
/// that case, there is not enough free space yet.
#[test]
fn there_is_not_enough_free_space_if_compaction_would_not_start() {
    for (method, ready) in [(CompactMethod::Index, true), (CompactMethod::Scan, false)] {
        let embedder = embedder(2048, |tuning| {
            tuning.tlb.batching = FlushBatching::Off;
            tuning.compact.method = method;
            // With this threshold, the index always shows a shortage.
            tuning.compact.extfrag_threshold = 1000;
        });
        // No block is left, and none becomes free.
        (0..4000).for_each(|id| _ = embedder.touch(id, FILE).unwrap());
        embedder.lru().drain_all();
        clear_young(embedder);
        let resident: Vec<Pfn> = embedder.pages().resident.keys().copied().collect();
        for pfn in resident.into_iter().filter(|pfn| pfn.get() % 32 == 0) {
            embedder.pages().page(pfn).unevictable = true;
        }
        let needed = embedder.memory().zones().next().unwrap().high + 2 * 128 + 64;
        embedder.direct(needed);
        assert!(embedder.memory().free() > needed);
        let before = stat(embedder, NodeStat::PgstealDirect);
        embedder
            .reclaim()
            .direct(&Need { request: block_of(7), cpu: CPU, node: node(), unmixed: false }, 32);
        assert_eq!(stat(embedder, NodeStat::PgstealDirect) == before, ready, "{method:?}");
    }
}

/// While sweeps reach their target, the priority does not change, because deeper scans would also
/// reclaim anonymous pages.
#[test]
fn free_space_for_compaction_does_not_cost_anonymous_pages() {
    let embedder = embedder(4096, |tuning| tuning.tlb.batching = FlushBatching::Off);
    embedder.pages().swap = true;
    (0..600).for_each(|id| _ = embedder.touch(id, PageKind::Anon).unwrap());
    (1000..4300).for_each(|id| _ = embedder.touch(id, FILE).unwrap());
    embedder.lru().drain_all();
    clear_young(embedder);
    let request = block_of(9);
    while let Ok(block) = embedder.memory().alloc_bypassing_lists(block_of(0).no_wait()) {
        let _ = block.into_raw();
    }
    let anon = |embedder| stat(embedder, NodeStat::PgscanAnon);
    let (before, free) = (anon(embedder), embedder.memory().free());
    embedder.reclaim().direct(&Need { request, cpu: CPU, node: node(), unmixed: false }, 32);
    assert!(embedder.memory().free() > free + 500, "too few frames were freed");
    assert_eq!(anon(embedder), before);
}

/// A movable block of this order.
fn block_of(order: u8) -> Request {
    Request::new(Order::new(order).unwrap(), MigrateType::Movable)
}

#[test]
fn reclaimed_frames_go_to_the_lists_of_the_request() {
    let embedder = embedder(1024, |_| ());
    (0..4000).for_each(|id| _ = embedder.touch(id, FILE).unwrap());
    let (stats, stolen) = (embedder.memory().stats(), stat(embedder, NodeStat::PgstealDirect));
    assert!(stolen > 2000, "{stolen}");
    assert!(stats.zone_frees < stolen / 2, "{} of {stolen} went to the zone", stats.zone_frees);
    embedder.check();
}

#[test]
fn a_page_that_is_read_again_soon_becomes_active_at_once() {
    let embedder = filled(620, FILE);
    let lru = embedder.lru();
    let active: Vec<Pfn> = (300..620).map(|id| embedder.pages().place[&id]).collect();
    active.iter().for_each(|&pfn| lru.activate(CPU, pfn));
    lru.drain_all();
    assert_eq!(lru.pages(node(), LruList::ActiveFile), 320);
    clear_young(embedder);
    let gone = embedder.direct(40);
    assert!((40..100).contains(&gone));
    let again = (0..300).find(|id| !embedder.pages().place.contains_key(id)).unwrap();
    let pfn = embedder.touch(again, FILE).unwrap();
    lru.drain_all();
    assert_eq!(lru.list_of(pfn), Some(LruList::ActiveFile));
    assert_eq!(stat(embedder, NodeStat::WorkingsetActivateFile), 1);
    // Far more pages are evicted than are active, so a refault does not activate the page.
    (1000..9000).for_each(|id| _ = embedder.touch(id, FILE).unwrap());
    let gone =
        (0..300).find(|id| !embedder.pages().place.contains_key(id) && *id != again).unwrap();
    let before = stat(embedder, NodeStat::WorkingsetActivateFile);
    embedder.touch(gone, FILE).unwrap();
    assert_eq!(stat(embedder, NodeStat::WorkingsetActivateFile), before);
    assert!(stat(embedder, NodeStat::WorkingsetRefaultFile) >= 2);
    embedder.check();
}

#[test]
fn anonymous_pages_are_reclaimed_only_with_swap() {
    let embedder = filled(310, PageKind::Anon);
    clear_young(embedder);
    assert_eq!(embedder.direct(32), 0);
    assert_eq!(stat(embedder, NodeStat::PgscanAnon), 0);
    let zone = embedder.memory().zones().next().unwrap().id;
    assert_eq!(embedder.reclaim().reclaimable(zone), 0);
    embedder.pages().swap = true;
    assert!(embedder.direct(32) >= 32);
    assert!(embedder.reclaim().reclaimable(zone) > 200);
    embedder.check();
}

#[test]
fn a_request_does_not_scan_all_of_memory_where_everything_was_used() {
    let embedder = embedder(8192, |tuning| tuning.reclaim.referenced_scan_max = 1024);
    (0..6000).for_each(|id| _ = embedder.touch(id, FILE).unwrap());
    embedder.lru().drain_all();
    assert!(embedder.direct(32) >= 32);
    let looked_at = stat(embedder, NodeStat::PgscanFile);
    assert!(looked_at < 1024 + 8 * 64, "{looked_at} pages were scanned");
    embedder.check();
}
