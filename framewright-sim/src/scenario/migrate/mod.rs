//! Migration: the library's compaction moves pages while programs store to them, and while all kinds of
//! things happen to them.
//!
//! # Theory of operation
//!
//! CPU 2 compacts, CPU 0 stores to pages, CPU 1 stores to one and makes something happen, as soon as
//! pages are claimed. At which [step](Step) of a page's way that is, the schedule decides; it is counted
//! ([`Machine::reach`]), so that nobody has to believe that it was tried. So that there is always
//! something to undo and to release, the owner refuses each page twice when all is ready for it.
//! In the end no store is lost, no page claimed, no pageblock withheld, no frame missing, and what could
//! not be written is dirty.
//!
//! How often it happened in 2000 random schedules, from seed 0, without a bug:
//!
//! | what happens                      | claim | unmap | flush | copy | remap | undo | release |
//! |-----------------------------------|------:|------:|------:|-----:|------:|-----:|--------:|
//! | the owner refuses                 |   285 |  3069 |     - |    - |  1051 |    - |       - |
//! | somebody comes to pin the page    |  2951 |  2588 |  4640 |  157 |   137 |  338 |     147 |
//! | writing the page fails            |  4665 |  2087 |   794 |   28 |    76 |   19 |     485 |
//! | its program comes to unmap it     |    29 |   392 |  2825 |  181 |   177 |  198 |      10 |
//! | a frame beside its target is free |  1013 |    45 |  1963 |  204 |   398 |  377 |       - |
//!
//! * The owner is asked when pages are claimed, unmapped and remapped, and nowhere else.
//! * Who comes to pin or unmap a page counts once, where it is at first, under the lock of its page table.
//!   If it is mapped then, it is pinned or unmapped then; if not, who came waits until it is. What was
//!   pinned between the owner's look and the unmapping is busy when it is to be remapped.
//! * Writing a page may have begun earlier; the moment at which it fails counts. The page is dirty
//!   afterwards, with an error, which is kept with its frame, and must be known of the frame that the page
//!   is in at the end.
//! * A frame beside a target counts where the page is when that frame has joined the free ones. Targets
//!   are the library's: the owner sees them in the moves that it gets. So at `claim` some may have gone
//!   back a moment ago: how many is not known. At a release they all have.
//!
//! What the bugs show: a target that is freed is refused by the library when it is freed once more; a
//! failure that ends no claim shows in claims that are left, and only for
//! pages that were claimed when writing them failed; a page that has left its dirtiness behind, in the
//! look at all that was ever written.
//!
//! | module    | job                                                     |
//! |-----------|---------------------------------------------------------|
//! | `step`    | the steps, what may happen, and what is counted         |
//! | `owner`   | how far pages are, and who uses them where they are     |
//! | `writing` | what is known of pages that cannot be written           |
//! | `happen`  | what CPU 1 does                                         |

mod happen;
mod owner;
mod step;
mod writing;

pub(super) use step::{BESIDE_TARGET, FAILED, PINNED, REFUSED, UNMAPPED};

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
    platform::{Books, Settings, Simulated},
    process::{
        Access::{self, Load, Store},
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
/// Free frames of the second pageblock that are not free at once, where there are such.
const BESIDE: [u64; 4] = [ROOM + 1, ROOM + 3, ROOM + 5, ROOM + 7];

/// CPUs 0 and 1 run threads, CPU 2 compacts the memory that they use, and then takes the range that
/// their pages have moved to.
pub(super) fn run(machine: &Machine, bug: Option<Bug>) -> Verdict {
    run_with(machine, bug, None, None).0
}

/// The same, and now and then the owner refuses to let pages go on.
pub(super) fn refused(machine: &Machine, bug: Option<Bug>) -> Verdict {
    run_with(machine, bug, None, Some(Event::Refused)).0
}

/// The same, and CPU 1 pins pages for a moment.
pub(super) fn pinned(machine: &Machine, bug: Option<Bug>) -> Verdict {
    run_with(machine, bug, None, Some(Event::Pinned)).0
}

/// The same, and CPU 1 writes pages, which fails.
pub(super) fn write_fails(machine: &Machine, bug: Option<Bug>) -> Verdict {
    run_with(machine, bug, None, Some(Event::WriteFails)).0
}

/// The same, and CPU 1 unmaps the pages. Their frames are free: on the lists of its CPU, or by the end of
/// the claim that compaction has on them.
pub(super) fn unmap(machine: &Machine, bug: Option<Bug>) -> Verdict {
    run_with(machine, bug, None, Some(Event::Unmapped)).0
}

/// The same, and CPU 1 frees what is beside the frames that pages move to.
pub(super) fn beside(machine: &Machine, bug: Option<Bug>) -> Verdict {
    run_with(machine, bug, None, Some(Event::Beside)).0
}

/// The same, with something that goes wrong once; and how many questions were asked.
fn run_with(
    machine: &Machine,
    bug: Option<Bug>,
    mishap: Option<(u32, Mishap)>,
    event: Option<Event>,
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
    let mover = match mishap {
        Some((nth, mishap)) => mover.with_mishap(nth, mishap),
        None => mover,
    };
    // So that there is something to undo, and to release: each of them, together and alone.
    let late_refusals = if event.is_some() { 2 * PAGES } else { 0 };
    let owner = Rc::new(Owner::new(machine, mover, &process, bug, late_refusals));
    let platform = Simulated::new(machine, Settings::default()).with_frames(owner.clone());
    let memory = Memory::new(platform, &config, books.as_mut()).expect("a small memory");
    let scene = Scene {
        memory: &memory,
        mmu: &mmu,
        process: &process,
        owner: &owner,
        event,
        bug,
        ended: Cell::new(false),
    };
    (scene.play(machine), owner.mover.asked())
}

/// Frames `start` to `end`.
fn range(start: u64, end: u64) -> FrameRange {
    FrameRange::new(Pfn::new(start), Pfn::new(end)).expect("in order")
}

struct Scene<'s, 'm> {
    memory: &'s Memory<'m, Simulated>,
    mmu: &'s Mmu,
    process: &'s Process,
    owner: &'s Owner,
    event: Option<Event>,
    bug: Option<Bug>,
    /// Nothing moves any more.
    ended: Cell<bool>,
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
        if self.event == Some(Event::Beside) {
            for frame in BESIDE {
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
                    self.happen(cpu, event);
                }
                self.use_pages(cpu, 1);
            }),
            Box::new(|cpu| {
                self.compacting(cpu, shooter, |compactor| {
                    // In the first run pages may be refused that move in the second.
                    for _ in 0..1 + u32::from(self.event.is_some()) {
                        compactor.compact_node(Default::default());
                    }
                    let range = range(ROOM, FRAMES);
                    if let Ok(extent) =
                        compactor.alloc_range(range, MigrateType::Movable, &mut |_| {})
                    {
                        self.memory.free_extent(extent).expect("it is this memory's");
                    }
                });
                self.ended.set(true);
            }),
        ]);
        match result {
            Ok(()) => self.look_around(),
            Err(failure) => failed(self.mmu.oracle().expect("scenarios are checked"), failure),
        }
    }

    fn oracle(&self) -> &Oracle {
        self.mmu.oracle().expect("scenarios are checked")
    }

    fn touch(&self, cpu: Cpu<'_>, page: u32, access: Access) {
        let _ = self.owner.mover.touch(cpu, self.process, page, access, &mut Nothing);
    }

    /// A thread stores to a page of its own, and looks at the other's.
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

    /// Everything that must hold when all is over.
    fn look_around(&self) -> Verdict {
        if let Err((symptom, page)) = self.process.check_contents(|_, _| None) {
            return seen(symptom, &format!("page {page}"));
        }
        let claimed = self.owner.mover.claimed();
        if claimed > 0 {
            return seen(Symptom::Books, &format!("{claimed} pages are claimed still"));
        }
        if let Some(what) = self.forgets_writes() {
            return seen(Symptom::LostWrite, &what);
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
    /// What is not known any more of pages that could not be written, or of the wrong frames.
    fn forgets_writes(&self) -> Option<String> {
        let writing = &self.owner.writing;
        let frame_of = |page| self.process.space().entry(page).present().map(|it| it.frame);
        let has_page = |frame| (0..PAGES).any(|page| frame_of(page) == Some(frame));
        if let Some(page) = writing.forgotten(frame_of) {
            return Some(format!("page {page} was not written, and is not dirty"));
        }
        let frame = writing.left_behind(has_page)?;
        Some(format!("frame {frame} is dirty, and no page is in it"))
    }

    /// Frames that have to be in use in the end.
    fn in_use(&self) -> u64 {
        let pages = if self.event == Some(Event::Unmapped) { 0 } else { PAGES };
        ROOM - TABLE + u64::from(pages)
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
mod tests;
