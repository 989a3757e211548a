//! Frames that are freed far apart return to the zone one by one, and are refilled onto the ring. Frames that are freed
//! next to one another meet in the store.

use crate::support::machine::{Machine, cpu};
use framewright::{Block, Config, FrameRange, Memory, MigrateType, Order, Pfn, Request};
use framewright_fakes::leaked;

const FRAMES: u64 = 64 * 512;
const PAGE: Request = Request::new(Order::ZERO, MigrateType::Movable);

/// A memory with one CPU, whose lists may hold an eighth of it, and its frames, all of which are allocated.
fn full_memory() -> (&'static Memory<'static, Machine>, Vec<Option<Block<'static>>>) {
    let map = [FrameRange::new(Pfn::new(0), Pfn::new(FRAMES)).unwrap().into()];
    let mut config = Config::new(&map, 1);
    for (key, value) in [
        ("zone.emptying_above", "512"),
        ("zone.min_free", "0"),
        ("pcp.bundle_slots", "64"),
        ("pcp.high_fraction", "8"),
    ] {
        config.tuning.set(key, value).unwrap();
    }
    let memory = leaked(Machine::default(), &config);
    let mut token = memory.cpu(cpu(0)).unwrap();
    let mut blocks: Vec<_> = (0..FRAMES).map(|_| token.alloc(PAGE).ok()).collect();
    blocks.sort_unstable_by_key(|block| block.as_ref().map(|block| block.pfn()));
    assert!(blocks.iter().all(Option::is_some));
    (memory, blocks)
}

#[test]
fn the_store_is_used_again_after_scattered_frees() {
    let (memory, mut blocks) = full_memory();
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
    let (memory, mut blocks) = full_memory();
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
