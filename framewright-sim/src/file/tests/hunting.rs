//! The library reclaims what programs use, in schedules of all kinds; the oracle looks.
//!
//! Two CPUs run threads of one process and a process besides, all with the same file; a third reclaims
//! and writes back, and moves pages to other frames besides. Frames are reused at once, so that whoever still reaches one is seen.

use std::rc::Rc;

use framewright::{
    Config, CpuId, FrameRange, Layout, Memory, MemoryRange, NodeId, Pfn, SideTables, Tuning,
    ZoneKind,
    frame::PAGEBLOCK_FRAMES,
    tuning::{Auto, FlushBatching},
};

use crate::{
    engine::{Cpu, Machine, Model, Options, Program, Schedule},
    file::{
        AreaId, Failures, FileCosts, FileSpec, FileTrouble, Keep, PageCache, Parts, Seat,
        StoreSpec, Touched,
    },
    platform::{Books, LentRelief, Settings, Simulated},
    process::{Access, AddressSpace, Contents, Mmu, Oracle},
};

const FRAMES: u64 = 2048;
const PAGES: u32 = 3;

/// What the programs of two CPUs touch: by mapping, page, and how.
const ONE: &[(usize, u32, Access)] = &[
    (0, 0, Access::Load),
    (0, 1, Access::Store),
    (0, 0, Access::Load),
    (0, 0, Access::Store),
    (0, 1, Access::Load),
];

const OTHER: &[(usize, u32, Access)] = &[
    (0, 0, Access::Load),
    (1, 0, Access::Load),
    (1, 2, Access::Store),
    (0, 1, Access::Load),
    (1, 1, Access::Store),
];

/// What a run is about.
#[derive(Clone, Copy)]
struct Hunt {
    batching: FlushBatching,
    deferred_max: u32,
    /// One write in so many fails.
    every: u64,
    /// Pages are moved besides.
    moves: bool,
}

/// Touches a page, whatever that takes; pages that cannot be read do not matter.
fn touch(seat: &mut Seat<'_, '_, '_>, cpu: Cpu<'_>, area: AreaId, page: u32, access: Access) {
    loop {
        match seat.touch(cpu, area, page, access) {
            Ok(Touched::Done(_)) | Err(FileTrouble::Unreadable(_)) => return,
            // Whoever moves the page, or writes, goes on first.
            Ok(Touched::Wait(_)) => cpu.relax(),
            Err(trouble) => cpu.fail(trouble.to_string()),
        }
    }
}

fn programs<'p>(keep: &'p Keep<'_, '_>, areas: &'p [AreaId; 2], moves: bool) -> Vec<Program<'p>> {
    let script = |number: u16, script: &'static [(usize, u32, Access)]| -> Program<'p> {
        Box::new(move |cpu| {
            let mut seat = keep.seat(CpuId::new(number));
            for &(area, page, access) in script {
                touch(&mut seat, cpu, areas[area], page, access);
            }
        })
    };
    let reclaims = move |cpu: Cpu<'_>| {
        let mut seat = keep.seat(CpuId::new(2));
        for _ in 0..2 {
            seat.shrink(cpu, u64::from(PAGES));
            if moves {
                empty_all(&mut seat, cpu);
            }
            seat.write_back(cpu);
            if moves {
                empty_all(&mut seat, cpu);
            }
            seat.hear_of_writes(cpu);
            seat.shrink(cpu, u64::from(PAGES));
        }
    };
    vec![script(0, ONE), script(1, OTHER), Box::new(reclaims)]
}

/// Moves whatever moves, pageblock by pageblock: so pages move twice at least.
fn empty_all(seat: &mut Seat<'_, '_, '_>, cpu: Cpu<'_>) {
    for first in (0..FRAMES).step_by(PAGEBLOCK_FRAMES) {
        let end = Pfn::new(first + PAGEBLOCK_FRAMES as u64);
        seat.empty(cpu, FrameRange::new(Pfn::new(first), end).unwrap());
    }
}

fn run(hunt: Hunt, schedule: Schedule) -> Result<u64, String> {
    let options =
        Options { schedule, store_buffers: true, late_interrupts: true, ..Options::default() };
    let machine = Machine::new(3, options);
    let mut tuning = Tuning::default();
    tuning.tlb.batching = hunt.batching;
    tuning.tlb.deferred_max = Auto::Fixed(hunt.deferred_max);
    let range = FrameRange::new(Pfn::new(0), Pfn::new(FRAMES)).unwrap();
    let map = [MemoryRange::new(range, NodeId::default(), ZoneKind::Normal)];
    let side_tables = SideTables::default().with_lru();
    let config = Config::new(&map, 3).with_side_tables(side_tables).with_tuning(tuning);
    let mut books = Books::new(&Layout::new::<Simulated>(&config).unwrap());
    let relief = LentRelief::default();
    let mmu = Mmu::checking(3, Oracle::new(FRAMES as u32));
    let platform = Simulated::new(&machine, Settings::default())
        .with_relief(&relief)
        .with_frames(Rc::new(Contents::new(&machine, &mmu)));
    let memory = Memory::new(platform, &config, books.as_mut()).unwrap();
    let (free, store) = (Model::free(3), StoreSpec::INSTANT);
    let mut cache = PageCache::new(&mmu, &free, FRAMES as u32, store, FileCosts::FREE);
    cache.fail(Failures { every: hunt.every, ..Failures::default() });
    let file = cache.create(FileSpec { readahead: 1, fault_around: 2, ..FileSpec::new(PAGES) });
    let spaces = [AddressSpace::new(&mmu), AddressSpace::new(&mmu)];
    let areas = [0, 1].map(|nth: usize| cache.map(&spaces[nth], 0, file, true));
    let parts = Parts { machine: &machine, memory: &memory, cache: &cache, relief: &relief };
    let ran = parts.together(|keep| machine.run(programs(keep, &areas, hunt.moves)));
    ran.map_err(|failure| failure.to_string())?;
    cache.check_contents().map_err(|lost| format!("{lost:?}"))?;
    assert_eq!(memory.lru().unwrap().check(), Ok(()), "nothing is left isolated");
    let moved = memory.compact_stats().pgmigrate_success;
    Ok(if hunt.moves { moved } else { cache.stats().released })
}

fn hunt(batching: FlushBatching, deferred_max: u32, every: u64) {
    hunt_for(Hunt { batching, deferred_max, every, moves: false });
}

fn hunt_for(hunt: Hunt) {
    // Emptying pageblocks takes many steps.
    let schedules = if hunt.moves { 10 } else { 150 };
    let mut found = 0;
    for seed in 0..schedules {
        for schedule in [Schedule::Random(seed), Schedule::Pct { seed, depth: 4, steps: 400 }] {
            match run(hunt, schedule) {
                Ok(pages) => found += pages,
                Err(seen) => panic!("{:?}, seed {seed}: {seen}", hunt.batching),
            }
        }
    }
    assert!(found > schedules, "hardly anything was reclaimed, or moved: {found}");
}

#[test]
fn page_by_page() {
    hunt(FlushBatching::Off, 0, 0);
}

#[test]
fn clean_pages_in_batches() {
    hunt(FlushBatching::CleanOnly, 0, 0);
}

#[test]
fn in_batches() {
    hunt(FlushBatching::All, 0, 0);
}

#[test]
fn lazily() {
    hunt(FlushBatching::Lazy, 64, 0);
    hunt(FlushBatching::Lazy, 2, 0);
}

#[test]
fn with_a_store_that_fails() {
    hunt(FlushBatching::Lazy, 64, 2);
}

#[test]
fn while_pages_move() {
    for batching in [FlushBatching::All, FlushBatching::Lazy] {
        hunt_for(Hunt { batching, deferred_max: 64, every: 0, moves: true });
    }
}

#[test]
fn while_pages_move_above_a_store_that_fails() {
    hunt_for(Hunt { batching: FlushBatching::Lazy, deferred_max: 64, every: 2, moves: true });
}
