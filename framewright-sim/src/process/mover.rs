//! Migration of the pages of processes for the library. The entry of a page is replaced by a
//! migration entry. Then the page is mapped in its new frame, or again in the old one.
//!
//! | module    | job                                        |
//! |-----------|--------------------------------------------|
//! | `library` | the library's trait: the steps of a migration |

#![allow(unsafe_code)]

mod library;
#[cfg(test)]
mod tests;

use std::{
    cell::{Cell, RefCell},
    ops::Range,
};

use framewright::Pfn;

use super::{Access, AccessError, Contents, FrameSource, Mapping, Process, Pte, Token};
use crate::{
    engine::{Cpu, Machine},
    platform::Frames,
};

/// A failure that is seeded once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SeededFailure {
    /// A page is busy for now. For a claim: a lock is contended.
    Busy,
    /// A page cannot be migrated. For a claim: too many pages are claimed.
    Refused,
}

/// The pages of some processes, each mapped once.
pub struct PageMover {
    machine: Machine,
    processes: Vec<Process>,
    pages: Range<u32>,
    contents: Contents,
    claims: RefCell<Vec<Claim>>,
    /// The number of requests of the library so far.
    requests: Cell<u32>,
    /// The failing request, counted from 0, and its failure.
    failure: Option<(u32, SeededFailure)>,
    copies_early: bool,
    frees_claimed: bool,
}

/// A claimed page.
struct Claim {
    process: usize,
    page: u32,
    frame: u32,
    /// The mapping of the page while it is unmapped.
    was: Option<Mapping>,
    /// Whether the program has unmapped the page. If so, the end of the claim frees the frame.
    gone: bool,
}

impl PageMover {
    /// A mover of the pages of `processes` at `pages`.
    #[must_use]
    pub fn new(machine: &Machine, processes: &[Process], pages: Range<u32>) -> Self {
        Self {
            machine: machine.clone(),
            processes: processes.to_vec(),
            pages,
            contents: Contents::new(machine, processes[0].space().mmu()),
            claims: RefCell::default(),
            requests: Cell::new(0),
            failure: None,
            copies_early: false,
            frees_claimed: false,
        }
    }

    /// The same mover, with a failure at request `nth`.
    #[must_use]
    pub fn with_failure(self, nth: u32, failure: SeededFailure) -> Self {
        Self { failure: Some((nth, failure)), ..self }
    }

    /// A seeded bug: copies a page when it is unmapped, before the flush.
    #[must_use]
    pub(crate) fn copying_early(self, early: bool) -> Self {
        Self { copies_early: early, ..self }
    }

    /// A seeded bug: a program that unmaps a claimed page frees its frame, and so does the claim.
    #[must_use]
    pub(crate) fn freeing_claimed(self, frees: bool) -> Self {
        Self { frees_claimed: frees, ..self }
    }

    /// Unmaps a page for its program, after waiting for its migration. Calls `on_frame` once, with
    /// the first frame that is found in the page-table entry. Calls `free` with the frame of the
    /// page. If the page is claimed, the end of the claim frees the frame instead.
    pub fn unmap_page(
        &self,
        cpu: Cpu<'_>,
        process: &Process,
        page: u32,
        on_frame: impl FnOnce(u32),
        free: &mut dyn FnMut(Pfn),
    ) {
        let space = process.space();
        process.disown(cpu, page..page + 1);
        let mut on_frame = Some(on_frame);
        let taken = loop {
            let taken = space.locked(cpu, || {
                let pte = space.pte(cpu, page);
                if let (Some(on_frame), Some(frame)) = (on_frame.take(), pte.frame()) {
                    on_frame(frame);
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
        if !self.leave_to_claim(frame) || self.frees_claimed {
            self.freed(frame);
            free(Pfn::new(frame.into()));
        }
    }

    /// Leaves a frame to its claim. Returns whether there is a claim.
    fn leave_to_claim(&self, frame: u32) -> bool {
        let mut claims = self.claims.borrow_mut();
        let claim = claims.iter_mut().find(|claim| claim.frame == frame);
        claim.map(|claim| claim.gone = true).is_some()
    }

    /// Tells the oracle that a frame is about to be freed. After a failure there is no check.
    fn freed(&self, frame: u32) {
        let oracle = self.processes[0].space().mmu().oracle();
        if let (Some(oracle), Some(cpu)) = (oracle, self.machine.current()) {
            oracle.freed(cpu, frame);
        }
    }

    /// A program's access, which waits for pages that are being migrated.
    ///
    /// # Errors
    ///
    /// [`AccessError`].
    pub fn touch(
        &self,
        cpu: Cpu<'_>,
        process: &Process,
        page: u32,
        access: Access,
        frames: &mut dyn FrameSource,
    ) -> Result<Token, AccessError> {
        loop {
            match process.touch(cpu, page, access, frames) {
                Err(AccessError::Elsewhere(Pte::Migrating(_))) => cpu.relax(),
                result => return result,
            }
        }
    }

    /// The number of claimed pages.
    #[must_use]
    pub fn claimed(&self) -> usize {
        self.claims.borrow().len()
    }

    /// Whether the page in a frame is claimed.
    pub(crate) fn has_claimed(&self, frame: u32) -> bool {
        self.claims.borrow().iter().any(|claim| claim.frame == frame)
    }

    /// The number of requests of the library so far.
    #[must_use]
    pub fn requests(&self) -> u32 {
        self.requests.get()
    }

    fn cpu(&self) -> Cpu<'_> {
        self.machine.current().expect("pages move on a CPU")
    }
}

/// The oracle records contents: it copies them when the library copies a frame.
impl Frames for PageMover {
    fn copy(&self, to: Pfn, from: Pfn) {
        if !self.copies_early {
            self.contents.copy(to, from);
        }
    }
}
