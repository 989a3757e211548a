//! Compaction and migration, with an embedder that does its worst.
#![cfg(not(any(feature = "loom", feature = "tso")))]

mod account;
mod busy;
mod doubtful;
mod events;
mod faulty_mover;
mod form;
mod house;
mod off;
mod patience;
mod ranges;
mod relief;
mod repairs;
mod reserve;
mod room;
mod rules;
mod scanners;
mod searches;
#[path = "../support/mod.rs"]
mod support;

use framewright::{
    Config, CpuId, FrameRange, Layout, Memory, MigrateType, Pfn, Planes, Tuning,
    compact::{Compactor, Workspace},
    migrate::Move,
    tlb::BatchSlot,
    tuning::Auto,
};
use house::House;
use support::machine::{Machine, Metadata};

/// The first frame.
pub const BASE: u64 = 3 * 512;
/// Pageblocks there are.
pub const PAGEBLOCKS: u64 = 32;

/// The first frame of a pageblock and so many behind.
pub fn frames(pageblock: u64, count: u64) -> FrameRange {
    let start = BASE + pageblock * 512;
    FrameRange::new(Pfn::new(start), Pfn::new(start + count)).unwrap()
}

/// Runs a test on a memory of 64 MiB with two CPUs.
pub fn in_house(set: &[(&str, &str)], seed: u64, test: impl FnOnce(&House<'_, '_>)) {
    in_house_of(PAGEBLOCKS, set, seed, test);
}

/// The same on a memory of so many pageblocks.
pub fn in_house_of(
    pageblocks: u64,
    set: &[(&str, &str)],
    seed: u64,
    test: impl FnOnce(&House<'_, '_>),
) {
    in_house_with(Planes::default(), pageblocks, set, seed, test);
}

/// The same with more known of each frame.
pub fn in_house_with(
    planes: Planes,
    pageblocks: u64,
    set: &[(&str, &str)],
    seed: u64,
    test: impl FnOnce(&House<'_, '_>),
) {
    let map = [frames(0, pageblocks * 512).into()];
    let config = Config { tuning: tuning(set), planes, ..Config::new(&map, 2) };
    let mut metadata = Metadata::new(Layout::new::<Machine>(&config).unwrap().bytes());
    let memory = Memory::new(Machine::default(), &config, metadata.as_mut()).unwrap();
    test(&House::new(&memory, seed));
}

fn tuning(set: &[(&str, &str)]) -> Tuning {
    let mut tuning = Tuning::default();
    tuning.zone.min_free = Auto::Fixed(0);
    for (key, value) in set {
        tuning.set(key, value).unwrap();
    }
    tuning
}

/// A house that stays, and that requests in its memory turn to when they are short of it.
pub fn house_with_relief(set: &[(&str, &str)], seed: u64) -> &'static House<'static, 'static> {
    let house = house_that_stays(set, seed);
    relief::install(house);
    house
}

/// A house that stays.
pub fn house_that_stays(set: &[(&str, &str)], seed: u64) -> &'static House<'static, 'static> {
    let map = [frames(0, PAGEBLOCKS * 512).into()];
    let config = Config { tuning: tuning(set), ..Config::new(&map, 2) };
    let metadata = Metadata::new(Layout::new::<Machine>(&config).unwrap().bytes());
    let metadata = Box::leak(Box::new(metadata)).as_mut();
    let memory = Memory::new(Machine::default(), &config, metadata).unwrap();
    let memory: &'static _ = Box::leak(Box::new(memory));
    Box::leak(Box::new(House::new(memory, seed)))
}

/// Lets a compactor with a workspace of `room` pages work.
pub fn with_compactor<'m, R>(
    house: &House<'_, 'm>,
    room: usize,
    work: impl FnOnce(&mut Compactor<'_, 'm, Machine>) -> R,
) -> R {
    let mut moves = vec![Move::default(); room];
    let mut slots = vec![BatchSlot::default(); room];
    let space = Workspace { moves: &mut moves, slots: &mut slots };
    // SAFETY: the pages of the mover are in frames of this memory, and it flushes all translations
    // to them.
    work(&mut unsafe { house.memory.compactor(CpuId::new(0), house, house, space) })
}

/// Fills memory with movable pages of one frame and frees all but one in `keep`.
pub fn scatter(house: &House<'_, '_>, keep: u64) {
    while house.alloc(0, MigrateType::Movable, false).is_some() {}
    let pages: Vec<_> = house.pages.borrow().keys().copied().collect();
    for at in pages {
        if house.below(keep) != 0 {
            house.free(at);
        }
    }
    house.memory.drain_all();
    house.check();
}
