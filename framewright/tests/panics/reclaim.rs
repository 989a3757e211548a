//! The trace of a free panics while reclaim frees frames. No frame is lost or has two owners.
#![cfg(not(any(framewright_loom, framewright_tso)))]

use std::panic::{AssertUnwindSafe, catch_unwind};

use framewright::{
    Block, Config, CpuId, CpuToken, FrameRange, MigrateType, NodeId, Order, Pfn, Request,
    SideTables, ZoneKind, tuning::Auto,
};

use framewright_fakes::{FakeOwner, TracedPlatform, assert_apart, raw};

const FRAMES: u64 = 4 * 512;
const CPU: CpuId = CpuId::new(0);
const PAGE: Request = Request::new(Order::ZERO, MigrateType::Movable);

/// An operation that reclaims pages: for the caller, or in the background.
type Operation =
    fn(&FakeOwner, &mut CpuToken<'static, 'static, TracedPlatform>) -> Option<Block<'static>>;

const OPERATIONS: [Operation; 3] = [
    |_, token| token.alloc(PAGE).ok(),
    |owner, _| {
        owner.reclaim().shrink_node(CPU, NodeId::default(), 100);
        None
    },
    |owner, token| {
        let reclaim = owner.reclaim();
        let mut kswapd = reclaim.kswapd(NodeId::default()).unwrap();
        reclaim.wake(NodeId::default(), Order::ZERO, ZoneKind::Normal);
        (0..4).for_each(|_| _ = kswapd.step(token));
        None
    },
];

/// Fills the memory with pages and reclaims some of them. The trace of free number `at` panics.
/// Returns the number of lost frames; `None` if there were fewer frees.
fn lost(at: u32, operation: Operation) -> Option<u64> {
    let map = [FrameRange::new(Pfn::new(0), Pfn::new(FRAMES)).unwrap().into()];
    let mut config = Config::new(&map, 2);
    config.side_tables = SideTables::default().with_lru();
    config.tuning.zone.min_free = Auto::Fixed(64);
    let owner = FakeOwner::new(&config, false);
    let memory = owner.memory();
    let (lru, mut token) = (memory.lru().unwrap(), memory.cpu(CPU).unwrap());
    while let Ok(block) = token.alloc(PAGE.no_wait()) {
        let pfn = owner.take(block);
        // The page is clean and unused.
        owner.pages().page(pfn).maps = 0;
    }
    lru.drain_all();
    owner.free_fault.arm(at);
    let mut held = Vec::new();
    let mut panics = 0;
    for _ in 0..3 {
        match catch_unwind(AssertUnwindSafe(|| operation(owner, &mut token))) {
            Ok(block) => held.extend(block),
            Err(_) => panics += 1,
        }
    }
    owner.free_fault.disarm();
    drop(token);
    owner.flusher(CPU).drain_deferred(&mut |blocks| drop(blocks));
    memory.drain_all();
    memory.check_zones().unwrap();
    let single = PAGE.no_wait().ignoring_watermarks();
    held.extend(std::iter::from_fn(|| memory.alloc_bypassing_lists(single).ok()));
    let pages = owner.pages();
    let of_pages = pages.resident.keys().map(|&pfn| (pfn, Order::ZERO));
    let count = assert_apart(held.iter().map(raw).chain(of_pages));
    assert!(panics <= 1, "an operation failed later, because of free {at}");
    (panics == 1).then(|| FRAMES - count)
}

#[test]
fn no_frame_that_reclaim_frees_is_lost_though_a_trace_panics() {
    for operation in OPERATIONS {
        let all: Vec<u64> = (1..).map_while(|at| lost(at, operation)).collect();
        assert!(all.len() > 10, "{}", all.len());
        assert!(all.iter().all(|&lost| lost == 0), "{all:?}");
    }
}
