//! The oracle: detects violations of the memory model.
//!
//! Every frame has a *life*, a number that changes when it is freed, and *contents*: the token of
//! the last store to it, through any mapping. Every page of an address space has the token of the
//! last store of its programs. The oracle ends the run if a load finds another token, if an access
//! reaches a frame that was freed since its translation was cached, or if the last store of a page
//! is lost at the end.
//!
//! The check at the end finds lost writes even if no program reads the page again.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

use super::SpaceId;
use crate::engine::Cpu;
use thiserror::Error;

/// A stored value: every store has a token of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Token(u32);

impl Token {
    /// The contents of a cleared frame.
    pub const ZERO: Self = Self(0);

    /// The token with a number.
    #[cfg(test)]
    pub(crate) const fn of(number: u32) -> Self {
        Self(number)
    }
}

/// A kind of violation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Error)]
pub enum Symptom {
    /// A CPU accessed a frame that was freed after its translation was cached.
    #[error("stale TLB access to a freed frame")]
    StaleAccess,
    /// A CPU accessed a page after its unmapping had ended.
    #[error("stale TLB access to an unmapped page")]
    UnmappedAccess,
    /// A load did not return the last store.
    #[error("a load does not return the last store")]
    WrongContents,
    /// At the end, no frame and no storage has the last store to a page.
    #[error("a store was lost")]
    LostWrite,
    /// An allocated frame was allocated again.
    #[error("a frame was allocated twice")]
    TakenTwice,
    /// A free frame was freed.
    #[error("a frame was freed twice")]
    FreedTwice,
    /// A frame of an isolated pageblock was allocated.
    #[error("a frame of an isolated pageblock was allocated")]
    Isolated,
    /// Two CPUs are inside one exclusive section.
    #[error("two CPUs are inside one exclusive section")]
    SharedSection,
    /// At the end, a frame is allocated that nothing maps.
    #[error("a frame was leaked")]
    Leaked,
    /// The allocator's metadata is inconsistent.
    #[error("the allocator's metadata is inconsistent")]
    Inconsistent,
    /// Lost wake-up: a waiter sleeps although its condition is met, and no other CPU will wake it.
    #[error("a waiter sleeps although its condition is met")]
    LostWakeUp,
}

#[derive(Default)]
struct Frame {
    taken: Cell<bool>,
    life: Cell<u32>,
    contents: Cell<Token>,
}

/// The last store to a page by its programs. Mappings of a shared page have it in common.
struct Page {
    space: SpaceId,
    page: u32,
    last: Rc<Cell<Token>>,
}

/// The state of all frames and pages of a machine, and the first violation.
pub struct Oracle {
    frames: Vec<Frame>,
    pages: RefCell<Vec<Page>>,
    tokens: Cell<u32>,
    seen: Cell<Option<Symptom>>,
}

impl Oracle {
    /// An oracle for `frames` frames, numbered from 0, all free.
    #[must_use]
    pub fn new(frames: u32) -> Self {
        Self {
            frames: (0..frames).map(|_| Frame::default()).collect(),
            pages: RefCell::default(),
            tokens: Cell::new(0),
            seen: Cell::new(None),
        }
    }

    /// The violation that was detected, if there is one.
    #[must_use]
    pub fn seen(&self) -> Option<Symptom> {
        self.seen.get()
    }

    /// Records a violation and ends the run.
    pub fn see(&self, cpu: Cpu<'_>, symptom: Symptom, detail: &str) -> ! {
        self.seen.set(Some(symptom));
        cpu.fail(format!("{symptom}: {detail}"))
    }

    /// Records a violation that was detected after the run.
    pub fn see_late(&self, symptom: Symptom) -> Symptom {
        self.seen.set(Some(symptom));
        symptom
    }

    /// Notes that the allocator returned a frame.
    pub fn taken(&self, cpu: Cpu<'_>, frame: u32) {
        cpu.note(|| format!("allocates frame {frame}"));
        if self.frames[frame as usize].taken.replace(true) {
            self.see(cpu, Symptom::TakenTwice, &format!("frame {frame}"));
        }
    }

    /// Notes that a frame is allocated from the start.
    pub(crate) fn given(&self, frame: u32) {
        self.frames[frame as usize].taken.set(true);
    }

    /// Notes that a frame is about to be freed.
    pub fn freed(&self, cpu: Cpu<'_>, frame: u32) {
        cpu.note(|| format!("frees frame {frame}"));
        let state = &self.frames[frame as usize];
        if !state.taken.replace(false) {
            self.see(cpu, Symptom::FreedTwice, &format!("frame {frame}"));
        }
        state.life.set(state.life.get() + 1);
    }

    /// The number of allocated frames.
    #[must_use]
    pub fn frames_taken(&self) -> u64 {
        self.frames.iter().filter(|frame| frame.taken.get()).count() as u64
    }

    /// Whether a frame is allocated, and has not been freed since `life`.
    pub(crate) fn lives(&self, frame: u32, life: u32) -> bool {
        let state = &self.frames[frame as usize];
        state.taken.get() && state.life.get() == life
    }

    /// The contents of a frame.
    #[must_use]
    pub fn contents(&self, frame: u32) -> Token {
        self.frames[frame as usize].contents.get()
    }

    /// Sets the contents of a frame, other than by a program's store: zeroes, a copy, a block that
    /// was read.
    pub fn fill(&self, frame: u32, contents: Token) {
        self.frames[frame as usize].contents.set(contents);
    }

    /// The number of times that a frame was freed.
    pub(crate) fn life(&self, frame: u32) -> u32 {
        self.frames[frame as usize].life.get()
    }

    /// Adds a page, full of zeroes.
    pub(crate) fn page_mapped(&self, space: SpaceId, page: u32) {
        self.pages.borrow_mut().push(Page { space, page, last: Rc::default() });
    }

    /// Adds a page that shares its contents with another one.
    pub(crate) fn page_shared(&self, space: SpaceId, page: u32, with: SpaceId) {
        let mut pages = self.pages.borrow_mut();
        let known = pages.iter().find(|known| known.space == with && known.page == page);
        let last = known.map_or_else(Rc::default, |known| Rc::clone(&known.last));
        pages.push(Page { space, page, last });
    }

    /// Removes a page: an access to it is a violation from now on.
    pub(super) fn page_unmapped(&self, space: SpaceId, page: u32) {
        self.pages.borrow_mut().retain(|known| known.space != space || known.page != page);
    }

    /// A load through a translation; `at.life` is that of the frame when the translation was
    /// cached.
    pub(super) fn load(&self, cpu: Cpu<'_>, at: Access) -> Token {
        cpu.note(|| format!("loads from {at}"));
        let expected = self.reach(cpu, at);
        let found = self.contents(at.frame);
        if found != expected {
            self.see(cpu, Symptom::WrongContents, &at.to_string());
        }
        found
    }

    /// A store through a translation.
    pub(super) fn store(&self, cpu: Cpu<'_>, at: Access) -> Token {
        cpu.note(|| format!("stores to {at}"));
        self.reach(cpu, at);
        let token = Token(self.tokens.get() + 1);
        self.tokens.set(token.0);
        self.fill(at.frame, token);
        if let Some(page) = self.pages.borrow().iter().find(|known| at.is_to(known)) {
            page.last.set(token);
        }
        token
    }

    /// Checks the target of an access. Returns the token of the last store to the page.
    fn reach(&self, cpu: Cpu<'_>, at: Access) -> Token {
        let frame = &self.frames[at.frame as usize];
        if !frame.taken.get() || frame.life.get() != at.life {
            self.see(cpu, Symptom::StaleAccess, &at.to_string());
        }
        let last =
            self.pages.borrow().iter().find(|known| at.is_to(known)).map(|page| page.last.get());
        last.unwrap_or_else(|| self.see(cpu, Symptom::UnmappedAccess, &at.to_string()))
    }

    /// Whether `found` is the token of the page's last store.
    pub(crate) fn is_last(&self, space: SpaceId, page: u32, found: Token) -> bool {
        let pages = self.pages.borrow();
        let known = pages.iter().find(|known| known.space == space && known.page == page);
        known.is_some_and(|known| known.last.get() == found)
    }

    /// The pages of an address space that were stored to.
    pub(crate) fn stored_pages(&self, space: SpaceId) -> Vec<u32> {
        let pages = self.pages.borrow();
        let stored = |known: &&Page| known.space == space && known.last.get() != Token::ZERO;
        pages.iter().filter(stored).map(|known| known.page).collect()
    }
}

/// An access, in the form that the oracle needs.
#[derive(Clone, Copy)]
pub(super) struct Access {
    pub(super) space: SpaceId,
    pub(super) page: u32,
    pub(super) frame: u32,
    pub(super) life: u32,
}

impl Access {
    fn is_to(&self, known: &Page) -> bool {
        known.space == self.space && known.page == self.page
    }
}

impl std::fmt::Display for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { space, page, frame, .. } = self;
        write!(f, "page {page} of space {}, frame {frame}", space.0)
    }
}
