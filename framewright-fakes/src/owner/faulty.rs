//! [`FaultyOwner`]: an owner with a fault at one call.

use std::sync::{
    Mutex,
    atomic::{AtomicU32, Ordering::Relaxed},
};

use framewright::{
    Pfn,
    reclaim::{
        FreedBy, PageOwner, PageState, Reclaim, Reference, Released, Shadow, Unmapped, WriteError,
        WriteOut,
    },
    tlb::Unmapping,
};

use super::{CPU, FakeOwner, Resident};
use crate::TracedPlatform;

/// The fault at one call of an owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OwnerFault {
    /// Every page is refused.
    Refuse,
    /// Every second page is refused.
    RefuseHalf,
    /// Every second page fails: the store is full, or the page is locked in memory or dirty.
    FailHalf,
    /// Every second page is freed before the call, or after it if it is locked before.
    Gone,
    /// The call changes the LRU lists in every way that an owner may.
    Lists,
    /// Panics before the operation.
    Panic,
    /// Panics after the operation.
    PanicAfter,
}

/// A [`FakeOwner`] with a fault at one of its calls.
pub struct FaultyOwner {
    /// The owner without faults.
    pub owner: &'static FakeOwner,
    calls: AtomicU32,
    at: u32,
    fault: OwnerFault,
    /// Frames that were released by a call that panicked, so that reclaim did not get the answer.
    lost: Mutex<Vec<Pfn>>,
}

impl FaultyOwner {
    /// The fault happens at call number `at`, counted from 0.
    #[must_use]
    pub fn new(owner: &'static FakeOwner, at: u32, fault: OwnerFault) -> Self {
        Self { owner, calls: AtomicU32::new(0), at, fault, lost: Mutex::default() }
    }

    /// Number of calls so far.
    pub fn calls(&self) -> u32 {
        self.calls.load(Relaxed)
    }

    /// Frames that were released by a call that panicked. They have no owner.
    pub fn take_lost(&self) -> Vec<Pfn> {
        std::mem::take(&mut self.lost.lock().unwrap())
    }

    /// The fault of this call.
    fn next(&self) -> Option<OwnerFault> {
        let is_it = self.calls.fetch_add(1, Relaxed) == self.at;
        is_it.then_some(self.fault)
    }

    /// Makes a call, with the fault if it is the selected call. `ask` makes the call for some
    /// frames; `refused` and `failed` are the answers for the others.
    fn call<A: Copy>(
        &self,
        frames: &[Pfn],
        out: &mut [A],
        [refused, failed]: [A; 2],
        mut ask: impl FnMut(&[Pfn], &mut [A]),
    ) {
        let fault = self.next();
        let (answer, asked) = match fault {
            None | Some(OwnerFault::Gone) => return self.with_gone(fault, frames, out, ask),
            Some(OwnerFault::Panic) => panic!("a fault"),
            Some(OwnerFault::PanicAfter) => {
                ask(frames, out);
                panic!("a fault");
            }
            Some(OwnerFault::Lists) => {
                self.change_lists(frames);
                ask(frames, out);
                return self.change_lists(frames);
            }
            Some(OwnerFault::Refuse) => (refused, 0),
            Some(OwnerFault::RefuseHalf) => (refused, 2),
            Some(OwnerFault::FailHalf) => (failed, 2),
        };
        for (nth, (frame, out)) in frames.iter().zip(out).enumerate() {
            *out = answer;
            if asked > 0 && nth % asked == 1 {
                ask(std::slice::from_ref(frame), std::slice::from_mut(out));
            }
        }
    }

    fn with_gone<A>(
        &self,
        fault: Option<OwnerFault>,
        frames: &[Pfn],
        out: &mut [A],
        mut ask: impl FnMut(&[Pfn], &mut [A]),
    ) {
        let go = || {
            if fault.is_some() {
                frames.iter().step_by(2).for_each(|&frame| self.free_unlocked(frame));
            }
        };
        go();
        ask(frames, out);
        go();
    }

    /// The owner of an isolated page frees it, if reclaim has not locked it.
    fn free_unlocked(&self, frame: Pfn) {
        let mut pages = self.owner.pages();
        let goes = |page: &Resident| {
            !page.locked && page.maps == 0 && !page.writeback && page.references == 0
        };
        let is_reached = pages.cached.contains(&frame);
        let Some(page) = pages.resident.get(&frame) else { return };
        if !goes(page) || is_reached {
            return;
        }
        let id = page.id;
        pages.resident.remove(&frame);
        pages.forget(id);
        // SAFETY: the page was added as a block of order 0, and has no references any more.
        assert_eq!(unsafe { self.owner.lru().abandon(frame) }, FreedBy::Isolator);
    }

    fn change_lists(&self, frames: &[Pfn]) {
        let lru = self.owner.lru();
        let others: Vec<Pfn> = self.owner.pages().resident.keys().copied().step_by(7).collect();
        for (nth, &frame) in frames.iter().chain(&others).enumerate() {
            match nth % 4 {
                0 => lru.activate(CPU, frame),
                1 => lru.deactivate(CPU, frame),
                2 => lru.mark_accessed(CPU, frame),
                _ => lru.drain_all(),
            }
        }
        for &frame in others.iter().filter(|frame| lru.isolate(**frame)) {
            // SAFETY: the page was just isolated.
            assert!(unsafe { lru.put_back(frame) }, "the page was abandoned");
        }
    }

    /// Reclaim of the memory, with this owner.
    pub fn reclaim(&self) -> Reclaim<'_, 'static, TracedPlatform> {
        // SAFETY: the pages are in frames of this allocator, and the owner flushes all translations to them.
        let reclaim = unsafe { Reclaim::new(self.owner.memory(), self, self.owner) };
        reclaim.expect("the memory has lists")
    }
}

// SAFETY: the owner without faults releases each frame once, also if it is called for some of the frames.
unsafe impl PageOwner<TracedPlatform> for FaultyOwner {
    fn lock(&self, frames: &[Pfn], out: &mut [Option<PageState>]) {
        self.call(frames, out, [None, None], |frames, out| self.owner.lock(frames, out));
    }

    fn unlock(&self, frames: &[Pfn]) {
        // This call cannot refuse a page.
        let mut out = vec![(); frames.len()];
        match self.next() {
            Some(OwnerFault::Panic) => panic!("a fault"),
            fault => self.with_gone(
                fault.filter(|&fault| fault == OwnerFault::Gone),
                frames,
                &mut out,
                |frames, _| self.owner.unlock(frames),
            ),
        }
        if self.fault == OwnerFault::PanicAfter && self.calls.load(Relaxed) == self.at + 1 {
            panic!("a fault");
        }
    }

    fn referenced(&self, frames: &[Pfn], out: &mut [Reference]) {
        let refused = Reference { contended: true, ..Reference::default() };
        let failed = Reference { locked: true, ..Reference::default() };
        let answers = [refused, failed];
        self.call(frames, out, answers, |frames, out| self.owner.referenced(frames, out));
    }

    fn unmap(
        &self,
        frames: &[Pfn],
        batch: &mut Unmapping<'_, '_, '_, TracedPlatform>,
        out: &mut [Unmapped],
    ) {
        let answers = [Unmapped::StillMapped, Unmapped::StoreFull];
        self.call(frames, out, answers, |frames, out| self.owner.unmap(frames, batch, out));
    }

    fn write_out(&self, frames: &[Pfn], out: &mut [WriteOut]) {
        let answers = [WriteOut::Refused, WriteOut::Failed(WriteError::NoSpace)];
        self.call(frames, out, answers, |frames, out| self.owner.write_out(frames, out));
    }

    fn release(&self, frames: &[Pfn], shadows: &[Shadow], out: &mut [Released]) {
        let of = |frame| frames.iter().position(|&other| other == frame).unwrap();
        self.call(frames, out, [Released::Busy, Released::Dirty], |some, out| {
            let shadows: Vec<_> = some.iter().map(|&frame| shadows[of(frame)]).collect();
            self.owner.release(some, &shadows, out);
            let answers = some.iter().zip(out);
            let released = answers.filter(|(_, out)| **out == Released::Released);
            *self.lost.lock().unwrap() = released.map(|(&frame, _)| frame).collect();
        });
        // The call has not panicked, so reclaim gets the answers.
        self.lost.lock().unwrap().clear();
    }

    fn can_swap(&self) -> bool {
        self.answer_or_fault(self.owner.can_swap())
    }

    fn has_writers(&self) -> bool {
        self.answer_or_fault(self.owner.has_writers())
    }

    fn wake_writers(&self) {
        self.answer_or_fault(false);
        self.owner.wake_writers();
    }
}

impl FaultyOwner {
    /// An answer that does not concern pages. A fault negates it.
    fn answer_or_fault(&self, answer: bool) -> bool {
        match self.next() {
            None => answer,
            Some(OwnerFault::Panic | OwnerFault::PanicAfter) => panic!("a fault"),
            Some(_) => !answer,
        }
    }
}
