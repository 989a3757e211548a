//! Background reclaim, and allocations that are short of memory.

use std::sync::atomic::Ordering;

use framewright::{
    Block, CpuToken, MigrateType, Order, Request, ZoneKind,
    observe::NodeStat,
    reclaim::{Kswapd, PageKind, Rest},
};

use crate::world::{World, cool, memory, memory_of, node, range, stat};

const FILE: PageKind = PageKind::File;

#[test]
fn background_reclaim_works_from_low_to_high() {
    let world = memory(8192, |tuning| tuning.zone.watermark_scale = 1000).platform();
    let mut kswapd = world.reclaim().kswapd(node()).unwrap();
    assert_eq!(kswapd.step(&mut world.token()), Rest::Sleep, "nobody wants anything");
    let mut id = 0;
    while world.woken.load(Ordering::Relaxed) == 0 {
        world.touch(id, FILE).unwrap();
        id += 1;
    }
    cool(world);
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
    assert!(zone.free < zone.high + 1000, "it went on to {} of {}", zone.free, zone.high);
    assert_eq!(kswapd.take_compaction(), None, "no type was mixed");
    assert_eq!(kswapd.step(&mut world.token()), Rest::Sleep, "after an undisturbed nap");
    assert!(stat(world, NodeStat::PgstealKswapd) > 0);
    assert_eq!(stat(world, NodeStat::PgstealDirect), 0);
    world.check();
}

/// As on machines with memory below 16 MiB, which lies fallow: kept back from requests that can use more, it
/// does not count as free for them either.
#[test]
fn what_a_low_zone_keeps_back_does_not_put_background_reclaim_to_sleep() {
    let map = [range(0, 1024, ZoneKind::Dma), range(1024, 8192, ZoneKind::Normal)];
    let world = memory_of(&map, true, |tuning| {
        tuning.zone.watermark_scale = 1000;
        tuning.zone.reserve_ratios[ZoneKind::Dma as usize] = 16;
    });
    let world = world.platform();
    let normal = || world.memory().zones().last().unwrap();
    let mut id = 0;
    while world.woken.load(Ordering::Relaxed) == 0 {
        world.touch(id, FILE).unwrap();
        id += 1;
        assert_eq!(stat(world, NodeStat::PgstealDirect), 0, "nobody was woken before");
    }
    cool(world);
    let low = world.memory().zones().next().unwrap();
    assert!(low.free > low.high, "the low zone has {} of {}", low.free, low.high);
    let mut kswapd = world.reclaim().kswapd(node()).unwrap();
    while kswapd.step(&mut world.token()) == Rest::None {}
    world.token().drain();
    assert!(normal().free > normal().high, "it stopped at {} of {}", normal().free, normal().high);
    world.check();
}

#[test]
fn background_reclaim_makes_room_for_huge_pages_once_one_was_missing() {
    let world = memory(16_384, |tuning| tuning.zone.huge_stock = 1_000).platform();
    let zone = || world.memory().zones().next().unwrap();
    let mut id = 0;
    let mut touch_until_woken = || {
        let before = world.woken.load(Ordering::Relaxed);
        while world.woken.load(Ordering::Relaxed) == before {
            world.touch(id, FILE).unwrap();
            id += 1;
        }
    };
    touch_until_woken();
    cool(world);
    let plain = zone();
    let huge = Request::new(Order::PAGEBLOCK, MigrateType::Movable);
    let served = world.token().alloc(huge);
    assert_eq!(zone().high, plain.high + 512, "it was not there at once");
    if let Ok(block) = served {
        world.token().free(block).unwrap();
    }
    world.token().drain();
    touch_until_woken();
    cool(world);
    let free = zone().free;
    assert!(free > plain.low && free < plain.low + 512 + 64, "woken at {free}");
    let mut kswapd = world.reclaim().kswapd(node()).unwrap();
    while kswapd.step(&mut world.token()) == Rest::None {}
    world.token().drain();
    assert!(zone().free > plain.high + 512, "it stopped at {} of {}", zone().free, zone().high);
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
        assert!(steps < 1000, "works for ever");
    }
    assert!(world.reclaim().is_hopeless(node()));
    assert!(!world.reclaim().wake(node(), Order::ZERO, ZoneKind::Normal));
    world.pages().resident.values_mut().for_each(|page| page.references = 0);
    assert!(world.direct(32) >= 32);
    assert!(!world.reclaim().is_hopeless(node()), "somebody freed something");
    world.check();
}

/// Uses every pageblock of `frames` frames for what can be moved, the last one in part, so that the first that
/// cannot mixes types: what was allocated for that.
fn mix(world: &'static World, frames: u32) -> Vec<Block<'static>> {
    let memory = world.memory();
    (0..frames - 292).for_each(|id| _ = world.touch(id, FILE).unwrap());
    let wanted = Request::new(Order::ZERO, MigrateType::Unmovable);
    let mut odd = Vec::new();
    while memory.zones().all(|zone| zone.boost == 0) && odd.len() < 2000 {
        odd.push(world.token().alloc(wanted).unwrap());
    }
    assert!(memory.zones().next().unwrap().boost > 0, "types were mixed");
    // Nothing is short.
    world.token().drain();
    odd
}

/// Has background reclaim work until it has a rest.
fn work(kswapd: &mut Kswapd<'_, 'static, World>, token: &mut CpuToken<'_, 'static, World>) {
    let steps = (0..1000).take_while(|_| kswapd.step(token) == Rest::None).count();
    assert!(steps < 1000, "works for ever");
}

#[test]
fn a_round_for_a_boost_reclaims_as_much_as_that() {
    // Where lists are short, and where a sweep at first looks at a few pages of them.
    for frames in [8192, 65_536] {
        let world = memory(frames.into(), |tuning| tuning.zone.watermark_scale = 1).platform();
        let odd = mix(world, frames);
        cool(world);
        let boost = world.memory().zones().next().unwrap().boost;
        let mut kswapd = world.reclaim().kswapd(node()).unwrap();
        let mut token = world.token();
        work(&mut kswapd, &mut token);
        let reclaimed = stat(world, NodeStat::PgstealKswapd);
        assert!((boost..boost + 128).contains(&reclaimed), "{reclaimed} for a boost of {boost}");
        odd.into_iter().for_each(|block| token.free(block).unwrap());
    }
}

#[test]
fn a_boost_that_nothing_can_be_reclaimed_for_is_taken_down() {
    let world = memory(8192, |_| ()).platform();
    let odd = mix(world, 8192);
    let mut kswapd = world.reclaim().kswapd(node()).unwrap();
    let mut token = world.token();
    world.pages().resident.values_mut().for_each(|page| page.references = 1);
    work(&mut kswapd, &mut token);
    let scanned = stat(world, NodeStat::PgscanKswapd);
    assert!((1..=128).contains(&scanned), "one sweep tells: {scanned}");
    assert_eq!(world.memory().zones().next().unwrap().boost, 0);
    odd.into_iter().for_each(|block| token.free(block).unwrap());
}

#[test]
fn a_boost_is_reclaimed_for_and_taken_down() {
    let world = memory(8192, |_| ()).platform();
    let memory = world.memory();
    let odd = mix(world, 8192);
    let mut token = world.token();
    let mut kswapd = world.reclaim().kswapd(node()).unwrap();
    let mut to_compact = Vec::new();
    let mut steps = 0;
    while kswapd.step(&mut token) != Rest::Sleep && steps < 100 {
        // There is room for whole pageblocks from when the boost is taken down, and no sooner.
        let is_boosted = memory.zones().any(|zone| zone.boost > 0);
        to_compact.extend(kswapd.take_compaction().inspect(|_| assert!(!is_boosted)));
        steps += 1;
    }
    assert_eq!(memory.zones().next().unwrap().boost, 0);
    assert_eq!(to_compact, [(Order::PAGEBLOCK, ZoneKind::Normal)], "said once");
    assert_eq!(stat(world, NodeStat::NrVmscanWrite), 0);
    odd.into_iter().for_each(|block| token.free(block).unwrap());
    drop(token);
    world.check();
}

/// Nobody looks for ever for what cannot be had.
#[test]
fn background_reclaim_gives_the_stock_up_where_nothing_can_be_reclaimed() {
    let world = memory(16_384, |tuning| tuning.zone.huge_stock = 1_000).platform();
    let zone = || world.memory().zones().next().unwrap();
    let page = || Request::new(Order::ZERO, MigrateType::Movable).no_retry();
    let plain = zone();
    let mut blocks: Vec<_> = core::iter::from_fn(|| world.token().alloc(page()).ok()).collect();
    let huge = Request::new(Order::PAGEBLOCK, MigrateType::Movable);
    assert!(world.token().alloc(huge).is_err());
    assert_eq!(zone().huge_reserve, 512);
    while zone().free < plain.high + 100 {
        world.token().free(blocks.pop().unwrap()).unwrap();
        world.token().drain();
    }
    blocks.push(world.token().alloc(page().no_wait()).unwrap());
    let mut kswapd = world.reclaim().kswapd(node()).unwrap();
    let mut steps = 0;
    while kswapd.step(&mut world.token()) != Rest::Sleep {
        steps += 1;
        assert!(steps < 100, "works for ever");
    }
    assert!(steps > 0, "it was woken");
    assert_eq!(zone().huge_reserve, 0);
    blocks.into_iter().for_each(|block| world.token().free(block).unwrap());
    world.check();
}
