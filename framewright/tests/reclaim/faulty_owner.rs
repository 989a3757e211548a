//! A `PageOwner` with a fault at one call, for each call that reclaim makes and each kind of fault.
//! Afterwards every frame has one owner, no store is lost, and finally all frames are freed.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Mutex,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

use framewright::{
    MigrateType, Order, Pfn, Request,
    platform::Need,
    reclaim::{
        FreedBy, NextStep, PageKind, PageOwner, PageState, Reclaim, Reference, Released, Shadow,
        Unmapped, WriteError, WriteOut,
    },
    tlb::Unmapping,
};

use crate::{
    embedder::{CPU, Embedder, clear_young, memory, node},
    pages::{Resident, StoreBehavior},
};

/// The kind of fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    /// Every page is refused.
    Refuse,
    /// Every other page is refused.
    RefuseHalf,
    /// Every other page fails for good: the store is full or broken, or the page is pinned.
    FailHalf,
    /// Unlocked pages are freed, before or after the call.
    Gone,
    /// The call changes the LRU lists in every way that an owner may.
    Lists,
    /// Panics before the operation.
    Panic,
    /// Panics after the operation.
    PanicAfter,
}

const FAULTS: [Fault; 5] =
    [Fault::Refuse, Fault::RefuseHalf, Fault::FailHalf, Fault::Gone, Fault::Lists];

/// The faulty owner.
struct FaultyOwner {
    embedder: &'static Embedder,
    calls: AtomicU32,
    at: u32,
    fault: Fault,
    /// Frames that were released by a call that panicked, so that reclaim does not know of it.
    lost: Mutex<Vec<Pfn>>,
}

impl FaultyOwner {
    fn new(embedder: &'static Embedder, at: u32, fault: Fault) -> Self {
        Self { embedder, calls: AtomicU32::new(0), at, fault, lost: Mutex::default() }
    }

    /// The fault of this call.
    fn next(&self) -> Option<Fault> {
        let is_it = self.calls.fetch_add(1, Relaxed) == self.at;
        is_it.then_some(self.fault)
    }

    /// Makes a call, with the fault if it is the chosen call. `ask` makes it for some frames;
    /// `refused` and `failed` are the answers for the others.
    fn call<A: Copy>(
        &self,
        frames: &[Pfn],
        out: &mut [A],
        [refused, failed]: [A; 2],
        mut ask: impl FnMut(&[Pfn], &mut [A]),
    ) {
        let fault = self.next();
        let (answer, asked) = match fault {
            None | Some(Fault::Gone) => return self.with_gone(fault, frames, out, ask),
            Some(Fault::Panic) => panic!("a fault"),
            Some(Fault::PanicAfter) => {
                ask(frames, out);
                panic!("a fault");
            }
            Some(Fault::Lists) => {
                self.change_lists(frames);
                ask(frames, out);
                return self.change_lists(frames);
            }
            Some(Fault::Refuse) => (refused, 0),
            Some(Fault::RefuseHalf) => (refused, 2),
            Some(Fault::FailHalf) => (failed, 2),
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
        fault: Option<Fault>,
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
        let mut pages = self.embedder.pages();
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
        assert_eq!(unsafe { self.embedder.lru().abandon(frame) }, FreedBy::Isolator);
    }

    fn change_lists(&self, frames: &[Pfn]) {
        let lru = self.embedder.lru();
        let others: Vec<Pfn> = self.embedder.pages().resident.keys().copied().step_by(7).collect();
        for (nth, &frame) in frames.iter().chain(&others).enumerate() {
            match nth % 4 {
                0 => lru.activate(CPU, frame),
                1 => lru.deactivate(CPU, frame),
                2 => lru.mark_accessed(CPU, frame),
                _ => lru.drain_all(),
            }
        }
        for &frame in others.iter().filter(|frame| lru.isolate(**frame)) {
            // SAFETY: it was isolated just now.
            assert!(unsafe { lru.put_back(frame) }, "the page was not abandoned");
        }
    }

    fn reclaim(&self) -> Reclaim<'_, 'static, Embedder> {
        // SAFETY: the embedder owns its pages, and flushes for all CPUs.
        let reclaim = unsafe { Reclaim::new(self.embedder.memory(), self, self.embedder) };
        reclaim.expect("the memory has lists")
    }
}

// SAFETY: the embedder releases each frame, once.
unsafe impl PageOwner<Embedder> for FaultyOwner {
    fn lock(&self, frames: &[Pfn], out: &mut [Option<PageState>]) {
        self.call(frames, out, [None, None], |frames, out| self.embedder.lock(frames, out));
    }

    fn unlock(&self, frames: &[Pfn]) {
        // This call cannot refuse a page.
        let mut out = vec![(); frames.len()];
        match self.next() {
            Some(Fault::Panic) => panic!("a fault"),
            fault => self.with_gone(
                fault.filter(|&fault| fault == Fault::Gone),
                frames,
                &mut out,
                |frames, _| self.embedder.unlock(frames),
            ),
        }
        if self.fault == Fault::PanicAfter && self.calls.load(Relaxed) == self.at + 1 {
            panic!("a fault");
        }
    }

    fn referenced(&self, frames: &[Pfn], out: &mut [Reference]) {
        let refused = Reference { contended: true, ..Reference::default() };
        let failed = Reference { locked: true, ..Reference::default() };
        let answers = [refused, failed];
        self.call(frames, out, answers, |frames, out| self.embedder.referenced(frames, out));
    }

    fn unmap(
        &self,
        frames: &[Pfn],
        batch: &mut Unmapping<'_, '_, '_, Embedder>,
        out: &mut [Unmapped],
    ) {
        let answers = [Unmapped::StillMapped, Unmapped::StoreFull];
        self.call(frames, out, answers, |frames, out| self.embedder.unmap(frames, batch, out));
    }

    fn write_out(&self, frames: &[Pfn], out: &mut [WriteOut]) {
        let answers = [WriteOut::Refused, WriteOut::Failed(WriteError::NoSpace)];
        self.call(frames, out, answers, |frames, out| self.embedder.write_out(frames, out));
    }

    fn release(&self, frames: &[Pfn], shadows: &[Shadow], out: &mut [Released]) {
        let of = |frame| frames.iter().position(|&other| other == frame).unwrap();
        self.call(frames, out, [Released::Busy, Released::Dirty], |some, out| {
            let shadows: Vec<_> = some.iter().map(|&frame| shadows[of(frame)]).collect();
            self.embedder.release(some, &shadows, out);
            let answers = some.iter().zip(out);
            let released = answers.filter(|(_, out)| **out == Released::Released);
            *self.lost.lock().unwrap() = released.map(|(&frame, _)| frame).collect();
        });
        // Reclaim gets these answers.
        self.lost.lock().unwrap().clear();
    }

    fn can_swap(&self) -> bool {
        self.answer_or_fault(self.embedder.can_swap())
    }

    fn has_writers(&self) -> bool {
        self.answer_or_fault(self.embedder.has_writers())
    }

    fn wake_writers(&self) {
        self.answer_or_fault(false);
        self.embedder.wake_writers();
    }
}

impl FaultyOwner {
    /// An answer that does not concern pages, negated by a fault.
    fn answer_or_fault(&self, answer: bool) -> bool {
        match self.next() {
            None => answer,
            Some(Fault::Panic | Fault::PanicAfter) => panic!("a fault"),
            Some(_) => !answer,
        }
    }
}

fn kind_of(id: u32) -> PageKind {
    if id.is_multiple_of(3) { PageKind::Anon } else { PageKind::File }
}

/// A memory in use: pages of both kinds, a third of them stored to, some mapped and used.
fn in_use() -> &'static Embedder {
    let embedder = memory(1024, |tuning| tuning.reclaim.cluster = 8).platform();
    embedder.pages().swap = true;
    for id in 0..320 {
        embedder.touch(id, kind_of(id)).unwrap();
        if id % 3 == 1 {
            embedder.store(id, kind_of(id)).unwrap();
        }
    }
    clear_young(embedder);
    // Some pages are not mapped, and some were used.
    for (nth, page) in embedder.pages().resident.values_mut().enumerate() {
        match nth % 8 {
            0 => {
                page.dirty |= std::mem::take(&mut page.pte_dirty);
                page.maps = 0;
            }
            1 => page.young = 1,
            _ => {}
        }
    }
    embedder.pages().behavior = StoreBehavior::Slow;
    embedder
}

/// One of many steps. Returns whether there are more.
fn act(owner: &FaultyOwner, nth: u32) {
    let embedder = owner.embedder;
    let reclaim = owner.reclaim();
    match nth % 4 {
        0 | 2 => {
            let request = Request::new(Order::ZERO, MigrateType::Movable);
            let need = Need { request, cpu: CPU, node: node(), unmixed: false };
            reclaim.direct(&need, 12);
        }
        1 => {
            reclaim.wake(node(), Order::ZERO, framewright::ZoneKind::Normal);
            let mut kswapd = reclaim.kswapd(node()).unwrap();
            for _ in 0..3 {
                if kswapd.step(&mut embedder.token()) != NextStep::Now {
                    break;
                }
            }
        }
        _ => embedder.complete(usize::MAX),
    }
}

const STEPS: u32 = 8;

/// Writes and reclaims everything, or truncates it: all frames are freed.
fn end(embedder: &'static Embedder) {
    embedder.set_behavior(StoreBehavior::Prompt);
    embedder.complete(usize::MAX);
    embedder.direct(64);
    embedder.check();
    let left: Vec<u32> = embedder.pages().place.keys().copied().collect();
    left.into_iter().for_each(|id| embedder.truncate(id));
    embedder.drain_deferred();
    embedder.memory().drain_all();
    embedder.check();
    assert_eq!(embedder.memory().free(), embedder.memory().managed(), "all frames are free");
}

/// Runs the steps with a fault at call `at`. Returns the number of calls.
fn run(at: u32, fault: Fault) -> u32 {
    let embedder = in_use();
    let owner = FaultyOwner::new(embedder, at, fault);
    for nth in 0..STEPS {
        act(&owner, nth);
        embedder.check();
    }
    end(embedder);
    owner.calls.load(Relaxed)
}

#[test]
fn an_owner_may_refuse_or_free_pages_at_any_call() {
    for fault in FAULTS {
        let mut at = 0;
        while run(at, fault) > at {
            at += 1;
        }
        assert!(at > 60, "{fault:?}: {at} calls were tried");
    }
}

/// The recovery that a panic in the `PageOwner` leaves to the embedder: pages of the cluster are
/// still locked and isolated, and frames that the call had released have no owner.
fn recover(owner: &FaultyOwner) {
    let embedder = owner.embedder;
    embedder.memory().check().unwrap();
    {
        let mut pages = embedder.pages();
        assert!(pages.cached.is_empty(), "what was unmapped is flushed");
        pages.resident.values_mut().for_each(|page| page.locked = false);
    }
    let lru = embedder.lru();
    let resident: Vec<Pfn> = embedder.pages().resident.keys().copied().collect();
    for frame in resident {
        // SAFETY: only reclaim isolates pages here, and it was unwound; pages that are not isolated
        // are left alone.
        assert!(unsafe { lru.put_back(frame) }, "the page was not abandoned");
    }
    for frame in std::mem::take(&mut *owner.lost.lock().unwrap()) {
        // SAFETY: as above.
        assert!(unsafe { lru.put_back(frame) } && lru.remove(frame), "it was left isolated");
        // SAFETY: the embedder has released the frame, and reclaim does not know of it.
        unsafe { embedder.token().free_raw(frame, Order::ZERO).unwrap() };
    }
}

/// Runs the steps with a panic at call `at`. Returns the number of calls.
fn run_with_panic(at: u32, fault: Fault) -> u32 {
    let embedder = in_use();
    let owner = FaultyOwner::new(embedder, at, fault);
    for nth in 0..STEPS {
        if catch_unwind(AssertUnwindSafe(|| act(&owner, nth))).is_err() {
            recover(&owner);
        }
        embedder.check();
    }
    end(embedder);
    owner.calls.load(Relaxed)
}

#[test]
fn an_owner_that_panics_loses_only_frames_that_it_was_releasing() {
    // Hundreds of panics are expected; do not print them.
    std::panic::set_hook(Box::new(|info| {
        if info.payload_as_str() != Some("a fault") {
            eprintln!("{info}");
        }
    }));
    for fault in [Fault::Panic, Fault::PanicAfter] {
        let mut at = 0;
        while run_with_panic(at, fault) > at {
            at += 1;
        }
        assert!(at > 60, "{fault:?}: {at} calls were tried");
    }
}
