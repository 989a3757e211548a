//! Tests with one CPU; the scenarios cover concurrent accesses.

use std::{cell::Cell, rc::Rc};

use framewright::{
    Config, FrameRange, Layout, Memory, MemoryRange, MigrateType, Pfn, RangeError,
    compact::Workspace, migrate::Move, tlb::BatchSlot, tuning::Auto,
};

use super::*;
use crate::{
    engine::Options,
    platform::{MetadataBuffer, Settings, Simulated},
    process::{Mmu, Oracle, Purpose, Shooter},
};

const PAGEBLOCK: u64 = 512;
const FRAMES: u64 = 2 * PAGEBLOCK;
const TABLE: u64 = FRAMES - 1;
/// Pages of the process; page n is in frame n.
const PAGES: u32 = 4;

/// The parts of a test.
struct Fixture<'s, 'm> {
    memory: &'s Memory<'m, Simulated>,
    shooter: &'s Shooter<'s, 'm>,
    process: &'s Process,
    mover: &'s PageMover,
}

/// A process loads from a page and stores to another; then the CPU runs `moving`.
fn run(failure: Option<(u32, SeededFailure)>, moving: impl Fn(&Fixture<'_, '_>, Cpu<'_>)) {
    let machine = Machine::new(1, Options::default());
    let map = [MemoryRange::from(frames(0, FRAMES))];
    let mut config = Config::new(&map, machine.cpus());
    config.tuning.zone.min_free = Auto::Fixed(0);
    let mut metadata =
        MetadataBuffer::new(&Layout::new::<Simulated>(&config).expect("a small layout"));
    let mmu = Mmu::checking(machine.cpus(), Oracle::new(FRAMES as u32));
    let process = Process::with_memory(&mmu, 0..PAGES);
    let mover = PageMover::new(&machine, std::slice::from_ref(&process), 0..PAGES);
    let mover = match failure {
        Some((nth, failure)) => mover.with_failure(nth, failure),
        None => mover,
    };
    let mover = Rc::new(mover);
    let platform = Simulated::new(&machine, Settings::default()).with_frames(mover.clone());
    let memory = Memory::new(platform, &config, metadata.as_mut()).expect("a small memory");
    for range in [frames(0, PAGES.into()), frames(TABLE, FRAMES)] {
        let taken = memory.alloc_range(range, MigrateType::Movable, &mut |_| {});
        let _ = taken.expect("all frames are free").into_raw();
    }
    process.place(TABLE as u32, 0..PAGES);
    let shooter = Shooter::new(&mmu, &memory);
    let fixture = Fixture { memory: &memory, shooter: &shooter, process: &process, mover: &mover };
    let ended = machine.run(vec![Box::new(|cpu| {
        shooter.run_on(cpu, &process);
        fixture.touch(cpu, 1, Access::Store);
        fixture.touch(cpu, 2, Access::Load);
        moving(&fixture, cpu);
    })]);
    ended.unwrap();
    assert_eq!(process.check_contents(|_, _| None), Ok(()));
    assert_eq!(mover.claimed(), 0, "a page is still claimed");
    memory.check().unwrap();
}

fn frames(start: u64, end: u64) -> FrameRange {
    FrameRange::new(Pfn::new(start), Pfn::new(end)).expect("in order")
}

impl Fixture<'_, '_> {
    fn touch(&self, cpu: Cpu<'_>, page: u32, access: Access) {
        self.mover.touch(cpu, self.process, page, access, &mut Nothing).unwrap();
    }

    fn mappings(&self) -> Vec<Mapping> {
        let entry = |page| self.process.space().entry(page).present().expect("it is mapped");
        (0..PAGES).map(entry).collect()
    }

    /// Empties the pageblock of the pages, as far as they can be migrated.
    fn empty(&self, cpu: Cpu<'_>) -> Result<(), RangeError> {
        let (mut moves, mut slots) = ([Move::default(); 4], [BatchSlot::default(); 4]);
        let work = Workspace { moves: &mut moves, slots: &mut slots };
        // SAFETY: the pages are in frames of this memory, and mapped on this machine.
        #[allow(unsafe_code)]
        let mut compactor =
            unsafe { self.memory.compactor(cpu.id(), self.mover, self.shooter, work) };
        let range = frames(0, PAGEBLOCK);
        let taken = compactor.alloc_range(range, MigrateType::Movable, &mut |_| {})?;
        self.memory.free_extent(taken).expect("a block of this memory");
        Ok(())
    }
}

/// A source without frames: every page is mapped from the start.
struct Nothing;

impl FrameSource for Nothing {
    fn take(&mut self, _: Cpu<'_>, _: Purpose) -> Option<u32> {
        None
    }

    fn give(&mut self, _: Cpu<'_>, _: &[u32]) {}
}

/// The access rights, accessed and dirty bits of the mappings.
fn bits(mappings: &[Mapping]) -> Vec<Mapping> {
    mappings.iter().map(|mapping| Mapping { frame: 0, ..*mapping }).collect()
}

/// Requests that claim, unmap and remap these pages, once each.
const REQUESTS: u32 = 1 + 2 * PAGES;

#[test]
fn a_page_stays_dirty_when_it_moves_and_when_its_migration_is_retried() {
    let moving = |fixture: &Fixture<'_, '_>, cpu: Cpu<'_>| {
        let before = fixture.mappings();
        assert!(before[1].dirty && before[2].accessed && !before[2].dirty);
        fixture.empty(cpu).unwrap();
        let after = fixture.mappings();
        assert_eq!(bits(&after), bits(&before));
        assert!(after.iter().all(|mapping| u64::from(mapping.frame) >= PAGEBLOCK));
    };
    let requests = |failure| {
        let requests = Cell::new(0);
        let moving = |fixture: &Fixture<'_, '_>, cpu: Cpu<'_>| {
            moving(fixture, cpu);
            requests.set(fixture.mover.requests());
        };
        run(failure, moving);
        requests.get()
    };
    assert_eq!(requests(None), REQUESTS);
    for nth in 1..REQUESTS {
        // The same attempt retries a busy page. A refused page is retried by the next attempt,
        // which unmaps it again if it was unmapped before.
        let was_unmapped = u32::from(nth > PAGES);
        assert_eq!(requests(Some((nth, SeededFailure::Busy))), REQUESTS + 1, "request {nth}");
        let again = REQUESTS + 1 + was_unmapped;
        assert_eq!(requests(Some((nth, SeededFailure::Refused))), again, "request {nth}");
    }
}

#[test]
fn a_contended_claim_is_retried() {
    for failure in [SeededFailure::Busy, SeededFailure::Refused] {
        let moving = |fixture: &Fixture<'_, '_>, cpu: Cpu<'_>| {
            let before = fixture.mappings();
            fixture.empty(cpu).unwrap();
            assert_eq!(bits(&fixture.mappings()), bits(&before));
            assert_eq!(fixture.mover.requests(), REQUESTS + 1);
        };
        run(Some((0, failure)), moving);
    }
}
