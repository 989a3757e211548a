//! Given ranges, and contiguous runs of any length.

use crate::support::machine::{Machine, Metadata};
use framewright::{
    Config, Contiguous, CpuId, Extent, FrameRange, Memory, MigrateType, Order, Pfn, RangeError,
    Request, ZoneId, tuning::Auto,
};

const BASE: u64 = 3 * 512;
const FRAMES: u64 = 64 * 512;

fn range(start: u64, end: u64) -> FrameRange {
    FrameRange::new(Pfn::new(BASE + start), Pfn::new(BASE + end)).unwrap()
}

fn on_memory(test: impl FnOnce(&Memory<'_, Machine>)) {
    on_frames(FRAMES, test);
}

fn on_frames(frames: u64, test: impl FnOnce(&Memory<'_, Machine>)) {
    let map = [range(0, frames).into()];
    let mut config = Config::new(&map, 2);
    config.tuning.zone.min_free = Auto::Fixed(0);
    let mut metadata = Metadata::of::<Machine>(&config);
    let memory = Memory::new(Machine::default(), &config, metadata.as_mut()).unwrap();
    test(&memory);
    memory.drain_all();
    memory.check().unwrap();
    assert_eq!(memory.free(), frames);
}

fn given<'m>(memory: &Memory<'m, Machine>, range: FrameRange) -> Result<Extent<'m>, RangeError> {
    memory.alloc_range(range, MigrateType::Movable, &mut |_| ())
}

#[test]
fn a_given_range_is_exactly_that() {
    on_memory(|memory| {
        for wanted in [range(7, 8), range(100, 3000), range(512, 1024), range(1000, 20_000)] {
            let extent = given(memory, wanted).unwrap();
            assert_eq!(extent.range(), wanted);
            memory.check().unwrap();
            assert_eq!(memory.free(), FRAMES - wanted.frames());
            let mut token = memory.cpu(CpuId::new(0)).unwrap();
            let taken = |pfn: u64| {
                let pfn = Pfn::new(BASE + pfn);
                let mut token = memory.cpu(CpuId::new(1)).unwrap();
                token.alloc_at(pfn, Order::ZERO, MigrateType::Movable).is_err()
            };
            assert!(taken(wanted.start().get() - BASE) && taken(wanted.end().get() - 1 - BASE));
            let around = token.alloc(Request::new(Order::ZERO, MigrateType::Movable)).unwrap();
            assert!(!wanted.contains(around.pfn()));
            token.free(around).unwrap();
            memory.free_extent(extent).unwrap();
        }
    });
}

#[test]
fn frames_on_the_lists_of_cpus_are_drained() {
    on_memory(|memory| {
        let mut token = memory.cpu(CpuId::new(0)).unwrap();
        let block = token.alloc(Request::new(Order::ZERO, MigrateType::Movable)).unwrap();
        let pageblock = block.pfn().align_down(Order::PAGEBLOCK).get() - BASE;
        token.free(block).unwrap();
        assert!(memory.held_by_cpus() > 0);
        let extent = given(memory, range(pageblock, pageblock + 512)).unwrap();
        memory.free_extent(extent).unwrap();
    });
}

#[test]
fn frames_in_use_are_reported_and_nothing_changes() {
    on_memory(|memory| {
        let mut token = memory.cpu(CpuId::new(0)).unwrap();
        let mut hold = |at, order| {
            let order = Order::new(order).unwrap();
            token.alloc_at(Pfn::new(BASE + at), order, MigrateType::Unmovable).unwrap()
        };
        let held = [hold(600, 3), hold(608, 2), hold(5 * 512, 9)];
        let mut named = Vec::new();
        let refused =
            memory.alloc_range(range(604, 5 * 512 + 100), MigrateType::Movable, &mut |frames| {
                named.push(frames);
            });
        assert_eq!(refused, Err(RangeError::Busy { frames: 8 + 100 }));
        assert_eq!(named, [range(604, 612), range(5 * 512, 5 * 512 + 100)]);
        memory.check().unwrap();
        assert_eq!(memory.free(), FRAMES - 8 - 4 - 512);
        held.into_iter().for_each(|block| token.free(block).unwrap());
    });
}

/// Frames are allocated in batches of 64 pageblocks.
#[test]
fn batches_taken_before_one_that_is_in_use_are_given_back() {
    const LARGE: u64 = 3 * 64 * 512;
    on_frames(LARGE, |memory| {
        let used = given(memory, range(LARGE - 1, LARGE)).unwrap();
        let refused = given(memory, range(0, LARGE));
        assert_eq!(refused, Err(RangeError::Busy { frames: 1 }));
        memory.check().unwrap();
        assert_eq!(memory.free(), LARGE - 1);
        memory.free_extent(used).unwrap();
    });
}

#[test]
fn an_extent_is_given_back_in_parts() {
    on_memory(|memory| {
        let extent = given(memory, range(500, 4000)).unwrap();
        let (low, rest) = extent.split_at(Pfn::new(BASE + 700)).unwrap();
        let (middle, high) = rest.split_at(Pfn::new(BASE + 3001)).unwrap();
        memory.free_extent(middle).unwrap();
        memory.check().unwrap();
        assert_eq!(memory.free(), FRAMES - 200 - 999);
        memory.free_extent(high).unwrap();
        memory.free_extent(low).unwrap();
        let raw = given(memory, range(0, 10)).unwrap().into_raw();
        // SAFETY: the range was an extent of this allocator just before.
        let extent = unsafe { memory.adopt_extent(raw) }.unwrap();
        let extent = extent.split_at(Pfn::new(BASE)).unwrap_err();
        memory.free_extent(extent).unwrap();
    });
}

#[test]
fn contiguous_runs_are_aligned_and_within_limits() {
    on_memory(|memory| {
        let movable = MigrateType::Movable;
        for frames in [1, 3, 63, 64, 65, 511, 513, 1025, 5000, 20_000] {
            for align in [0, 3, 9, 11].map(|order| Order::new(order).unwrap()) {
                let limits = range(777, 30_000);
                let wanted = Contiguous::new(frames, movable).aligned(align).within(limits);
                let extent = memory.alloc_contiguous(&wanted).unwrap();
                assert_eq!(extent.range().frames(), frames);
                assert!(extent.range().start().is_aligned(align));
                assert!(limits.start() <= extent.range().start());
                assert!(extent.range().end() <= limits.end());
                memory.check().unwrap();
                memory.free_extent(extent).unwrap();
            }
        }
    });
}

#[test]
fn a_run_is_found_between_frames_in_use_or_not_at_all() {
    on_memory(|memory| {
        // Every 700th frame is in use, so runs of 699 frames fit and runs of 700 do not.
        let held: Vec<_> = (0..FRAMES / 700)
            .map(|i| given(memory, range(i * 700, i * 700 + 1)).unwrap())
            .collect();
        let run = |frames| memory.alloc_contiguous(&Contiguous::new(frames, MigrateType::Movable));
        let fits = run(699).unwrap();
        assert_eq!(fits.range().start().get(), BASE + 1);
        // The run after the last frame in use is longer.
        let last = FRAMES - (FRAMES / 700 - 1) * 700 - 1;
        assert_eq!(run(last + 1), Err(RangeError::NotFound));
        let behind = run(last).unwrap();
        assert_eq!(run(700), Err(RangeError::NotFound));
        for extent in held.into_iter().chain([fits, behind]) {
            memory.free_extent(extent).unwrap();
        }
    });
}

#[test]
fn impossible_requests_get_distinct_errors() {
    on_memory(|memory| {
        assert_eq!(given(memory, range(9, 9)), Err(RangeError::Empty));
        assert_eq!(given(memory, range(FRAMES - 1, FRAMES + 1)), Err(RangeError::NotOurs));
        let isolate = MigrateType::Isolate;
        let refused = memory.alloc_range(range(0, 1), isolate, &mut |_| ());
        assert_eq!(refused, Err(RangeError::NotRequestable(isolate)));
        let isolated = memory.isolate(Pfn::new(BASE + 512)).unwrap();
        let at = Pfn::new(BASE + 512);
        assert_eq!(given(memory, range(100, 600)), Err(RangeError::Isolated { at }));
        memory.undo_isolate(isolated).unwrap();
        let none = Contiguous::new(0, MigrateType::Movable);
        assert_eq!(memory.alloc_contiguous(&none), Err(RangeError::Empty));
        let too_many = Contiguous::new(FRAMES + 1, MigrateType::Movable);
        assert_eq!(memory.alloc_contiguous(&too_many), Err(RangeError::NotFound));
    });
}

/// The number of acquisitions of the zone lock.
fn locks(memory: &Memory<'_, Machine>) -> u64 {
    memory.zone_stats(ZoneId::default()).zone_lock_acquisitions
}

#[test]
fn a_run_costs_one_hold_of_the_lock_however_fragmented_memory_is() {
    on_frames(2048 * 512, |memory| {
        let mut token = memory.cpu(CpuId::new(0)).unwrap();
        let mut single = |pageblock: u64| {
            let pfn = Pfn::new(BASE + pageblock * 512 + 255);
            token.alloc_at(pfn, Order::ZERO, MigrateType::Movable).unwrap()
        };
        let singles: Vec<_> = (0..1000).map(&mut single).collect();
        for frames in [1, 3, 10, 100, 255, 300, 513, 700, 5000, 70_000, (1 << 18) - 1] {
            let before = locks(memory);
            let wanted = Contiguous::new(frames, MigrateType::Movable);
            let extent = memory.alloc_contiguous(&wanted).unwrap();
            assert_eq!(locks(memory) - before, 1, "{frames} frames");
            assert_eq!(extent.range().frames(), frames);
            memory.check().unwrap();
            // Frees a part in the middle, and then the rest.
            let middle = extent.range().start().offset(frames / 3);
            let parts = match extent.split_at(middle) {
                Ok((low, high)) => vec![high, low],
                Err(whole) => vec![whole],
            };
            parts.into_iter().for_each(|part| memory.free_extent(part).unwrap());
            memory.check().unwrap();
        }
        singles.into_iter().for_each(|block| token.free(block).unwrap());
    });
}

#[test]
fn a_run_keeps_to_pageblocks_of_its_type() {
    on_memory(|memory| {
        let pageblock = Pfn::new(BASE + 40 * 512);
        assert!(memory.set_pageblock_type(pageblock, MigrateType::Unmovable));
        let wanted = Contiguous::new(10, MigrateType::Unmovable);
        let extent = memory.alloc_contiguous(&wanted).unwrap();
        assert_eq!(extent.range().start().align_down(Order::PAGEBLOCK), pageblock);
        memory.free_extent(extent).unwrap();
    });
}

#[test]
fn a_run_without_a_block_that_holds_it_is_searched() {
    on_frames(4 * 512, |memory| {
        let mut token = memory.cpu(CpuId::new(0)).unwrap();
        let pfn = Pfn::new(BASE + 1500);
        let block = token.alloc_at(pfn, Order::ZERO, MigrateType::Movable).unwrap();
        // No block of order 11 is free, but a run of 1500 frames is free.
        let wanted = Contiguous::new(1500, MigrateType::Movable);
        let extent = memory.alloc_contiguous(&wanted).unwrap();
        assert_eq!(extent.range(), range(0, 1500));
        memory.free_extent(extent).unwrap();
        token.free(block).unwrap();
    });
}
