//! [`FaultyMover`]: a mover with a fault at one call.

use std::cell::{Cell, RefCell};

use framewright::{
    FrameRange,
    migrate::{ClaimEnd, Claims, Effort, Locking, Move, Mover},
    tlb::{Flushed, Unmapping},
};

use super::FakeMover;
use crate::FakePlatform;

/// The fault at one call of a mover. A call that cannot have the fault has a similar one or none: a claim
/// ends early or finds fewer pages, and a remap refuses pages instead of reporting them as gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MoverFault {
    /// Every page is refused permanently.
    Refuse,
    /// Every other page is busy.
    BusyHalf,
    /// The owner of every other page frees it.
    Gone,
    /// Panics before the operation.
    Panic,
    /// Panics after the operation.
    PanicAfter,
}

/// A [`FakeMover`] with a fault at one of its calls. Calls while a panic unwinds do not count.
pub struct FaultyMover<'h, 'a, 'm, const TRACED: bool = false> {
    /// The owner without faults.
    pub owner: &'h FakeMover<'a, 'm, TRACED>,
    calls: Cell<u32>,
    at: u32,
    fault: MoverFault,
    /// The call that failed, if one has.
    wrong: Cell<Option<MoverCall>>,
    /// The moves of the last call of `undo`.
    undone: RefCell<Vec<Move>>,
}

/// The methods of a `Mover`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MoverCall {
    /// `Mover::claim`.
    Claim,
    /// `Mover::unmap`.
    Unmap,
    /// `Mover::remap`.
    Remap,
    /// `Mover::undo`.
    Undo,
    /// `Mover::release`.
    Release,
}

impl<'h, 'a, 'm, const TRACED: bool> FaultyMover<'h, 'a, 'm, TRACED> {
    /// The fault happens at call number `at`, counted from 0.
    #[must_use]
    pub fn new(owner: &'h FakeMover<'a, 'm, TRACED>, at: u32, fault: MoverFault) -> Self {
        let (wrong, undone) = (Cell::new(None), RefCell::default());
        Self { owner, calls: Cell::new(0), at, fault, wrong, undone }
    }

    /// The kind of call that failed, if one has.
    pub fn failed_call(&self) -> Option<MoverCall> {
        self.wrong.get()
    }

    /// The moves of the last call of `undo`.
    pub fn take_undone(&self) -> Vec<Move> {
        self.undone.take()
    }

    /// The fault of this call, if any.
    ///
    /// # Panics
    ///
    /// If the fault is [`MoverFault::Panic`].
    fn next(&self, step: MoverCall) -> Option<MoverFault> {
        if std::thread::panicking() {
            return None;
        }
        if self.calls.replace(self.calls.get() + 1) != self.at {
            return None;
        }
        self.wrong.set(Some(step));
        if self.fault == MoverFault::Panic {
            panic!("a fault");
        }
        Some(self.fault)
    }

    fn end(fault: Option<MoverFault>) {
        if fault == Some(MoverFault::PanicAfter) {
            panic!("a fault");
        }
    }

    /// Performs a step for all pages. With a fault, performs it only for some pages, and `wrong`
    /// sets the result of the others.
    fn step(
        &self,
        which: MoverCall,
        moves: &mut [Move],
        mut step: impl FnMut(&mut [Move]),
        wrong: impl Fn(&mut Move, MoverFault),
    ) {
        match self.next(which) {
            Some(MoverFault::Refuse) => {
                moves.iter_mut().for_each(|at| wrong(at, MoverFault::Refuse));
            }
            Some(fault @ (MoverFault::BusyHalf | MoverFault::Gone)) => {
                for (nth, at) in moves.iter_mut().enumerate() {
                    match nth % 2 {
                        0 => wrong(at, fault),
                        _ => step(std::slice::from_mut(at)),
                    }
                }
            }
            fault => {
                step(moves);
                Self::end(fault);
            }
        }
    }
}

// SAFETY: the owner without faults fulfils the contract, and pages that are reported as gone are removed from it.
unsafe impl<const TRACED: bool> Mover<FakePlatform<TRACED>> for FaultyMover<'_, '_, '_, TRACED> {
    fn claim(&self, frames: FrameRange, effort: &Effort, claims: &mut Claims<'_>) -> ClaimEnd {
        let (fault, half) = (self.next(MoverCall::Claim), frames.frames() / 2);
        let first = FrameRange::new(frames.start(), frames.start().offset(half.max(1))).unwrap();
        match fault {
            Some(MoverFault::Refuse) => return ClaimEnd::Contended,
            Some(MoverFault::BusyHalf) => {
                self.owner.claim(first, effort, claims);
                return ClaimEnd::TooMany;
            }
            // As if the pages in the second half were created after the claim.
            Some(MoverFault::Gone) => return self.owner.claim(first, effort, claims),
            _ => {}
        }
        let end = self.owner.claim(frames, effort, claims);
        Self::end(fault);
        end
    }

    fn unmap(
        &self,
        moves: &mut [Move],
        effort: &Effort,
        locking: Locking,
        batch: &mut Unmapping<'_, '_, '_, FakePlatform<TRACED>>,
    ) {
        let unmap = |moves: &mut [Move]| self.owner.unmap(moves, effort, locking, batch);
        self.step(MoverCall::Unmap, moves, unmap, |at, fault| match fault {
            MoverFault::Gone => {
                self.owner.pages.borrow_mut().remove(&at.from().get()).expect("a page");
                at.set_gone();
            }
            MoverFault::BusyHalf => at.set_busy(),
            _ => at.set_refused(),
        });
    }

    fn remap(&self, moves: &mut [Move], effort: &Effort, flushed: &Flushed<'_>) {
        let remap = |moves: &mut [Move]| self.owner.remap(moves, effort, flushed);
        self.step(MoverCall::Remap, moves, remap, |at, fault| match fault {
            MoverFault::BusyHalf => at.set_busy(),
            _ => at.set_refused(),
        });
    }

    fn undo(&self, moves: &[Move]) {
        *self.undone.borrow_mut() = moves.to_vec();
        let fault = self.next(MoverCall::Undo);
        self.owner.undo(moves);
        Self::end(fault);
    }

    fn release(&self, moves: &mut [Move]) {
        let fault = self.next(MoverCall::Release);
        self.owner.release(moves);
        if fault == Some(MoverFault::Gone) {
            for at in moves.iter_mut().step_by(2) {
                self.owner.pages.borrow_mut().remove(&at.from().get()).expect("a page");
                at.set_gone();
            }
        }
        Self::end(fault);
    }
}
