//! The library reclaims the memory of programs in schedules that look for bugs, under an oracle.
//!
//! Two CPUs run threads of one process and one other process, all with the same file. A third CPU
//! reclaims, writes back, and migrates pages. Frames are reused at once, so that the oracle sees
//! stale accesses.

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
        AreaId, CpuContext, Failures, FileAccessError, FileCosts, FileSpec, KernelState, PageCache,
        Parts, StoreSpec, Touched,
    },
    platform::{LentRelief, MetadataBuffer, Settings, Simulated},
    process::{Access, AddressSpace, Contents, Mmu, Oracle},
};

const FRAMES: u64 = 2048;
const PAGES: u32 = 3;

/// The accesses of the programs of two CPUs: mapping, page, and kind.
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

/// The parameters of a run.
#[derive(Clone, Copy)]
struct Hunt {
    batching: FlushBatching,
    deferred_max: u32,
    /// One write in `every` fails; with 0, none fails.
    every: u64,
    /// Pages are migrated, too.
    moves: bool,
}

/// Accesses a page until it succeeds; pages that cannot be read are skipped.
fn touch(
    context: &mut CpuContext<'_, '_, '_>,
    cpu: Cpu<'_>,
    area: AreaId,
    page: u32,
    access: Access,
) {
    loop {
        match context.touch(cpu, area, page, access) {
            Ok(Touched::Done(_)) | Err(FileAccessError::Unreadable(_)) => return,
            // The CPU that migrates or writes the page runs first.
            Ok(Touched::Wait(_)) => cpu.relax(),
            Err(error) => cpu.fail(error.to_string()),
        }
    }
}

fn programs<'p>(
    kernel: &'p KernelState<'_, '_>,
    areas: &'p [AreaId; 2],
    moves: bool,
) -> Vec<Program<'p>> {
    let script = |number: u16, script: &'static [(usize, u32, Access)]| -> Program<'p> {
        Box::new(move |cpu| {
            let mut context = kernel.cpu_context(CpuId::new(number));
            for &(area, page, access) in script {
                touch(&mut context, cpu, areas[area], page, access);
            }
        })
    };
    let reclaims = move |cpu: Cpu<'_>| {
        let mut context = kernel.cpu_context(CpuId::new(2));
        for _ in 0..2 {
            context.shrink(cpu, u64::from(PAGES));
            if moves {
                empty_pageblocks(&mut context, cpu);
            }
            context.write_back(cpu);
            if moves {
                empty_pageblocks(&mut context, cpu);
            }
            context.report_writes(cpu);
            context.shrink(cpu, u64::from(PAGES));
        }
    };
    vec![script(0, ONE), script(1, OTHER), Box::new(reclaims)]
}

/// Migrates all movable pages out of one pageblock after the other, so that pages move at least
/// twice.
fn empty_pageblocks(context: &mut CpuContext<'_, '_, '_>, cpu: Cpu<'_>) {
    for first in (0..FRAMES).step_by(PAGEBLOCK_FRAMES) {
        let end = Pfn::new(first + PAGEBLOCK_FRAMES as u64);
        context.empty_range(cpu, FrameRange::new(Pfn::new(first), end).unwrap());
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
    let mut metadata = MetadataBuffer::new(&Layout::new::<Simulated>(&config).unwrap());
    let relief = LentRelief::default();
    let mmu = Mmu::checking(3, Oracle::new(FRAMES as u32));
    let platform = Simulated::new(&machine, Settings::default())
        .with_relief(&relief)
        .with_frames(Rc::new(Contents::new(&machine, &mmu)));
    let memory = Memory::new(platform, &config, metadata.as_mut()).unwrap();
    let (free, store) = (Model::free(3), StoreSpec::INSTANT);
    let mut cache = PageCache::new(&mmu, &free, FRAMES as u32, store, FileCosts::FREE);
    cache.fail(Failures { every: hunt.every, ..Failures::default() });
    let file = cache.create(FileSpec { readahead: 1, fault_around: 2, ..FileSpec::new(PAGES) });
    let spaces = [AddressSpace::new(&mmu), AddressSpace::new(&mmu)];
    let areas = [0, 1].map(|nth: usize| cache.map(&spaces[nth], 0, file, true));
    let parts = Parts { machine: &machine, memory: &memory, cache: &cache, relief: &relief };
    let ran = parts.together(|kernel| machine.run(programs(kernel, &areas, hunt.moves)));
    ran.map_err(|failure| failure.to_string())?;
    cache.check_contents().map_err(|lost| format!("{lost:?}"))?;
    assert_eq!(memory.lru().unwrap().check(), Ok(()), "a page is still isolated");
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
    assert!(found > schedules, "too few pages were reclaimed or moved: {found}");
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
