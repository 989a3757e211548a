//! A request never allocates frames below its watermark, and is never refused while enough frames
//! would stay free. The tests compute the watermarks independently, from the formula.

use crate::support::machine::{Machine, Metadata, cpu, order};
use framewright::{
    AllocError, Config, FrameRange, Memory, MigrateType, Pfn, Request, Watermark, ZoneId, ZoneInfo,
    tuning::Auto,
};

/// Runs `test` on an allocator with `frames` frames and one CPU.
fn on_memory<R>(
    frames: u64,
    set: impl FnOnce(&mut Config<'_>),
    test: impl FnOnce(&Memory<'_, Machine>) -> R,
) -> R {
    let map = [FrameRange::new(Pfn::new(0), Pfn::new(frames)).unwrap().into()];
    let mut config = Config::new(&map, 1);
    set(&mut config);
    let mut metadata = Metadata::of::<Machine>(&config);
    test(&Memory::new(Machine::default(), &config, metadata.as_mut()).unwrap())
}

/// Allocates until a request is refused. Returns the number of blocks, the error, and the state of
/// the zone.
fn exhaust(memory: &Memory<'_, Machine>, request: Request) -> (u64, AllocError, ZoneInfo) {
    let mut token = memory.cpu(cpu(0)).unwrap();
    let mut count = 0;
    loop {
        match token.alloc(request) {
            Ok(block) => {
                count += 1;
                let _stays = block.into_raw();
            }
            Err(error) => {
                memory.check().unwrap();
                return (count, error, memory.zone(ZoneId::default()).unwrap());
            }
        }
    }
}

fn is_below_min(error: AllocError) -> bool {
    matches!(error, AllocError::BelowWatermark(short) if short.mark == Watermark::Min)
}

fn movable(of_order: u8) -> Request {
    Request::new(order(of_order), MigrateType::Movable)
}

// ---- the watermarks ---------------------------------------------------------------------------

/// min = sqrt(16 x KiB) KiB, but at least 128 KiB and at most 256 MiB. Successive watermarks differ
/// by the larger of min/4 and scale/10000 of the zone.
fn formula(frames: u64, scale: u64) -> [u64; 3] {
    let kib = frames * 4;
    let mut root = 0;
    while (root + 1) * (root + 1) <= 16 * kib {
        root += 1;
    }
    // The reserve is at most a quarter of a tiny memory.
    let min = (root.clamp(128, 262_144) / 4).min(frames / 4);
    let gap = (min / 4).max(frames * scale / 10_000);
    [min, min + gap, min + 2 * gap]
}

#[test]
fn watermarks_follow_the_formula() {
    for frames in [1, 100, 512, 4096, 65_536, 1 << 18, 1 << 20, (1 << 22) + 77] {
        for scale in [1, 10, 150, 3000] {
            let zone = on_memory(
                frames,
                |c| c.tuning.zone.watermark_scale = scale,
                |memory| memory.zone(ZoneId::default()).unwrap(),
            );
            let [min, low, high] = formula(frames, u64::from(scale));
            assert_eq!((zone.min, zone.low, zone.high), (min, low, high), "{frames} frames");
        }
    }
}

#[test]
fn a_configured_reserve_is_used_unchanged() {
    let zone = on_memory(
        4096,
        |c| c.tuning.zone.min_free = Auto::Fixed(1000),
        |memory| memory.zone(ZoneId::default()).unwrap(),
    );
    assert_eq!((zone.min, zone.low, zone.high), (1000, 1250, 1500));
}

// ---- the watermark check ----------------------------------------------------------------------

#[test]
fn ordinary_requests_stop_exactly_at_min() {
    on_memory(
        4096,
        |c| c.tuning.zone.min_free = Auto::Fixed(300),
        |memory| {
            let (count, error, zone) = exhaust(memory, movable(0));
            assert_eq!(count, 4096 - 300);
            assert!(is_below_min(error), "{error}");
            assert_eq!((zone.free, zone.held_by_cpus), (300, 0));
        },
    );
}

#[test]
fn large_requests_stop_before_they_pass_min() {
    for of_order in 0..=9 {
        on_memory(
            8192,
            |c| c.tuning.zone.min_free = Auto::Fixed(777),
            |memory| {
                let (count, _, zone) = exhaust(memory, movable(of_order));
                let size = order(of_order).frames();
                assert_eq!(count, (8192 - 777) / size, "order {of_order}");
                assert!(zone.free >= 777 && zone.free - size < 777);
            },
        );
    }
}

#[test]
fn urgent_requests_use_a_part_of_the_reserve() {
    // As in Linux: an urgent request may use half of min, and an atomic one also a quarter of the
    // rest: 301 - 150 = 151, 151 - 37 = 114.
    for (request, left) in [
        (movable(0).no_wait(), 301),
        (movable(0).urgent(), 151),
        (movable(0).atomic(), 114),
        (movable(3).urgent(), 151),
    ] {
        on_memory(
            4096,
            |c| c.tuning.zone.min_free = Auto::Fixed(301),
            |memory| {
                let (_, _, zone) = exhaust(memory, request);
                let size = request.order().frames();
                assert!((left..left + size).contains(&zone.free), "{request:?}: {}", zone.free);
            },
        );
    }
}

#[test]
fn a_reserve_larger_than_memory_refuses_every_request() {
    // The free frames minus the reserve are far below zero.
    on_memory(
        512,
        |c| c.tuning.zone.min_free = Auto::Fixed(u32::MAX),
        |memory| {
            for of_order in 0..=9 {
                for request in
                    [movable(of_order), movable(of_order).urgent(), movable(of_order).atomic()]
                {
                    let (count, error, _) = exhaust(memory, request);
                    assert!(count == 0 && is_below_min(error), "{count}, {error}");
                }
            }
        },
    );
}

#[test]
fn without_a_reserve_the_last_frame_is_allocated() {
    for of_order in 0..=9 {
        on_memory(
            1024,
            |c| c.tuning.zone.min_free = Auto::Fixed(0),
            |memory| {
                let (count, _, zone) = exhaust(memory, movable(of_order));
                assert_eq!((count, zone.free), (1024 >> of_order, 0));
            },
        );
    }
}

#[test]
fn the_error_tells_fragmentation_from_shortage() {
    on_memory(
        1024,
        |c| c.tuning.zone.min_free = Auto::Fixed(0),
        |memory| {
            let mut token = memory.cpu(cpu(0)).unwrap();
            let mut blocks: Vec<_> = (0..1024).map(|_| token.alloc(movable(0)).ok()).collect();
            for block in
                blocks.iter_mut().filter(|b| b.as_ref().is_some_and(|b| b.pfn().get() % 2 == 0))
            {
                token.free(block.take().unwrap()).unwrap();
            }
            let error = token.alloc(movable(1)).unwrap_err();
            assert!(matches!(error, AllocError::NoBlockOfOrder(short) if short.order == order(1)));
            assert_eq!(memory.free(), 512);
            token.free_bulk(&mut blocks);
            assert!(token.alloc(movable(9)).map(framewright::Block::into_raw).is_ok());
        },
    );
}

#[test]
fn lists_are_drained_before_a_refusal() {
    let map = [FrameRange::new(Pfn::new(0), Pfn::new(512)).unwrap().into()];
    let mut config = Config::new(&map, 2);
    config.tuning.zone.min_free = Auto::Fixed(0);
    config.tuning.pcp.batch = Auto::Fixed(63);
    let mut metadata = Metadata::of::<Machine>(&config);
    let memory = Memory::new(Machine::default(), &config, metadata.as_mut()).unwrap();
    let (mut here, mut there) = (memory.cpu(cpu(0)).unwrap(), memory.cpu(cpu(1)).unwrap());
    let block = there.alloc(movable(0)).unwrap();
    there.free(block).unwrap();
    assert!(memory.held_by_cpus() > 0);
    assert!(
        here.alloc(movable(9).no_wait()).is_err(),
        "a request that cannot wait drained another CPU"
    );
    let whole = here.alloc(movable(9)).expect("all frames are free");
    here.free(whole).unwrap();
    memory.check().unwrap();
}
