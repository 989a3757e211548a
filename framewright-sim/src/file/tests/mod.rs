//! A page cache whose frames come from a simple source instead of the library. The CPU with the
//! earliest clock runs first.

use super::*;
use crate::{
    engine::{Machine, Model, Options, Program},
    process::{Access, AddressSpace, Costs, Mmu, Oracle},
};
use std::cell::RefCell;

mod flush_costs;
mod hunting;
mod parts;

const FRAMES: u32 = 256;

/// Free frames; the last one is allocated first.
struct Free<'f> {
    frames: &'f RefCell<Vec<u32>>,
    mmu: &'f Mmu,
}

impl Supply for Free<'_> {
    fn page(&mut self, cpu: Cpu<'_>, _cleared: bool, _may_retry: bool) -> Option<u32> {
        let frame = self.frames.borrow_mut().pop()?;
        if let Some(oracle) = self.mmu.oracle() {
            oracle.taken(cpu, frame);
        }
        Some(frame)
    }

    fn table(&mut self, cpu: Cpu<'_>) -> Option<u32> {
        self.page(cpu, true, true)
    }

    fn give(&mut self, cpu: Cpu<'_>, frames: &[u32]) {
        for &frame in frames {
            if let Some(oracle) = self.mmu.oracle() {
                oracle.freed(cpu, frame);
            }
            self.frames.borrow_mut().push(frame);
        }
    }

    fn cached(&mut self, _cpu: Cpu<'_>, _frame: u32, _shadow: Option<u64>) {}
}

struct World {
    machine: Machine,
    mmu: Mmu,
    cache: PageCache,
    free: RefCell<Vec<u32>>,
}

impl World {
    fn new(mmu: Mmu, store: StoreSpec) -> Self {
        let machine = Machine::new(2, Options::default());
        let cache = PageCache::new(&mmu, &Model::free(2), FRAMES, store, FileCosts::FREE);
        Self { machine, mmu, cache, free: RefCell::new((0..FRAMES).rev().collect()) }
    }

    fn checking() -> Self {
        Self::new(Mmu::checking(2, Oracle::new(FRAMES)), StoreSpec::INSTANT)
    }

    fn measuring(store: StoreSpec) -> Self {
        let free = Costs {
            fault: 0,
            unmap_page: 0,
            protect_page: 0,
            flush_page: 0,
            flush_space: 0,
            switch: 0,
        };
        Self::new(Mmu::measuring(2, free), store)
    }

    fn supply(&self) -> Free<'_> {
        Free { frames: &self.free, mmu: &self.mmu }
    }

    fn run(&self, program: impl FnOnce(Cpu<'_>)) {
        let program: Program<'_> = Box::new(program);
        self.machine.run(vec![program]).unwrap();
    }

    fn touch(&self, cpu: Cpu<'_>, area: AreaId, page: u32, access: Access) -> Touched {
        self.cache.touch(cpu, area, page, access, &mut self.supply()).unwrap()
    }
}

#[test]
fn a_miss_reads_a_run_and_a_fault_maps_around() {
    let mut world = World::measuring(StoreSpec { latency_ns: 1_000, mb_per_s: 0, queue: 0 });
    let space = AddressSpace::new(&world.mmu);
    let file = world.cache.create(FileSpec::new(100));
    let area = world.cache.map(&space, 512, file, false);
    world.run(|cpu| {
        space.load(cpu);
        assert_eq!(world.touch(cpu, area, 40, Access::Load), Touched::Wait(1_000));
        assert_eq!((32..64).filter(|page| world.cache.frame_of(file, *page).is_some()).count(), 32);
        assert!(world.cache.frame_of(file, 31).is_none() && !world.cache.is_mapped(file, 40));
        cpu.sleep_until(1_000);
        assert!(matches!(world.touch(cpu, area, 40, Access::Load), Touched::Done(_)));
        let mapped: Vec<u32> = (0..100).filter(|page| world.cache.is_mapped(file, *page)).collect();
        assert_eq!(mapped, (32..48).collect::<Vec<_>>());
        assert!(matches!(world.touch(cpu, area, 41, Access::Load), Touched::Done(_)));
        let error = world.cache.touch(cpu, area, 100, Access::Load, &mut world.supply());
        assert_eq!(error, Err(FileAccessError::NotAllowed(612)));
    });
    let stats = world.cache.stats();
    assert_eq!((stats.faults, stats.major_faults, stats.mapped, stats.cached), (2, 1, 16, 32));
    let frames = world.cache.dissolve();
    assert_eq!(frames.len() + world.free.borrow().len(), FRAMES as usize);
}

#[test]
fn a_page_stays_until_the_program_that_waits_for_it_has_mapped_it() {
    let mut world = World::measuring(StoreSpec { latency_ns: 1_000, mb_per_s: 0, queue: 0 });
    let space = AddressSpace::new(&world.mmu);
    let file = world.cache.create(FileSpec { fault_around: 1, ..FileSpec::new(100) });
    let area = world.cache.map(&space, 512, file, false);
    world.run(|cpu| {
        space.load(cpu);
        assert_eq!(world.touch(cpu, area, 40, Access::Load), Touched::Wait(1_000));
        let frames = [40, 41].map(|page| world.cache.frame_of(file, page).unwrap());
        cpu.sleep_until(2_000);
        let locked = frames.map(|frame| world.cache.try_lock(cpu, frame));
        assert_eq!(
            locked,
            [false, true],
            "page 40 must not be locked, because a program waits for it; page 41 may be"
        );
        assert!(matches!(world.touch(cpu, area, 40, Access::Load), Touched::Done(_)));
        assert!(world.cache.try_lock(cpu, frames[0]));
    });
    assert_eq!(world.cache.stats().major_faults, 1);
    let frames = world.cache.dissolve();
    assert_eq!(frames.len() + world.free.borrow().len(), FRAMES as usize);
}

#[test]
fn a_store_above_the_limit_of_dirty_pages_pauses_once() {
    let mut world = World::measuring(StoreSpec::INSTANT);
    let space = AddressSpace::new(&world.mmu);
    let file = world.cache.create(FileSpec { fault_around: 1, ..FileSpec::new(100) });
    let area = world.cache.map(&space, 0, file, true);
    world.cache.limit_dirty(2);
    world.run(|cpu| {
        space.load(cpu);
        let mut pauses = Vec::new();
        for page in 0..5 {
            let began = cpu.now();
            if let Touched::Wait(until) = world.touch(cpu, area, page, Access::Store) {
                pauses.push(until - began);
                cpu.sleep_until(until);
                let touched = world.touch(cpu, area, page, Access::Store);
                assert!(matches!(touched, Touched::Done(_)), "the store waits again");
            }
        }
        assert_eq!(pauses, [25_000, 50_000, 75_000], "in proportion to the pages above the limit");
    });
    let frames = world.cache.dissolve();
    assert_eq!(frames.len() + world.free.borrow().len(), FRAMES as usize);
}

#[test]
fn accessed_bits_are_collected_once_and_unmapping_reports_stores() {
    let mut world = World::checking();
    let (one, other) = (AddressSpace::new(&world.mmu), AddressSpace::new(&world.mmu));
    let file = world.cache.create(FileSpec { fault_around: 1, ..FileSpec::new(4) });
    let areas = [&one, &other].map(|space| world.cache.map(space, 0, file, true));
    world.run(|cpu| {
        one.load(cpu);
        world.touch(cpu, areas[0], 0, Access::Store);
        other.load(cpu);
        world.touch(cpu, areas[1], 0, Access::Load);
        world.touch(cpu, areas[1], 1, Access::Load);
        let frames = [0, 1].map(|page| world.cache.frame_of(file, page).unwrap());
        let mut used = [0; 2];
        world.cache.count_used(cpu, &frames, &mut used);
        assert_eq!(used, [2, 1], "page 0 is mapped twice");
        let mut again = [0; 2];
        world.cache.count_used(cpu, &frames, &mut again);
        assert_eq!(again, [0; 2]);
        let mut taken = Vec::new();
        world.cache.unmap(cpu, &frames, &mut |unmapped| {
            taken.push((unmapped.of, unmapped.space.id() == one.id(), unmapped.mapping.dirty));
        });
        assert_eq!(taken, [(0, true, true), (0, false, false), (1, false, false)]);
        assert!(world.cache.is_dirty(frames[0]) && !world.cache.is_dirty(frames[1]));
        assert!(!frames.iter().any(|frame| world.cache.is_frame_mapped(*frame)));
        // TLBs may still hold translations of both spaces.
        [&one, &other].iter().for_each(|space| space.flush(cpu, 1));
        let mut released = Vec::new();
        let shadow = |nth: usize| Some(nth as u64);
        world.cache.release(cpu, &frames, &shadow, &mut |nth| released.push(nth));
        assert_eq!(released, [1], "dirty pages stay");
        assert!(world.cache.send(cpu, frames[0]) && !world.cache.send(cpu, frames[0]));
        assert_eq!(
            world.cache.next_written(cpu),
            Some(Written { frame: frames[0], result: Ok(()) })
        );
        world.cache.release(cpu, &frames[..1], &shadow, &mut |nth| released.push(nth));
        assert_eq!(released, [1, 0]);
        world.supply().give(cpu, &frames);
        one.load(cpu);
        world.touch(cpu, areas[0], 0, Access::Load);
    });
    world.cache.check_contents().unwrap();
}

#[test]
fn a_page_whose_write_failed_stays_dirty_and_is_reported() {
    let mut world = World::checking();
    let space = AddressSpace::new(&world.mmu);
    let file = world.cache.create(FileSpec { fault_around: 1, ..FileSpec::new(4) });
    let area = world.cache.map(&space, 0, file, true);
    world.cache.fail(Failures { pages: vec![(file, 1)], ..Failures::default() });
    world.run(|cpu| {
        space.load(cpu);
        for page in [0, 2] {
            world.touch(cpu, area, page, Access::Store);
        }
        let error = world.cache.touch(cpu, area, 1, Access::Load, &mut world.supply());
        assert_eq!(error, Err(FileAccessError::Unreadable(1)));
        world.cache.fail(Failures { pages: vec![(file, 2)], ..Failures::default() });
        let picked = world.cache.pick_dirty(10, 0);
        assert_eq!(picked.len(), 2);
        let mut flushes = 0;
        world.cache.clean(cpu, &picked, &mut |_| flushes += 1);
        assert_eq!(flushes, 2);
        space.flush(cpu, 2);
        world.cache.write_back(cpu, &picked);
        let results: Vec<_> = std::iter::from_fn(|| world.cache.next_written(cpu))
            .map(|written| written.result)
            .collect();
        assert_eq!(results, [Ok(()), Err(StoreError::Io)]);
        assert!(world.cache.has_failed(file, 2) && !world.cache.has_failed(file, 0));
        assert!(world.cache.is_dirty(picked[1]) && !world.cache.is_dirty(picked[0]));
        assert_eq!(world.cache.unwritten(), 1);
        // A store after the cleaning faults, and makes the page dirty.
        world.touch(cpu, area, 0, Access::Store);
        assert_eq!(world.cache.unwritten(), 2);
    });
    world.cache.check_contents().unwrap();
}

#[test]
fn a_page_that_is_being_read_is_not_locked_and_a_held_one_is_not_released() {
    let mut world = World::measuring(StoreSpec { latency_ns: 1_000, mb_per_s: 0, queue: 0 });
    let space = AddressSpace::new(&world.mmu);
    let file = world.cache.create(FileSpec { readahead: 2, ..FileSpec::new(4) });
    let area = world.cache.map(&space, 0, file, false);
    world.run(|cpu| {
        space.load(cpu);
        world.touch(cpu, area, 2, Access::Load);
        // No program waits for a page that was read ahead.
        let frame = world.cache.frame_of(file, 3).unwrap();
        assert!(
            !world.cache.try_lock(cpu, frame),
            "the frame was locked although it is being read"
        );
        cpu.sleep_until(1_000);
        assert!(world.cache.try_lock(cpu, frame) && !world.cache.try_lock(cpu, frame));
        world.cache.unlock(frame);
        let mut released = 0;
        world.cache.page(frame).held(|| {
            world.cache.release(cpu, &[frame], &|_| None, &mut |_| released += 1);
        });
        assert_eq!(released, 0);
        world.cache.release(cpu, &[frame], &|_| Some(9), &mut |_| released += 1);
        assert_eq!((released, world.cache.frame_of(file, 3)), (1, None));
    });
}
