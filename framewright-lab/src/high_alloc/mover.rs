//! Compaction's questions: which pages may move, and moving them.
//!
//! A page of a file is isolated from the lists of reclaim for as long as it is claimed; a page of a
//! program is not on them, since there is nowhere to swap to. Who lets go of a claimed page marks it,
//! and the claim's end gives the frame back.

#![allow(unsafe_code)]

use framewright::{
    FrameRange, Pfn,
    migrate::{ClaimEnd, Claims, Effort, Locking, MigrateMode, Move, Mover},
    reclaim::{Lru, LruList, PageKind},
    tlb::{FlushBatch, Flushed},
};

use super::{
    files::FileId,
    frames::{ACTIVE, CLAIMED, Frame, GONE, Holds, LOCKED, WRITEBACK},
    kernel::{State, pfn},
    world::{OnCpu, World},
};

/// One page in so many does not move: somebody has it for a moment, and waiting for that does not pay.
/// Kernels fail, after all tries, to move 1.2 % of what they have begun to (Linux 6.1, measured).
const BUSY: u64 = 80;
/// How long somebody has a page. A guess: longer than all tries to move it take.
const HELD_NS: u64 = 10_000_000;
/// Frames that somebody has at once: pages that came one after the other, as read from a file or on their
/// way to a list, lie side by side. A guess.
const HELD_TOGETHER: u64 = 2;

/// See the module.
pub(super) struct Moves<'o, 'm, W: World> {
    state: &'o State<'m, W>,
    lru: Lru<'o, 'm, W::Platform>,
    world: &'o W,
}

impl<'o, 'm, W: World> Moves<'o, 'm, W> {
    pub(super) fn new(
        state: &'o State<'m, W>,
        lru: Lru<'o, 'm, W::Platform>,
        world: &'o W,
    ) -> Self {
        Self { state, lru, world }
    }

    fn frame(&self, pfn: Pfn) -> &'o Frame {
        self.state.frames.at(pfn.get() as u32)
    }

    fn cpu(&self) -> W::Cpu {
        self.world.current().expect("pages move on a CPU")
    }

    /// Whether somebody has a page just now.
    fn is_held(&self, cpu: W::Cpu, pfn: Pfn) -> bool {
        let moment = cpu.now() / self.world.ticks(HELD_NS);
        let mut random = fastrand::Rng::with_seed((pfn.get() / HELD_TOGETHER) << 32 ^ moment);
        random.u64(..BUSY) == 0
    }

    /// Claims what can be of some frames.
    fn claim_each(&self, frames: FrameRange, claims: &mut Claims<'_>) {
        let cpu = self.cpu();
        cpu.step();
        claims.take_pages(frames, |pfn| {
            cpu.work(self.state.costs.look);
            self.claim_one(pfn)
        });
    }

    /// Whether a page is claimed now.
    fn claim_one(&self, pfn: Pfn) -> bool {
        let frame = self.frame(pfn);
        let claimed = match frame.holds() {
            _ if frame.is(CLAIMED | LOCKED | GONE) => false,
            Holds::Anonymous { .. } => true,
            Holds::Cached { .. } => {
                if self.lru.list_of(pfn) == Some(LruList::ActiveFile) {
                    frame.mark(ACTIVE);
                }
                self.lru.isolate(pfn) && self.is_still_there(pfn)
            }
            _ => false,
        };
        if claimed {
            frame.mark(CLAIMED);
        } else {
            frame.unmark(ACTIVE);
        }
        claimed
    }

    /// Whether an isolated page is one to claim. Its file may have been truncated meanwhile: then it is
    /// the truncating CPU's if that has not abandoned it yet, and else its frame is the claim's.
    fn is_still_there(&self, pfn: Pfn) -> bool {
        let frame = self.frame(pfn);
        if frame.holds() != Holds::Nothing {
            return true;
        }
        let theirs = self.lru.put_back(pfn);
        if !theirs {
            frame.mark(GONE);
        }
        !theirs
    }

    /// Takes a page whose claim ends off the lists of reclaim for good, if it is on them.
    fn leave_lists(&self, pfn: Pfn) {
        // SAFETY: the page is isolated on behalf of its claim, and nobody uses its frame any more.
        let _ = unsafe { self.lru.abandon(pfn) };
        let theirs = self.lru.put_back(pfn);
        debug_assert!(!theirs, "an abandoned page is its isolator's");
    }

    /// The owner of a claimed page has let go of it: the frame is the library's.
    fn bury(&self, at: &mut Move, frame: &Frame) {
        if matches!(frame.holds(), Holds::Cached { .. }) {
            self.leave_lists(at.from());
        }
        frame.clear();
        at.set_gone();
    }

    fn unmap_one(
        &self,
        at: &mut Move,
        effort: &Effort,
        batch: &mut FlushBatch<'_, '_, W::Platform>,
    ) {
        let (cpu, frame) = (self.cpu(), self.frame(at.from()));
        cpu.work(self.state.costs.unmap);
        if frame.is(GONE) {
            return self.bury(at, frame);
        }
        if frame.is(WRITEBACK) && effort.mode != MigrateMode::Sync {
            return at.set_refused();
        }
        if frame.is(WRITEBACK) || self.is_held(cpu, at.from()) {
            return at.set_busy();
        }
        if let Holds::Anonymous { builder, index } = frame.holds() {
            let space = &self.state.programs[builder as usize].space;
            self.world.unmap(cpu, space, index, at.from(), batch);
        }
        frame.mark(LOCKED);
        at.set_unmapped();
    }

    fn release_one(&self, at: &mut Move) {
        let frame = self.frame(at.from());
        if frame.is(GONE) {
            return self.bury(at, frame);
        }
        frame.unmark(CLAIMED | ACTIVE);
        if matches!(frame.holds(), Holds::Cached { .. }) && !self.lru.put_back(at.from()) {
            // Abandoned while it was claimed, which nobody does here.
            frame.clear();
            at.set_gone();
        }
    }

    fn remap_one(&self, at: &mut Move) {
        let (cpu, frame) = (self.cpu(), self.frame(at.from()));
        cpu.work(self.state.costs.map);
        if frame.is(GONE) {
            return at.set_refused();
        }
        let (from, to) = (at.from(), at.to().get() as u32);
        let holds = frame.holds();
        let flags = frame.flags() & !(CLAIMED | LOCKED | ACTIVE);
        self.state.frames.at(to).set(holds, flags);
        match holds {
            Holds::Anonymous { builder, index } => {
                self.state.programs[builder as usize].pages.borrow_mut()[index as usize] = to;
            }
            Holds::Cached { file, index } => {
                self.state.files.relocate(FileId(file), index, to);
                let active = frame.is(ACTIVE);
                frame.clear();
                self.leave_lists(from);
                self.lru.add(cpu.id(), pfn(to), PageKind::File);
                if active {
                    self.lru.activate(cpu.id(), pfn(to));
                }
            }
            _ => unreachable!("a page that moves is a program's or a file's"),
        }
        frame.clear();
        self.world.has_moved(from.get() as u32, to);
        at.set_moved();
    }
}

// SAFETY: what is claimed is a page that was allocated as a block of order 0; a flag of its frame says
// that it is, and whoever lets go of such a page leaves its frame to the end of the claim. Programs
// reach their pages through the frames' numbers, which change here.
unsafe impl<W: World> Mover<W::Platform> for Moves<'_, '_, W> {
    fn claim(&self, frames: FrameRange, _: &Effort, claims: &mut Claims<'_>) -> ClaimEnd {
        self.world.inside(|| self.claim_each(frames, claims));
        ClaimEnd::Done
    }

    fn unmap(
        &self,
        moves: &mut [Move],
        effort: &Effort,
        _: Locking,
        batch: &mut FlushBatch<'_, '_, W::Platform>,
    ) {
        self.world.inside(|| moves.iter_mut().for_each(|at| self.unmap_one(at, effort, batch)));
    }

    fn remap(&self, moves: &mut [Move], _: &Effort, _: &Flushed<'_>) {
        self.world.inside(|| moves.iter_mut().for_each(|at| self.remap_one(at)));
    }

    fn undo(&self, moves: &[Move]) {
        self.world.inside(|| moves.iter().for_each(|at| self.frame(at.from()).unmark(LOCKED)));
    }

    fn release(&self, moves: &mut [Move]) {
        self.world.inside(|| moves.iter_mut().for_each(|at| self.release_one(at)));
    }
}
