//! Background reclaim, and allocations when memory is short.

use std::sync::atomic::Ordering;

use framewright::{
    Block, CpuToken, MigrateType, Order, Request, ZoneKind,
    observe::NodeStat,
    reclaim::{Kswapd, NextStep, PageKind},
};

use framewright_fakes::{FakeOwner, TracedPlatform};

use crate::embedder::{clear_young, embedder, embedder_of, node, range, stat};

const FILE: PageKind = PageKind::File;

#[test]
fn background_reclaim_works_from_low_to_high() {
    let embedder = embedder(8192, |tuning| tuning.zone.watermark_scale = 1000);
    let mut kswapd = embedder.reclaim().kswapd(node()).unwrap();
    assert_eq!(
        kswapd.step(&mut embedder.token()),
        NextStep::WhenWoken,
        "background reclaim worked without a request"
    );
    let mut id = 0;
    while embedder.woken.load(Ordering::Relaxed) == 0 {
        embedder.touch(id, FILE).unwrap();
        id += 1;
    }
    clear_young(embedder);
    let zone = embedder.memory().zones().next().unwrap();
    assert!(zone.free < zone.low + 64, "woken at {} of {}", zone.free, zone.low);
    let mut steps = 0;
    while kswapd.step(&mut embedder.token()) == NextStep::Now {
        steps += 1;
        assert!(steps < 100, "background reclaim does not stop");
    }
    embedder.token().drain();
    let zone = embedder.memory().zones().next().unwrap();
    assert!(zone.free > zone.high, "it stopped at {} of {}", zone.free, zone.high);
    assert!(zone.free < zone.high + 1000, "it went on to {} of {}", zone.free, zone.high);
    assert_eq!(
        kswapd.take_compaction(),
        None,
        "compaction was requested although no migratetypes were mixed"
    );
    assert_eq!(
        kswapd.step(&mut embedder.token()),
        NextStep::WhenWoken,
        "background reclaim does not sleep after a delay without a wake-up"
    );
    assert!(stat(embedder, NodeStat::PgstealKswapd) > 0);
    assert_eq!(stat(embedder, NodeStat::PgstealDirect), 0);
    embedder.check();
}

/// The zone below 16 MiB is hardly used, as on many machines. Its lowmem reserve does not count as
/// free for requests for higher zones.
#[test]
fn the_lowmem_reserve_of_a_low_zone_does_not_stop_background_reclaim() {
    let map = [range(0, 1024, ZoneKind::Dma), range(1024, 8192, ZoneKind::Normal)];
    let embedder = embedder_of(&map, true, |tuning| {
        tuning.zone.watermark_scale = 1000;
        tuning.zone.reserve_ratios[ZoneKind::Dma as usize] = 16;
    });
    let normal = || embedder.memory().zones().last().unwrap();
    let mut id = 0;
    while embedder.woken.load(Ordering::Relaxed) == 0 {
        embedder.touch(id, FILE).unwrap();
        id += 1;
        assert_eq!(
            stat(embedder, NodeStat::PgstealDirect),
            0,
            "background reclaim was woken too late"
        );
    }
    clear_young(embedder);
    let low = embedder.memory().zones().next().unwrap();
    assert!(low.free > low.high, "the low zone has {} of {}", low.free, low.high);
    let mut kswapd = embedder.reclaim().kswapd(node()).unwrap();
    while kswapd.step(&mut embedder.token()) == NextStep::Now {}
    embedder.token().drain();
    assert!(normal().free > normal().high, "it stopped at {} of {}", normal().free, normal().high);
    embedder.check();
}

#[test]
fn background_reclaim_frees_a_huge_page_after_a_request_missed_one() {
    let embedder = embedder(16_384, |tuning| tuning.zone.huge_reserve = 1_000);
    let zone = || embedder.memory().zones().next().unwrap();
    let mut id = 0;
    let mut touch_until_woken = || {
        let before = embedder.woken.load(Ordering::Relaxed);
        while embedder.woken.load(Ordering::Relaxed) == before {
            embedder.touch(id, FILE).unwrap();
            id += 1;
        }
    };
    touch_until_woken();
    clear_young(embedder);
    let plain = zone();
    let huge = Request::new(Order::PAGEBLOCK, MigrateType::Movable);
    let served = embedder.token().alloc(huge);
    assert_eq!(
        zone().high,
        plain.high + 512,
        "the high watermark does not include the missed huge page"
    );
    if let Ok(block) = served {
        embedder.token().free(block).unwrap();
    }
    embedder.token().drain();
    touch_until_woken();
    clear_young(embedder);
    let free = zone().free;
    assert!(free > plain.low && free < plain.low + 512 + 64, "woken at {free}");
    let mut kswapd = embedder.reclaim().kswapd(node()).unwrap();
    while kswapd.step(&mut embedder.token()) == NextStep::Now {}
    embedder.token().drain();
    assert!(zone().free > plain.high + 512, "it stopped at {} of {}", zone().free, zone().high);
    embedder.check();
}

#[test]
fn background_reclaim_gives_up_on_a_hopeless_node_until_something_is_freed() {
    let embedder = embedder(1024, |_| ());
    let mut kswapd = embedder.reclaim().kswapd(node()).unwrap();
    let mut id = 0;
    while let Ok(pfn) = embedder.touch(id, FILE) {
        embedder.pages().page(pfn).references = 1;
        id += 1;
    }
    let mut steps = 0;
    while kswapd.step(&mut embedder.token()) == NextStep::Now {
        steps += 1;
        assert!(steps < 1000, "background reclaim does not stop");
    }
    assert!(embedder.reclaim().is_hopeless(node()));
    assert!(!embedder.reclaim().wake(node(), Order::ZERO, ZoneKind::Normal));
    embedder.pages().resident.values_mut().for_each(|page| page.references = 0);
    assert!(embedder.direct(32) >= 32);
    assert!(
        !embedder.reclaim().is_hopeless(node()),
        "still hopeless after a request has reclaimed pages"
    );
    embedder.check();
}

/// Fills a memory of `frames` frames with movable pages, except 292 frames of the last pageblock. Then
/// allocates unmovable pages until migratetypes are mixed. Returns the unmovable pages.
fn mix(embedder: &'static FakeOwner, frames: u32) -> Vec<Block<'static>> {
    let memory = embedder.memory();
    (0..frames - 292).for_each(|id| _ = embedder.touch(id, FILE).unwrap());
    let wanted = Request::new(Order::ZERO, MigrateType::Unmovable);
    let mut odd = Vec::new();
    while memory.zones().all(|zone| zone.boost == 0) && odd.len() < 2000 {
        odd.push(embedder.token().alloc(wanted).unwrap());
    }
    assert!(memory.zones().next().unwrap().boost > 0, "no migratetypes were mixed");
    // No zone is short of memory.
    embedder.token().drain();
    odd
}

/// Runs background reclaim until it waits.
fn work(
    kswapd: &mut Kswapd<'_, 'static, TracedPlatform>,
    token: &mut CpuToken<'_, 'static, TracedPlatform>,
) {
    let steps = (0..1000).take_while(|_| kswapd.step(token) == NextStep::Now).count();
    assert!(steps < 1000, "background reclaim does not stop");
}

#[test]
fn a_round_for_a_boost_reclaims_as_many_pages() {
    // The lists are short in the first case. In the second, a sweep at first scans only a few of
    // their pages.
    for frames in [8192, 65_536] {
        let embedder = embedder(frames.into(), |tuning| tuning.zone.watermark_scale = 1);
        let odd = mix(embedder, frames);
        clear_young(embedder);
        let boost = embedder.memory().zones().next().unwrap().boost;
        let mut kswapd = embedder.reclaim().kswapd(node()).unwrap();
        let mut token = embedder.token();
        work(&mut kswapd, &mut token);
        let reclaimed = stat(embedder, NodeStat::PgstealKswapd);
        assert!((boost..boost + 128).contains(&reclaimed), "{reclaimed} for a boost of {boost}");
        odd.into_iter().for_each(|block| token.free(block).unwrap());
    }
}

#[test]
fn a_boost_is_removed_where_nothing_can_be_reclaimed() {
    let embedder = embedder(8192, |_| ());
    let odd = mix(embedder, 8192);
    let mut kswapd = embedder.reclaim().kswapd(node()).unwrap();
    let mut token = embedder.token();
    embedder.pages().resident.values_mut().for_each(|page| page.references = 1);
    work(&mut kswapd, &mut token);
    let scanned = stat(embedder, NodeStat::PgscanKswapd);
    assert!((1..=128).contains(&scanned), "not one sweep: {scanned} pages were scanned");
    assert_eq!(embedder.memory().zones().next().unwrap().boost, 0);
    odd.into_iter().for_each(|block| token.free(block).unwrap());
}

#[test]
fn a_boost_is_removed_after_its_pages_were_reclaimed() {
    let embedder = embedder(8192, |_| ());
    let memory = embedder.memory();
    let odd = mix(embedder, 8192);
    let mut token = embedder.token();
    let mut kswapd = embedder.reclaim().kswapd(node()).unwrap();
    let mut to_compact = Vec::new();
    let mut steps = 0;
    while kswapd.step(&mut token) != NextStep::WhenWoken && steps < 100 {
        // Compaction is requested only when the boost is removed.
        let is_boosted = memory.zones().any(|zone| zone.boost > 0);
        to_compact.extend(kswapd.take_compaction().inspect(|_| assert!(!is_boosted)));
        steps += 1;
    }
    assert_eq!(memory.zones().next().unwrap().boost, 0);
    assert_eq!(
        to_compact,
        [(Order::PAGEBLOCK, ZoneKind::Normal)],
        "the request for compaction was not returned exactly once"
    );
    assert_eq!(stat(embedder, NodeStat::NrVmscanWrite), 0);
    odd.into_iter().for_each(|block| token.free(block).unwrap());
    drop(token);
    embedder.check();
}

/// Background reclaim ends if no page can be reclaimed.
#[test]
fn background_reclaim_drops_the_huge_page_reserve_where_nothing_can_be_reclaimed() {
    let embedder = embedder(16_384, |tuning| tuning.zone.huge_reserve = 1_000);
    let zone = || embedder.memory().zones().next().unwrap();
    let page = || Request::new(Order::ZERO, MigrateType::Movable).no_retry();
    let plain = zone();
    let mut blocks: Vec<_> = core::iter::from_fn(|| embedder.token().alloc(page()).ok()).collect();
    let huge = Request::new(Order::PAGEBLOCK, MigrateType::Movable);
    assert!(embedder.token().alloc(huge).is_err());
    assert_eq!(zone().huge_reserve, 512);
    while zone().free < plain.high + 100 {
        embedder.token().free(blocks.pop().unwrap()).unwrap();
        embedder.token().drain();
    }
    blocks.push(embedder.token().alloc(page().no_wait()).unwrap());
    let mut kswapd = embedder.reclaim().kswapd(node()).unwrap();
    let mut steps = 0;
    while kswapd.step(&mut embedder.token()) != NextStep::WhenWoken {
        steps += 1;
        assert!(steps < 100, "background reclaim does not stop");
    }
    assert!(steps > 0, "background reclaim was not woken");
    assert_eq!(zone().huge_reserve, 0);
    blocks.into_iter().for_each(|block| embedder.token().free(block).unwrap());
    embedder.check();
}
