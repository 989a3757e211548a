//! Memory maps: what is in them is handed out, all of it and nothing else.
#![cfg(not(feature = "loom"))]

mod support;

use framewright::{
    Block, Config, FrameRange, FreeError, InitError, Layout, Memory, MemoryRange, MigrateType,
    Order, Pfn, Request, ZoneId, tuning::Auto,
};
use support::machine::{Machine, Metadata, cpu};

fn range(start: u64, end: u64) -> MemoryRange {
    FrameRange::new(Pfn::new(start), Pfn::new(end)).unwrap().into()
}

fn on_map(map: &[MemoryRange], test: impl FnOnce(&Memory<'_, Machine>)) {
    let mut config = Config::new(map, 1);
    config.tuning.zone.min_free = Auto::Fixed(0);
    let mut metadata = Metadata::new(Layout::new::<Machine>(&config).unwrap().bytes());
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
    // Miri is slow: the small ones have to do.
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
            // SAFETY: it was a block until `into_raw`.
            let block = unsafe { token.adopt(pfn, whole) }.expect("it is ours");
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
fn holes_are_nobodys() {
    on_map(&[range(0, 512), range(1024, 1536)], |memory| {
        let mut token = memory.cpu(cpu(0)).unwrap();
        let hole = Pfn::new(700);
        assert!(token.alloc_at(hole, Order::ZERO, MigrateType::Movable).is_err());
        assert!(memory.isolate(hole).is_err());
        // SAFETY: the frame does not exist; it must be refused.
        assert_eq!(unsafe { token.free_raw(hole, Order::ZERO) }, Err(FreeError::NotOurs));
        // SAFETY: as above.
        assert!(unsafe { token.adopt(hole, Order::ZERO) }.is_err());
        assert_eq!(memory.block_counts(ZoneId::default()).yields(Order::PAGEBLOCK), 2);
    });
}

#[test]
fn what_is_wrong_with_a_map_is_named() {
    let new = |map: &[MemoryRange]| Layout::new::<Machine>(&Config::new(map, 1)).map(|_| ());
    assert_eq!(new(&[]), Err(InitError::NoMemory));
    assert_eq!(new(&[range(0, 8), range(9, 9)]), Err(InitError::EmptyRange { index: 1 }));
    assert_eq!(new(&[range(8, 16), range(0, 4)]), Err(InitError::Unsorted { index: 1 }));
    assert_eq!(new(&[range(0, 16), range(8, 24)]), Err(InitError::Overlapping { index: 1 }));
    assert_eq!(new(&[range(0, 1), range(1 << 40, 1 << 41)]), Err(InitError::SpanTooLarge));
    // Frame numbers have room for the end of the largest block behind the last frame.
    let most = (1 << 32) - (2 << 18);
    assert_eq!(new(&[range(512, 1024), range(most, 512 + most)]), Ok(()));
    assert_eq!(new(&[range(512, 1024), range(most, 513 + most)]), Err(InitError::SpanTooLarge));
    assert!(matches!(new(&[range(0, u64::MAX)]), Err(InitError::AddressTooHigh { index: 0 })));
    assert_eq!(Layout::new::<Machine>(&Config::new(&[range(0, 1)], 0)), Err(InitError::NoCpus));
}

#[test]
fn what_is_wrong_with_a_buffer_is_named() {
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
    let map = [range(0, 1 << 26)];
    let layout = Layout::new::<Machine>(&Config::new(&map, 4)).unwrap();
    assert!(layout.bytes_per_frame() <= 0.5, "{} bytes per frame", layout.bytes_per_frame());
}
