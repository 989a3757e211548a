//! Migration: the library's compaction moves pages while programs store to them, pin them, write
//! them out and unmap them.
//!
//! # Theory of operation
//!
//! CPU 2 compacts. CPUs 0 and 1 each store to a page of their own, and load from the other's. With
//! an event, CPU 1 first causes it several times, mostly when a page is claimed. The schedule
//! decides at which [step](Step) of a migration the event happens. Each
//! event is counted ([`Machine::reach`]), so that the coverage can be checked. In the scenarios with
//! an event, the owner refuses each page twice just before the remapping, so there are migrations to
//! undo and to release. At the end no store is lost, no page is claimed, no pageblock is isolated, no
//! frame is missing, and a page whose write failed is dirty.
//!
//! Counts of the events in 2000 random schedules from seed 0, without a bug (-: cannot happen):
//!
//! | event                                      | claim | unmap | flush | copy | remap | undo | release |
//! |--------------------------------------------|------:|------:|------:|-----:|------:|-----:|--------:|
//! | the owner refuses the page                 |   285 |  3069 |     - |    - |  1051 |    - |       - |
//! | a program requests a pin of the page       |  2951 |  2588 |  4640 |  157 |   137 |  338 |     147 |
//! | the write of the page fails                |  4665 |  2087 |   794 |   28 |    76 |   19 |     485 |
//! | the program starts to unmap the page       |    29 |   392 |  2825 |  181 |   177 |  198 |      10 |
//! | a frame beside the page's target is freed  |  1013 |    45 |  1963 |  204 |   398 |  377 |       - |
//!
//! * The library calls the owner to claim, unmap and remap pages, and at no other step.
//! * A pin or an unmapping counts once: for the step at which the page is when the operation first
//!   holds the page-table lock. If the page is mapped at that time, the operation takes effect at once; otherwise
//!   it waits for the mapping. A page that is pinned between the owner's check and the unmapping is
//!   busy at its remapping.
//! * A failed write counts at the time of the failure; it may have begun earlier. Afterwards the
//!   page is dirty, with an error. This state belongs to the frame, so a migration must move it.
//! * The free of a frame beside a target counts for the step of the page whose target is the
//!   neighbour of the frame, read after the merge. The owner reads the targets from the library's
//!   moves. The `claim` column may be too high, by an unknown number: some of those targets may
//!   already be free again. At `release` all of them have been freed.
//!
//! Symptoms of the bugs: the library refuses the second free of a target ([`Bug::TargetFreed`]). A
//! page that was claimed when its write failed stays claimed ([`Bug::FailedStaysClaimed`]). The
//! final check of all writes finds a page without its dirty state ([`Bug::DirtyLeftBehind`]).
//!
//! | module    | job                                                     |
//! |-----------|---------------------------------------------------------|
//! | `step`    | the steps, the events, and their counts                 |
//! | `owner`   | the step of each page, and the users of its frame       |
//! | `writing` | the writeback state of pages: in progress or failed     |
//! | `events`  | the events, on CPU 1                                    |

mod events;
mod owner;
mod step;
mod writing;

pub(super) use step::{FAILED, NEIGHBOUR_FREED, PINNED, REFUSED, UNMAPPED};

use std::{cell::Cell, rc::Rc};

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
use owner::Owner;
use step::Event;

use crate::{
    engine::{Cpu, Machine},
    platform::{MetadataBuffer, Settings, Simulated},
    process::{
        Access::{self, Load, Store},
        FrameSource, Mmu, Oracle, PageMover, Process, Purpose, SeededFailure, Shooter, Symptom,
    },
};

const PAGES: u32 = 2;
const PAGEBLOCK: u64 = 512;
const FRAMES: u64 = 2 * PAGEBLOCK;
/// The frame of the page table. The frames from it to [`FREE_START`] are allocated, so the second
/// pageblock is the fuller one.
const TABLE: u64 = PAGEBLOCK;
/// The first free frame of the second pageblock.
const FREE_START: u64 = FRAMES - 8;
/// Frames of the second pageblock that are allocated at first and freed during the run, in the
/// scenario [`Event::Neighbour`]. Each follows a free frame, which is a possible target.
const NEIGHBOURS: [u64; 4] = [FREE_START + 1, FREE_START + 3, FREE_START + 5, FREE_START + 7];

/// CPUs 0 and 1 run threads. CPU 2 compacts their memory, and then allocates the range to which
/// their pages were migrated.
pub(super) fn run(machine: &Machine, bug: Option<Bug>) -> Verdict {
    run_with(machine, bug, None, None).0
}

/// As [`run`], but the owner refuses migrations at some steps.
pub(super) fn refused(machine: &Machine, bug: Option<Bug>) -> Verdict {
    run_with(machine, bug, None, Some(Event::Refused)).0
}

/// As [`run`], but CPU 1 pins pages for a short time.
pub(super) fn pinned(machine: &Machine, bug: Option<Bug>) -> Verdict {
    run_with(machine, bug, None, Some(Event::Pinned)).0
}

/// As [`run`], but CPU 1 writes pages, and the writes fail.
pub(super) fn write_fails(machine: &Machine, bug: Option<Bug>) -> Verdict {
    run_with(machine, bug, None, Some(Event::WriteFails)).0
}

/// As [`run`], but CPU 1 unmaps the pages. It frees their frames to its lists, unless a page is
/// claimed: then its frame is freed when the claim ends.
pub(super) fn unmap(machine: &Machine, bug: Option<Bug>) -> Verdict {
    run_with(machine, bug, None, Some(Event::Unmapped)).0
}

/// As [`run`], but CPU 1 frees frames next to the targets of the migrations.
pub(super) fn neighbour_freed(machine: &Machine, bug: Option<Bug>) -> Verdict {
    run_with(machine, bug, None, Some(Event::Neighbour)).0
}

/// Runs a migration with one seeded failure and one kind of event. Also returns the number of
/// requests to the mover.
fn run_with(
    machine: &Machine,
    bug: Option<Bug>,
    failure: Option<(u32, SeededFailure)>,
    event: Option<Event>,
) -> (Verdict, u32) {
    let map = [MemoryRange::from(range(0, FRAMES))];
    let mut config = Config::new(&map, machine.cpus());
    config.tuning.zone.min_free = Auto::Fixed(0);
    let mut metadata =
        MetadataBuffer::new(&Layout::new::<Simulated>(&config).expect("a small layout"));
    let mmu = Mmu::checking(machine.cpus(), Oracle::new(FRAMES as u32));
    let process = Process::with_memory(&mmu, 0..PAGES);
    let mover = PageMover::new(machine, std::slice::from_ref(&process), 0..PAGES)
        .copying_early(bug == Some(Bug::CopyBeforeFlush))
        .freeing_claimed(bug == Some(Bug::FreedByBoth));
    let mover = match failure {
        Some((nth, failure)) => mover.with_failure(nth, failure),
        None => mover,
    };
    // Before the remapping, the owner refuses each page twice: once together with the other page,
    // and once alone. So migrations are undone and released.
    let late_refusals = if event.is_some() { 2 * PAGES } else { 0 };
    let owner = Rc::new(Owner::new(machine, mover, &process, bug, late_refusals));
    let platform = Simulated::new(machine, Settings::default()).with_frames(owner.clone());
    let memory = Memory::new(platform, &config, metadata.as_mut()).expect("a small memory");
    let fixture = Fixture {
        memory: &memory,
        mmu: &mmu,
        process: &process,
        owner: &owner,
        event,
        bug,
        ended: Cell::new(false),
    };
    (fixture.run(machine), owner.mover.requests())
}

/// Frames `start` to `end`.
fn range(start: u64, end: u64) -> FrameRange {
    FrameRange::new(Pfn::new(start), Pfn::new(end)).expect("in order")
}

struct Fixture<'s, 'm> {
    memory: &'s Memory<'m, Simulated>,
    mmu: &'s Mmu,
    process: &'s Process,
    owner: &'s Owner,
    event: Option<Event>,
    bug: Option<Bug>,
    /// Whether all migrations have ended.
    ended: Cell<bool>,
}

impl<'m> Fixture<'_, 'm> {
    fn run(&self, machine: &Machine) -> Verdict {
        let take = |start, end| -> Extent<'m> {
            let taken =
                self.memory.alloc_range(range(start, end), MigrateType::Movable, &mut |_| {});
            taken.expect("all frames are free")
        };
        let _ = take(TABLE, FREE_START).into_raw();
        let _ = take(0, PAGES.into()).into_raw();
        self.process.place(TABLE as u32, 0..PAGES);
        if self.event == Some(Event::Neighbour) {
            for frame in NEIGHBOURS {
                let _ = take(frame, frame + 1).into_raw();
                self.oracle().given(frame as u32);
            }
        }
        let shooter = &Shooter::new(self.mmu, self.memory);
        let result = machine.run(vec![
            Box::new(move |cpu| {
                shooter.run_on(cpu, self.process);
                self.use_pages(cpu, 0);
            }),
            Box::new(move |cpu| {
                shooter.run_on(cpu, self.process);
                if let Some(event) = self.event {
                    self.touch(cpu, 1, Store);
                    self.trigger(cpu, event);
                }
                self.use_pages(cpu, 1);
            }),
            Box::new(|cpu| {
                self.compacting(cpu, shooter, |compactor| {
                    // Pages that are refused in the first pass may be migrated in the second.
                    for _ in 0..1 + u32::from(self.event.is_some()) {
                        compactor.compact_node(Default::default());
                    }
                    let range = range(FREE_START, FRAMES);
                    if let Ok(extent) =
                        compactor.alloc_range(range, MigrateType::Movable, &mut |_| {})
                    {
                        self.memory.free_extent(extent).expect("a block of this memory");
                    }
                });
                self.ended.set(true);
            }),
        ]);
        match result {
            Ok(()) => self.check_end_state(),
            Err(failure) => failed(self.mmu.oracle().expect("scenarios are checked"), failure),
        }
    }

    fn oracle(&self) -> &Oracle {
        self.mmu.oracle().expect("scenarios are checked")
    }

    fn touch(&self, cpu: Cpu<'_>, page: u32, access: Access) {
        let _ = self.owner.mover.touch(cpu, self.process, page, access, &mut Nothing);
    }

    /// A thread stores to its own page, and loads from the other's.
    fn use_pages(&self, cpu: Cpu<'_>, page: u32) {
        for (page, access) in
            [(page, Store), (page, Store), (PAGES - 1 - page, Load), (page, Store)]
        {
            self.touch(cpu, page, access);
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
        // SAFETY: the pages are in frames of this memory, and mapped on this machine.
        #[allow(unsafe_code)]
        let mut compactor = unsafe { self.memory.compactor(cpu.id(), self.owner, shootdown, work) };
        body(&mut compactor);
    }

    /// Checks all invariants at the end.
    fn check_end_state(&self) -> Verdict {
        if let Err((symptom, page)) = self.process.check_contents(|_, _| None) {
            return seen(symptom, &format!("page {page}"));
        }
        let claimed = self.owner.mover.claimed();
        if claimed > 0 {
            return seen(Symptom::Inconsistent, &format!("{claimed} pages are still claimed"));
        }
        if let Some(what) = self.wrong_write_state() {
            return seen(Symptom::LostWrite, &what);
        }
        self.memory.drain_all();
        let counts = self.memory.zones().map(|zone| self.memory.block_counts(zone.id));
        if counts.map(|counts| counts.pageblocks[MigrateType::Isolate as usize]).sum::<u64>() > 0 {
            return seen(Symptom::Inconsistent, "a pageblock is still isolated");
        }
        if let Err(violation) = self.memory.check() {
            return seen(Symptom::Inconsistent, &violation.to_string());
        }
        let (used, expected) = (FRAMES - self.memory.free(), self.in_use());
        if used != expected {
            return seen(Symptom::Leaked, &format!("{used} frames in use instead of {expected}"));
        }
        Verdict::Clean
    }
}

impl Fixture<'_, '_> {
    /// The first lost or misplaced state of a page whose write failed.
    fn wrong_write_state(&self) -> Option<String> {
        let writing = &self.owner.writing;
        let frame_of = |page| self.process.space().entry(page).present().map(|it| it.frame);
        let has_page = |frame| (0..PAGES).any(|page| frame_of(page) == Some(frame));
        if let Some(page) = writing.lost_failure(frame_of) {
            return Some(format!("page {page} was not written, and is not dirty"));
        }
        let frame = writing.left_behind(has_page)?;
        Some(format!("frame {frame} is dirty, and no page is in it"))
    }

    /// The number of frames that have to be in use at the end.
    fn in_use(&self) -> u64 {
        let pages = if self.event == Some(Event::Unmapped) { 0 } else { PAGES };
        FREE_START - TABLE + u64::from(pages)
    }
}

/// A source without frames, because every page is mapped from the start.
struct Nothing;

impl FrameSource for Nothing {
    fn take(&mut self, _: Cpu<'_>, _: Purpose) -> Option<u32> {
        None
    }

    fn give(&mut self, _: Cpu<'_>, _: &[u32]) {}
}

#[cfg(test)]
mod tests;
