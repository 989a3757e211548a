//! The writeback state of pages: in progress or failed. It is stored by frame, as in an embedder's
//! page descriptor, so a migration has to move it.

use std::{cell::RefCell, collections::BTreeMap};

/// The state of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// In progress; the page is not dirty.
    Writeback,
    /// Failed: the page is dirty, and has an error.
    Failed,
}

/// The states of writes.
#[derive(Default)]
pub(super) struct Writing {
    by_frame: RefCell<BTreeMap<u32, State>>,
    /// Pages that were ever written.
    pages: RefCell<Vec<u32>>,
}

impl Writing {
    /// Begins the write of a page from its frame.
    pub(super) fn begin(&self, page: u32, frame: u32) {
        self.by_frame.borrow_mut().insert(frame, State::Writeback);
        let mut pages = self.pages.borrow_mut();
        if !pages.contains(&page) {
            pages.push(page);
        }
    }

    /// Ends the write of the page in a frame with a failure.
    pub(super) fn fail(&self, frame: u32) {
        let state = self.by_frame.borrow_mut().insert(frame, State::Failed);
        assert_eq!(state, Some(State::Writeback), "the write was not begun");
    }

    /// Whether the page in a frame is being written.
    pub(super) fn is_on(&self, frame: u32) -> bool {
        self.by_frame.borrow().get(&frame) == Some(&State::Writeback)
    }

    /// Moves the state of a page to its new frame.
    pub(super) fn move_state(&self, from: u32, to: u32) {
        let state = self.by_frame.borrow_mut().remove(&from);
        state.map(|state| self.by_frame.borrow_mut().insert(to, state));
    }

    /// A page that was written, but whose frame does not have the state of a failed write.
    pub(super) fn lost_failure(&self, frame_of: impl Fn(u32) -> Option<u32>) -> Option<u32> {
        let states = self.by_frame.borrow();
        let state = |page| states.get(&frame_of(page)?).copied();
        self.pages.borrow().iter().copied().find(|&page| state(page) != Some(State::Failed))
    }

    /// A frame with a state, but without a page.
    pub(super) fn left_behind(&self, has_page: impl Fn(u32) -> bool) -> Option<u32> {
        self.by_frame.borrow().keys().copied().find(|&frame| !has_page(frame))
    }
}
