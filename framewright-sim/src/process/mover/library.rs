//! The library's requests to the mover of the pages of processes.

use framewright::{
    FrameRange, Order, Pfn,
    migrate::{ClaimEnd, Claims, Effort, Locking, Move, Mover},
    tlb::{Flushed, Unmapping},
};

use super::{Claim, PageMover, SeededFailure};
use crate::{
    engine::Cpu,
    platform::{Frames, Simulated},
    process::{Mapping, Pte},
};

impl PageMover {
    fn next_failure(&self) -> Option<SeededFailure> {
        let nth = self.requests.replace(self.requests.get() + 1);
        self.failure.filter(|(at, _)| *at == nth).map(|(_, failure)| failure)
    }

    /// Sets the result of the page if a seeded failure is due. Returns whether it is.
    fn inject_failure(&self, at: &mut Move) -> bool {
        match self.next_failure() {
            None => return false,
            Some(SeededFailure::Busy) => at.set_busy(),
            Some(SeededFailure::Refused) => at.set_refused(),
        }
        true
    }

    /// The unclaimed pages in a range of frames.
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
        // There is no step between this check and the claim, so no other CPU claims in between.
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

    /// Whether the program has unmapped a claimed page: then its claim has ended.
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

    /// Maps a page of a process.
    fn map(&self, cpu: Cpu<'_>, (process, page): (usize, u32), mapping: Mapping) {
        let space = self.processes[process].space();
        space.locked(cpu, || space.replace_pte(cpu, page, Pte::Present(mapping)));
    }
}

// SAFETY: a page is claimed once, and is in one frame. Its process does not free the frame while
// the entry is a migration entry, and no other code removes entries.
unsafe impl Mover<Simulated> for PageMover {
    fn claim(&self, frames: FrameRange, _: &Effort, claims: &mut Claims<'_>) -> ClaimEnd {
        match self.next_failure() {
            Some(SeededFailure::Busy) => return ClaimEnd::Contended,
            Some(SeededFailure::Refused) => return ClaimEnd::TooMany,
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
        batch: &mut Unmapping<'_, '_, '_, Simulated>,
    ) {
        let cpu = self.cpu();
        for at in moves {
            if self.is_gone(at) || self.inject_failure(at) {
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
                self.contents.copy(at.to(), at.from());
            }
            at.set_unmapped();
        }
    }

    fn remap(&self, moves: &mut [Move], _: &Effort, _: &Flushed<'_>) {
        let cpu = self.cpu();
        for at in moves {
            if self.inject_failure(at) {
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
        // After a failure nothing is restored.
        let Some(cpu) = self.machine.current() else { return };
        for at in moves {
            let nth = self.position(at);
            let (place, was) = {
                let claim = &mut self.claims.borrow_mut()[nth];
                ((claim.process, claim.page), claim.was.take())
            };
            // The page stays claimed meanwhile.
            self.map(cpu, place, was.expect("it was unmapped"));
        }
    }

    fn release(&self, moves: &mut [Move]) {
        // After a failure a claim may have ended although its page has not moved.
        if self.machine.current().is_none() {
            return;
        }
        for at in moves {
            if !self.is_gone(at) {
                let nth = self.position(at);
                self.claims.borrow_mut().remove(nth);
            }
        }
    }
}
