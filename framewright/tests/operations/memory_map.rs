//! Memory maps: exactly the frames of the map can be allocated.

use crate::support::machine::{Machine, Metadata, cpu};
use framewright::{
    Block, Config, Contiguous, FrameRange, FreeError, InitError, Layout, Memory, MemoryRange,
    MigrateType, Order, Pfn, Request, SideTables, ZoneId, ZoneKind, tuning::Auto,
};

fn range(start: u64, end: u64) -> MemoryRange {
    FrameRange::new(Pfn::new(start), Pfn::new(end)).unwrap().into()
}

fn on_map(map: &[MemoryRange], test: impl FnOnce(&Memory<'_, Machine>)) {
    let mut config = Config::new(map, 1);
    config.tuning.zone.min_free = Auto::Fixed(0);
    let mut metadata = Metadata::of::<Machine>(&config);
    test(&Memory::new(Machine::default(), &config, metadata.as_mut()).unwrap());
}

fn movable(order: Order) -> Request {
    Request::new(order, MigrateType::Movable)
}

#[test]
fn every_frame_is_handed_out_once() {
    let maps: [&[MemoryRange]; 5] = [
        &[range(0, 1)],
        &[range(511, 513)],
        &[range(Pfn::MAX.get() - 100, Pfn::MAX.get())],
        &[range(100, 700), range(900, 901), range(3000, 4100)],
        &[range((1 << 40) + 3, (1 << 40) + 1500)],
    ];
    // Miri is slow, so it tries only the small maps.
    for map in &maps[..if cfg!(miri) { 3 } else { 5 }] {
        on_map(map, |memory| {
            let mut token = memory.cpu(cpu(0)).unwrap();
            let mut frames = Vec::new();
            while let Ok(block) = token.alloc(movable(Order::ZERO)) {
                frames.push(block.into_raw().0.get());
            }
            frames.sort_unstable();
            let expected: Vec<u64> =
                map.iter().flat_map(|r| r.frames.start().get()..r.frames.end().get()).collect();
            assert_eq!(frames, expected);
        });
    }
}

#[test]
fn touching_ranges_are_one() {
    on_map(&[range(0, 300), range(300, 700), range(700, 1024)], |memory| {
        let mut token = memory.cpu(cpu(0)).unwrap();
        for _ in 0..2 {
            let (pfn, whole) = token.alloc(movable(Order::PAGEBLOCK)).map(Block::into_raw).unwrap();
            // SAFETY: the frames were a block until `into_raw`.
            let block =
                unsafe { token.adopt(pfn, whole) }.expect("it is a block of this allocator");
            let (pfn, whole) = block.into_raw();
            // SAFETY: as above.
            assert_eq!(unsafe { token.free_raw(pfn, whole) }, Ok(()));
            token.drain();
            let block = token.alloc_at(pfn, whole, MigrateType::Movable).expect("it is free");
            token.free(block).unwrap();
        }
        memory.check().unwrap();
    });
}

#[test]
fn holes_cannot_be_used() {
    on_map(&[range(0, 512), range(1024, 1536)], |memory| {
        let mut token = memory.cpu(cpu(0)).unwrap();
        let hole = Pfn::new(700);
        assert!(token.alloc_at(hole, Order::ZERO, MigrateType::Movable).is_err());
        assert!(memory.isolate(hole).is_err());
        // SAFETY: the frame does not exist, and the call must refuse it.
        assert_eq!(unsafe { token.free_raw(hole, Order::ZERO) }, Err(FreeError::NotOurs));
        // SAFETY: as above.
        assert!(unsafe { token.adopt(hole, Order::ZERO) }.is_err());
        assert_eq!(memory.block_counts(ZoneId::default()).yields(Order::PAGEBLOCK), 2);
    });
}

#[test]
fn an_isolated_pageblock_has_the_frames_of_its_zone_only() {
    let dma = MemoryRange { zone: ZoneKind::Dma, ..range(0, 300) };
    on_map(&[dma, range(310, 1024)], |memory| {
        for (at, start, end) in [(10, 0, 300), (400, 310, 512), (600, 512, 1024)] {
            let isolated = memory.isolate(Pfn::new(at)).unwrap();
            assert_eq!(Some(isolated.range()), FrameRange::new(Pfn::new(start), Pfn::new(end)));
            memory.undo_isolate(isolated).unwrap();
        }
        memory.check().unwrap();
    });
}

#[test]
fn errors_in_a_memory_map_are_reported() {
    let new = |map: &[MemoryRange]| Layout::new::<Machine>(&Config::new(map, 1)).map(|_| ());
    assert_eq!(new(&[]), Err(InitError::NoMemory));
    assert_eq!(new(&[range(0, 8), range(9, 9)]), Err(InitError::EmptyRange { index: 1 }));
    assert_eq!(new(&[range(8, 16), range(0, 4)]), Err(InitError::Unsorted { index: 1 }));
    assert_eq!(new(&[range(0, 16), range(8, 24)]), Err(InitError::Overlapping { index: 1 }));
    assert_eq!(new(&[range(0, 1), range(1 << 40, 1 << 41)]), Err(InitError::SpanTooLarge));
    // The end of the largest block that contains the last frame must fit into 32 bits.
    let most = (1 << 32) - (2 << 18);
    assert_eq!(new(&[range(512, 1024), range(most, 512 + most)]), Ok(()));
    assert_eq!(new(&[range(512, 1024), range(most, 513 + most)]), Err(InitError::SpanTooLarge));
    // Each of two zones spans nearly all of the map, which is small enough without LRU lists.
    let normal = |range: MemoryRange| MemoryRange { zone: ZoneKind::Normal, ..range };
    let movable = |range: MemoryRange| MemoryRange { zone: ZoneKind::Movable, ..range };
    let (low, high) = (
        [0, 512].map(|at| range(at, at + 512)),
        [1024, 512].map(|at| range(most - at, most - at + 512)),
    );
    let map = [normal(low[0]), movable(low[1]), normal(high[0]), movable(high[1])];
    let mut config = Config::new(&map, 1);
    assert!(Layout::new::<Machine>(&config).is_ok());
    config.side_tables = SideTables::default().with_lru();
    let error = Layout::new::<Machine>(&config).map(|_| ()).unwrap_err();
    assert_eq!(error, InitError::SpanTooLarge);
    assert!(error.to_string().contains("with LRU lists"), "{error}");
    assert!(matches!(new(&[range(0, u64::MAX)]), Err(InitError::AddressTooHigh { index: 0 })));
    assert_eq!(Layout::new::<Machine>(&Config::new(&[range(0, 1)], 0)), Err(InitError::NoCpus));
}

/// Frame numbers at which arithmetic may overflow.
const EXTREMES: [u64; 13] = [
    0,
    1,
    511,
    512,
    1 << 31,
    (1 << 32) - (2 << 18),
    1 << 32,
    (1 << 48) - 512,
    (1 << 48) - 1,
    1 << 48,
    1 << 63,
    u64::MAX - 511,
    u64::MAX,
];

fn extreme_ranges() -> Vec<FrameRange> {
    let ends = |start: &u64| EXTREMES.map(|end| FrameRange::new(Pfn::new(*start), Pfn::new(end)));
    EXTREMES.iter().flat_map(ends).flatten().collect()
}

#[test]
fn no_map_overflows() {
    let ranges = extreme_ranges();
    let variants = |frames: FrameRange| {
        let range = MemoryRange::from(frames);
        let dma = MemoryRange { zone: ZoneKind::Dma, ..range };
        [range, range.absent(), dma]
    };
    let (mut whole, mut refused) = (0, 0);
    let mut count = |map: &[MemoryRange]| match Layout::new::<Machine>(&Config::new(map, 1)) {
        Ok(layout) => {
            let (first, last) = (map[0].frames, map[map.len() - 1].frames);
            assert!(last.end() <= Pfn::MAX, "{map:?}");
            assert!(last.end().get() - first.start().get() <= 1 << 32, "{map:?}");
            assert!(map.iter().all(|range| range.frames.frames() > 0), "{map:?}");
            assert!(layout.bytes() > 0);
            whole += 1;
        }
        Err(_) => refused += 1,
    };
    count(&[]);
    // Miri is slow, so it tries only some of the ranges.
    for &first in ranges.iter().step_by(if cfg!(miri) { 7 } else { 1 }) {
        count(&[first.into()]);
        for &second in &ranges {
            for first in variants(first) {
                variants(second).into_iter().for_each(|second| count(&[first, second]));
            }
        }
    }
    assert!(whole > 0 && refused > 0, "{whole} maps were accepted, {refused} refused");
}

#[test]
fn no_range_overflows_any_call() {
    on_map(&[range(512, 2048), range(2048, 4096).absent()], |memory| {
        let movable = MigrateType::Movable;
        for frames in extreme_ranges() {
            assert!(memory.add_memory(frames).is_err());
            assert!(memory.remove_memory(frames, &mut |_| ()).is_err());
            assert!(memory.alloc_range(frames, movable, &mut |_| ()).is_err());
            // SAFETY: the call is refused.
            assert!(unsafe { memory.adopt_extent(frames) }.is_err());
            let within = Contiguous::new(frames.frames(), movable).within(frames);
            assert!(memory.alloc_contiguous(&within.aligned(Order::MAX)).is_err());
        }
        let mut token = memory.cpu(cpu(0)).unwrap();
        for pfn in EXTREMES.map(Pfn::new).into_iter().filter(|pfn| pfn.get() != 512) {
            for order in [Order::ZERO, Order::PAGEBLOCK, Order::MAX] {
                assert!(token.alloc_at(pfn, order, movable).is_err());
                // SAFETY: the frames do not exist, and the call must refuse them.
                assert!(unsafe { token.free_raw(pfn, order) }.is_err());
            }
            assert!(memory.isolate(pfn).is_err());
            assert!(!memory.set_pageblock_type(pfn, movable));
            assert_eq!(memory.pageblock_type(pfn), None);
        }
        memory.check().unwrap();
    });
}

#[test]
fn errors_in_a_buffer_are_reported() {
    let map = [range(0, 5000)];
    let config = Config::new(&map, 2);
    let layout = Layout::new::<Machine>(&config).unwrap();
    let (needed, align) = (layout.bytes(), layout.align());
    let mut metadata = Metadata::new(needed + align);
    let mut new = |from: usize, to: usize| {
        let buffer = &mut metadata.as_mut()[from..to];
        Memory::new(Machine::default(), &config, buffer).map(|_| ())
    };
    assert_eq!(new(0, needed), Ok(()));
    let too_small = InitError::MetadataTooSmall { needed, given: needed - 1 };
    assert_eq!(new(0, needed - 1), Err(too_small));
    assert_eq!(new(0, 0), Err(InitError::MetadataTooSmall { needed, given: 0 }));
    assert_eq!(new(1, needed + 1), Err(InitError::MetadataMisaligned { align }));
}

#[test]
fn metadata_is_small() {
    for (frames, cpus, most) in [(1 << 20, 2, 0.42), (1 << 26, 4, 0.42), (1 << 26, 1024, 0.5)] {
        let map = [range(0, frames)];
        let layout = Layout::new::<Machine>(&Config::new(&map, cpus)).unwrap();
        assert!(layout.bytes_per_frame() <= most, "{} bytes per frame", layout.bytes_per_frame());
    }
}
