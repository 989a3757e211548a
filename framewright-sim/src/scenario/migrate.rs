//! Migration: the library's compaction moves pages while programs store to them, or unmap them.

#![allow(unsafe_code)]

use std::rc::Rc;

use framewright::{
    Config, Extent, FrameRange, Layout, Memory, MemoryRange, MigrateType, Order, Pfn,
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
    run_with(machine, bug, None, Threads::Store).0
}

/// The same, but CPU 1 unmaps its page, and its frame is free: on the lists of its CPU, or by the end of
/// the claim that compaction has on it.
pub(super) fn unmap(machine: &Machine, bug: Option<Bug>) -> Verdict {
    run_with(machine, bug, None, Threads::Unmap).0
}

/// What threads do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Threads {
    /// Both store to their pages.
    Store,
    /// One of them unmaps its page.
    Unmap,
}

/// The same, with something that goes wrong once; and how many questions were asked.
fn run_with(
    machine: &Machine,
    bug: Option<Bug>,
    mishap: Option<(u32, Mishap)>,
    threads: Threads,
) -> (Verdict, u32) {
    let map = [MemoryRange::from(range(0, FRAMES))];
    let mut config = Config::new(&map, machine.cpus());
    config.tuning.zone.min_free = Auto::Fixed(0);
    let mut books = Books::new(&Layout::new::<Simulated>(&config).expect("a small layout"));
    let mmu = Mmu::checking(machine.cpus(), Oracle::new(FRAMES as u32));
    let process = Process::with_memory(&mmu, 0..PAGES);
    let mover = PageMover::new(machine, std::slice::from_ref(&process), 0..PAGES)
        .copying_early(bug == Some(Bug::CopyBeforeFlush))
        .freeing_claimed(bug == Some(Bug::FreedByBoth));
    let mover = Rc::new(match mishap {
        Some((nth, mishap)) => mover.with_mishap(nth, mishap),
        None => mover,
    });
    let platform = Simulated::new(machine, Settings::default()).with_frames(mover.clone());
    let memory = Memory::new(platform, &config, books.as_mut()).expect("a small memory");
    let scene = Scene { memory: &memory, mmu: &mmu, process: &process, mover: &mover, threads };
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
    threads: Threads,
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
            if page == 1 && self.threads == Threads::Unmap {
                let _ = self.mover.touch(cpu, self.process, page, Store, &mut Nothing);
                self.unmap(cpu, page);
            }
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

    /// Unmaps a page; its frame goes to the lists of the CPU, unless somebody has claimed it.
    fn unmap(&self, cpu: Cpu<'_>, page: u32) {
        let mut token = self.memory.cpu(cpu.id()).expect("a CPU of its own");
        self.mover.unmap_page(cpu, self.process, page, &mut |frame| {
            // SAFETY: the frame is the process's, as a block of order 0, and nobody reaches it any more.
            let freed = unsafe { token.free_raw(frame, Order::ZERO) };
            if let Err(error) = freed {
                cpu.fail(error.to_string());
            }
        });
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
        let (used, expected) = (FRAMES - self.memory.free(), self.in_use());
        if used != expected {
            return seen(Symptom::Leaked, &format!("{used} frames in use instead of {expected}"));
        }
        Verdict::Clean
    }
}

impl Scene<'_, '_> {
    /// Frames that have to be in use in the end.
    fn in_use(&self) -> u64 {
        let unmapped = u64::from(self.threads == Threads::Unmap);
        ROOM - TABLE + u64::from(PAGES) - unmapped
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
            let (verdict, asked) = run_with(&machine(seed), None, None, Threads::Store);
            assert_eq!(verdict, Verdict::Clean, "seed {seed}");
            most = most.max(asked);
        }
        // Two pages, both ways: claiming, unmapping, remapping.
        assert!(most >= 8, "{most} questions");
    }

    #[test]
    fn whatever_goes_wrong_at_whatever_step_nothing_is_lost_or_left_behind() {
        for threads in [Threads::Store, Threads::Unmap] {
            for mishap in [Mishap::Busy, Mishap::Refused] {
                for nth in 0..16 {
                    for seed in 0..20 {
                        let mishap = Some((nth, mishap));
                        let (verdict, _) = run_with(&machine(seed), None, mishap, threads);
                        assert_eq!(verdict, Verdict::Clean, "{threads:?}, {mishap:?}, seed {seed}");
                    }
                }
            }
        }
    }
}
