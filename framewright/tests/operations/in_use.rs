//! Memory in use from the start, and frees by frame number.

use crate::support::machine::{Machine, Metadata};
use framewright::{
    Config, Contiguous, CpuId, FrameRange, FreeError, Memory, MemoryRange, MigrateType, Order, Pfn,
    RangeError, Request, ZoneId,
    tuning::{Auto, Hardening},
};

/// Frames of the whole map.
const FRAMES: u64 = 16 * 512;
/// Ranges in use from the start: a few frames, and a range that includes two whole pageblocks.
const USED: [(u64, u64); 2] = [(100, 120), (1000, 2100)];
const PAGE: Request = Request::new(Order::ZERO, MigrateType::Movable);

fn range(start: u64, end: u64) -> FrameRange {
    FrameRange::new(Pfn::new(start), Pfn::new(end)).unwrap()
}

fn used() -> [FrameRange; 2] {
    USED.map(|(start, end)| range(start, end))
}

fn on_memory(hardening: Hardening, test: impl FnOnce(&Memory<'_, Machine>)) {
    let [few, many] = used().map(|frames| MemoryRange::from(frames).in_use());
    let free = |start, end| MemoryRange::from(range(start, end));
    let map = [free(0, 100), few, free(120, 1000), many, free(2100, FRAMES)];
    let mut config = Config::new(&map, 2);
    config.tuning.zone.min_free = Auto::Fixed(0);
    config.tuning.hardening = hardening;
    let mut metadata = Metadata::of::<Machine>(&config);
    let memory =
        Memory::new(Machine::default().keeping_reports(), &config, metadata.as_mut()).unwrap();
    memory.check().unwrap();
    test(&memory);
    memory.drain_all();
    memory.check().unwrap();
}

fn free_raw(memory: &Memory<'_, Machine>, range: FrameRange) -> Result<(), RangeError> {
    // SAFETY: no code reads or writes these frames, which do not exist.
    unsafe { memory.free_range_raw(range) }
}

const LEVELS: [Hardening; 4] =
    [Hardening::Off, Hardening::Checked, Hardening::Tracked, Hardening::Paranoid];

#[test]
fn frames_in_use_are_counted_and_not_handed_out() {
    for level in LEVELS {
        on_memory(level, |memory| {
            let in_use: u64 = used().iter().map(|range| range.frames()).sum();
            assert_eq!(memory.managed(), FRAMES);
            assert_eq!(memory.free(), FRAMES - in_use);
            let stats = memory.zone_stats(ZoneId::default());
            assert_eq!(stats.pgalloc - stats.pgfree, in_use);
            let mut token = memory.cpu(CpuId::new(0)).unwrap();
            let blocks: Vec<_> = std::iter::from_fn(|| token.alloc(PAGE).ok()).collect();
            assert_eq!(blocks.len() as u64, FRAMES - in_use);
            assert!(blocks.iter().all(|b| used().iter().all(|range| !range.contains(b.pfn()))));
            blocks.into_iter().for_each(|block| token.free(block).unwrap());
        });
    }
}

#[test]
fn each_range_is_handed_out_once_and_freed_in_any_parts() {
    for level in LEVELS {
        on_memory(level, |memory| {
            let [few, many] = used();
            assert_eq!(memory.take_in_use(range(1000, 2099)), Err(RangeError::NotInUse));
            assert_eq!(memory.take_in_use(range(0, 100)), Err(RangeError::NotInUse));
            let extent = memory.take_in_use(many).unwrap();
            assert_eq!(extent.range(), many);
            assert_eq!(memory.take_in_use(many), Err(RangeError::HandedOut));
            // The parts begin and end inside pageblocks. The middle part is freed first.
            let (low, rest) = extent.split_at(Pfn::new(1100)).unwrap();
            let (middle, high) = rest.split_at(Pfn::new(1537)).unwrap();
            for (part, left) in [(middle, 683), (low, 583), (high, 20)] {
                memory.free_extent(part).unwrap();
                memory.check().unwrap();
                assert_eq!(memory.free(), FRAMES - left);
            }
            memory.free_extent(memory.take_in_use(few).unwrap()).unwrap();
            memory.drain_all();
            assert_eq!(memory.free(), FRAMES);
            assert_eq!(
                memory.largest_free_order(),
                Order::new(13),
                "the range has not merged completely"
            );
        });
    }
}

#[test]
fn frames_are_freed_by_number_without_being_taken_first() {
    for level in LEVELS {
        on_memory(level, |memory| {
            assert_eq!(free_raw(memory, range(1030, 1600)), Ok(()));
            memory.check().unwrap();
            let taken = memory.take_in_use(used()[1]);
            assert_eq!(
                taken,
                Err(RangeError::HandedOut),
                "not refused although a part of the range is free"
            );
            for rest in [range(1000, 1030), range(1600, 2100), used()[0]] {
                assert_eq!(free_raw(memory, rest), Ok(()));
            }
            assert_eq!(memory.free(), FRAMES);
        });
    }
}

#[test]
fn a_bad_free_by_number_names_the_frame_and_changes_nothing() {
    for level in [Hardening::Checked, Hardening::Tracked, Hardening::Paranoid] {
        on_memory(level, |memory| {
            let bad = |at, why| Err(RangeError::BadFree { at: Pfn::new(at), why });
            free_raw(memory, range(1500, 1540)).unwrap();
            let free = memory.free();
            for (range, expected) in [
                // Frees the range twice, a part of it twice, and a range beyond its end.
                (range(1500, 1540), bad(1500, FreeError::AlreadyFree)),
                (range(1400, 1540), bad(1500, FreeError::AlreadyFree)),
                (range(1539, 2100), bad(1539, FreeError::AlreadyFree)),
                (range(2000, 2101), bad(2100, FreeError::AlreadyFree)),
                (range(110, 121), bad(120, FreeError::AlreadyFree)),
                (range(99, 101), bad(99, FreeError::AlreadyFree)),
                (range(FRAMES - 1, FRAMES), bad(FRAMES - 1, FreeError::AlreadyFree)),
                (range(FRAMES, FRAMES + 1), Err(RangeError::NotOurs)),
                (range(FRAMES - 1, FRAMES + 1), Err(RangeError::NotOurs)),
                (range(1000, 1000), Err(RangeError::Empty)),
            ] {
                assert_eq!(free_raw(memory, range), expected, "{range:?}");
                let reports = memory.platform().take_reports();
                let is_reported = matches!(expected, Err(RangeError::BadFree { .. }));
                assert_eq!(reports.len(), usize::from(is_reported), "{range:?}");
                assert_eq!(memory.free(), free);
                memory.check().unwrap();
            }
        });
    }
}

#[test]
fn a_run_is_freed_by_number_once() {
    for level in [Hardening::Checked, Hardening::Tracked, Hardening::Paranoid] {
        on_memory(level, |memory| {
            let wanted = Contiguous::new(1000, MigrateType::Unmovable);
            let run = memory.alloc_contiguous(&wanted).unwrap().into_raw();
            let (start, end) = (run.start().get(), run.end().get());
            let refused = |from, to, at| {
                let free = memory.free();
                let why = FreeError::AlreadyFree;
                let bad = Err(RangeError::BadFree { at: Pfn::new(at), why });
                assert_eq!(free_raw(memory, range(from, to)), bad, "{from} to {to}");
                assert_eq!(memory.platform().take_reports().len(), 1);
                assert_eq!(memory.free(), free);
                memory.check().unwrap();
            };
            refused(start, end + 1, end);
            free_raw(memory, range(start + 300, start + 500)).unwrap();
            refused(start, end, start + 300);
            refused(start + 499, start + 501, start + 499);
            free_raw(memory, range(start, start + 300)).unwrap();
            free_raw(memory, range(start + 500, end)).unwrap();
            refused(start, end, start);
            refused(start + 500, end, start + 500);
        });
    }
}

#[test]
fn frames_of_larger_blocks_are_no_range() {
    for level in [Hardening::Checked, Hardening::Tracked] {
        on_memory(level, |memory| {
            let mut token = memory.cpu(CpuId::new(0)).unwrap();
            for order in [1, 3, 6, 8, 10] {
                let order = Order::new(order).unwrap();
                let block = token.alloc_at(Pfn::new(4096), order, MigrateType::Movable).unwrap();
                let end = 4096 + order.frames();
                for (start, end) in [(4096, end), (4096, 4097), (4097, 4098), (end - 1, end)] {
                    let refused = free_raw(memory, range(start, end));
                    let at = Pfn::new(start);
                    assert!(
                        matches!(refused, Err(RangeError::BadFree { at: named, .. }) if named == at),
                        "{start} to {end} of {order:?}: {refused:?}"
                    );
                }
                memory.platform().take_reports();
                token.free(block).unwrap();
                memory.drain_all();
            }
        });
    }
}
