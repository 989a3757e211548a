//! The depot is a store of a zone: a CPU allocates from it the blocks that another CPU has freed in
//! any order. No request fails because of the depot.

use crate::support::machine::{Machine, Metadata, cpu};
use std::collections::VecDeque;

use framewright::{
    Block, Config, CpuToken, FrameRange, Layout, Memory, MigrateType, Order, Pfn, Request, ZoneId,
    tuning::Auto,
};

const PAGEBLOCKS: u64 = 16;
const FRAMES: u64 = PAGEBLOCKS * 512;
const LIMIT: u64 = FRAMES / 8;
const PAGE: Request = Request::new(Order::ZERO, MigrateType::Movable);

type Token<'a, 'm> = CpuToken<'a, 'm, Machine>;

/// An allocator with 16 pageblocks, two CPUs, small lists, and a depot of two pageblocks.
fn with_settings(settings: &[(&str, &str)], test: impl FnOnce(&Memory<'_, Machine>)) {
    on_frames(FRAMES, settings, test);
}

fn on_frames(frames: u64, settings: &[(&str, &str)], test: impl FnOnce(&Memory<'_, Machine>)) {
    let map = [FrameRange::new(Pfn::new(0), Pfn::new(frames)).unwrap().into()];
    let mut config = Config::new(&map, 2);
    for (key, value) in [
        ("zone.depot_divisor", "8"),
        // Frames of sparse pageblocks would bypass the depot.
        ("zone.emptying_above", "512"),
        ("zone.min_free", "0"),
        ("pcp.batch", "7"),
        ("pcp.high_fraction", "1000"),
    ] {
        config.tuning.set(key, value).unwrap();
    }
    settings.iter().for_each(|(key, value)| config.tuning.set(key, value).unwrap());
    let mut metadata = Metadata::of::<Machine>(&config);
    let memory =
        Memory::new(Machine::default().keeping_reports(), &config, metadata.as_mut()).unwrap();
    test(&memory);
    memory.check().unwrap();
}

fn on_memory(test: impl FnOnce(&Memory<'_, Machine>)) {
    with_settings(&[], test);
}

fn take<'m>(token: &mut Token<'_, 'm>, request: Request, count: u64) -> Vec<Block<'m>> {
    (0..count).map(|_| token.alloc(request).unwrap()).collect()
}

/// Frees blocks in an order that frees neighbours in memory far apart in time.
fn scatter<'m>(token: &mut Token<'_, 'm>, blocks: Vec<Block<'m>>) {
    let mut blocks: Vec<_> = blocks.into_iter().map(Some).collect();
    for first in 0..128 {
        for slot in blocks.iter_mut().skip(first).step_by(128) {
            token.free(slot.take().unwrap()).unwrap();
        }
    }
}

/// Frees pages until some are in the depot. The lists are empty afterwards.
fn fill_depot(memory: &Memory<'_, Machine>) {
    let mut token = memory.cpu(cpu(0)).unwrap();
    let blocks = take(&mut token, PAGE, FRAMES / 2);
    scatter(&mut token, blocks);
    token.drain();
    assert!(memory.in_depots() > LIMIT / 2, "{} of {LIMIT}", memory.in_depots());
    assert_eq!(memory.held_by_cpus(), 0);
}

#[test]
fn blocks_freed_on_one_cpu_serve_another() {
    on_memory(|memory| {
        fill_depot(memory);
        let (free, lent) = (memory.free(), memory.in_depots());
        assert_eq!(memory.stats().to_depot, lent);
        let mut token = memory.cpu(cpu(1)).unwrap();
        let blocks = take(&mut token, PAGE, lent / 2);
        assert_eq!(memory.free(), free, "blocks were taken from the buddy");
        assert_eq!(memory.in_depots() + memory.held_by_cpus() + lent / 2, lent);
        let stats = memory.cpu_stats(cpu(1)).unwrap();
        assert_eq!(stats.from_depot, stats.refilled_frames);
        assert!(stats.refilled_frames / stats.refills > 5, "{stats:?}");
        drop(token);
        scatter(&mut memory.cpu(cpu(0)).unwrap(), blocks);
    });
}

#[test]
fn the_block_freed_last_is_allocated_first() {
    on_memory(|memory| {
        let mut token = memory.cpu(cpu(0)).unwrap();
        let blocks = take(&mut token, PAGE, 2048);
        let pfns: Vec<_> = blocks.iter().map(Block::pfn).collect();
        scatter(&mut token, blocks);
        let last = &pfns[127..].iter().step_by(128).collect::<Vec<_>>();
        token.drain();
        let again = token.alloc(PAGE).unwrap();
        let word = |pfn: Pfn| pfn.get() / 64;
        assert!(last.iter().any(|&&pfn| word(pfn) == word(again.pfn())), "{again:?}");
        token.free(again).unwrap();
    });
}

#[test]
fn the_depot_respects_its_limit() {
    on_memory(|memory| {
        for _ in 0..4 {
            fill_depot(memory);
            assert!(memory.in_depots() <= LIMIT);
        }
    });
    with_settings(&[("zone.depot_divisor", "0")], |memory| {
        let mut token = memory.cpu(cpu(0)).unwrap();
        let blocks = take(&mut token, PAGE, FRAMES / 2);
        scatter(&mut token, blocks);
        assert_eq!((memory.in_depots(), memory.stats().to_depot), (0, 0));
    });
}

#[test]
fn only_zones_that_cpus_share_have_a_depot_by_default() {
    let map = [FrameRange::new(Pfn::new(0), Pfn::new(1 << 20)).unwrap().into()];
    let of = |cpus, divisor| {
        let mut config = Config::new(&map, cpus);
        config.tuning.zone.depot_divisor = divisor;
        let layout = Layout::new::<Machine>(&config).unwrap();
        assert!(layout.bytes_per_frame() < 0.5, "{}", layout.bytes_per_frame());
        layout.parts().find(|part| part.name == "depots").unwrap().bytes
    };
    assert_eq!((of(1, Auto::Auto), of(64, Auto::Fixed(0))), (0, 0));
    // Up to 8 CPUs need no more than 512 frames.
    assert!((2048..6144).contains(&of(2, Auto::Auto)), "{}", of(2, Auto::Auto));
    assert_eq!(of(2, Auto::Auto), of(8, Auto::Auto));
    // Four bytes for each frame that the depot can hold, a 128th of all, and up to a quarter more.
    let bytes = 4 * (1 << 20) / 128;
    assert!((bytes..bytes + bytes / 4).contains(&of(9, Auto::Auto)), "{}", of(9, Auto::Auto));
    assert_eq!(of(2, Auto::Fixed(128)), of(9, Auto::Auto));
}

/// By default, a CPU of few uses the depot only for frames that others have allocated. While frees are scattered, a
/// full ring passes to the depot as a whole.
#[test]
fn few_cpus_use_the_depot_for_frames_of_others() {
    // The depot is not bound to the pageblocks of one hold.
    with_settings(&[("zone.depot_divisor", "auto"), ("pcp.hold_pageblocks", "1")], |memory| {
        let mut first = memory.cpu(cpu(0)).unwrap();
        for _ in 0..2 {
            let own = take(&mut first, PAGE, FRAMES / 2);
            scatter(&mut first, own);
        }
        assert_eq!(memory.stats().to_depot, 0);
        let mut second = memory.cpu(cpu(1)).unwrap();
        let mut kept: VecDeque<_> = take(&mut first, PAGE, FRAMES / 2).into();
        for turn in 0..FRAMES as usize {
            kept.push_back(first.alloc(PAGE).unwrap());
            let block = kept.swap_remove_back(turn * 997 % kept.len()).unwrap();
            second.free(block).unwrap();
        }
        let stats = memory.cpu_stats(cpu(1)).unwrap();
        assert!(stats.to_depot > FRAMES * 3 / 4, "{stats:?}");
        assert!(stats.zone_lock_acquisitions < FRAMES / 16, "{stats:?}");
        kept.into_iter().for_each(|block| second.free(block).unwrap());
        drop((first, second));
        memory.drain_all();
        assert_eq!(memory.free(), FRAMES);
    });
}

#[test]
fn the_depot_is_drained_with_the_lists() {
    on_memory(|memory| {
        fill_depot(memory);
        memory.drain_all();
        assert_eq!((memory.in_depots(), memory.free()), (0, FRAMES));
        assert_eq!(memory.largest_free_order(), Order::new(13));
    });
}

#[test]
fn no_request_fails_because_of_the_depot() {
    for order in [0, 3, 4, 9, 10] {
        on_memory(|memory| {
            fill_depot(memory);
            let mut token = memory.cpu(cpu(1)).unwrap();
            let order = Order::new(order).unwrap();
            let request = Request::new(order, MigrateType::Movable).no_wait();
            let blocks: Vec<_> = core::iter::from_fn(|| token.alloc(request).ok()).collect();
            assert_eq!(memory.in_depots(), 0, "{order:?}");
            assert!(memory.free() < order.frames().max(8), "{order:?}: {}", memory.free());
            blocks.into_iter().for_each(|block| token.free(block).unwrap());
        });
    }
}

#[test]
fn the_depot_is_returned_before_types_mix() {
    on_memory(|memory| {
        let mut token = memory.cpu(cpu(0)).unwrap();
        let table = Request::new(Order::ZERO, MigrateType::Unmovable);
        let tables = take(&mut token, table, FRAMES / 2);
        scatter(&mut token, tables);
        token.drain();
        assert!(memory.in_depots() > 0);
        let claims = memory.stats().claims;
        let block = token.alloc(table.of_order(Order::PAGEBLOCK).no_wait()).unwrap();
        assert_eq!(memory.pageblock_type(block.pfn()), Some(MigrateType::Unmovable));
        assert_eq!(
            memory.stats().claims,
            claims,
            "a pageblock was claimed although pageblocks of the same type had free frames"
        );
        token.free(block).unwrap();
    });
}

/// The depot is as large as on servers, and contains far more blocks than one hold of the lock
/// returns.
#[test]
fn all_depot_blocks_of_a_type_are_returned_before_types_mix() {
    const LARGE: u64 = 1 << 17;
    for order in [4, 9] {
        on_frames(LARGE, &[], |memory| {
            let mut token = memory.cpu(cpu(0)).unwrap();
            let table = Request::new(Order::ZERO, MigrateType::Unmovable);
            let tables = take(&mut token, table, LARGE / 2);
            scatter(&mut token, tables);
            token.drain();
            assert!(memory.in_depots() > LARGE / 9, "{}", memory.in_depots());
            let request = table.of_order(Order::new(order).unwrap()).no_wait();
            let claims = memory.stats().claims;
            let mut blocks = Vec::new();
            while memory.in_depots() > 0 {
                blocks.push(token.alloc(request).unwrap());
                let of = memory.pageblock_type(blocks[blocks.len() - 1].pfn());
                assert_eq!(of, Some(MigrateType::Unmovable));
            }
            assert_eq!(
                memory.stats().claims,
                claims,
                "order {order}: claimed although pageblocks of the same type had free frames"
            );
            blocks.into_iter().for_each(|block| token.free(block).unwrap());
        });
    }
}

/// Moves pages through the depot, and larger blocks past it, for several of the depot's intervals.
fn pass_time(memory: &Memory<'_, Machine>, circulating: u64) {
    for _ in 0..64 {
        memory.platform().advance(100_000_000);
        let (mut one, mut other) = (memory.cpu(cpu(0)).unwrap(), memory.cpu(cpu(1)).unwrap());
        let pages = take(&mut one, PAGE, circulating);
        scatter(&mut other, pages);
        let large = Request::new(Order::new(5).unwrap(), MigrateType::Unmovable);
        let others = take(&mut other, large, 32);
        others.into_iter().for_each(|block| other.free(block).unwrap());
    }
}

#[test]
fn blocks_unused_for_long_are_returned() {
    const LARGE: u64 = 1 << 16;
    on_frames(LARGE, &[], |memory| {
        let mut token = memory.cpu(cpu(0)).unwrap();
        let pages = take(&mut token, PAGE, LARGE / 2);
        scatter(&mut token, pages);
        drop(token);
        let full = memory.in_depots();
        assert!(full > LARGE / 9, "{full}");
        pass_time(memory, 1024);
        let circulates = memory.in_depots();
        assert!(
            (512..4096).contains(&circulates),
            "{circulates} of {full} frames in the depot for 1024 that circulate"
        );
        let from_depot = memory.stats().from_depot;
        pass_time(memory, 1024);
        let served = memory.stats().from_depot - from_depot;
        assert!(
            served > 64 * 1024 / 2,
            "only {served} of {} frames came from the depot",
            64 * 1024
        );
    });
}

#[test]
fn trims_empty_a_depot_that_nobody_uses() {
    let by_owner = |memory: &Memory<'_, Machine>| memory.cpu(cpu(1)).unwrap().trim();
    let of_all = |memory: &Memory<'_, Machine>| memory.trim_all();
    for trim in [&by_owner as &dyn Fn(&Memory<'_, Machine>), &of_all] {
        on_memory(|memory| {
            fill_depot(memory);
            let full = memory.in_depots();
            // The blocks came in the first interval, and are not used in the second one.
            trim(memory);
            assert_eq!(memory.in_depots(), full, "the interval has not ended");
            for _ in 0..2 {
                memory.platform().advance(1_000_000_000);
                trim(memory);
            }
            assert_eq!((memory.in_depots(), memory.free()), (0, FRAMES));
        });
    }
}

#[test]
fn the_depot_holds_no_frames_of_an_isolated_pageblock() {
    on_memory(|memory| {
        fill_depot(memory);
        let isolated = memory.isolate(Pfn::new(0)).unwrap();
        assert_eq!(memory.in_depots(), 0);
        let before = memory.stats().to_depot;
        let mut token = memory.cpu(cpu(0)).unwrap();
        let blocks = take(&mut token, PAGE, FRAMES / 2);
        scatter(&mut token, blocks);
        assert_eq!(memory.stats().to_depot, before, "the depot took blocks during the isolation");
        drop(token);
        memory.undo_isolate(isolated).unwrap();
        fill_depot(memory);
    });
}

#[test]
fn the_depot_takes_nothing_while_memory_is_short() {
    with_settings(&[("zone.min_free", "4000")], |memory| {
        let mut token = memory.cpu(cpu(0)).unwrap();
        let mut blocks: Vec<_> = core::iter::from_fn(|| token.alloc(PAGE).ok()).collect();
        let some = blocks.drain(..blocks.len() / 3).collect();
        scatter(&mut token, some);
        let zone = memory.zone(ZoneId::default()).unwrap();
        assert!(zone.free < zone.high, "{zone:?}");
        assert_eq!((memory.in_depots(), memory.stats().to_depot), (0, 0));
        scatter(&mut token, blocks);
        assert!(memory.in_depots() > 0);
    });
}

#[test]
fn a_double_free_of_a_block_in_the_depot_is_refused_when_it_reaches_the_maps() {
    on_memory(|memory| {
        let mut token = memory.cpu(cpu(0)).unwrap();
        let blocks = take(&mut token, PAGE, 1024);
        let pfn = blocks[500].pfn();
        scatter(&mut token, blocks);
        token.drain();
        assert!(memory.in_depots() > 0);
        // SAFETY: violated on purpose, because the frame is free. `checked` refuses the free when
        // the block reaches the buddy.
        let _ = unsafe { token.free_raw(pfn, Order::ZERO) };
        memory.drain_all();
        let reports: u32 = memory.platform().take_reports().iter().map(|it| it.count).sum();
        assert_eq!((reports, memory.free()), (1, FRAMES));
    });
}

/// Messages of blocks of four orders are allocated on one CPU and freed on another, as through a
/// socket.
#[test]
fn one_hold_serves_all_orders() {
    const MESSAGE: [u8; 5] = [3, 2, 1, 0, 0];
    let request = |order| Request::new(Order::new(order).unwrap(), MigrateType::Unmovable);
    let settings = [
        ("pcp.batch", "63"),
        ("pcp.high_fraction", "0"),
        ("pcp.high_max_divisor", "8"),
        ("zone.depot_divisor", "8"),
    ];
    on_frames(1 << 18, &settings, |memory| {
        let (mut writer, mut reader) = (memory.cpu(cpu(0)).unwrap(), memory.cpu(cpu(1)).unwrap());
        let mut exchange = |messages: u32| {
            let before = memory.stats();
            for _ in 0..messages {
                let blocks = MESSAGE.map(|order| writer.alloc(request(order)).unwrap());
                blocks.into_iter().for_each(|block| reader.free(block).unwrap());
                memory.check().unwrap();
            }
            let after = memory.stats();
            let holds = after.zone_lock_acquisitions - before.zone_lock_acquisitions;
            (f64::from(messages * 16) / holds as f64, after.claims - before.claims)
        };
        exchange(2000);
        let (frames, claims) = exchange(2000);
        assert!(frames > 300.0, "{frames} per hold of the zone lock");
        assert_eq!(claims, 0, "pageblocks were claimed: blocks were allocated from the buddy");
    });
}

/// The table at [`CpuToken::free_raw`] lists this bad free as not detected at the call by
/// *checked*. It is refused when the frame reaches the zone.
#[test]
fn a_raw_free_of_a_block_in_the_depot_is_refused_in_the_zone() {
    on_memory(|memory| {
        fill_depot(memory);
        let mut token = memory.cpu(cpu(1)).unwrap();
        // SAFETY: violated on purpose; `checked` must refuse the free. The frames do not exist.
        let mut free = |frame| unsafe { token.free_raw(Pfn::new(frame), Order::ZERO) };
        // Frames that are free in the zone are refused at the call.
        let passed = (0..FRAMES).find(|&frame| free(frame).is_ok());
        assert!(
            passed.is_some() && memory.platform().take_reports().len() as u64 == passed.unwrap()
        );
        drop(token);
        memory.drain_all();
        let reports = memory.platform().take_reports();
        assert_eq!(reports.len(), 1, "{reports:?}");
        assert_eq!((reports[0].count, memory.free()), (1, FRAMES));
    });
}
