//! A `Mover` with a fault at one call, for each call that compaction and range emptying make and each kind of
//! fault. Afterwards every frame has one owner and the right contents.

use std::{
    cell::{Cell, RefCell},
    panic::{AssertUnwindSafe, catch_unwind},
};

use framewright::{
    Contiguous, CpuId, FrameRange, MigrateType, Order, Request,
    compact::{Compactor, Workspace},
    migrate::{ClaimEnd, Claims, Effort, Locking, Move, Mover},
    platform::CompactPriority,
    tlb::{BatchSlot, FlushBatch, Flushed},
};

use crate::{
    frames,
    owner::{FakeOwner, FaultRates},
    scatter,
    support::machine::Machine,
    with_owner_sized,
};

const PAGEBLOCKS: u64 = 4;

/// The kind of fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    /// Every page is refused for good.
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

/// The faulty mover.
struct FaultyMover<'h, 'a, 'm> {
    owner: &'h FakeOwner<'a, 'm>,
    calls: Cell<u32>,
    at: u32,
    fault: Fault,
    /// The step that failed, if one has.
    wrong: Cell<Option<Step>>,
    /// The moves of the last call of `undo`.
    undone: RefCell<Vec<Move>>,
}

/// The methods of a `Mover`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Claim,
    Unmap,
    Remap,
    Undo,
    Release,
}

impl FaultyMover<'_, '_, '_> {
    /// The fault of this call, if it does not panic.
    fn next(&self, step: Step) -> Option<Fault> {
        if std::thread::panicking() {
            return None;
        }
        if self.calls.replace(self.calls.get() + 1) != self.at {
            return None;
        }
        self.wrong.set(Some(step));
        if self.fault == Fault::Panic {
            panic!("a fault");
        }
        Some(self.fault)
    }

    fn end(fault: Option<Fault>) {
        if fault == Some(Fault::PanicAfter) {
            panic!("a fault");
        }
    }

    /// Does a step for all pages, or with a fault only for some; `wrong` decides the outcome of the others.
    fn step(
        &self,
        which: Step,
        moves: &mut [Move],
        mut step: impl FnMut(&mut [Move]),
        wrong: impl Fn(&mut Move, Fault),
    ) {
        match self.next(which) {
            Some(Fault::Refuse) => {
                moves.iter_mut().for_each(|at| wrong(at, Fault::Refuse));
            }
            Some(fault @ (Fault::BusyHalf | Fault::Gone)) => {
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

// SAFETY: the fixture meets the contract, and pages that their owner has freed are removed from it.
unsafe impl Mover<Machine> for FaultyMover<'_, '_, '_> {
    fn claim(&self, frames: FrameRange, effort: &Effort, claims: &mut Claims<'_>) -> ClaimEnd {
        let (fault, half) = (self.next(Step::Claim), frames.frames() / 2);
        let first = FrameRange::new(frames.start(), frames.start().offset(half.max(1))).unwrap();
        match fault {
            Some(Fault::Refuse) => return ClaimEnd::Contended,
            Some(Fault::BusyHalf) => {
                self.owner.claim(first, effort, claims);
                return ClaimEnd::TooMany;
            }
            // The frame had no page when it was checked, and holds another page now.
            Some(Fault::Gone) => return self.owner.claim(first, effort, claims),
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
        batch: &mut FlushBatch<'_, '_, Machine>,
    ) {
        let unmap = |moves: &mut [Move]| self.owner.unmap(moves, effort, locking, batch);
        self.step(Step::Unmap, moves, unmap, |at, fault| match fault {
            Fault::Gone => {
                self.owner.pages.borrow_mut().remove(&at.from().get()).expect("a page");
                at.set_gone();
            }
            Fault::BusyHalf => at.set_busy(),
            _ => at.set_refused(),
        });
    }

    fn remap(&self, moves: &mut [Move], effort: &Effort, flushed: &Flushed<'_>) {
        let remap = |moves: &mut [Move]| self.owner.remap(moves, effort, flushed);
        self.step(Step::Remap, moves, remap, |at, fault| match fault {
            Fault::BusyHalf => at.set_busy(),
            _ => at.set_refused(),
        });
    }

    fn undo(&self, moves: &[Move]) {
        *self.undone.borrow_mut() = moves.to_vec();
        let fault = self.next(Step::Undo);
        self.owner.undo(moves);
        Self::end(fault);
    }

    fn release(&self, moves: &mut [Move]) {
        let fault = self.next(Step::Release);
        self.owner.release(moves);
        if fault == Some(Fault::Gone) {
            for at in moves.iter_mut().step_by(2) {
                self.owner.pages.borrow_mut().remove(&at.from().get()).expect("a page");
                at.set_gone();
            }
        }
        Self::end(fault);
    }
}

/// One of several operations that move pages. It frees all that it allocates.
fn act<'m>(mover: &FaultyMover<'_, '_, 'm>, nth: u32) {
    let memory = mover.owner.memory;
    let mut moves = vec![Move::default(); 64];
    let mut slots = vec![BatchSlot::default(); 64];
    let space = Workspace { moves: &mut moves, slots: &mut slots };
    // SAFETY: the pages exist only in the test, which relies on nothing but its mover and its
    // flushes.
    #[allow(unsafe_code)]
    let mut compactor: Compactor<'_, 'm, Machine> =
        unsafe { memory.compactor(CpuId::new(0), mover, mover.owner, space) };
    let of = MigrateType::Movable;
    match nth {
        0 => {
            let extent = compactor.alloc_range(frames(1, 512), of, &mut |_| ());
            extent.into_iter().for_each(|extent| memory.free_extent(extent).unwrap());
        }
        1 => {
            let wanted = Contiguous::new(700, of).aligned(Order::new(6).unwrap());
            let extent = compactor.alloc_contiguous(&wanted);
            extent.into_iter().for_each(|extent| memory.free_extent(extent).unwrap());
        }
        _ => {
            let priority = [CompactPriority::Async, CompactPriority::Sync][nth as usize % 2];
            let request = Request::new(Order::PAGEBLOCK, of);
            let (_, block) = compactor.form(request, priority);
            block.into_iter().for_each(|block| memory.free_unlisted(block).unwrap());
        }
    }
}

const STEPS: u32 = 3;

/// The recovery that is left to the embedder after a panic in its `Mover`.
fn recover(mover: &FaultyMover<'_, '_, '_>) {
    let owner = mover.owner;
    let wrong = mover.wrong.get().expect("it panicked at one call");
    if wrong == Step::Undo {
        let moves = mover.undone.take();
        if mover.fault == Fault::Panic {
            owner.undo(&moves);
        }
        let mut token = owner.memory.cpu(CpuId::new(0)).unwrap();
        for at in moves {
            // SAFETY: no page has moved to this frame, and the library has left it to the embedder.
            unsafe { token.free_raw(at.to(), at.order()) }.unwrap();
        }
    }
    let may_be_claimed = match wrong {
        Step::Claim | Step::Undo => true,
        Step::Release => mover.fault == Fault::Panic,
        Step::Unmap | Step::Remap => false,
    };
    for (at, page) in owner.pages.borrow_mut().iter_mut() {
        assert!(may_be_claimed || !page.claimed, "{at:#x} is still claimed");
        page.claimed = false;
    }
}

/// Runs all operations with a fault at call `at`. Returns the step that failed; `None` if there
/// were fewer calls.
fn run(method: &str, at: u32, fault: Fault) -> Option<Step> {
    let mut wrong = None;
    with_owner_sized(PAGEBLOCKS, &[("compact.method", method)], 5, |owner| {
        scatter(owner, 9);
        owner.pages.borrow_mut().values_mut().step_by(40).for_each(|page| page.pinned = true);
        owner.fault_rates.set(FaultRates { busy: 7, refused: 23, gone: 29, contended: 0 });
        let mover = FaultyMover {
            owner,
            calls: Cell::new(0),
            at,
            fault,
            wrong: Cell::new(None),
            undone: RefCell::default(),
        };
        for nth in 0..STEPS {
            if catch_unwind(AssertUnwindSafe(|| act(&mover, nth))).is_err() {
                owner.memory.check().unwrap();
                recover(&mover);
            }
            owner.memory.drain_all();
            owner.check();
        }
        wrong = mover.wrong.get();
    });
    wrong
}

fn for_every_call(fault: Fault) {
    for method in ["index", "scan"] {
        let steps: Vec<Step> = (0..).map_while(|at| run(method, at, fault)).collect();
        for step in [Step::Claim, Step::Unmap, Step::Remap, Step::Undo, Step::Release] {
            let times = steps.iter().filter(|&&other| other == step).count();
            assert!(times > 1, "{method}: {step:?} went wrong {times} times");
        }
    }
}

#[test]
fn a_mover_may_refuse_pages_and_free_them_at_any_call() {
    [Fault::Refuse, Fault::BusyHalf, Fault::Gone].into_iter().for_each(for_every_call);
}

#[test]
fn a_mover_that_panics_loses_no_frames_except_in_undo() {
    // Hundreds of panics are expected; do not print them.
    std::panic::set_hook(Box::new(|info| {
        if info.payload_as_str() != Some("a fault") {
            eprintln!("{info}");
        }
    }));
    [Fault::Panic, Fault::PanicAfter].into_iter().for_each(for_every_call);
}
