//! The owner of the pages that are migrated. It records the step of each page, pins and writes, and
//! refuses migrations. [`PageMover`] does the migration itself.

#![allow(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use framewright::{
    FrameRange, Order, Pfn,
    migrate::{ClaimEnd, Claims, Effort, Locking, Move, MoveFailure, Mover, Stage},
    observe::{Corruption, Finding},
    tlb::{Flushed, Unmapping},
};

use super::{step::Step, writing::Writing};
use crate::{
    engine::{Cpu, Machine},
    platform::{Frames, Simulated},
    process::{Mapping, Oracle, PageMover, Process, Pte, Symptom},
    scenario::Bug,
};

/// The owner of the pages of a process.
pub(super) struct Owner {
    pub(super) mover: PageMover,
    process: Process,
    machine: Machine,
    bug: Option<Bug>,
    /// The steps of claimed pages, by frame, and their targets.
    steps: RefCell<BTreeMap<u32, (Step, Option<u32>)>>,
    /// Pinned frames, once per pin.
    pins: RefCell<Vec<u32>>,
    pub(super) writing: Writing,
    /// Frames of pages whose write failed since they were claimed.
    failed: RefCell<Vec<u32>>,
    /// Whether all requests are refused.
    pub(super) refuses: Cell<bool>,
    /// The number of pages to refuse just before the remapping.
    late_refusals: Cell<u32>,
}

/// A page that a device uses in its frame.
pub(super) struct Hold {
    frame: u32,
    life: u32,
}

impl Owner {
    pub(super) fn new(
        machine: &Machine,
        mover: PageMover,
        process: &Process,
        bug: Option<Bug>,
        late_refusals: u32,
    ) -> Self {
        Self {
            mover,
            process: process.clone(),
            machine: machine.clone(),
            bug,
            steps: RefCell::default(),
            pins: RefCell::default(),
            writing: Writing::default(),
            failed: RefCell::default(),
            refuses: Cell::new(false),
            late_refusals: Cell::new(late_refusals),
        }
    }

    fn cpu(&self) -> Cpu<'_> {
        self.machine.current().expect("pages move on a CPU")
    }

    fn oracle(&self) -> &Oracle {
        self.process.space().mmu().oracle().expect("scenarios are checked")
    }

    /// The step of the page in a frame, if it is claimed.
    pub(super) fn step_of(&self, frame: u32) -> Option<Step> {
        let known = self.steps.borrow().get(&frame).map(|&(step, _)| step);
        self.mover.has_claimed(frame).then(|| known.unwrap_or(Step::Claim))
    }

    /// The step of a page whose target is the frame.
    pub(super) fn step_of_target(&self, to: u32) -> Option<Step> {
        let steps = self.steps.borrow();
        let found = steps.iter().find(|(_, (_, target))| *target == Some(to));
        found.map(|(_, &(step, _))| step)
    }

    /// Counts an event of the page in a frame at its current step.
    pub(super) fn record_event(&self, frame: u32) {
        self.step_of(frame).into_iter().for_each(|step| self.count_event_at(step));
    }

    /// Counts an event at a step.
    pub(super) fn count_event_at(&self, step: Step) {
        self.machine.reach(step as usize);
    }

    fn record_step(&self, at: &Move, step: Step) {
        // The target of a page that is refused before its unmapping is freed at once.
        let has_none = match at.stage() {
            Stage::Claimed | Stage::Gone => true,
            Stage::Ready => at.failure() == Some(MoveFailure::Refused),
            _ => false,
        };
        let to = (!has_none).then(|| number(at.to()));
        self.steps.borrow_mut().insert(number(at.from()), (step, to));
    }

    /// Removes the records of a claim that has ended.
    fn ended(&self, frame: u32) {
        self.steps.borrow_mut().remove(&frame);
        self.failed.borrow_mut().retain(|&failed| failed != frame);
    }

    /// Pins a page, after waiting for its migration. Calls `on_frame` once, with the first frame
    /// that is found in the page-table entry.
    pub(super) fn pin(&self, cpu: Cpu<'_>, page: u32, on_frame: impl FnOnce(u32)) -> Option<Hold> {
        self.hold(cpu, page, on_frame, |frame| self.pins.borrow_mut().push(frame))
    }

    /// Reads a pinned frame, and unpins it.
    pub(super) fn unpin(&self, cpu: Cpu<'_>, Hold { frame, life }: Hold) {
        cpu.step();
        self.read(cpu, frame, life);
        let mut pins = self.pins.borrow_mut();
        let at = pins.iter().position(|&pinned| pinned == frame).expect("it is pinned");
        pins.swap_remove(at);
    }

    /// Begins the write of a page, after waiting as for a pin, and without a check for claims.
    pub(super) fn write(&self, cpu: Cpu<'_>, page: u32) -> Option<Hold> {
        self.hold(cpu, page, |_| {}, |frame| self.writing.begin(page, frame))
    }

    /// Ends a write with a failure.
    pub(super) fn fail(&self, cpu: Cpu<'_>, Hold { frame, life }: Hold) {
        cpu.step();
        self.read(cpu, frame, life);
        self.record_event(frame);
        self.writing.fail(frame);
        if self.mover.has_claimed(frame) {
            self.failed.borrow_mut().push(frame);
        }
    }

    fn hold(
        &self,
        cpu: Cpu<'_>,
        page: u32,
        on_frame: impl FnOnce(u32),
        begins: impl Fn(u32),
    ) -> Option<Hold> {
        let space = self.process.space();
        let mut on_frame = Some(on_frame);
        loop {
            let (pte, hold) = space.locked(cpu, || {
                let pte = space.pte(cpu, page);
                if let (Some(on_frame), Some(frame)) = (on_frame.take(), pte.frame()) {
                    on_frame(frame);
                }
                let frame = pte.present().map(|mapping| mapping.frame);
                let frame = frame.inspect(|&frame| begins(frame));
                (pte, frame.map(|frame| Hold { frame, life: self.oracle().life(frame) }))
            });
            match pte {
                Pte::Migrating(_) => cpu.relax(),
                _ => return hold,
            }
        }
    }

    /// Reads a frame as a device that was given its number.
    fn read(&self, cpu: Cpu<'_>, frame: u32, life: u32) {
        if !self.oracle().lives(frame, life) {
            self.oracle().see(cpu, Symptom::StaleAccess, &format!("frame {frame} is held"));
        }
    }

    fn is_pinned(&self, at: &Move) -> bool {
        let pinned = self.pins.borrow().contains(&number(at.from()));
        pinned && self.bug != Some(Bug::PinIgnored)
    }

    /// Whether the page is refused; sets the result of the move.
    fn is_refused(&self, at: &mut Move) -> bool {
        let refused = self.refuses.get();
        if refused {
            self.record_event(number(at.from()));
            at.set_refused();
        }
        refused
    }

    /// Whether the page is busy; sets the result of the move.
    fn is_busy(&self, at: &mut Move) -> bool {
        let busy = self.is_pinned(at) || self.writing.is_on(number(at.from()));
        if busy {
            at.set_busy();
        }
        busy
    }

    /// Whether the page is one of those to refuse late; sets the result of the move.
    fn is_refused_late(&self, at: &mut Move) -> bool {
        let Some(left) = self.late_refusals.get().checked_sub(1) else { return false };
        self.late_refusals.set(left);
        at.set_refused();
        true
    }

    /// A seeded bug: maps a page in its new frame, although it is refused.
    fn map_half_way(&self, at: &Move) {
        let (cpu, space) = (self.cpu(), self.process.space());
        let is_it = |page: &u32| space.entry(*page) == Pte::Migrating(number(at.from()));
        let Some(page) = (0..super::PAGES).find(is_it) else { return };
        let frame = number(at.to());
        let mapping = Mapping { frame, writable: true, accessed: false, dirty: false };
        space.locked(cpu, || space.replace_pte(cpu, page, Pte::Present(mapping)));
    }
}

fn number(pfn: Pfn) -> u32 {
    pfn.get() as u32
}

// SAFETY: each result is the mover's, or leaves the page in its frame.
unsafe impl Mover<Simulated> for Owner {
    fn claim(&self, frames: FrameRange, effort: &Effort, claims: &mut Claims<'_>) -> ClaimEnd {
        if self.refuses.get() {
            self.count_event_at(Step::Claim);
            return ClaimEnd::TooMany;
        }
        self.mover.claim(frames, effort, claims)
    }

    fn unmap(
        &self,
        moves: &mut [Move],
        effort: &Effort,
        locking: Locking,
        batch: &mut Unmapping<'_, '_, '_, Simulated>,
    ) {
        // All pages have their targets when the first one is unmapped.
        moves.iter().for_each(|at| self.record_step(at, Step::Claim));
        for at in moves {
            self.record_step(at, Step::Unmap);
            self.cpu().step();
            if !self.is_refused(at) && !self.is_busy(at) {
                // The remapping notices later pins.
                self.cpu().step();
                self.mover.unmap(std::slice::from_mut(at), effort, locking, batch);
            }
            match at.stage() {
                Stage::Gone => self.ended(number(at.from())),
                Stage::Unmapped => self.record_step(at, Step::Flush),
                _ => self.record_step(at, Step::Claim),
            }
        }
    }

    fn remap(&self, moves: &mut [Move], effort: &Effort, flushed: &Flushed<'_>) {
        for at in moves {
            self.record_step(at, Step::Remap);
            self.cpu().step();
            if self.is_refused(at) {
                if self.bug == Some(Bug::RefusedHalfWay) {
                    self.map_half_way(at);
                }
                continue;
            }
            if self.is_busy(at) || self.is_refused_late(at) {
                continue;
            }
            let (from, to) = (number(at.from()), number(at.to()));
            // No CPU accesses the page before it is mapped.
            if self.bug != Some(Bug::DirtyLeftBehind) {
                self.writing.move_state(from, to);
            }
            self.mover.remap(std::slice::from_mut(at), effort, flushed);
            if at.stage() == Stage::Moved {
                self.ended(from);
            } else {
                self.writing.move_state(to, from);
            }
        }
    }

    fn undo(&self, moves: &[Move]) {
        for at in moves {
            self.record_step(at, Step::Undo);
            self.machine.current().inspect(Cpu::step);
            self.mover.undo(std::slice::from_ref(at));
            self.record_step(at, Step::Claim);
        }
    }

    fn release(&self, moves: &mut [Move]) {
        for at in moves {
            self.record_step(at, Step::Release);
            // The release takes the lock of a list.
            (0..4).for_each(|_| _ = self.machine.current().inspect(Cpu::step));
            let skipped = self.bug == Some(Bug::FailedStaysClaimed)
                && self.failed.borrow().contains(&number(at.from()));
            if !skipped {
                self.mover.release(std::slice::from_mut(at));
            }
            self.ended(number(at.from()));
        }
    }
}

impl Frames for Owner {
    fn clear(&self, pfn: Pfn, order: Order) {
        self.mover.clear(pfn, order);
    }

    fn copy(&self, to: Pfn, from: Pfn) {
        let known = self.steps.borrow().contains_key(&number(from));
        if known {
            self.steps.borrow_mut().insert(number(from), (Step::Copy, Some(number(to))));
        }
        self.mover.copy(to, from);
    }

    fn poison(&self, pfn: Pfn, order: Order) {
        self.mover.poison(pfn, order);
    }

    fn verify_poison(&self, pfn: Pfn) -> Option<usize> {
        self.mover.verify_poison(pfn)
    }

    /// A bad free that went to the lists of a CPU is detected when the lists are drained, or when
    /// the same frames are freed again.
    fn corrupted(&self, report: &Corruption) {
        if let (Some(cpu), Finding::BadFree(_)) = (self.machine.current(), report.what) {
            self.oracle().see(cpu, Symptom::FreedTwice, &report.to_string());
        }
    }
}
