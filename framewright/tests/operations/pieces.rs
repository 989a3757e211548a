//! A memory map in pieces.

use crate::support::machine::{Machine, Metadata};
use framewright::{
    Block, Config, CpuId, FrameRange, HotplugError, Memory, MemoryRange, MigrateType, NodeId,
    Order, Pfn, RangeError, Request, ZoneKind,
    tuning::{Auto, Hardening},
};

const PAGE: Request = Request::new(Order::ZERO, MigrateType::Movable);
/// The first frame and the end of the range for pieces.
const SPAN: (u64, u64) = (512, 40 * 512 + 100);

fn range(start: u64, end: u64) -> FrameRange {
    FrameRange::new(Pfn::new(start), Pfn::new(end)).unwrap()
}

/// Runs `test` on an allocator that has no frames at first.
fn on_nothing(hardening: Hardening, test: impl FnOnce(&Memory<'_, Machine>)) {
    on_map(hardening, &[MemoryRange::from(range(SPAN.0, SPAN.1)).in_pieces()], test);
}

fn on_map(hardening: Hardening, map: &[MemoryRange], test: impl FnOnce(&Memory<'_, Machine>)) {
    let mut config = Config::new(map, 2);
    config.tuning.zone.min_free = Auto::Fixed(0);
    config.tuning.hardening = hardening;
    let mut metadata = Metadata::of::<Machine>(&config);
    let memory = Memory::new(Machine::default(), &config, metadata.as_mut()).unwrap();
    memory.check().unwrap();
    test(&memory);
    memory.drain_all();
    memory.check().unwrap();
    assert_eq!(memory.free(), memory.managed());
}

fn all<'m>(memory: &Memory<'m, Machine>) -> Vec<Block<'m>> {
    let mut token = memory.cpu(CpuId::new(0)).unwrap();
    let blocks: Vec<_> = std::iter::from_fn(|| token.alloc(PAGE).ok()).collect();
    assert_eq!(blocks.len() as u64, memory.managed());
    blocks
}

fn free_all<'m>(memory: &Memory<'m, Machine>, blocks: Vec<Block<'m>>) {
    let mut token = memory.cpu(CpuId::new(1)).unwrap();
    blocks.into_iter().for_each(|block| token.free(block).unwrap());
}

const LEVELS: [Hardening; 4] =
    [Hardening::Off, Hardening::Checked, Hardening::Tracked, Hardening::Paranoid];

#[test]
fn a_memory_may_begin_with_nothing() {
    for level in LEVELS {
        on_nothing(level, |memory| {
            assert_eq!(memory.managed(), 0);
            let mut token = memory.cpu(CpuId::new(0)).unwrap();
            assert!(token.alloc(PAGE).is_err());
            memory.add_memory(range(700, 707)).unwrap();
            let block = token.alloc(PAGE).unwrap();
            assert!(range(700, 707).contains(block.pfn()));
            token.free(block).unwrap();
            drop(token);
            free_all(memory, all(memory));
        });
    }
}

#[test]
fn pieces_come_in_any_order_and_are_joined() {
    for level in LEVELS {
        on_nothing(level, |memory| {
            // The last piece is added first. Then follow two pieces that meet inside a pageblock, one frame, and a
            // frame of the gap before it.
            let pieces = [(15_000, SPAN.1), (512, 1000), (1000, 9000), (9001, 9002), (9000, 9001)];
            let mut held = Vec::new();
            let mut managed = 0;
            for (start, end) in pieces {
                memory.add_memory(range(start, end)).unwrap();
                managed += end - start;
                assert_eq!(memory.managed(), managed);
                memory.check().unwrap();
                // Frames are in use while neighbouring pieces are added.
                held.extend(memory.cpu(CpuId::new(0)).unwrap().alloc(PAGE));
            }
            free_all(memory, held);
            let blocks = all(memory);
            let inside = |pfn| pieces.iter().any(|&(start, end)| range(start, end).contains(pfn));
            assert!(blocks.iter().all(|block| inside(block.pfn())));
            free_all(memory, blocks);
            memory.drain_all();
            // Frames 4096 to 8192 are a block without a gap, and also frames 16384 to 20480.
            assert_eq!(memory.largest_free_order(), Order::new(12));
            let wanted = range(512, 9002);
            let joined = memory.alloc_range(wanted, MigrateType::Movable, &mut |_| ()).unwrap();
            memory.free_extent(joined).unwrap();
            let gap = memory.alloc_range(range(9001, 9003), MigrateType::Movable, &mut |_| ());
            assert_eq!(gap, Err(RangeError::NotOurs));
        });
    }
}

#[test]
fn pieces_that_overlap_or_are_not_in_the_map_change_nothing() {
    on_nothing(Hardening::Checked, |memory| {
        memory.add_memory(range(2000, 3000)).unwrap();
        let present = |at| Err(HotplugError::Present { at: Pfn::new(at) });
        for (piece, expected) in [
            (range(2000, 3000), present(2000)),
            (range(1999, 2001), present(2000)),
            (range(2999, 3001), present(2999)),
            (range(2500, 2501), present(2500)),
            (range(600, 5000), present(2000)),
            (range(511, 600), Err(HotplugError::NotWhole)),
            (range(SPAN.1 - 1, SPAN.1 + 1), Err(HotplugError::NotWhole)),
            (range(0, 512), Err(HotplugError::NotInMap)),
            (range(600, 600), Err(HotplugError::NotWhole)),
        ] {
            assert_eq!(memory.add_memory(piece), expected, "{piece:?}");
            assert_eq!(memory.managed(), 1000);
            memory.check().unwrap();
        }
        free_all(memory, all(memory));
    });
}

#[test]
fn a_piece_keeps_the_type_and_the_isolation_of_its_pageblock() {
    on_nothing(Hardening::Checked, |memory| {
        let (of, isolated) = (Pfn::new(1024), Pfn::new(2048));
        memory.add_memory(range(1024, 1100)).unwrap();
        memory.add_memory(range(2048, 2100)).unwrap();
        assert!(memory.set_pageblock_type(of, MigrateType::Unmovable));
        let isolation = memory.isolate(isolated).unwrap();
        memory.add_memory(range(1100, 2048)).unwrap();
        memory.add_memory(range(2100, 2560)).unwrap();
        memory.check().unwrap();
        assert_eq!(memory.pageblock_type(of), Some(MigrateType::Unmovable));
        assert_eq!(memory.managed(), 1536);
        assert_eq!(
            memory.free(),
            1024,
            "isolated frames are counted as free, or other frames are not"
        );
        memory.undo_isolate(isolation).unwrap();
        assert_eq!(memory.free(), 1536);
    });
}

#[test]
fn whole_pageblocks_can_go_and_come_back_in_pieces() {
    on_nothing(Hardening::Checked, |memory| {
        memory.add_memory(range(600, 2048)).unwrap();
        let partial = memory.remove_memory(range(512, 2048), &mut |_| ());
        assert_eq!(partial, Err(HotplugError::Absent { at: Pfn::new(512) }));
        memory.remove_memory(range(1024, 2048), &mut |_| ()).unwrap();
        assert_eq!(memory.managed(), 424);
        memory.check().unwrap();
        memory.add_memory(range(1024, 1030)).unwrap();
        assert_eq!(memory.managed(), 430);
        free_all(memory, all(memory));
    });
}

#[test]
fn pieces_join_what_is_present_from_the_start_and_other_zones_stay_apart() {
    let in_pieces = |start, end| MemoryRange::from(range(start, end)).in_pieces();
    let movable = MemoryRange::new(range(5000, 6000), NodeId::default(), ZoneKind::Movable);
    let map = [
        in_pieces(0, 700),
        range(700, 1500).into(),
        MemoryRange::from(range(1500, 1600)).in_use(),
        in_pieces(1600, 5000),
        movable.in_pieces(),
    ];
    on_map(Hardening::Checked, &map, |memory| {
        assert_eq!(memory.managed(), 900);
        memory.free_extent(memory.take_in_use(range(1500, 1600)).unwrap()).unwrap();
        // A piece cannot lie in two zones, or overlap present memory.
        assert_eq!(memory.add_memory(range(4900, 5100)), Err(HotplugError::NotWhole));
        let over = memory.add_memory(range(600, 800));
        assert_eq!(over, Err(HotplugError::Present { at: Pfn::new(700) }));
        for piece in [range(1600, 5000), range(5000, 6000), range(0, 700)] {
            memory.add_memory(piece).unwrap();
            memory.check().unwrap();
        }
        let managed: Vec<u64> = memory.zones().map(|zone| zone.managed).collect();
        assert_eq!(managed, [5000, 1000]);
        let all_of_it = memory.alloc_range(range(0, 5000), MigrateType::Movable, &mut |_| ());
        memory.free_extent(all_of_it.unwrap()).unwrap();
        let other_zone = memory.alloc_range(range(5000, 6000), MigrateType::Movable, &mut |_| ());
        memory.free_extent(other_zone.unwrap()).unwrap();
    });
}
