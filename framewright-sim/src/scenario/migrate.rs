//! Migration: the library's compaction moves pages while programs store to them.

use std::rc::Rc;

use framewright::{
    Config, Extent, FrameRange, Layout, Memory, MemoryRange, MigrateType, Pfn,
    compact::{Compactor, Workspace},
    migrate::Move,
    tlb::{BatchSlot, Shootdown},
    tuning::Auto,
};

use super::{
    Bug, Verdict,
    world::{failed, seen},
};
use crate::{
    engine::{Cpu, Machine},
    platform::{Books, Settings, Simulated},
    process::{
        Access::{Load, Store},
        FrameSource, Mishap, Mmu, Oracle, PageMover, Process, Purpose, Shooter, Symptom,
    },
};

const PAGES: u32 = 2;
const PAGEBLOCK: u64 = 512;
const FRAMES: u64 = 2 * PAGEBLOCK;
/// Where the page table is; so the second pageblock is the fuller one.
const TABLE: u64 = PAGEBLOCK;
/// The free frames of the second pageblock begin here.
const ROOM: u64 = FRAMES - 8;

/// CPUs 0 and 1 run threads, CPU 2 compacts the memory that they use, and then takes the range that
/// their pages have moved to.
pub(super) fn run(machine: &Machine, bug: Option<Bug>) -> Verdict {
    run_with(machine, bug, None).0
}

/// The same, with something that goes wrong once; and how many questions were asked.
fn run_with(machine: &Machine, bug: Option<Bug>, mishap: Option<(u32, Mishap)>) -> (Verdict, u32) {
    let map = [MemoryRange::from(range(0, FRAMES))];
    let mut config = Config::new(&map, machine.cpus());
    config.tuning.zone.min_free = Auto::Fixed(0);
    let mut books = Books::new(&Layout::new::<Simulated>(&config).expect("a small layout"));
    let mmu = Mmu::checking(machine.cpus(), Oracle::new(FRAMES as u32));
    let process = Process::with_memory(&mmu, 0..PAGES);
    let mover = PageMover::new(machine, std::slice::from_ref(&process), 0..PAGES)
        .copying_early(bug == Some(Bug::CopyBeforeFlush));
    let mover = Rc::new(match mishap {
        Some((nth, mishap)) => mover.with_mishap(nth, mishap),
        None => mover,
    });
    let platform = Simulated::new(machine, Settings::default()).with_frames(mover.clone());
    let memory = Memory::new(platform, &config, books.as_mut()).expect("a small memory");
    let scene = Scene { memory: &memory, mmu: &mmu, process: &process, mover: &mover };
    (scene.play(machine), mover.asked())
}

/// Frames `start` to `end`.
fn range(start: u64, end: u64) -> FrameRange {
    FrameRange::new(Pfn::new(start), Pfn::new(end)).expect("in order")
}

struct Scene<'s, 'm> {
    memory: &'s Memory<'m, Simulated>,
    mmu: &'s Mmu,
    process: &'s Process,
    mover: &'s PageMover,
}

impl<'m> Scene<'_, 'm> {
    fn play(&self, machine: &Machine) -> Verdict {
        let take = |start, end| -> Extent<'m> {
            let taken =
                self.memory.alloc_range(range(start, end), MigrateType::Movable, &mut |_| {});
            taken.expect("nobody has anything")
        };
        let _ = take(TABLE, ROOM).into_raw();
        let _ = take(0, PAGES.into()).into_raw();
        self.process.place(TABLE as u32, 0..PAGES);
        let shooter = &Shooter::new(self.mmu, self.memory);
        let thread = |cpu: Cpu<'_>, page: u32| {
            shooter.run_on(cpu, self.process);
            for (page, access) in
                [(page, Store), (page, Store), (PAGES - 1 - page, Load), (page, Store)]
            {
                let _ = self.mover.touch(cpu, self.process, page, access, &mut Nothing);
            }
        };
        let result = machine.run(vec![
            Box::new(move |cpu| thread(cpu, 0)),
            Box::new(move |cpu| thread(cpu, 1)),
            Box::new(|cpu| {
                self.compacting(cpu, shooter, |compactor| {
                    compactor.compact_node(Default::default());
                    let range = range(ROOM, FRAMES);
                    if let Ok(extent) =
                        compactor.alloc_range(range, MigrateType::Movable, &mut |_| {})
                    {
                        self.memory.free_extent(extent).expect("it is this memory's");
                    }
                });
            }),
        ]);
        match result {
            Ok(()) => self.look_around(),
            Err(failure) => failed(self.mmu.oracle().expect("scenarios are checked"), failure),
        }
    }

    fn compacting(
        &self,
        cpu: Cpu<'_>,
        shootdown: &dyn Shootdown,
        body: impl FnOnce(&mut Compactor<'_, 'm, Simulated>),
    ) {
        let (mut moves, mut slots) = ([Move::default(); 4], [BatchSlot::default(); 4]);
        let work = Workspace { moves: &mut moves, slots: &mut slots };
        body(&mut self.memory.compactor(cpu.id(), self.mover, shootdown, work));
    }

    /// Everything that must hold when all is over.
    fn look_around(&self) -> Verdict {
        if let Err((symptom, page)) = self.process.check_contents(|_, _| None) {
            return seen(symptom, &format!("page {page}"));
        }
        if self.mover.claimed() > 0 {
            return seen(
                Symptom::Books,
                &format!("{} pages are claimed still", self.mover.claimed()),
            );
        }
        self.memory.drain_all();
        let counts = self.memory.zones().map(|zone| self.memory.block_counts(zone.id));
        if counts.map(|counts| counts.pageblocks[MigrateType::Isolate as usize]).sum::<u64>() > 0 {
            return seen(Symptom::Books, "a pageblock is withheld still");
        }
        if let Err(violation) = self.memory.check() {
            return seen(Symptom::Books, &violation.to_string());
        }
        let (used, expected) = (FRAMES - self.memory.free(), ROOM - TABLE + u64::from(PAGES));
        if used != expected {
            return seen(Symptom::Leaked, &format!("{used} frames in use instead of {expected}"));
        }
        Verdict::Clean
    }
}

/// Every page has its frame from the start.
struct Nothing;

impl FrameSource for Nothing {
    fn take(&mut self, _: Cpu<'_>, _: Purpose) -> Option<u32> {
        None
    }

    fn give(&mut self, _: Cpu<'_>, _: &[u32]) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Options, Schedule};

    fn machine(seed: u64) -> Machine {
        let schedule = Schedule::Random(seed);
        Machine::new(3, Options { schedule, ..Options::default() })
    }

    #[test]
    fn pages_move_there_and_back() {
        let mut most = 0;
        for seed in 0..50 {
            let (verdict, asked) = run_with(&machine(seed), None, None);
            assert_eq!(verdict, Verdict::Clean, "seed {seed}");
            most = most.max(asked);
        }
        // Two pages, both ways: claiming, unmapping, remapping.
        assert!(most >= 8, "{most} questions");
    }

    #[test]
    fn whatever_goes_wrong_at_whatever_step_nothing_is_lost_or_left_behind() {
        for mishap in [Mishap::Busy, Mishap::Refused] {
            for nth in 0..16 {
                for seed in 0..20 {
                    let (verdict, _) = run_with(&machine(seed), None, Some((nth, mishap)));
                    assert_eq!(verdict, Verdict::Clean, "{mishap:?} at {nth}, seed {seed}");
                }
            }
        }
    }
}
