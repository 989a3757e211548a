//! The way of a page to another frame, and what may happen on it.

use crate::scenario::{Point, Tally};

/// How far a page is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// It is claimed, and may have a frame to move to.
    Claim,
    /// It is being locked, and taken out of the page tables.
    Unmap,
    /// It waits for the flush, and to be copied.
    Flush,
    /// It is being copied, or was.
    Copy,
    /// It is being mapped in its new frame.
    Remap,
    /// It is being mapped where it was.
    Undo,
    /// Its claim is about to end.
    Release,
}

/// What happens on the way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Event {
    /// Its owner refuses to let it go on.
    Refused,
    /// Somebody pins it for a moment.
    Pinned,
    /// It is being written, and that fails.
    WriteFails,
    /// Its program unmaps it.
    Unmapped,
    /// A frame is freed beside the one that it moves to.
    Beside,
}

const NAMES: [&str; 7] = ["claim", "unmap", "flush", "copy", "remap", "undo", "release"];

/// Of refusals: the owner has no say at any other step.
pub(in crate::scenario) const REFUSED: Tally = Tally {
    what: "the owner refuses to let the page go on",
    points: &points(
        &[Step::Flush, Step::Copy, Step::Undo, Step::Release],
        "its owner is not asked",
    ),
};

/// Of pins.
pub(in crate::scenario) const PINNED: Tally = Tally {
    what: "somebody comes to pin the page, and waits while it is unmapped",
    points: &points(&[], ""),
};

/// Of failures to write.
pub(in crate::scenario) const FAILED: Tally =
    Tally { what: "writing the page fails", points: &points(&[], "") };

/// Of a program's unmapping.
pub(in crate::scenario) const UNMAPPED: Tally = Tally {
    what: "its program comes to unmap the page, and waits while it is unmapped to move",
    points: &points(&[], ""),
};

/// Of frames freed beside one that a page is to move to.
pub(in crate::scenario) const BESIDE_TARGET: Tally = Tally {
    what: "a frame beside the page's target has joined the free ones (at claim the target may have gone back a moment ago)",
    points: &points(&[Step::Release], "the frame that it did not move to has gone back"),
};

/// The steps, of which runs never come to some.
const fn points(never: &[Step], why: &'static str) -> [Point; NAMES.len()] {
    let mut points = [Point { name: "", never: None }; NAMES.len()];
    let mut at = 0;
    while at < NAMES.len() {
        points[at].name = NAMES[at];
        at += 1;
    }
    let mut at = 0;
    while at < never.len() {
        points[never[at] as usize].never = Some(why);
        at += 1;
    }
    points
}
