//! Tests on one CPU where that is sufficient; the scenarios cover concurrent accesses.

use std::cell::RefCell;

use super::*;
use crate::engine::{Cpu, Failure, Machine, Options, Program, Schedule};

const FRAMES: u32 = 8;

/// A stack of frames.
struct Stack(Vec<u32>);

impl Default for Stack {
    fn default() -> Self {
        Self((0..FRAMES).collect())
    }
}

impl FrameSource for &RefCell<Stack> {
    fn take(&mut self, _cpu: Cpu<'_>, _purpose: Purpose) -> Option<u32> {
        self.borrow_mut().0.pop()
    }

    fn give(&mut self, _cpu: Cpu<'_>, frames: &[u32]) {
        self.borrow_mut().0.extend(frames);
    }
}

struct World {
    mmu: Mmu,
    process: Process,
    frames: RefCell<Stack>,
}

impl World {
    fn new() -> Self {
        let mmu = Mmu::checking(3, Oracle::new(FRAMES));
        Self { process: Process::new(&mmu), mmu, frames: RefCell::default() }
    }

    fn store(&self, cpu: Cpu<'_>, page: u32) -> Result<Token, AccessError> {
        self.process.touch(cpu, page, Access::Store, &mut &self.frames)
    }

    fn load(&self, cpu: Cpu<'_>, page: u32) -> Result<Token, AccessError> {
        self.process.touch(cpu, page, Access::Load, &mut &self.frames)
    }

    fn mapping(&self, page: u32) -> Option<Mapping> {
        self.process.space().0.tables.get(page).present()
    }

    fn seen(&self) -> Option<Symptom> {
        self.mmu.oracle().unwrap().seen()
    }

    /// Runs a program on CPU 0, with three pages mapped.
    fn run(&self, program: impl Fn(Cpu<'_>, &Self)) -> Result<(), Failure> {
        Machine::new(3, Options::default()).run(vec![Box::new(|cpu: Cpu<'_>| {
            self.process.run_on(cpu);
            self.process.map(cpu, 0..3);
            program(cpu, self);
        })])
    }
}

#[test]
fn bits_are_set_as_they_are_on_x86() {
    let world = World::new();
    let bits = |world: &World| world.mapping(1).map(|bits| (bits.accessed, bits.dirty));
    world
        .run(|cpu, world| {
            assert_eq!(world.load(cpu, 1), Ok(Token::ZERO));
            assert_eq!(bits(world), Some((true, false)));
            // The kernel may clear both bits: accesses through the cached translation do not set
            // them again.
            let space = world.process.space();
            let clean = Mapping { accessed: false, ..world.mapping(1).unwrap() };
            space.replace_pte(cpu, 1, Pte::Present(clean));
            assert_eq!(world.load(cpu, 1), Ok(Token::ZERO));
            assert_eq!(bits(world), Some((false, false)));
            // The first store through a clean translation reads the entry, the next store does not.
            let token = world.store(cpu, 1).unwrap();
            assert_eq!(bits(world), Some((true, true)));
            space.replace_pte(cpu, 1, Pte::Present(clean));
            let second = world.store(cpu, 1).unwrap();
            assert_eq!(bits(world), Some((false, false)));
            assert_ne!(token, second);
            assert_eq!(world.load(cpu, 1), Ok(second));
        })
        .unwrap();
    assert_eq!(world.process.check_contents(|_, _| None), Ok(()));
}

#[test]
fn a_store_through_a_clean_translation_faults_if_the_entry_is_gone() {
    World::new()
        .run(|cpu, world| {
            world.load(cpu, 0).unwrap();
            let space = world.process.space();
            let Pte::Present(mapping) = space.take_pte(cpu, 0) else { panic!("present") };
            // Cached translations still allow loads.
            assert_eq!(space.access(cpu, 0, Access::Load), Ok(Token::ZERO));
            assert_eq!(space.access(cpu, 0, Access::Store), Err(Fault::NotPresent));
            // The fault invalidated the translation.
            assert_eq!(space.access(cpu, 0, Access::Load), Err(Fault::NotPresent));
            space.replace_pte(cpu, 0, Pte::Present(Mapping { writable: false, ..mapping }));
            assert_eq!(space.access(cpu, 0, Access::Store), Err(Fault::NotWritable));
        })
        .unwrap();
}

#[test]
fn unmapping_gives_back_pages_and_page_tables() {
    let world = World::new();
    world
        .run(|cpu, world| {
            (0..3).for_each(|page| assert!(world.store(cpu, page).is_ok()));
            assert_eq!(world.process.frames(), 4);
            world.process.unmap(cpu, 0..2, &mut &world.frames);
            assert_eq!(world.process.frames(), 2);
            assert_eq!(world.store(cpu, 1), Err(AccessError::NotAllowed(1)));
            assert!(world.load(cpu, 2).is_ok());
            world.process.clone().exit(cpu, &mut &world.frames);
        })
        .unwrap();
    assert_eq!(world.frames.borrow().0.len() as u32, FRAMES);
    assert_eq!(world.mmu.oracle().unwrap().frames_taken(), 0);
}

#[test]
fn a_protected_page_cannot_be_stored_to() {
    World::new()
        .run(|cpu, world| {
            world.store(cpu, 1).unwrap();
            world.process.protect(cpu, 1..2, false);
            assert_eq!(world.store(cpu, 1), Err(AccessError::NotAllowed(1)));
            assert!(world.load(cpu, 1).is_ok() && world.store(cpu, 2).is_ok());
            world.process.protect(cpu, 1..2, true);
            assert!(world.store(cpu, 1).is_ok());
        })
        .unwrap();
}

#[test]
fn memory_may_run_out() {
    let world = World::new();
    world
        .run(|cpu, world| {
            world.process.map(cpu, 3..20);
            // One frame is the page table's.
            let served = (0..20).take_while(|page| world.store(cpu, *page).is_ok()).count();
            assert_eq!(served as u32, FRAMES - 1);
            assert_eq!(world.store(cpu, 19), Err(AccessError::OutOfMemory));
        })
        .unwrap();
}

#[test]
fn the_oracle_detects_the_symptoms_of_an_access_and_of_an_allocation() {
    let detects = |symptom, program: &dyn Fn(Cpu<'_>, &World)| {
        let world = World::new();
        let result = world.run(program);
        assert!(matches!(result, Err(Failure::Violation { .. })), "{symptom:?}: {result:?}");
        assert_eq!(world.seen(), Some(symptom));
    };
    let frame = |world: &World| world.mapping(1).unwrap().frame;
    detects(Symptom::StaleAccess, &|cpu, world| {
        world.store(cpu, 1).unwrap();
        world.mmu.oracle().unwrap().freed(cpu, frame(world));
        let _ = world.load(cpu, 1);
    });
    detects(Symptom::StaleAccess, &|cpu, world| {
        let oracle = world.mmu.oracle().unwrap();
        world.store(cpu, 1).unwrap();
        oracle.freed(cpu, frame(world));
        oracle.taken(cpu, frame(world));
        let _ = world.store(cpu, 1);
    });
    detects(Symptom::UnmappedAccess, &|cpu, world| {
        world.store(cpu, 1).unwrap();
        world.mmu.oracle().unwrap().page_unmapped(world.process.space().id(), 1);
        let _ = world.load(cpu, 1);
    });
    detects(Symptom::WrongContents, &|cpu, world| {
        world.store(cpu, 1).unwrap();
        world.mmu.oracle().unwrap().fill(frame(world), Token::ZERO);
        let _ = world.load(cpu, 1);
    });
    detects(Symptom::TakenTwice, &|cpu, world| {
        world.store(cpu, 1).unwrap();
        world.mmu.oracle().unwrap().taken(cpu, frame(world));
    });
    detects(Symptom::FreedTwice, &|cpu, world| {
        world.mmu.oracle().unwrap().freed(cpu, 0);
    });
}

#[test]
fn a_store_that_no_frame_holds_at_the_end_is_reported_as_lost() {
    let world = World::new();
    world
        .run(|cpu, world| {
            world.store(cpu, 1).unwrap();
            world.process.space().replace_pte(cpu, 1, Pte::Swapped(3));
        })
        .unwrap();
    let oracle = world.mmu.oracle().unwrap();
    let frame = (0..FRAMES).find(|frame| oracle.contents(*frame) != Token::ZERO).unwrap();
    assert_eq!(world.process.check_contents(|_, _| Some(oracle.contents(frame))), Ok(()));
    let lost = world.process.check_contents(|_, _| Some(Token::ZERO));
    assert_eq!(lost, Err((Symptom::LostWrite, 1)));
}

/// A lazy CPU is not interrupted, and does not use old translations afterwards.
#[test]
fn a_lazy_cpu_flushes_before_it_uses_the_address_space() {
    let world = World::new();
    let turn = RefCell::new(0);
    let wait = |cpu: Cpu<'_>, until: u32| {
        while *turn.borrow() != until {
            cpu.work(10);
            cpu.step();
        }
    };
    let programs: Vec<Program<'_>> = vec![
        Box::new(|cpu: Cpu<'_>| {
            world.process.run_on(cpu);
            world.process.map(cpu, 0..3);
            *turn.borrow_mut() = 1;
            wait(cpu, 2);
            world.process.unmap(cpu, 0..3, &mut &world.frames);
            *turn.borrow_mut() = 3;
        }),
        Box::new(|cpu: Cpu<'_>| {
            world.process.run_on(cpu);
            wait(cpu, 1);
            world.store(cpu, 1).unwrap();
            world.process.space().enter_lazy_mode(cpu);
            *turn.borrow_mut() = 2;
            wait(cpu, 3);
            world.process.run_on(cpu);
            assert_eq!(world.load(cpu, 1), Err(AccessError::NotAllowed(1)));
        }),
    ];
    Machine::new(3, Options::default()).run(programs).unwrap();
    let stats = world.mmu.stats();
    assert_eq!((stats.interrupts, stats.lazy_skipped), (0, 1));
}

/// Three CPUs map, access, protect and unmap pages at random.
#[test]
fn operations_in_the_correct_order_cause_no_violation() {
    for seed in 0..400 {
        let world = World::new();
        let work = |cpu: Cpu<'_>, number: u32| {
            let own = 4 * number..4 * number + 2;
            world.process.run_on(cpu);
            world.process.map(cpu, own.clone());
            for page in [own.start, own.start + 1, 0, 4, 8, 1] {
                let _ = world.store(cpu, page);
                let _ = world.load(cpu, page);
            }
            world.process.space().enter_lazy_mode(cpu);
            world.process.run_on(cpu);
            world.process.protect(cpu, own.start..own.start + 1, false);
            let _ = world.store(cpu, own.start);
            world.process.unmap(cpu, own, &mut &world.frames);
            let _ = world.store(cpu, 4);
        };
        let options = Options { schedule: Schedule::Random(seed), ..Options::default() };
        let program = |number| -> Program<'_> { Box::new(move |cpu: Cpu<'_>| work(cpu, number)) };
        let result = Machine::new(3, options).run((0..3).map(program).collect());
        assert_eq!((result, world.seen()), (Ok(()), None), "seed {seed}");
        assert_eq!(world.process.check_contents(|_, _| None), Ok(()));
        assert_eq!(world.process.frames(), 0);
        assert_eq!(world.frames.borrow().0.len() as u32, FRAMES, "seed {seed}");
    }
}

/// Realistic sizes, without an oracle.
#[test]
fn units_that_measure_charge_costs_and_check_nothing() {
    let mmu = Mmu::measuring(2, Costs::default());
    let frames = RefCell::new(Stack((0..40_000).collect()));
    let process = Process::new(&mmu);
    let machine = Machine::new(2, Options::default());
    let program = |cpu: Cpu<'_>| {
        process.run_on(cpu);
        process.map(cpu, 0..32_768);
        for page in 0..32_768 {
            process.touch(cpu, page, Access::Store, &mut &frames).unwrap();
        }
        assert_eq!(process.frames(), 32_768 + 64);
        process.unmap(cpu, 0..32_768, &mut &frames);
    };
    machine.run(vec![Box::new(program)]).unwrap();
    assert_eq!(frames.borrow().0.len(), 40_000);
    assert_eq!((mmu.stats().faults, mmu.stats().interrupts), (32_768, 0));
    assert!(machine.clock(framewright::CpuId::new(0)) > 32_768 * 4100);
}
