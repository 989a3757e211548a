//! Frees by frame number use the lists even without checks ([`Hardening::Off`]). Misaligned frees,
//! and frees of frames that are not of the memory, are refused.

use framewright::{
    Config, CpuToken, FrameRange, FreeError, Memory, MemoryRange, MigrateType, Pfn, Request,
    ZoneKind,
    tuning::{Auto, Hardening},
};
use framewright_fakes::{FakePlatform, Metadata, cpu, order};

type Token<'a, 'm> = CpuToken<'a, 'm, FakePlatform>;

const BASE: u64 = 0x40_0000;

/// Runs `test` on a memory with two zones: 64 pageblocks, then a hole of one pageblock, then
/// 31.5 pageblocks.
fn on_memory(test: impl FnOnce(&Memory<'_, FakePlatform>, &mut Token<'_, '_>)) {
    let range = |start, end| -> MemoryRange {
        FrameRange::new(Pfn::new(BASE + start), Pfn::new(BASE + end)).unwrap().into()
    };
    let map = [range(0, 0x8000), MemoryRange { zone: ZoneKind::Movable, ..range(0x8200, 0xc100) }];
    let mut config = Config::new(&map, 1);
    config.tuning.zone.min_free = Auto::Fixed(0);
    config.tuning.hardening = Hardening::Off;
    let mut metadata = Metadata::of::<FakePlatform>(&config);
    let memory = Memory::new(FakePlatform::default(), &config, metadata.as_mut()).unwrap();
    test(&memory, &mut memory.cpu(cpu(0)).unwrap());
    memory.drain_all();
    memory.check().unwrap();
    assert_eq!(memory.free(), memory.managed());
}

#[test]
fn blocks_of_all_types_and_zones_return_to_their_lists() {
    for of_order in [0, 1, 2, 3, 9] {
        for of in MigrateType::REQUESTABLE {
            on_memory(|memory, token| {
                let (pfn, size) =
                    token.alloc(Request::new(order(of_order), of)).unwrap().into_raw();
                let held = memory.held_by_cpus();
                // SAFETY: it was a block until `into_raw`.
                unsafe { token.free_raw(pfn, size) }.unwrap();
                assert_eq!(memory.held_by_cpus(), held + size.frames(), "{size:?}, {of:?}");
                let again = token.alloc(Request::new(size, of)).unwrap();
                assert_eq!(again.pfn(), pfn, "the block freed last was not allocated first");
                token.free(again).unwrap();
            });
        }
    }
}

#[test]
fn blocks_without_a_list_reach_the_zone() {
    for of_order in [4, 8, 10] {
        on_memory(|memory, token| {
            let request = Request::new(order(of_order), MigrateType::Unmovable);
            let (pfn, size) = token.alloc(request).unwrap().into_raw();
            // SAFETY: it was a block until `into_raw`.
            unsafe { token.free_raw(pfn, size) }.unwrap();
            assert_eq!(memory.free() + memory.held_by_cpus(), memory.managed());
        });
    }
}

#[test]
fn a_full_ring_spills() {
    on_memory(|memory, token| {
        let request = Request::new(order(2), MigrateType::Unmovable);
        let blocks: Vec<_> = (0..200).map(|_| token.alloc(request).unwrap().into_raw()).collect();
        for (pfn, size) in blocks {
            // SAFETY: it was a block until `into_raw`.
            unsafe { token.free_raw(pfn, size) }.unwrap();
        }
        assert_eq!(memory.stats().pgfree, 800);
    });
}

#[test]
fn frames_outside_of_the_memory_and_misaligned_blocks_are_refused() {
    on_memory(|memory, token| {
        let mut refused = |pfn, of_order, why| {
            // SAFETY: violated on purpose; the call must refuse the free. The frames do not exist.
            let result = unsafe { token.free_raw(Pfn::new(pfn), order(of_order)) };
            assert_eq!(result, Err(why), "order {of_order} at {pfn:#x}");
        };
        let numbers = [0, 0x200, BASE - 0x200, BASE + 0x8000, BASE + 0xc200, u64::MAX >> 16];
        let far = [32, 33, 40].map(|bits| BASE + 0x8200 + (1 << bits));
        for pfn in numbers.into_iter().chain(far) {
            for of_order in [0, 1, 3, 9] {
                refused(pfn & !0x1ff, of_order, FreeError::NotOurs);
            }
        }
        for of_order in [1, 2, 3, 4, 9] {
            refused(BASE + 0x1ff, of_order, FreeError::Misaligned);
            refused(BASE + 0x83ff, of_order, FreeError::Misaligned);
        }
        // A block that contains the hole, and blocks that end after the half pageblock.
        refused(BASE, 16, FreeError::NotOurs);
        refused(BASE + 0xc000, 9, FreeError::NotOurs);
        refused(BASE + 0xc000, 10, FreeError::NotOurs);
        assert_eq!(memory.stats().pgfree, 0);
    });
}
