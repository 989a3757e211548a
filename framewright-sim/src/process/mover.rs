//! The pages of processes as their embedder moves them for the library: unmapped behind an entry that
//! says so, found in their new frames afterwards, or where they were.
//!
//! | module    | job                                        |
//! |-----------|--------------------------------------------|
//! | `library` | what the library asks: the steps of a move |

#![allow(unsafe_code)]

mod library;
#[cfg(test)]
mod tests;

use std::{
    cell::{Cell, RefCell},
    ops::Range,
};

use framewright::Pfn;

use super::{Access, Contents, FrameSource, Mapping, Process, Pte, Token, Trouble};
use crate::{
    engine::{Cpu, Machine},
    platform::Frames,
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
    contents: Contents,
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
            contents: Contents::new(machine, processes[0].space().mmu()),
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
}

/// What frames hold is the oracle's: the library copies it from one frame to another.
impl Frames for PageMover {
    fn copy(&self, to: Pfn, from: Pfn) {
        if !self.copies_early {
            self.contents.copy(to, from);
        }
    }
}
