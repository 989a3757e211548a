//! Frames that are freed far apart return to the zone one by one, and are refilled onto the ring. Frames that are freed
//! next to one another meet in the store.

use crate::support::machine::{Machine, cpu};
use framewright::{
    Block, Config, FrameRange, Memory, MigrateType, Order, Pfn, Request, platform::Cost,
};
use framewright_fakes::{FakePlatform, ProbeCall, leaked};
use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

const FRAMES: u64 = 64 * 512;
const PAGE: Request = Request::new(Order::ZERO, MigrateType::Movable);

/// Lists that may hold an eighth of memory, with a small store.
const SMALL_STORE: [(&str, &str); 3] =
    [("zone.emptying_above", "512"), ("pcp.bundle_slots", "64"), ("pcp.high_fraction", "8")];

/// A memory with one CPU and these settings, and its frames, all of which are allocated.
fn full_memory(
    settings: &[(&str, &str)],
) -> (&'static Memory<'static, Machine>, Vec<Option<Block<'static>>>) {
    let map = [FrameRange::new(Pfn::new(0), Pfn::new(FRAMES)).unwrap().into()];
    let mut config = Config::new(&map, 1);
    config.tuning.set("zone.min_free", "0").unwrap();
    settings.iter().for_each(|(key, value)| config.tuning.set(key, value).unwrap());
    let memory = leaked(Machine::default(), &config);
    let mut token = memory.cpu(cpu(0)).unwrap();
    let mut blocks: Vec<_> = (0..FRAMES).map(|_| token.alloc(PAGE).ok()).collect();
    blocks.sort_unstable_by_key(|block| block.as_ref().map(|block| block.pfn()));
    assert!(blocks.iter().all(Option::is_some));
    (memory, blocks)
}

#[test]
fn the_store_is_used_again_after_scattered_frees() {
    let (memory, mut blocks) = full_memory(&SMALL_STORE);
    let mut token = memory.cpu(cpu(0)).unwrap();
    let mut free = |frame: usize| token.free(blocks[frame].take().unwrap()).unwrap();
    for first in [0, 33] {
        (first..FRAMES as usize).step_by(64).for_each(&mut free);
    }
    let held = memory.held_by_cpus();
    assert!(held < 256, "{held} scattered frames are held");
    (0..2560).filter(|frame| frame % 64 != 0 && frame % 64 != 33).for_each(&mut free);
    let held = memory.held_by_cpus();
    assert!(held > 1024, "of 2480 neighbouring frames only {held} are held");
    blocks.into_iter().flatten().for_each(|block| token.free(block).unwrap());
    memory.check().unwrap();
}

#[test]
fn refilled_frames_are_allocated_in_ascending_order() {
    let (memory, mut blocks) = full_memory(&SMALL_STORE);
    let mut token = memory.cpu(cpu(0)).unwrap();
    let scattered: Vec<usize> = (512..1024).step_by(40).collect();
    for &frame in scattered.iter().rev() {
        token.free(blocks[frame].take().unwrap()).unwrap();
    }
    token.drain();
    for &frame in &scattered {
        let block = token.alloc(PAGE).unwrap();
        assert_eq!(block.pfn().get() as usize, frame);
        blocks[frame] = Some(block);
    }
    blocks.into_iter().flatten().for_each(|block| token.free(block).unwrap());
    memory.check().unwrap();
}

/// A ring of a CPU has space for 128 frames. A free that finds it full moves all of them if the CPU only frees, and few
/// if it has allocated since the last such free.
#[test]
fn a_free_between_allocations_moves_few_blocks() {
    for (cpus, hold, between) in [(1, "auto", 16), (8, "auto", 16), (9, "auto", 64), (1, "5", 5)] {
        let map = [FrameRange::new(Pfn::new(0), Pfn::new(FRAMES)).unwrap().into()];
        let mut config = Config::new(&map, cpus);
        for (key, value) in [
            ("zone.emptying_above", "512"),
            ("zone.min_free", "0"),
            ("pcp.batch", "63"),
            ("pcp.bundle_slots", "2048"),
            ("pcp.hold_pageblocks", hold),
        ] {
            config.tuning.set(key, value).unwrap();
        }
        let moved = Arc::new(AtomicU32::new(0));
        let heard = Arc::clone(&moved);
        let platform = FakePlatform::default().probed();
        platform.on_probe(move |call| {
            if let ProbeCall::Cost(Cost::StoreBundles, bundles) = call {
                heard.fetch_add(bundles, Ordering::Relaxed);
            }
        });
        let memory = leaked(platform, &config);
        let mut token = memory.cpu(cpu(0)).unwrap();
        let mut blocks: Vec<_> = (0..FRAMES).map_while(|_| token.alloc(PAGE).ok()).collect();
        blocks.sort_unstable_by_key(|block| block.pfn());
        // Each frame is in a word of its own.
        let (scattered, others): (Vec<_>, Vec<_>) =
            blocks.into_iter().partition(|block| block.pfn().get() % 64 == 0);
        let mut scattered = scattered.into_iter();
        let moved_by = |token: &mut framewright::CpuToken<'_, '_, _>, block| {
            moved.store(0, Ordering::Relaxed);
            token.free(block).unwrap();
            moved.load(Ordering::Relaxed)
        };
        let mut free_until_moved = |token: &mut _| {
            scattered.by_ref().map(|block| moved_by(token, block)).find(|&moved| moved > 0)
        };
        assert_eq!(free_until_moved(&mut token), Some(between), "{cpus} CPUs, hold {hold}");
        assert_eq!(free_until_moved(&mut token), Some(128));
        let block = token.alloc(PAGE).unwrap();
        assert_eq!(moved_by(&mut token, block), 0);
        assert_eq!(free_until_moved(&mut token), Some(between));
        scattered.chain(others).for_each(|block| token.free(block).unwrap());
        memory.check().unwrap();
    }
}

/// A move from a full ring to the store adds more frames here than the rule of bulk frees returns.
#[test]
fn lists_hold_what_they_may_however_short_the_runs_that_are_freed() {
    for (run, emptying) in [(1, "512"), (2, "512"), (8, "512"), (8, "6"), (16, "512"), (64, "512")]
    {
        let (memory, mut blocks) = full_memory(&[
            ("zone.emptying_above", emptying),
            ("pcp.batch", "31"),
            ("pcp.scale_max", "0"),
            ("pcp.high_fraction", "128"),
        ]);
        let mut token = memory.cpu(cpu(0)).unwrap();
        // An odd multiplier visits all runs, far apart.
        let runs = FRAMES as usize / run;
        for nth in 0..runs {
            let first = nth * 5741 % runs * run;
            for block in blocks.iter_mut().skip(first).take(run) {
                token.free(block.take().unwrap()).unwrap();
            }
            let held = memory.held_by_cpus();
            // The ring has space for 128 frames, and scattered frames return in small batches.
            assert!(held <= FRAMES / 128 + 128 + 256, "runs of {run}: {held} are held");
        }
        memory.check().unwrap();
    }
}
