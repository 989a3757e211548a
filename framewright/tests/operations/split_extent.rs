//! Extents and blocks that are split into single frames.

use crate::support::machine::{Machine, Metadata};
use framewright::{
    Config, Contiguous, CpuId, FrameRange, FreeError, Layout, Memory, MigrateType, Order, Pfn,
    Request,
    tuning::{Auto, Hardening},
};

const FRAMES: u64 = 16 * 512;
const LEVELS: [Hardening; 4] =
    [Hardening::Off, Hardening::Checked, Hardening::Tracked, Hardening::Paranoid];

fn on_memory(hardening: Hardening, test: impl FnOnce(&Memory<'_, Machine>)) {
    let map = [FrameRange::new(Pfn::new(0), Pfn::new(FRAMES)).unwrap().into()];
    let mut config = Config::new(&map, 2);
    config.tuning.zone.min_free = Auto::Fixed(0);
    config.tuning.hardening = hardening;
    let mut metadata = Metadata::of::<Machine>(&config);
    let memory =
        Memory::new(Machine::default().keeping_reports(), &config, metadata.as_mut()).unwrap();
    test(&memory);
    memory.drain_all();
    memory.check().unwrap();
    assert_eq!(memory.free(), FRAMES);
    assert_eq!(
        memory.largest_free_order(),
        Order::new(13),
        "the frames have not merged completely"
    );
}

fn run(frames: u64) -> Contiguous {
    Contiguous::new(frames, MigrateType::Movable)
}

#[test]
fn frames_of_a_split_extent_are_blocks_for_the_lists_of_a_cpu() {
    for level in LEVELS {
        // Less than a pageblock, one, and several with a part of the next.
        for frames in [1, 3, 10, 511, 512, 700, 2100] {
            on_memory(level, |memory| {
                let extent = memory.alloc_contiguous(&run(frames)).unwrap();
                let range = extent.range();
                let blocks: Vec<_> = memory.split_extent(extent).unwrap().collect();
                assert!(
                    blocks
                        .iter()
                        .map(|block| block.pfn().get())
                        .eq(range.start().get()..range.end().get())
                );
                memory.check().unwrap();
                let mut token = memory.cpu(CpuId::new(0)).unwrap();
                for block in blocks {
                    assert_eq!(block.order(), Order::ZERO);
                    token.free(block).unwrap();
                }
                memory.check().unwrap();
            });
        }
    }
}

#[test]
fn parts_of_an_extent_are_split_at_any_frame() {
    for level in LEVELS {
        for (frames, cut) in [(10, 4), (512, 1), (512, 256), (1024, 600), (2048, 700)] {
            for parts in [[true, false], [false, true], [true, true]] {
                on_memory(level, |memory| {
                    let extent = memory.alloc_contiguous(&run(frames)).unwrap();
                    let at = extent.range().start().offset(cut);
                    let (low, high) = extent.split_at(at).unwrap();
                    let mut token = memory.cpu(CpuId::new(0)).unwrap();
                    for (extent, is_split) in [low, high].into_iter().zip(parts) {
                        if is_split {
                            let frames = memory.split_extent(extent).unwrap();
                            frames.for_each(|frame| token.free(frame).unwrap());
                        } else {
                            memory.free_extent(extent).unwrap();
                        }
                    }
                    assert_eq!(memory.platform().take_reports(), []);
                });
            }
        }
    }
}

#[test]
fn frames_of_a_split_block_are_freed_from_both_ends() {
    for level in LEVELS {
        for order in [0, 1, 3, 5, 6, 7, 9] {
            on_memory(level, |memory| {
                let mut token = memory.cpu(CpuId::new(0)).unwrap();
                let order = Order::new(order).unwrap();
                let block = token.alloc(Request::new(order, MigrateType::Movable)).unwrap();
                let start = block.pfn();
                let mut frames = memory.split_block(block).unwrap();
                assert_eq!(frames.len() as u64, order.frames());
                let last = frames.next_back().unwrap();
                assert_eq!(last.pfn(), start.offset(order.frames() - 1));
                token.free(last).unwrap();
                frames.for_each(|frame| token.free(frame).unwrap());
                token.drain();
                memory.check().unwrap();
            });
        }
    }
}

#[test]
fn split_block_refuses_blocks_above_a_pageblock() {
    on_memory(Hardening::Off, |memory| {
        let mut token = memory.cpu(CpuId::new(0)).unwrap();
        let request = Request::new(Order::new(10).unwrap(), MigrateType::Movable);
        let block = memory.split_block(token.alloc(request).unwrap()).unwrap_err();
        token.free(block).unwrap();
    });
}

#[test]
fn split_frames_are_freed_by_frame_number_exactly_once() {
    for level in LEVELS {
        on_memory(level, |memory| {
            let extent = memory.alloc_contiguous(&run(1300)).unwrap();
            let mut frames = memory.split_extent(extent).unwrap();
            let first = frames.next().unwrap();
            let rest = frames.into_raw();
            assert_eq!(rest.frames(), 1299);
            let mut token = memory.cpu(CpuId::new(0)).unwrap();
            token.free(first).unwrap();
            let mut free = |pfn| {
                // SAFETY: no code reads or writes these frames, which do not exist.
                unsafe { token.free_raw(Pfn::new(pfn), Order::ZERO) }
            };
            for pfn in rest.start().get()..rest.end().get() {
                assert_eq!(free(pfn), Ok(()));
            }
            if level != Hardening::Off {
                assert_eq!(free(rest.start().get()), Err(FreeError::AlreadyFree));
            }
        });
    }
}

#[test]
fn an_extent_of_which_a_part_is_free_is_not_split() {
    for level in [Hardening::Tracked, Hardening::Paranoid] {
        on_memory(level, |memory| {
            let extent = memory.alloc_contiguous(&run(600)).unwrap();
            let range = extent.range();
            let free = |start, end| {
                let part = FrameRange::new(range.start().offset(start), range.start().offset(end));
                // SAFETY: no code reads or writes these frames, which do not exist.
                unsafe { memory.free_range_raw(part.unwrap()) }
            };
            free(550, 560).unwrap();
            let extent = memory.split_extent(extent).unwrap_err();
            assert_eq!(memory.platform().take_reports().len(), 1);
            assert_eq!(extent.into_raw(), range);
            // The other frames still belong to the extent.
            free(0, 550).unwrap();
            free(560, 600).unwrap();
        });
    }
}

#[test]
fn an_extent_of_another_allocator_is_returned() {
    let map = [FrameRange::new(Pfn::new(0), Pfn::new(FRAMES)).unwrap().into()];
    let config = Config::new(&map, 1);
    let bytes = Layout::new::<Machine>(&config).unwrap().bytes();
    let [mut first, mut second] = [Metadata::new(bytes), Metadata::new(bytes)];
    let ours = Memory::new(Machine::default(), &config, first.as_mut()).unwrap();
    let theirs = Memory::new(Machine::default(), &config, second.as_mut()).unwrap();
    let extent = theirs.alloc_contiguous(&run(5)).unwrap();
    let extent = ours.split_extent(extent).expect_err("the extent is of another allocator");
    theirs.free_extent(extent).unwrap();
    ours.check().unwrap();
    theirs.check().unwrap();
}
