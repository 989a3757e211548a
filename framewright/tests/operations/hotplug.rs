//! Memory hotplug, balloons, and free page reporting.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use crate::support::machine::{Machine, Metadata};
use framewright::{
    Block, Config, CpuId, FrameRange, HotplugError, Memory, MemoryRange, MigrateType, NodeId,
    Order, OrderTooSmall, Pfn, Request, ZoneId, ZoneKind, platform::Site, tuning::Auto,
};
use framewright_fakes::{FailNth, FakePlatform, ProbeCall, ProbedPlatform, leaked};

const MOVABLE: Request = Request::new(Order::ZERO, MigrateType::Movable);
const PAGEBLOCK: u64 = 512;

fn range(start: u64, end: u64) -> FrameRange {
    FrameRange::new(Pfn::new(start * PAGEBLOCK), Pfn::new(end * PAGEBLOCK)).unwrap()
}

/// Runs `test` on an allocator with pageblocks 0 to 8 present and 8 to 24 absent.
fn on_memory(test: impl FnOnce(&Memory<'_, Machine>)) {
    on_memory_with(|_| (), test);
}

/// As [`on_memory`], with other settings.
fn on_memory_with(set: impl FnOnce(&mut Config<'_>), test: impl FnOnce(&Memory<'_, Machine>)) {
    let map = [
        range(0, 8).into(),
        MemoryRange::new(range(8, 24), NodeId::default(), ZoneKind::Normal).absent(),
    ];
    let mut config = Config::new(&map, 2);
    config.tuning.zone.min_free = Auto::Fixed(0);
    set(&mut config);
    let mut metadata = Metadata::of::<Machine>(&config);
    let memory = Memory::new(Machine::default(), &config, metadata.as_mut()).unwrap();
    test(&memory);
    memory.drain_all();
    memory.check().unwrap();
}

fn all<'m>(memory: &Memory<'m, Machine>) -> Vec<Block<'m>> {
    let mut token = memory.cpu(CpuId::new(0)).unwrap();
    core::iter::from_fn(|| token.alloc(MOVABLE).ok()).collect()
}

fn free_all<'m>(memory: &Memory<'m, Machine>, blocks: Vec<Block<'m>>) {
    let mut token = memory.cpu(CpuId::new(0)).unwrap();
    blocks.into_iter().for_each(|block| token.free(block).unwrap());
}

#[test]
fn absent_memory_cannot_be_used() {
    on_memory(|memory| {
        assert_eq!(memory.managed(), 8 * PAGEBLOCK);
        let mut token = memory.cpu(CpuId::new(0)).unwrap();
        let absent = Pfn::new(9 * PAGEBLOCK);
        assert!(token.alloc_at(absent, Order::ZERO, MigrateType::Movable).is_err());
        // SAFETY: the call is refused and frees nothing.
        assert!(unsafe { token.free_raw(absent, Order::ZERO) }.is_err());
        drop(token);
        let blocks = all(memory);
        assert_eq!(blocks.len() as u64, 8 * PAGEBLOCK);
        free_all(memory, blocks);
    });
}

#[test]
fn added_memory_is_used_and_free_memory_can_be_removed() {
    on_memory(|memory| {
        memory.add_memory(range(10, 14)).unwrap();
        assert_eq!(memory.managed(), 12 * PAGEBLOCK);
        memory.check().unwrap();
        let blocks = all(memory);
        assert_eq!(blocks.len() as u64, 12 * PAGEBLOCK);
        free_all(memory, blocks);
        // Memory that was present from the start can also be removed and added again.
        for gone in [range(11, 13), range(0, 4)] {
            memory.remove_memory(gone, &mut |_| panic!("no frame is in use")).unwrap();
        }
        assert_eq!(memory.managed(), 6 * PAGEBLOCK);
        let blocks = all(memory);
        assert_eq!(blocks.len() as u64, 6 * PAGEBLOCK);
        assert!(blocks.iter().all(|b| !range(0, 4).contains(b.pfn())));
        free_all(memory, blocks);
        memory.add_memory(range(0, 4)).unwrap();
        memory.drain_all();
        assert_eq!(memory.free(), 10 * PAGEBLOCK);
    });
}

#[test]
fn memory_in_use_stays_and_is_reported() {
    on_memory(|memory| {
        let mut token = memory.cpu(CpuId::new(1)).unwrap();
        let at = Pfn::new(2 * PAGEBLOCK + 64);
        let held = token.alloc_at(at, Order::new(3).unwrap(), MigrateType::Unmovable).unwrap();
        let free_before = memory.free();
        let mut named = Vec::new();
        let refused = memory.remove_memory(range(1, 5), &mut |frames| named.push(frames));
        assert_eq!(refused, Err(HotplugError::Busy { frames: 8 }));
        assert_eq!(named, [FrameRange::new(at, at.offset(8)).unwrap()]);
        assert_eq!(memory.free(), free_before);
        memory.check().unwrap();
        token.free(held).unwrap();
        memory.remove_memory(range(1, 5), &mut |_| ()).unwrap();
    });
}

#[test]
fn large_blocks_form_across_added_memory() {
    on_memory(|memory| {
        memory.add_memory(range(8, 16)).unwrap();
        assert_eq!(memory.largest_free_order(), Order::new(13));
        let mut token = memory.cpu(CpuId::new(0)).unwrap();
        let request = Request::new(Order::new(13).unwrap(), MigrateType::Movable);
        let block = token.alloc(request).unwrap();
        let refused = memory.remove_memory(range(8, 9), &mut |_| ());
        assert_eq!(refused, Err(HotplugError::Busy { frames: PAGEBLOCK }));
        token.free(block).unwrap();
    });
}

#[test]
fn wrong_ranges_get_distinct_errors() {
    on_memory(|memory| {
        let frames = |a, b| FrameRange::new(Pfn::new(a), Pfn::new(b)).unwrap();
        let at = |block| Pfn::new(block * PAGEBLOCK);
        assert_eq!(memory.add_memory(frames(4096, 5000)), Err(HotplugError::NotWhole));
        assert_eq!(memory.add_memory(range(9, 9)), Err(HotplugError::NotWhole));
        assert_eq!(memory.add_memory(range(20, 25)), Err(HotplugError::NotInMap));
        assert_eq!(memory.add_memory(range(7, 9)), Err(HotplugError::Present { at: at(7) }));
        let remove = |range| memory.remove_memory(range, &mut |_| ());
        assert_eq!(remove(range(7, 9)), Err(HotplugError::Absent { at: at(8) }));
        let isolated = memory.isolate(at(6)).unwrap();
        assert_eq!(remove(range(5, 7)), Err(HotplugError::Isolated { at: at(6) }));
        memory.undo_isolate(isolated).unwrap();
        remove(range(5, 7)).unwrap();
    });
}

#[test]
fn watermarks_follow_the_present_memory() {
    let map = [
        range(0, 8).into(),
        MemoryRange::new(range(8, 512), NodeId::default(), ZoneKind::Normal).absent(),
    ];
    let config = Config::new(&map, 1);
    let mut metadata = Metadata::of::<Machine>(&config);
    let memory = Memory::new(Machine::default(), &config, metadata.as_mut()).unwrap();
    let min = || memory.zone(ZoneId::default()).unwrap().min;
    let before = min();
    memory.add_memory(range(8, 512)).unwrap();
    let with = min();
    assert!(with > 4 * before, "{before} {with}");
    memory.remove_memory(range(8, 512), &mut |_| ()).unwrap();
    assert_eq!(min(), before);
}

#[test]
fn free_blocks_are_reported_once() {
    on_memory(|memory| {
        let report = |order: Order| {
            let mut reported = Vec::new();
            let frames = memory.report_free(order, &mut |frames| {
                memory.check().unwrap();
                reported.push(frames);
            });
            assert_eq!(frames.unwrap(), reported.iter().map(|r| r.frames()).sum::<u64>());
            reported
        };
        assert_eq!(memory.report_free(Order::ZERO, &mut |_| ()), Err(OrderTooSmall));
        let two = Order::new(10).unwrap();
        let panics = std::panic::AssertUnwindSafe(|| {
            let _ = memory.report_free(Order::PAGEBLOCK, &mut |_| panic!("on purpose"));
        });
        assert!(std::panic::catch_unwind(panics).is_err());
        assert_eq!(memory.free(), 8 * PAGEBLOCK, "a reported block did not return to the zone");
        assert_eq!(report(two).len(), 4);
        assert_eq!(report(two), []);
        let mut token = memory.cpu(CpuId::new(0)).unwrap();
        let block = token.alloc_at(Pfn::new(3 * PAGEBLOCK), Order::ZERO, MigrateType::Movable);
        assert_eq!(report(two), []);
        token.free(block.unwrap()).unwrap();
        token.drain();
        assert_eq!(report(two), [range(2, 4)]);
    });
}

#[test]
fn a_balloon_takes_the_largest_first() {
    on_memory(|memory| {
        let mut token = memory.cpu(CpuId::new(0)).unwrap();
        let hole = token.alloc_at(Pfn::new(5), Order::ZERO, MigrateType::Movable).unwrap();
        let up_to = Request::new(Order::MAX, MigrateType::Movable);
        let balloon: Vec<_> = core::iter::from_fn(|| token.alloc_largest(up_to).ok()).collect();
        let orders: Vec<_> = balloon.iter().map(|block| block.order().get()).collect();
        assert_eq!(orders, [11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0]);
        balloon.into_iter().for_each(|block| token.free(block).unwrap());
        token.free(hole).unwrap();
    });
}

#[test]
fn the_callback_for_frames_in_use_may_call_the_memory() {
    on_memory(|memory| {
        let mut token = memory.cpu(CpuId::new(0)).unwrap();
        let held = token.alloc_at(Pfn::new(PAGEBLOCK), Order::ZERO, MigrateType::Movable).unwrap();
        let refused = memory.remove_memory(range(1, 3), &mut |_| {
            memory.add_memory(range(8, 10)).unwrap();
        });
        assert_eq!(refused, Err(HotplugError::Busy { frames: 1 }));
        let panics = std::panic::AssertUnwindSafe(|| {
            memory.remove_memory(range(1, 3), &mut |_| panic!("on purpose"))
        });
        assert!(std::panic::catch_unwind(panics).is_err());
        // No pageblock stays isolated, and the hotplug lock is free.
        assert_eq!(memory.free() + memory.held_by_cpus(), 10 * PAGEBLOCK - 1);
        token.free(held).unwrap();
        memory.remove_memory(range(1, 3), &mut |_| ()).unwrap();
    });
}

#[test]
fn zoneinfo_spans_the_present_memory() {
    on_memory(|memory| {
        let line = |name: &str| {
            let mut text = String::new();
            memory.write_zoneinfo(&mut text).unwrap();
            let value = text.lines().find_map(|line| line.trim().strip_prefix(name)).unwrap();
            value.trim().parse::<u64>().unwrap()
        };
        memory.add_memory(range(12, 16)).unwrap();
        assert_eq!(line("spanned"), 16 * PAGEBLOCK);
        memory.remove_memory(range(0, 2), &mut |_| ()).unwrap();
        assert_eq!((line("spanned"), line("start_pfn:")), (14 * PAGEBLOCK, 2 * PAGEBLOCK));
        assert_eq!(line("present"), 10 * PAGEBLOCK);
    });
}

#[test]
fn a_balloon_finds_blocks_on_the_lists_of_its_cpu() {
    on_memory(|memory| {
        let mut token = memory.cpu(CpuId::new(0)).unwrap();
        let up_to = Request::new(Order::MAX, MigrateType::Movable);
        let page = token.alloc(MOVABLE).unwrap();
        let mut balloon: Vec<_> = core::iter::from_fn(|| token.alloc_largest(up_to).ok()).collect();
        balloon.push(page);
        let frames: u64 = balloon.iter().map(|block| block.order().frames()).sum();
        assert_eq!(frames, 8 * PAGEBLOCK);
        balloon.into_iter().for_each(|block| token.free(block).unwrap());
    });
}

/// Sets the capacity of CPU lists to an eighth of the zone.
fn an_eighth(config: &mut Config<'_>) {
    config.tuning.pcp.high_fraction = 8;
    config.tuning.pcp.batch = Auto::Fixed(8);
}

#[test]
fn a_balloon_takes_a_pageblock_off_the_lists_of_its_cpu() {
    on_memory_with(an_eighth, |memory| {
        memory.add_memory(range(8, 24)).unwrap();
        let mut token = memory.cpu(CpuId::new(0)).unwrap();
        let huge = Request::new(Order::PAGEBLOCK, MigrateType::Movable);
        let mut blocks: Vec<_> = core::iter::from_fn(|| token.alloc(huge).ok()).collect();
        assert_eq!(blocks.len(), 24);
        token.free(blocks.pop().unwrap()).unwrap();
        assert_eq!((memory.free(), memory.held_by_cpus()), (0, PAGEBLOCK));
        let up_to = Request::new(Order::MAX, MigrateType::Movable);
        let balloon = token.alloc_largest(up_to).map(|block| block.order());
        assert_eq!(balloon, Ok(Order::PAGEBLOCK));
    });
}

#[test]
fn lists_follow_the_size_of_their_zone() {
    on_memory_with(an_eighth, |memory| {
        let highs = || memory.pagesets(ZoneId::default()).map(|pageset| pageset.high);
        assert_eq!(highs().collect::<Vec<_>>(), [256, 256]);
        memory.add_memory(range(8, 16)).unwrap();
        assert_eq!(highs().collect::<Vec<_>>(), [512, 512]);
        memory.remove_memory(range(0, 12), &mut |_| ()).unwrap();
        assert_eq!(highs().collect::<Vec<_>>(), [128, 128]);
    });
}

/// The capacity of the lists of CPU 0 after `change`. Another thread adds memory before visit number `at` of lists
/// whose capacity is about to change.
fn high_after(change: fn(&Memory<'static, ProbedPlatform>), at: u32) -> u64 {
    let map = [
        range(0, 8).into(),
        MemoryRange::new(range(8, 24), NodeId::default(), ZoneKind::Normal).absent(),
    ];
    let mut config = Config::new(&map, 2);
    config.tuning.zone.min_free = Auto::Fixed(0);
    an_eighth(&mut config);
    let memory = leaked(FakePlatform::threaded().probed(), &config);
    let (visit, waits) = (FailNth::new(), Arc::new(AtomicBool::new(false)));
    let has_ended = Arc::new(AtomicBool::new(false));
    visit.arm(at);
    memory.platform().on_wait({
        let waits = Arc::clone(&waits);
        move |_, _| {
            waits.store(true, Ordering::Relaxed);
            thread::yield_now();
        }
    });
    memory.platform().on_probe({
        let has_ended = Arc::clone(&has_ended);
        move |call| {
            if call == ProbeCall::Point(Site::Drain) && visit.is_nth() {
                let is_done = Arc::clone(&has_ended);
                thread::spawn(move || {
                    memory.add_memory(range(8, 16)).unwrap();
                    is_done.store(true, Ordering::Release);
                });
                while !waits.load(Ordering::Relaxed) && !has_ended.load(Ordering::Acquire) {
                    thread::yield_now();
                }
            }
        }
    });
    change(memory);
    while !has_ended.load(Ordering::Acquire) {
        thread::yield_now();
    }
    memory.check().unwrap();
    memory.pagesets(ZoneId::default()).next().unwrap().high
}

#[test]
fn lists_follow_the_size_of_their_zone_while_cpus_go_offline_and_online() {
    for at in 1..=2 {
        assert_eq!(high_after(|memory| memory.cpu_online(CpuId::new(1)).unwrap(), at), 512);
    }
    for at in 1..=3 {
        assert_eq!(high_after(|memory| memory.cpu_offline(CpuId::new(1)).unwrap(), at), 1024);
    }
}
