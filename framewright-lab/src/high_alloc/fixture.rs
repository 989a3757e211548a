//! A small simulated machine for tests of the mover: CPU 0 moves pages, CPU 1 owns them. The
//! contents of a frame name its page, so that a misplaced page is detected.

#![allow(unsafe_code)]

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

use framewright::{
    Config, FrameRange, Layout, Memory, MemoryRange, MigrateType, Pfn, RangeError, SideTables,
    frame::PAGEBLOCK_FRAMES,
    migrate::{ClaimEnd, Claims, Effort, Locking, MigrateMode, Move, Mover},
    reclaim::{LruList, Reclaim},
    tlb::{Flushed, Unmapping},
};
use framewright_sim::{
    engine::{Cpu, Failure, Machine, Options, Schedule, WaitQueue},
    file::FileCosts,
    platform::{Frames, MetadataBuffer, Settings, Simulated},
    process::{Costs, Mmu, Process, Shooter},
};

use super::{
    builder::{Builder, Tree},
    files::{FileId, Files},
    frames::Holds,
    io::PAGE,
    kernel::{CpuContext, Kernel, State, pfn},
    mover::Moves,
    owner::Owner,
    program::{Program, SWAPPED},
    simulated::SimulatedWorld,
    world::World,
};

const FRAMES: u64 = 16 * PAGEBLOCK_FRAMES as u64;
/// Pages of each file, and of the program.
pub(super) const PAGES: u32 = 64;
/// A file that was read once, and one that is read repeatedly.
pub(super) const FRESH: FileId = FileId(0);
pub(super) const USED: FileId = FileId(1);

type Sim<'s, 'm> = SimulatedWorld<'s, 'm>;
/// The context of a CPU of such a machine.
pub(super) type SimContext<'c, 's, 'm> = CpuContext<'c, 's, 'm, Sim<'s, 'm>>;
/// The mover of such a machine.
type SimMoves<'s, 'm> = Moves<'s, 'm, Sim<'s, 'm>>;

/// The step of a migration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// Before the page is unmapped, in this mode.
    Unmap(MigrateMode),
    /// After the copy, before the page is mapped to its new frame.
    Remap,
    /// Before a copy is undone.
    Undo,
    /// Before the claim ends.
    Release,
}

/// Called for each page at each step, before the mover. It may end the migration of the page.
pub(super) type StepHook<'a> = &'a dyn Fn(Cpu<'_>, Step, &mut Move);

/// The mover with a hook at each step.
struct HookedMover<'a, 's, 'm> {
    moves: &'a SimMoves<'s, 'm>,
    world: &'a Sim<'s, 'm>,
    hook: StepHook<'a>,
}

impl HookedMover<'_, '_, '_> {
    /// Whether the migration of a page continues.
    fn passes(&self, step: Step, at: &mut Move) -> bool {
        if let Some(cpu) = self.world.current() {
            (self.hook)(cpu, step, at);
        }
        at.failure().is_none()
    }
}

// SAFETY: each result is the mover's, or leaves the page in its frame.
unsafe impl Mover<Simulated> for HookedMover<'_, '_, '_> {
    fn claim(&self, frames: FrameRange, effort: &Effort, claims: &mut Claims<'_>) -> ClaimEnd {
        self.moves.claim(frames, effort, claims)
    }

    fn unmap(
        &self,
        moves: &mut [Move],
        effort: &Effort,
        locking: Locking,
        batch: &mut Unmapping<'_, '_, '_, Simulated>,
    ) {
        for at in moves {
            if self.passes(Step::Unmap(effort.mode), at) {
                self.moves.unmap(std::slice::from_mut(at), effort, locking, batch);
            }
        }
    }

    fn remap(&self, moves: &mut [Move], effort: &Effort, flushed: &Flushed<'_>) {
        for at in moves {
            if self.passes(Step::Remap, at) {
                self.moves.remap(std::slice::from_mut(at), effort, flushed);
            }
        }
    }

    fn undo(&self, moves: &[Move]) {
        moves.iter().for_each(|at| _ = self.passes(Step::Undo, &mut at.clone()));
        self.moves.undo(moves);
    }

    fn release(&self, moves: &mut [Move]) {
        moves.iter().for_each(|at| _ = self.passes(Step::Release, &mut at.clone()));
        self.moves.release(moves);
    }
}

/// The simulated contents of frames.
pub(super) struct Contents {
    names: Vec<Cell<u64>>,
    /// Number of frames that are copied before a copy panics.
    pub(super) left: Cell<u64>,
}

impl Frames for Contents {
    fn copy(&self, to: Pfn, from: Pfn) {
        let left = self.left.get().checked_sub(1).expect("the machine breaks");
        self.left.set(left);
        self.names[to.get() as usize].set(self.names[from.get() as usize].get());
    }
}

/// The number of a page, as stored in its frame.
fn name(holds: Holds) -> Option<u64> {
    match holds {
        Holds::Cached { file, index } => Some(1 << 60 | u64::from(file) << 32 | u64::from(index)),
        Holds::Anonymous { builder, index } => {
            Some(2 << 60 | u64::from(builder) << 32 | u64::from(index))
        }
        _ => None,
    }
}

/// The state that both CPUs use.
pub(super) struct Fixture<'s, 'm> {
    pub(super) kernel: &'s Kernel<'s, 'm, Sim<'s, 'm>>,
    pub(super) contents: &'s Contents,
    pub(super) moves: &'s SimMoves<'s, 'm>,
    builder: RefCell<Builder<'m>>,
}

/// CPU 1 allocates memory for all pages; then CPU 0 runs `moving`, and CPU 1 `owning`. After both,
/// `look` examines the state.
pub(super) fn play(
    schedule: Schedule,
    hook: StepHook<'_>,
    moving: impl Fn(&Fixture<'_, '_>, Cpu<'_>),
    owning: impl for<'s, 'm> Fn(&Fixture<'s, 'm>, &mut SimContext<'_, 's, 'm>),
    look: impl Fn(&Fixture<'_, '_>, Result<(), Failure>),
) {
    let machine = Machine::new(2, Options { schedule, ..Options::default() });
    let map = [MemoryRange::from(frames(0, FRAMES))];
    let side_tables = SideTables::default().with_lru();
    let config = Config::new(&map, machine.cpus()).with_side_tables(side_tables);
    let mut metadata =
        MetadataBuffer::new(&Layout::new::<Simulated>(&config).expect("a small layout"));
    let names = (0..FRAMES).map(|_| Cell::new(0)).collect();
    let contents = Rc::new(Contents { names, left: Cell::new(u64::MAX) });
    let platform = Simulated::new(&machine, Settings::default()).with_frames(contents.clone());
    let memory = Memory::new(platform, &config, metadata.as_mut()).expect("a small memory");
    let mmu = Mmu::measuring(machine.cpus(), Costs::default());
    let mut files = Files::default();
    let tree = Tree { tree: vec![files.create(PAGES), files.create(PAGES)], objects: Vec::new() };
    let programs = (0..2).map(|_| Program::new(Process::new(&mmu))).collect();
    let random = fastrand::Rng::with_seed(1);
    let state = State::new(FRAMES, files, programs, FileCosts::FREE, random);
    let world = SimulatedWorld::new(&machine, Shooter::new(&mmu, &memory));
    let owner = Owner::new(&state, &world);
    // SAFETY: the workload has its frames from this memory, and maps them only in its world.
    let reclaim = unsafe { Reclaim::new(&memory, &owner, world.shootdown()) }.expect("LRU lists");
    let moves = Moves::new(&state, reclaim.lru(), &world);
    let hooked = HookedMover { moves: &moves, world: &world, hook };
    let kernel = Kernel::new(&world, &memory, &state, reclaim, &hooked);
    let builder = RefCell::new(Builder::new(0, &tree, 1));
    let fixture = Fixture { kernel: &kernel, contents: &contents, moves: &moves, builder };
    let begun = Signal::default();
    let ended = machine.run(vec![
        Box::new(|cpu| {
            begun.wait(cpu);
            moving(&fixture, cpu);
        }),
        Box::new(|cpu| {
            let mut on = CpuContext::new(&kernel, kernel.current());
            fixture.begin(&mut on);
            begun.raise(cpu);
            owning(&fixture, &mut on);
        }),
    ]);
    look(&fixture, ended);
}

/// A flag. One CPU sets it, another waits for it. The wait advances no clock.
#[derive(Default)]
pub(super) struct Signal {
    is_raised: Cell<bool>,
    waiting: WaitQueue,
}

impl Signal {
    pub(super) fn raise(&self, cpu: Cpu<'_>) {
        self.is_raised.set(true);
        self.waiting.wake_all(cpu);
    }

    pub(super) fn is_raised(&self) -> bool {
        self.is_raised.get()
    }

    pub(super) fn wait(&self, cpu: Cpu<'_>) {
        while !self.is_raised() {
            cpu.wait_on(&self.waiting);
        }
    }
}

fn frames(start: u64, end: u64) -> FrameRange {
    FrameRange::new(Pfn::new(start), Pfn::new(end)).expect("in order")
}

impl<'s, 'm> Fixture<'s, 'm> {
    /// Reads the files, and has the program use its pages.
    fn begin(&self, on: &mut SimContext<'_, 's, 'm>) {
        for file in [FRESH, USED, USED, USED] {
            assert!(on.read(file).is_ok(), "a read failed although there is memory");
        }
        let State { frames, programs, .. } = self.kernel.state;
        for index in 0..PAGES {
            let frame =
                on.page_frame(PAGE).ok().expect("no frame was allocated although there is memory");
            programs[0].pages.borrow_mut().push(frame);
            self.kernel.own_page(on.cpu.id(), frame, 0, index);
        }
        for (frame, content) in (0..).zip(&self.contents.names) {
            content.set(name(frames.at(frame).holds()).unwrap_or(0));
        }
    }

    /// The frames of a file's pages.
    pub(super) fn frames_of(&self, file: FileId) -> Vec<u32> {
        (0..PAGES).filter_map(|index| self.kernel.state.files.frame(file, index)).collect()
    }

    /// The frames of the program's mapped pages.
    pub(super) fn program_frames(&self) -> Vec<u32> {
        let pages = self.kernel.state.programs[0].pages.borrow();
        pages.iter().copied().filter(|&frame| frame != SWAPPED).collect()
    }

    /// Frames of all pages, in order.
    pub(super) fn all_frames(&self) -> Vec<u32> {
        let mut all = [self.frames_of(FRESH), self.frames_of(USED), self.program_frames()].concat();
        all.sort_unstable();
        all
    }

    /// Moves all pages out of the pageblocks that they are in. Returns the frames of pages that did
    /// not move.
    pub(super) fn move_all(&self, cpu: Cpu<'_>) -> Vec<u32> {
        let all = self.all_frames();
        let (first, last) = (u64::from(all[0]), u64::from(all[all.len() - 1]));
        let pageblock = PAGEBLOCK_FRAMES as u64;
        let range = frames(first / pageblock * pageblock, (last + 1).next_multiple_of(pageblock));
        let mut stayed = Vec::new();
        let taken = self.kernel.compacting(cpu.id(), |compactor| {
            compactor.alloc_range(range, MigrateType::Movable, &mut |frames: FrameRange| {
                stayed.extend(frames.start().get() as u32..frames.end().get() as u32);
            })
        });
        match taken {
            Ok(extent) => self.kernel.memory.free_extent(extent).expect("it is this memory's"),
            Err(RangeError::Busy { frames }) => assert_eq!(frames, stayed.len() as u64),
            Err(other) => panic!("{other}"),
        }
        stayed
    }

    /// The program exits.
    pub(super) fn end_program(&self, on: &mut SimContext<'_, 's, 'm>) {
        self.builder.borrow_mut().end(on);
    }

    /// Checks that every page is in a frame with the right contents and LRU list, that nothing is
    /// locked, claimed or isolated, and that no frame is lost or free twice.
    pub(super) fn check(&self) {
        let Kernel { state, reclaim, .. } = self.kernel;
        reclaim.lru().drain_all();
        for (file, list) in [(FRESH, LruList::InactiveFile), (USED, LruList::ActiveFile)] {
            for index in 0..PAGES {
                let Some(frame) = state.files.frame(file, index) else { continue };
                self.holds(frame, Holds::Cached { file: file.0, index });
                assert_eq!(reclaim.lru().list_of(pfn(frame)), Some(list), "{file:?}, {index}");
            }
        }
        let pages = state.programs[0].pages.borrow();
        for (index, &frame) in (0..).zip(&*pages).filter(|&(_, &frame)| frame != SWAPPED) {
            self.holds(frame, Holds::Anonymous { builder: 0, index });
            let list = reclaim.lru().list_of(pfn(frame));
            assert!(matches!(list, Some(LruList::InactiveAnon | LruList::ActiveAnon)), "{list:?}");
        }
        self.kernel.check().expect("all is in order");
    }

    fn holds(&self, frame: u32, what: Holds) {
        assert_eq!(self.kernel.state.frames.at(frame).holds(), what, "in frame {frame}");
        assert_eq!(Some(self.contents.names[frame as usize].get()), name(what), "{frame}");
    }
}
