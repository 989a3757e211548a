//! The oracle: sees what must not be.
//!
//! Every frame has a *life* (a number that changes when it is freed) and *contents*: the token of
//! the last store that reached it, wherever that came from. Every page of an address space has
//! the token of the last store that its programs made. No access is argued about: a load that
//! finds another token, an access to a frame that has died since the translation was cached, a
//! page whose last store is nowhere when all is over, are *seen*, and end the run.
//!
//! Looking once more when all is over is what makes lost writes easy to find: nobody needs to
//! happen to read the page again.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

use super::SpaceId;
use crate::engine::Cpu;
use thiserror::Error;

/// What was stored: every store has a token of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Token(u32);

impl Token {
    /// What a cleared frame holds.
    pub const ZERO: Self = Self(0);

    /// The token with a number.
    #[cfg(test)]
    pub(crate) const fn of(number: u32) -> Self {
        Self(number)
    }
}

/// What can be seen to be wrong.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Error)]
pub enum Symptom {
    /// A CPU reached a frame that was freed after its translation was cached (I5).
    #[error("a stale translation reaches a frame that was freed")]
    StaleAccess,
    /// A CPU reached a page after unmapping it had ended (I5).
    #[error("a page that was unmapped is still reached")]
    UnmappedAccess,
    /// A load did not find the last store (I5, I6).
    #[error("a load does not find the last store")]
    WrongContents,
    /// When all is over, the last store to a page is nowhere (I6).
    #[error("a store was lost")]
    LostWrite,
    /// A frame that somebody has was handed out (I3).
    #[error("a frame was handed out twice")]
    TakenTwice,
    /// A frame that nobody has was freed (I3).
    #[error("a frame was freed twice")]
    FreedTwice,
    /// A frame was handed out of a pageblock that is withheld (I3, I7).
    #[error("a frame that is withheld was handed out")]
    Withheld,
    /// Two CPUs were where only one may be.
    #[error("two CPUs are where only one may be")]
    SharedSection,
    /// When all is over, somebody has a frame that nobody maps (I1).
    #[error("a frame was leaked")]
    Leaked,
    /// The books of the allocator do not agree (I1, I2, I7, I9).
    #[error("the books of the allocator do not agree")]
    Books,
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

/// The last store to a page, as its programs see it; shared where pages are.
struct Page {
    space: SpaceId,
    page: u32,
    last: Rc<Cell<Token>>,
}

/// See the module.
pub struct Oracle {
    frames: Vec<Frame>,
    pages: RefCell<Vec<Page>>,
    tokens: Cell<u32>,
    seen: Cell<Option<Symptom>>,
}

impl Oracle {
    /// An oracle for frames 0 to `frames`, which nobody has.
    #[must_use]
    pub fn new(frames: u32) -> Self {
        Self {
            frames: (0..frames).map(|_| Frame::default()).collect(),
            pages: RefCell::default(),
            tokens: Cell::new(0),
            seen: Cell::new(None),
        }
    }

    /// What was seen to be wrong, if anything was.
    #[must_use]
    pub fn seen(&self) -> Option<Symptom> {
        self.seen.get()
    }

    /// Ends the run: this was seen.
    pub fn see(&self, cpu: Cpu<'_>, symptom: Symptom, detail: &str) -> ! {
        self.seen.set(Some(symptom));
        cpu.fail(format!("{symptom}: {detail}"))
    }

    /// What is seen when no CPU runs any more.
    pub fn see_late(&self, symptom: Symptom) -> Symptom {
        self.seen.set(Some(symptom));
        symptom
    }

    /// The allocator handed a frame out.
    pub fn taken(&self, cpu: Cpu<'_>, frame: u32) {
        if self.frames[frame as usize].taken.replace(true) {
            self.see(cpu, Symptom::TakenTwice, &format!("frame {frame}"));
        }
    }

    /// Somebody has a frame from the start.
    pub(crate) fn given(&self, frame: u32) {
        self.frames[frame as usize].taken.set(true);
    }

    /// A frame is about to be given back to the allocator.
    pub fn freed(&self, cpu: Cpu<'_>, frame: u32) {
        let state = &self.frames[frame as usize];
        if !state.taken.replace(false) {
            self.see(cpu, Symptom::FreedTwice, &format!("frame {frame}"));
        }
        state.life.set(state.life.get() + 1);
    }

    /// Frames that somebody has.
    #[must_use]
    pub fn frames_taken(&self) -> u64 {
        self.frames.iter().filter(|frame| frame.taken.get()).count() as u64
    }

    /// Whether it is the same page's still that it was in that life.
    pub(crate) fn lives(&self, frame: u32, life: u32) -> bool {
        let state = &self.frames[frame as usize];
        state.taken.get() && state.life.get() == life
    }

    /// What a frame holds.
    #[must_use]
    pub fn contents(&self, frame: u32) -> Token {
        self.frames[frame as usize].contents.get()
    }

    /// Something that is not a program's store is put into a frame: zeroes, a copy, a block read.
    pub fn fill(&self, frame: u32, contents: Token) {
        self.frames[frame as usize].contents.set(contents);
    }

    /// How often it was given back.
    pub(crate) fn life(&self, frame: u32) -> u32 {
        self.frames[frame as usize].life.get()
    }

    /// A page exists from now on, and is full of zeroes.
    pub(crate) fn page_mapped(&self, space: SpaceId, page: u32) {
        self.pages.borrow_mut().push(Page { space, page, last: Rc::default() });
    }

    /// A page exists from now on that is another's, too: what is stored to one is loaded from the
    /// other.
    pub(crate) fn page_shared(&self, space: SpaceId, page: u32, with: SpaceId) {
        let mut pages = self.pages.borrow_mut();
        let known = pages.iter().find(|known| known.space == with && known.page == page);
        let last = known.map_or_else(Rc::default, |known| Rc::clone(&known.last));
        pages.push(Page { space, page, last });
    }

    /// A page is gone: whoever reaches it from now on is wrong.
    pub(super) fn page_unmapped(&self, space: SpaceId, page: u32) {
        self.pages.borrow_mut().retain(|known| known.space != space || known.page != page);
    }

    /// A load through a translation; `life` is that of the frame when it was cached.
    pub(super) fn load(&self, cpu: Cpu<'_>, at: Access) -> Token {
        let expected = self.reach(cpu, at);
        let found = self.contents(at.frame);
        if found != expected {
            self.see(cpu, Symptom::WrongContents, &at.to_string());
        }
        found
    }

    /// A store through a translation.
    pub(super) fn store(&self, cpu: Cpu<'_>, at: Access) -> Token {
        self.reach(cpu, at);
        let token = Token(self.tokens.get() + 1);
        self.tokens.set(token.0);
        self.fill(at.frame, token);
        if let Some(page) = self.pages.borrow().iter().find(|known| at.is_to(known)) {
            page.last.set(token);
        }
        token
    }

    /// Looks where an access leads; the token of the last store there.
    fn reach(&self, cpu: Cpu<'_>, at: Access) -> Token {
        let frame = &self.frames[at.frame as usize];
        if !frame.taken.get() || frame.life.get() != at.life {
            self.see(cpu, Symptom::StaleAccess, &at.to_string());
        }
        let last =
            self.pages.borrow().iter().find(|known| at.is_to(known)).map(|page| page.last.get());
        last.unwrap_or_else(|| self.see(cpu, Symptom::UnmappedAccess, &at.to_string()))
    }

    /// Whether the page's last store is where `found` was found.
    pub(crate) fn is_last(&self, space: SpaceId, page: u32, found: Token) -> bool {
        let pages = self.pages.borrow();
        let known = pages.iter().find(|known| known.space == space && known.page == page);
        known.is_some_and(|known| known.last.get() == found)
    }

    /// The pages of an address space that were ever stored to.
    pub(crate) fn stored_pages(&self, space: SpaceId) -> Vec<u32> {
        let pages = self.pages.borrow();
        let stored = |known: &&Page| known.space == space && known.last.get() != Token::ZERO;
        pages.iter().filter(stored).map(|known| known.page).collect()
    }
}

/// An access, as the oracle needs to know it.
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
