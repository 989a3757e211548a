//! The pages of processes as their embedder moves them for the library: unmapped behind an entry that
//! says so, found in their new frames afterwards, or where they were.

#![allow(unsafe_code)]

use std::{
    cell::{Cell, RefCell},
    ops::Range,
};

use framewright::{
    FrameRange, Order, Pfn,
    migrate::{ClaimEnd, Claims, Effort, Locking, Move, Mover},
    tlb::{FlushBatch, Flushed},
};

use super::{Access, FrameSource, Mapping, Process, Pte, Token, Trouble};
use crate::{
    engine::{Cpu, Machine},
    platform::{Frames, Simulated},
};

/// What goes wrong once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mishap {
    /// A page is busy for now; claiming finds somebody's lock.
    Busy,
    /// A page does not move at all; claiming finds that too many are claimed.
    Refused,
}

/// The pages of some processes, each of which is mapped once.
pub struct PageMover {
    machine: Machine,
    processes: Vec<Process>,
    pages: Range<u32>,
    claims: RefCell<Vec<Claim>>,
    /// Questions that were answered so far.
    asked: Cell<u32>,
    /// Which question is answered so, counted from 0.
    mishap: Option<(u32, Mishap)>,
    copies_early: bool,
    frees_claimed: bool,
}

/// A page that is claimed.
struct Claim {
    process: usize,
    page: u32,
    frame: u32,
    /// What mapped it, while nothing does.
    was: Option<Mapping>,
    /// Its program has unmapped it: the claim's end gives the frame back.
    gone: bool,
}

impl PageMover {
    /// Moves what `processes` have at `pages`.
    #[must_use]
    pub fn new(machine: &Machine, processes: &[Process], pages: Range<u32>) -> Self {
        Self {
            machine: machine.clone(),
            processes: processes.to_vec(),
            pages,
            claims: RefCell::default(),
            asked: Cell::new(0),
            mishap: None,
            copies_early: false,
            frees_claimed: false,
        }
    }

    /// The same, with something that goes wrong at the `nth` question.
    #[must_use]
    pub fn with_mishap(self, nth: u32, mishap: Mishap) -> Self {
        Self { mishap: Some((nth, mishap)), ..self }
    }

    /// A mistake: copies a page when it is unmapped, and not when that was flushed.
    #[must_use]
    pub(crate) fn copying_early(self, early: bool) -> Self {
        Self { copies_early: early, ..self }
    }

    /// A mistake: who unmaps a page that is claimed frees its frame, and so does the claim.
    #[must_use]
    pub(crate) fn freeing_claimed(self, frees: bool) -> Self {
        Self { frees_claimed: frees, ..self }
    }

    /// A program unmaps a page of its own, and waits for it if it is on the move. `comes` is told where
    /// it is when the program comes. `free` gets its frame; or whoever has claimed the page gives that
    /// back.
    pub fn unmap_page(
        &self,
        cpu: Cpu<'_>,
        process: &Process,
        page: u32,
        comes: impl FnOnce(u32),
        free: &mut dyn FnMut(Pfn),
    ) {
        let space = process.space();
        process.disown(cpu, page..page + 1);
        let mut comes = Some(comes);
        let taken = loop {
            let taken = space.locked(cpu, || {
                let pte = space.pte(cpu, page);
                if let (Some(comes), Some(frame)) = (comes.take(), pte.frame()) {
                    comes(frame);
                }
                match pte {
                    Pte::Migrating(_) => None,
                    _ => Some(space.take_pte(cpu, page).present()),
                }
            });
            match taken {
                Some(mapping) => break mapping,
                None => cpu.relax(),
            }
        };
        if taken.is_some() {
            space.flush(cpu, 1);
        }
        process.unreachable(page..page + 1);
        let Some(Mapping { frame, .. }) = taken else { return };
        if !self.let_go(frame) || self.frees_claimed {
            self.freed(frame);
            free(Pfn::new(frame.into()));
        }
    }

    /// Leaves a frame to its claim, if there is one.
    fn let_go(&self, frame: u32) -> bool {
        let mut claims = self.claims.borrow_mut();
        let claim = claims.iter_mut().find(|claim| claim.frame == frame);
        claim.map(|claim| claim.gone = true).is_some()
    }

    /// A frame is about to be given back. When a run has failed nobody looks.
    fn freed(&self, frame: u32) {
        let oracle = self.processes[0].space().mmu().oracle();
        if let (Some(oracle), Some(cpu)) = (oracle, self.machine.current()) {
            oracle.freed(cpu, frame);
        }
    }

    /// Whether the program has unmapped a claimed page meanwhile: then its claim has ended.
    fn is_gone(&self, at: &mut Move) -> bool {
        let nth = self.position(at);
        if !self.claims.borrow()[nth].gone {
            return false;
        }
        let Claim { frame, .. } = self.claims.borrow_mut().remove(nth);
        at.set_gone();
        self.freed(frame);
        true
    }

    /// A program's access, which waits for pages on the move.
    ///
    /// # Errors
    ///
    /// [`Trouble`].
    pub fn touch(
        &self,
        cpu: Cpu<'_>,
        process: &Process,
        page: u32,
        access: Access,
        frames: &mut dyn FrameSource,
    ) -> Result<Token, Trouble> {
        loop {
            match process.touch(cpu, page, access, frames) {
                Err(Trouble::Elsewhere(Pte::Migrating(_))) => cpu.relax(),
                result => return result,
            }
        }
    }

    /// Pages that somebody has claimed.
    #[must_use]
    pub fn claimed(&self) -> usize {
        self.claims.borrow().len()
    }

    /// Whether the page in a frame is claimed.
    pub(crate) fn has_claimed(&self, frame: u32) -> bool {
        self.claims.borrow().iter().any(|claim| claim.frame == frame)
    }

    /// Questions that were answered so far.
    #[must_use]
    pub fn asked(&self) -> u32 {
        self.asked.get()
    }

    fn cpu(&self) -> Cpu<'_> {
        self.machine.current().expect("pages move on a CPU")
    }

    fn ask(&self) -> Option<Mishap> {
        let nth = self.asked.replace(self.asked.get() + 1);
        self.mishap.filter(|(at, _)| *at == nth).map(|(_, mishap)| mishap)
    }

    /// Whether something goes wrong with a page: it is told.
    fn goes_wrong(&self, at: &mut Move) -> bool {
        match self.ask() {
            None => return false,
            Some(Mishap::Busy) => at.set_busy(),
            Some(Mishap::Refused) => at.set_refused(),
        }
        true
    }

    /// The pages in a range of frames that nobody has claimed.
    fn find(&self, frames: FrameRange) -> Vec<Claim> {
        let cpu = self.cpu();
        let mut found = Vec::new();
        for (nth, process) in self.processes.iter().enumerate() {
            for page in self.pages.clone() {
                let Some(Mapping { frame, .. }) = process.space().pte(cpu, page).present() else {
                    continue;
                };
                if frames.contains(Pfn::new(frame.into())) {
                    found.push(Claim { process: nth, page, frame, was: None, gone: false });
                }
            }
        }
        // Between looking and here nobody else claims: that takes a step.
        let claims = self.claims.borrow();
        found.retain(|new| claims.iter().all(|old| old.frame != new.frame));
        found.sort_by_key(|claim| claim.frame);
        found
    }

    fn position(&self, at: &Move) -> usize {
        let frame = at.from().get();
        let found = self.claims.borrow().iter().position(|claim| u64::from(claim.frame) == frame);
        found.expect("a page that is claimed")
    }

    fn copy(&self, cpu: Cpu<'_>, to: Pfn, from: Pfn) {
        if let Some(oracle) = self.processes[0].space().mmu().oracle() {
            cpu.step();
            oracle.fill(to.get() as u32, oracle.contents(from.get() as u32));
        }
    }

    /// Puts an entry where a process has a page.
    fn map(&self, cpu: Cpu<'_>, (process, page): (usize, u32), mapping: Mapping) {
        let space = self.processes[process].space();
        space.locked(cpu, || space.replace_pte(cpu, page, Pte::Present(mapping)));
    }
}

// SAFETY: a page is claimed once, and in one frame, which its process does not give back while its entry
// says that it is on the move; nobody else takes entries away.
unsafe impl Mover<Simulated> for PageMover {
    fn claim(&self, frames: FrameRange, _: &Effort, claims: &mut Claims<'_>) -> ClaimEnd {
        match self.ask() {
            Some(Mishap::Busy) => return ClaimEnd::Contended,
            Some(Mishap::Refused) => return ClaimEnd::TooMany,
            None => {}
        }
        for claim in self.find(frames) {
            if !claims.push(Pfn::new(claim.frame.into()), Order::ZERO) {
                break;
            }
            self.claims.borrow_mut().push(claim);
        }
        ClaimEnd::Done
    }

    fn unmap(
        &self,
        moves: &mut [Move],
        _: &Effort,
        _: Locking,
        batch: &mut FlushBatch<'_, '_, Simulated>,
    ) {
        let cpu = self.cpu();
        for at in moves {
            if self.is_gone(at) || self.goes_wrong(at) {
                continue;
            }
            let nth = self.position(at);
            let (process, page, frame) = {
                let claim = &self.claims.borrow()[nth];
                (claim.process, claim.page, claim.frame)
            };
            let space = self.processes[process].space();
            let taken = space
                .locked(cpu, || space.take_into(cpu, page, Pte::Migrating(frame), None, batch));
            let Some(mapping) = taken else {
                at.set_refused();
                continue;
            };
            self.claims.borrow_mut()[nth].was = Some(mapping);
            if self.copies_early {
                self.copy(cpu, at.to(), at.from());
            }
            at.set_unmapped();
        }
    }

    fn remap(&self, moves: &mut [Move], _: &Effort, _: &Flushed<'_>) {
        let cpu = self.cpu();
        for at in moves {
            if self.goes_wrong(at) {
                continue;
            }
            let nth = self.position(at);
            let claim = self.claims.borrow_mut().remove(nth);
            let mapping = claim.was.expect("it was unmapped");
            let to = at.to().get() as u32;
            if let Some(oracle) = self.processes[claim.process].space().mmu().oracle() {
                oracle.taken(cpu, to);
                oracle.freed(cpu, claim.frame);
            }
            self.map(cpu, (claim.process, claim.page), Mapping { frame: to, ..mapping });
            at.set_moved();
        }
    }

    fn undo(&self, moves: &[Move]) {
        // When a run has failed there is nothing to put back.
        let Some(cpu) = self.machine.current() else { return };
        for at in moves {
            let nth = self.position(at);
            let (place, was) = {
                let claim = &mut self.claims.borrow_mut()[nth];
                ((claim.process, claim.page), claim.was.take())
            };
            // It stays claimed all the while.
            self.map(cpu, place, was.expect("it was unmapped"));
        }
    }

    fn release(&self, moves: &mut [Move]) {
        for at in moves {
            if !self.is_gone(at) {
                let nth = self.position(at);
                self.claims.borrow_mut().remove(nth);
            }
        }
    }
}

/// What frames hold is the oracle's: the library copies it from one frame to another.
impl Frames for PageMover {
    fn clear(&self, _: Pfn, _: Order) {}

    fn copy(&self, to: Pfn, from: Pfn) {
        if !self.copies_early
            && let Some(cpu) = self.machine.current()
        {
            self.copy(cpu, to, from);
        }
    }

    fn poison(&self, _: Pfn, _: Order) {}

    fn verify_poison(&self, _: Pfn) -> Option<usize> {
        None
    }
}
