//! What is known of pages that are written to a disk, which fails: it is kept by frame, as an embedder
//! keeps it in what describes a frame, so it has to go where the page goes.

use std::{cell::RefCell, collections::BTreeMap};

/// How far the writing of a page is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// It is being written, and no longer dirty.
    Written,
    /// It could not be written: it is dirty still, and whoever asks is told of the error.
    Failed,
}

/// See the module.
#[derive(Default)]
pub(super) struct Writing {
    by_frame: RefCell<BTreeMap<u32, State>>,
    /// Pages that were ever written.
    pages: RefCell<Vec<u32>>,
}

impl Writing {
    /// A page is being written from its frame.
    pub(super) fn begin(&self, page: u32, frame: u32) {
        self.by_frame.borrow_mut().insert(frame, State::Written);
        let mut pages = self.pages.borrow_mut();
        if !pages.contains(&page) {
            pages.push(page);
        }
    }

    /// The page in a frame could not be written.
    pub(super) fn fail(&self, frame: u32) {
        let state = self.by_frame.borrow_mut().insert(frame, State::Failed);
        assert_eq!(state, Some(State::Written), "what fails was begun");
    }

    /// Whether the page in a frame is being written.
    pub(super) fn is_on(&self, frame: u32) -> bool {
        self.by_frame.borrow().get(&frame) == Some(&State::Written)
    }

    /// A page goes from one frame to another.
    pub(super) fn go(&self, from: u32, to: u32) {
        let state = self.by_frame.borrow_mut().remove(&from);
        state.map(|state| self.by_frame.borrow_mut().insert(to, state));
    }

    /// A page that was written, and of which its frame does not say that this failed.
    pub(super) fn forgotten(&self, frame_of: impl Fn(u32) -> Option<u32>) -> Option<u32> {
        let states = self.by_frame.borrow();
        let state = |page| states.get(&frame_of(page)?).copied();
        self.pages.borrow().iter().copied().find(|&page| state(page) != Some(State::Failed))
    }

    /// A frame of which something is known, although no such page is in it.
    pub(super) fn left_behind(&self, has_page: impl Fn(u32) -> bool) -> Option<u32> {
        self.by_frame.borrow().keys().copied().find(|&frame| !has_page(frame))
    }
}
