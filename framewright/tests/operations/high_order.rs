//! Frees of orders 1 to 4 use the hot path. After a burst of frees, the second of two consecutive
//! frees of these orders drains the lists.
#![cfg(not(framewright_tso))]

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use framewright::{
    Block, Config, CpuToken, FrameRange, Memory, MigrateType, Pfn, Request, Tuning,
    observe::DrainReason, platform::Cost,
};
use framewright_fakes::{FakePlatform, Metadata, ProbeCall, ProbedPlatform, cpu, leaked, order};

type Costs = Mutex<BTreeMap<Cost, u64>>;
type Token<'a, 'm> = CpuToken<'a, 'm, ProbedPlatform>;

/// Runs `test` on a memory of 64 MiB with two CPUs and batches of 7 frames. `test` also gets the
/// counted costs.
fn on_memory(settings: &[(&str, &str)], test: impl FnOnce(&Memory<'_, ProbedPlatform>, &Costs)) {
    let map = [FrameRange::new(Pfn::new(0), Pfn::new(1 << 14)).unwrap().into()];
    let mut tuning = Tuning::default();
    // Blocks of sparse pageblocks would not stay on the lists.
    let common = [("zone.min_free", "0"), ("pcp.batch", "7"), ("zone.emptying_above", "512")];
    for (key, value) in common.iter().chain(settings) {
        tuning.set(key, value).unwrap();
    }
    let config = Config::new(&map, 2).with_tuning(tuning);
    let costs = Arc::new(Costs::default());
    let heard = Arc::clone(&costs);
    let platform = FakePlatform::default().probed();
    platform.on_probe(move |call| {
        if let ProbeCall::Cost(cost, count) = call {
            *heard.lock().unwrap().entry(cost).or_default() += u64::from(count);
        }
    });
    let mut metadata = Metadata::of::<ProbedPlatform>(&config);
    let memory = Memory::new(platform, &config, metadata.as_mut()).unwrap();
    test(&memory, &costs);
    memory.drain_all();
    memory.check().unwrap();
    assert_eq!(memory.free(), memory.managed());
}

fn cost_of(costs: &Costs, cost: Cost) -> u64 {
    costs.lock().unwrap().get(&cost).copied().unwrap_or(0)
}

fn alloc<'m>(token: &mut Token<'_, 'm>, of_order: u8, blocks: u32) -> Vec<Block<'m>> {
    let request = Request::new(order(of_order), MigrateType::Unmovable);
    (0..blocks).map(|_| token.alloc(request).unwrap()).collect()
}

fn free<'m>(token: &mut Token<'_, 'm>, blocks: Vec<Block<'m>>) {
    blocks.into_iter().for_each(|block| token.free(block).unwrap());
}

fn drains(memory: &Memory<'_, ProbedPlatform>, of_cpu: u16) -> u64 {
    memory.cpu_stats(cpu(of_cpu)).unwrap().drains[DrainReason::HighOrder as usize]
}

#[test]
fn pairs_of_all_listed_orders_use_the_hot_path() {
    for of_order in [0, 1, 2, 3, 4, 9] {
        on_memory(&[], |memory, costs| {
            let mut token = memory.cpu(cpu(0)).unwrap();
            let pair = |token: &mut Token<'_, '_>| {
                let blocks = alloc(token, of_order, 1);
                free(token, blocks);
            };
            pair(&mut token);
            let slow = || cost_of(costs, Cost::SlowFree) + cost_of(costs, Cost::SlowAlloc);
            let before = slow();
            (0..1000).for_each(|_| pair(&mut token));
            // A free of order 1 to 4 takes the slow path once per burst of 112 frames.
            let most = if (1..=4).contains(&of_order) { (1000 << of_order) / 112 + 1 } else { 0 };
            assert!(slow() - before <= most, "order {of_order}: {}", slow() - before);
            assert_eq!(memory.stats().drained_frames, 0);
        });
    }
}

/// Without lists for an order, each of its blocks is allocated from the zone and freed to it. Nothing stays on a list.
#[test]
fn orders_above_the_largest_with_lists_use_the_zone() {
    for max_order in 0..=4 {
        on_memory(&[("pcp.max_order", &max_order.to_string())], |memory, _| {
            let mut token = memory.cpu(cpu(0)).unwrap();
            for of_order in 0..=4 {
                let blocks = alloc(&mut token, of_order, 8);
                free(&mut token, blocks);
                let held = memory.held_by_cpus();
                assert_eq!(held > 0, of_order <= max_order, "{of_order} of {max_order}: {held}");
                memory.drain_all();
            }
        });
    }
}

/// A bundle has at most eight blocks of order 3, and four of order 4.
#[test]
fn a_ring_is_filled_to_a_half_from_several_bundles() {
    for (of_order, batch) in [(3, "127"), (4, "255")] {
        // Rings have space for 32 blocks.
        let settings =
            [("pcp.high_order_burst", "100000"), ("pcp.batch", batch), ("pcp.ring_batches", "2")];
        on_memory(&settings, |memory, costs| {
            let mut token = memory.cpu(cpu(0)).unwrap();
            let blocks = alloc(&mut token, of_order, 48);
            free(&mut token, blocks);
            let refilled = memory.stats().refilled_frames;
            let before = cost_of(costs, Cost::SlowAlloc);
            let blocks = alloc(&mut token, of_order, 48);
            assert_eq!(memory.stats().refilled_frames, refilled);
            // The ring has 16 to 32 blocks, and each fill gets 16.
            let fills = cost_of(costs, Cost::SlowAlloc) - before;
            assert!((1..=2).contains(&fills), "order {of_order}: {fills}");
            free(&mut token, blocks);
        });
    }
}

/// The number of drains after each free. One CPU allocates, and another one frees a burst of pages,
/// and then one block of each of these orders.
fn drains_after_each(settings: &[(&str, &str)], orders: &[u8]) -> Vec<u64> {
    let mut seen = Vec::new();
    on_memory(settings, |memory, _| {
        let (mut first, mut second) = (memory.cpu(cpu(0)).unwrap(), memory.cpu(cpu(1)).unwrap());
        let pages = alloc(&mut first, 0, 200);
        let blocks: Vec<_> = orders.iter().map(|&of| alloc(&mut first, of, 1)).collect();
        free(&mut second, pages);
        assert_eq!(drains(memory, 1), 0);
        for block in blocks {
            free(&mut second, block);
            seen.push(drains(memory, 1));
        }
    });
    seen
}

#[test]
fn the_second_of_two_consecutive_frees_drains() {
    let second = [("pcp.high_order_burst", "112")];
    assert_eq!(drains_after_each(&second, &[1, 0, 2, 0, 3, 3, 1]), [0, 0, 0, 0, 0, 1, 1]);
    assert_eq!(
        drains_after_each(&second, &[1, 9, 2, 5, 4]),
        [0, 0, 0, 0, 1],
        "frees of order 5, which has no list, were counted"
    );
    let every = [("pcp.high_order_burst", "112"), ("pcp.high_order_drain", "every-free")];
    assert_eq!(drains_after_each(&every, &[1, 0, 2, 0, 3, 3]), [1, 1, 2, 2, 3, 4]);
}

/// One CPU frees about 200 pages of another one, each in a word of its own, and then 40 blocks of order 1. Returns the high-order
/// drains after each block.
fn drains_of_a_scattered_burst(setting: (&str, &str)) -> Vec<u64> {
    let mut seen = Vec::new();
    let burst = [("pcp.high_order_burst", "150"), ("pcp.hold_pageblocks", "2")];
    let settings = [burst[0], burst[1], ("zone.depot_divisor", "0"), setting];
    on_memory(&settings, |memory, _| {
        let (mut first, mut second) = (memory.cpu(cpu(0)).unwrap(), memory.cpu(cpu(1)).unwrap());
        let blocks = alloc(&mut first, 1, 40);
        let pages = alloc(&mut first, 0, 200 * 64);
        let is_first_of_word = |page: &Block<'_>| page.pfn().get().is_multiple_of(64);
        let (scattered, rest): (Vec<_>, Vec<_>) = pages.into_iter().partition(is_first_of_word);
        free(&mut second, scattered);
        for block in blocks {
            second.free(block).unwrap();
            seen.push(drains(memory, 1));
        }
        free(&mut first, rest);
    });
    seen
}

/// A hold of the zone lock returns frames of two pageblocks here, and a free takes one hold. So no free waits until the
/// whole burst has returned.
#[test]
fn a_scattered_burst_returns_a_batch_at_each_free_of_order_1_to_4() {
    let under_lock = cfg!(feature = "compare").then_some(("pcp.bulk_free", "select-under-lock"));
    for setting in [Some(("pcp.trim_after", "32")), under_lock].into_iter().flatten() {
        let drains = drains_of_a_scattered_burst(setting);
        assert_eq!(drains[..4], [0, 1, 2, 3], "{setting:?}: {drains:?}");
        assert_eq!(drains[30], drains[39], "{setting:?}: all has returned: {drains:?}");
    }
}

#[cfg(feature = "compare")]
#[test]
fn a_scattered_burst_returns_at_once_if_the_setting_says_so() {
    let drains = drains_of_a_scattered_burst(("pcp.high_order_at_once", "on"));
    assert!(drains[1] > 2 && drains[1] == drains[39], "{drains:?}");
}

#[test]
fn a_cpu_does_not_drain_what_it_has_allocated_itself() {
    for of_order in 1..=3 {
        on_memory(&[], |memory, _| {
            let mut token = memory.cpu(cpu(0)).unwrap();
            let mut bursts = || {
                for _ in 0..8 {
                    let blocks = alloc(&mut token, of_order, 300 >> of_order);
                    free(&mut token, blocks);
                }
                memory.cpu_stats(cpu(0)).unwrap()
            };
            // The first bursts enlarge the lists.
            let before = bursts();
            let after = bursts();
            assert_eq!(after.drains, before.drains, "order {of_order}");
            assert_eq!(after.zone_lock_acquisitions, before.zone_lock_acquisitions);
            // Frees as many blocks that another CPU has allocated.
            let mut other = memory.cpu(cpu(1)).unwrap();
            let blocks = alloc(&mut other, of_order, 300 >> of_order);
            free(&mut token, blocks);
            assert!(drains(memory, 0) > 0, "order {of_order}");
        });
    }
}

/// When the lists have too many frames, those of past work leave them. Afterwards, bursts of half of what
/// a CPU may hold do not take the zone lock.
#[test]
fn frames_of_past_work_make_way_for_new_work() {
    for cpus in [1, 2, 3, 4] {
        for pageblocks in [64, 200, 256] {
            let map = [FrameRange::new(Pfn::new(0), Pfn::new(512 * pageblocks)).unwrap().into()];
            let memory = leaked(FakePlatform::default(), &Config::new(&map, cpus));
            // By default, the lists of all CPUs may have an eighth of the zone.
            let limit = 512 * pageblocks / 8 / u64::from(cpus);
            let mut token = memory.cpu(cpu(0)).unwrap();
            let mut burst = |of_order, blocks| {
                let request = Request::new(order(of_order), MigrateType::Movable);
                let held: Vec<_> = (0..blocks).map(|_| token.alloc(request).unwrap()).collect();
                held.into_iter().for_each(|block| token.free(block).unwrap());
            };
            (0..8).for_each(|_| burst(0, limit));
            // Until trims have returned the frames that these bursts do not need.
            (0..256).for_each(|_| burst(3, limit / 2 / 8));
            let before = memory.stats().zone_lock_acquisitions;
            (0..64).for_each(|_| burst(3, limit / 2 / 8));
            let locks = memory.stats().zone_lock_acquisitions - before;
            assert_eq!(locks, 0, "{cpus} CPUs, {pageblocks} pageblocks");
        }
    }
}
