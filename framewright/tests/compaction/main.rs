//! Compaction and migration, with an embedder that simulates all kinds of faults.
#![cfg(not(any(framewright_loom, framewright_tso)))]

mod budget;
mod busy;
mod events;
mod faulty_mover;
mod form;
mod mixed;
mod off;
mod ranges;
mod relief;
mod repairs;
mod reserve;
mod rules;
mod scanners;
mod searches;
#[path = "../support/mod.rs"]
mod support;
mod targets;
mod trace_panics;
mod waiting;

use framewright::{
    Config, CpuId, FrameRange, Memory, MigrateType, Pfn, SideTables, Tuning,
    compact::{Compactor, Workspace},
    migrate::Move,
    tlb::BatchSlot,
    tuning::Auto,
};
use framewright_fakes::FakeMover;
use support::machine::{Machine, Metadata};

/// The first frame.
pub const BASE: u64 = 3 * 512;
/// Number of pageblocks.
pub const PAGEBLOCKS: u64 = 32;

/// The first `count` frames from the start of a pageblock.
pub fn frames(pageblock: u64, count: u64) -> FrameRange {
    let start = BASE + pageblock * 512;
    FrameRange::new(Pfn::new(start), Pfn::new(start + count)).unwrap()
}

/// Runs a test on an allocator with 64 MiB and two CPUs.
pub fn with_owner(set: &[(&str, &str)], seed: u64, test: impl FnOnce(&FakeMover<'_, '_>)) {
    with_owner_sized(PAGEBLOCKS, set, seed, test);
}

/// Runs a test on an allocator with `pageblocks` pageblocks.
pub fn with_owner_sized(
    pageblocks: u64,
    set: &[(&str, &str)],
    seed: u64,
    test: impl FnOnce(&FakeMover<'_, '_>),
) {
    with_owner_and_side_tables(SideTables::default(), pageblocks, set, seed, test);
}

/// Runs a test on an allocator with these side tables.
pub fn with_owner_and_side_tables(
    side_tables: SideTables,
    pageblocks: u64,
    set: &[(&str, &str)],
    seed: u64,
    test: impl FnOnce(&FakeMover<'_, '_>),
) {
    let map = [frames(0, pageblocks * 512).into()];
    let config = Config::new(&map, 2).with_tuning(tuning(set)).with_side_tables(side_tables);
    let mut metadata = Metadata::of::<Machine>(&config);
    let memory = Memory::new(Machine::default(), &config, metadata.as_mut()).unwrap();
    test(&FakeMover::new(&memory, seed));
}

fn tuning(set: &[(&str, &str)]) -> Tuning {
    let mut tuning = Tuning::default();
    tuning.zone.min_free = Auto::Fixed(0);
    for (key, value) in set {
        tuning.set(key, value).unwrap();
    }
    tuning
}

/// A leaked owner, whose compaction serves requests to its memory.
pub fn leaked_owner_with_relief(
    set: &[(&str, &str)],
    seed: u64,
) -> &'static FakeMover<'static, 'static> {
    let owner = leaked_owner(set, seed);
    relief::install(owner);
    owner
}

/// A leaked owner, and its memory.
pub fn leaked_owner(set: &[(&str, &str)], seed: u64) -> &'static FakeMover<'static, 'static> {
    let map = [frames(0, PAGEBLOCKS * 512).into()];
    let config = Config::new(&map, 2).with_tuning(tuning(set));
    let metadata = Metadata::of::<Machine>(&config);
    let metadata = Box::leak(Box::new(metadata)).as_mut();
    let memory = Memory::new(Machine::default(), &config, metadata).unwrap();
    let memory: &'static _ = Box::leak(Box::new(memory));
    Box::leak(Box::new(FakeMover::new(memory, seed)))
}

/// Calls `work` with a compactor that has a workspace of `capacity` entries.
pub fn with_compactor<'m, R>(
    owner: &FakeMover<'_, 'm>,
    capacity: usize,
    work: impl FnOnce(&mut Compactor<'_, 'm, Machine>) -> R,
) -> R {
    let mut moves = vec![Move::default(); capacity];
    let mut slots = vec![BatchSlot::default(); capacity];
    let space = Workspace { moves: &mut moves, slots: &mut slots };
    // SAFETY: the pages of the mover are in frames of this allocator, and it flushes all translations
    // to them.
    work(&mut unsafe { owner.memory.compactor(CpuId::new(0), owner, owner, space) })
}

/// Fills memory with movable pages of one frame and frees all but about one in `keep`, at random.
pub fn scatter(owner: &FakeMover<'_, '_>, keep: u64) {
    while owner.alloc(0, MigrateType::Movable, false).is_some() {}
    let pages: Vec<_> = owner.pages.borrow().keys().copied().collect();
    for at in pages {
        if owner.below(keep) != 0 {
            owner.free(at);
        }
    }
    owner.memory.drain_all();
    owner.check();
}
