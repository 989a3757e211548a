//! Memory in use from the start, in safe code.
#![forbid(unsafe_code)]

use framewright::{
    Config, FrameRange, MemoryRange, MigrateType, Pfn, RangeError, platform::OwnerLock,
    tuning::Auto,
};

use framewright_fakes::leaked;

use crate::machine::{CPU, Machine, TestMemory, assert_complete, memory};

fn range(start: u64, end: u64) -> FrameRange {
    FrameRange::new(Pfn::new(start), Pfn::new(end)).unwrap()
}

/// The first 700 of 2048 frames are in use.
fn with_boot_memory() -> &'static TestMemory {
    let map = [MemoryRange::from(range(0, 700)).in_use(), MemoryRange::from(range(700, 2048))];
    let mut config = Config::new(&map, 2);
    config.tuning.zone.min_free = Auto::Fixed(0);
    leaked(Machine::new(OwnerLock::Trylock), &config)
}

#[test]
fn frames_in_use_have_one_owner() {
    let (memory, other) = (with_boot_memory(), memory(1024, |_| ()));
    let taken = memory.alloc_range(range(600, 800), MigrateType::Movable, &mut |_| ());
    assert_eq!(taken, Err(RangeError::Busy { frames: 100 }));
    let extent = memory.take_in_use(range(0, 700)).unwrap();
    for wrong in [range(0, 699), range(1, 700), range(0, 0), range(700, 2048)] {
        assert_eq!(memory.take_in_use(wrong), Err(RangeError::NotInUse));
    }
    assert_eq!(memory.take_in_use(range(0, 700)), Err(RangeError::HandedOut));
    // Another allocator refuses the extent and returns it.
    let extent = other.free_extent(extent).unwrap_err();
    let (low, high) = extent.split_at(Pfn::new(513)).unwrap();
    memory.free_extent(high).unwrap();
    memory.check().unwrap();
    memory.free_extent(low).unwrap();
    assert_complete(memory, &mut memory.cpu(CPU).unwrap(), Vec::new());
}
