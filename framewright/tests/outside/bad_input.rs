//! Wrong calls in safe code: each has a named error, and loses nothing.
#![forbid(unsafe_code)]

use std::mem::MaybeUninit;

use framewright::{
    Block, Config, Contiguous, CpuError, CpuId, Extent, FrameRange, Global, HotplugError,
    InitError, Layout, Memory, MemoryRange, MigrateType, Order, Pfn, RangeError,
    global::{GlobalError, GlobalInitError},
    platform::OwnerLock,
    tuning::Auto,
};
use framewright_fakes::leaked;

use crate::machine::{CPU, Machine, PAGE, TestMemory, assert_complete, memory};

fn range(start: u64, end: u64) -> FrameRange {
    FrameRange::new(Pfn::new(start), Pfn::new(end)).unwrap()
}

fn contiguous(memory: &TestMemory, frames: u64) -> Extent<'static> {
    memory.alloc_contiguous(&Contiguous::new(frames, MigrateType::Movable)).unwrap()
}

/// Allocated frames of an allocator whose invariants hold.
fn in_use(memory: &TestMemory) -> u64 {
    memory.drain_all();
    memory.check().unwrap();
    memory.managed() - memory.free()
}

#[test]
fn a_range_has_no_parts_beyond_its_end_and_one_owner() {
    let (memory, other) = (memory(2048, |_| ()), memory(2048, |_| ()));
    let mut extent = contiguous(memory, 1000);
    let frames = extent.range();
    let (start, end) = (frames.start().get(), frames.end().get());
    for at in [0, start, end, end + 1, 2048, u64::MAX] {
        extent = extent.split_at(Pfn::new(at)).unwrap_err();
        assert_eq!((extent.range(), in_use(memory)), (frames, 1000), "{at}");
    }
    // Another allocator has frames of the same numbers: allocated ones, and free ones.
    let theirs = contiguous(other, 500);
    let (low, high) = extent.split_at(Pfn::new(start + 500)).unwrap();
    let low = other.free_extent(low).unwrap_err();
    let high = other.free_extent(high).unwrap_err();
    assert_eq!((in_use(memory), in_use(other)), (1000, 500));
    // An allocated range cannot be allocated a second time.
    let none = &mut |_| ();
    let busy = memory.alloc_range(frames, MigrateType::Movable, none);
    assert_eq!(busy, Err(RangeError::Busy { frames: 1000 }));
    let beyond = memory.alloc_range(range(end, 2049), MigrateType::Movable, none);
    assert_eq!(beyond, Err(RangeError::NotOurs));
    assert_eq!(in_use(memory), 1000);
    memory.free_extent(high).unwrap();
    memory.free_extent(low).unwrap();
    other.free_extent(theirs).unwrap();
    for memory in [memory, other] {
        assert_complete(memory, &mut memory.cpu(CPU).unwrap(), Vec::new());
    }
}

#[test]
fn a_block_of_another_memory_is_given_back_by_every_way_to_free() {
    static GLOBAL: Global<Machine, 2> = Global::new();
    let (memory, other) = (memory(1024, |_| ()), memory(1024, |_| ()));
    let mut block: Block<'static> = other.cpu(CPU).unwrap().alloc(PAGE).unwrap();
    block = GLOBAL.free(block).unwrap_err();
    start(&GLOBAL, 2).unwrap();
    block = GLOBAL.free(block).unwrap_err();
    let mut token = memory.cpu(CPU).unwrap();
    block = token.free(block).unwrap_err();
    block = memory.free_bypassing_lists(block).unwrap_err();
    block = token.free_capturing(block, PAGE).unwrap_err();
    assert_eq!((in_use(memory), in_use(other)), (0, 1));
    assert_complete(other, &mut other.cpu(CPU).unwrap(), vec![block]);
}

#[test]
fn an_overlapping_piece_of_the_map_is_refused() {
    let map = [range(0, 600).into(), range(599, 1024).into()];
    let layout = Layout::new::<Machine>(&Config::new(&map, 2));
    assert_eq!(layout, Err(InitError::Overlapping { index: 1 }));

    let map = [MemoryRange::from(range(0, 600)), MemoryRange::from(range(600, 2048)).in_pieces()];
    let mut config = Config::new(&map, 2);
    config.tuning.zone.min_free = Auto::Fixed(0);
    let memory = leaked(Machine::new(OwnerLock::Trylock), &config);
    let extent = contiguous(memory, 100);
    memory.add_memory(range(700, 800)).unwrap();
    for (piece, at) in [((600, 701), 700), ((799, 801), 799), ((700, 800), 700), ((750, 760), 750)]
    {
        let present = HotplugError::Present { at: Pfn::new(at) };
        assert_eq!(memory.add_memory(range(piece.0, piece.1)), Err(present));
        assert_eq!((memory.managed(), in_use(memory)), (700, 100));
    }
    memory.free_extent(extent).unwrap();
    assert_complete(memory, &mut memory.cpu(CpuId::new(1)).unwrap(), Vec::new());
}

#[test]
fn a_cpu_that_was_not_declared_is_named() {
    let memory = memory(1024, |_| ());
    let block = memory.alloc_bypassing_lists(PAGE).unwrap();
    for cpu in [2, 64, u16::MAX].map(CpuId::new) {
        let no_such = CpuError::NoSuchCpu(cpu);
        assert_eq!(memory.cpu(cpu).unwrap_err(), no_such);
        assert_eq!(memory.drain_cpu(cpu), Err(no_such));
        assert_eq!(memory.cpu_offline(cpu), Err(no_such));
        assert_eq!(memory.cpu_online(cpu), Err(no_such));
        assert_eq!(memory.cpu_stats(cpu).unwrap_err(), no_such);
        assert_eq!(in_use(memory), 1);
    }
    assert_complete(memory, &mut memory.cpu(CPU).unwrap(), vec![block]);
}

/// Initialises an allocator for that many CPUs.
fn start(global: &'static Global<Machine, 2>, cpus: u16) -> Result<(), GlobalInitError> {
    let map = [range(0, 1024).into()];
    let config = Config::new(&map, cpus);
    let layout = Layout::new::<Machine>(&config).unwrap();
    let buffer = vec![MaybeUninit::uninit(); layout.bytes() + layout.align()].leak();
    let start = buffer.as_ptr().align_offset(layout.align());
    global.init(Machine::default(), &config, &mut buffer[start..])
}

#[test]
fn nothing_works_before_the_initialisation() {
    static GLOBAL: Global<Machine, 2> = Global::new();
    let is_missing = |error| assert_eq!(error, GlobalError::NotInitialised);
    let all_fail = || {
        is_missing(GLOBAL.alloc(PAGE).unwrap_err());
        is_missing(GLOBAL.alloc(PAGE.of_order(Order::PAGEBLOCK)).unwrap_err());
        is_missing(GLOBAL.memory().map(Memory::managed).unwrap_err());
    };
    all_fail();
    let many = GlobalInitError::TooManyCpus { declared: 2, given: 3 };
    assert_eq!(start(&GLOBAL, 3), Err(many));
    all_fail();
    start(&GLOBAL, 2).unwrap();
    let block = GLOBAL.alloc(PAGE).unwrap();
    GLOBAL.free(block).unwrap();
    let memory = GLOBAL.memory().unwrap();
    // The static has the token of the first CPU.
    assert_complete(memory, &mut memory.cpu(CpuId::new(1)).unwrap(), Vec::new());
}
